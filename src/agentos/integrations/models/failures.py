"""How a provider can fail, in the classes that fallback chains are written in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from agentos.kernel.errors import AgentOSError, Kind


class ErrorClass(StrEnum):
    OVERLOAD = "overload"  # busy, broken or not reachable: any 5xx, a refused connection, a cut
    RATE_LIMIT = "rate_limit"
    AUTH = "auth"  # the key is wrong, was revoked, may not use this model, or has no credit
    TIMEOUT = "timeout"
    CONTEXT_LENGTH = "context_length"
    NOT_FOUND = "not_found"  # the provider does not know the model
    INVALID = "invalid"  # the request itself: no other provider would take it either


# What a chain may fall back on. An invalid request is the caller's to correct, and a model that
# is not there is a wrong setting, which hiding would make harder to find.
FALLBACK_CLASSES = (
    ErrorClass.OVERLOAD,
    ErrorClass.RATE_LIMIT,
    ErrorClass.AUTH,
    ErrorClass.TIMEOUT,
    ErrorClass.CONTEXT_LENGTH,
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt. `message` is the provider's, with the key masked."""

    error_class: ErrorClass
    message: str
    status: int | None = None
    retry_after: float | None = None


class ModelCallFailed(AgentOSError):
    """No provider could answer this call. Made of the targets that were tried, and how each failed."""

    code = "model_call_failed"

    def __init__(self, failed: Sequence[tuple[str, Failure]]):
        last = failed[-1][1]
        self.error_class = last.error_class
        self.provider_status = last.status
        waits = [f.retry_after for _, f in failed if f.retry_after is not None]
        self.retry_after = min(waits) if waits else None
        told = "; ".join(f"{target}: {failure.message}" for target, failure in failed)
        super().__init__(told, hint=_ADVICE.get(last.error_class))

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        return _KINDS[self.error_class]


_KINDS = {
    ErrorClass.OVERLOAD: Kind.TRANSIENT,
    ErrorClass.TIMEOUT: Kind.TRANSIENT,
    ErrorClass.RATE_LIMIT: Kind.LIMITED,
    ErrorClass.AUTH: Kind.FORBIDDEN,
    ErrorClass.NOT_FOUND: Kind.NOT_FOUND,
    ErrorClass.CONTEXT_LENGTH: Kind.INVALID,
    ErrorClass.INVALID: Kind.INVALID,
}
_ADVICE = {
    ErrorClass.OVERLOAD: "Try again, or set a fallback chain: `agentos models chain set`.",
    ErrorClass.TIMEOUT: "Try again, or set a fallback chain: `agentos models chain set`.",
    ErrorClass.RATE_LIMIT: "Wait, or set a fallback chain: `agentos models chain set`.",
    ErrorClass.AUTH: "Give the provider a working key: `agentos models providers update`.",
    ErrorClass.NOT_FOUND: "`agentos models list` shows the models there are.",
    ErrorClass.CONTEXT_LENGTH: "Send less, or use a model with a larger context.",
}
