from __future__ import annotations

from agentos.kernel.errors import AgentOSError, Kind


class BudgetExhausted(AgentOSError):
    """This call might go over a budget, so it was not made."""

    code = "budget_exhausted"
    kind = Kind.PLAN
    hint = "Raise the budget (`agentos budgets set`), or ask for fewer tokens (max_tokens)."


class TokensExhausted(AgentOSError):
    """The plan's tokens of this month are used up."""

    code = "tokens_exhausted"
    kind = Kind.PLAN
    hint = "Move the tenant to a larger plan, or wait for the next month."


class PriceUnknown(AgentOSError):
    """The price of this model is not known, so a budget cannot be kept."""

    code = "price_unknown"
    kind = Kind.PLAN
    hint = "Set its price with `agentos models prices set`, or remove the budget."


class TooManyCalls(AgentOSError):
    """Too many model calls of this tenant are running; this one waited in vain for its turn."""

    code = "too_many_model_calls"
    kind = Kind.LIMITED
    hint = "Make fewer calls at once. A larger plan allows more."
