from __future__ import annotations

from agentos.kernel.errors import AgentOSError, Conflict, Invalid, Kind, NotFound


class ChainNotFound(NotFound):
    """There is no such chain."""

    code = "chain_not_found"


class UnreadableChain(Invalid):
    """The chain cannot be read as YAML or JSON."""

    code = "unreadable_chain"


class ChainTooLarge(AgentOSError):
    """The chain is too large."""

    code = "chain_too_large"
    kind = Kind.TOO_LARGE


class DuplicateKey(Invalid):
    """A name is given twice in the same place."""

    code = "duplicate_key"
    hint = "Give every node and every field once: of two, one would be lost."


class TooManyNodes(Invalid):
    """The chain has too many nodes."""

    code = "too_many_nodes"
    hint = "Use for_each where nodes do the same to many things, or split the chain."


class UnknownNode(Invalid):
    """The chain names a node that it does not have."""

    code = "unknown_node"


class ChainCycle(Invalid):
    """Nodes need each other in a circle."""

    code = "chain_cycle"
    hint = "Needs come from `needs`, `files_from`, and from `nodes.…` in templates."


class BadExpression(Invalid):
    """An expression is not valid."""

    code = "bad_expression"
    hint = "Expressions are JMESPath over inputs, nodes, item and index: docs/chains.md."


class BadNode(Invalid):
    """A node is not valid."""

    code = "bad_node"


class MissingInput(Invalid):
    """The chain needs an input that is not given."""

    code = "missing_input"


class UnknownInput(Invalid):
    """The chain has no such input."""

    code = "unknown_input"


class BadInputValue(Invalid):
    """An input does not satisfy its JSON Schema."""

    code = "bad_input_value"


class ChainBusy(Conflict):
    """The chain is not in a state in which this can be done."""

    code = "chain_busy"
