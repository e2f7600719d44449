"""How a provider can fail, in the classes that fallback chains are written in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
