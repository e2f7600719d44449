"""The class of a provider's error: by its status, and by the words vendors use for a few cases.

Vendors tell a prompt that is too long, an unknown model or a wrong key apart from other bad
requests only in prose, if their dialect has no code for it; so this is the one place that reads
messages. What it does not know is classified by status alone.
"""

from __future__ import annotations

import re

from agentos.integrations.models.failures import ErrorClass

# As much of a provider's message as is shown to people and kept.
MOST_MESSAGE = 500

_BY_STATUS = {
    401: ErrorClass.AUTH,
    402: ErrorClass.AUTH,
    403: ErrorClass.AUTH,
    404: ErrorClass.NOT_FOUND,
    408: ErrorClass.TIMEOUT,
    429: ErrorClass.RATE_LIMIT,
    504: ErrorClass.TIMEOUT,
    524: ErrorClass.TIMEOUT,  # Cloudflare's, in front of many vendors
}

_CONTEXT_LENGTH = re.compile(
    r"context[ _](length|window|size|limit)"
    r"|maximum (model|prompt|input) length"
    r"|(prompt|input|inputs|request|conversation) (is|are) too long"
    r"|exceeds? the (maximum|limit)[a-z ]* tokens"
    r"|token count .{0,40}exceeds"
    r"|tokens \+ `?max_new_tokens`? must be"
    r"|reduce the length of the messages"
    r"|too many (input )?tokens",
    re.IGNORECASE | re.DOTALL,
)
_NOT_FOUND = re.compile(
    r"invalid model\b|not a valid model|model[^.]{0,80} (not exist|not found|is not supported)"
    r"|unknown model|no such model",
    re.IGNORECASE,
)
_AUTH = re.compile(
    r"(invalid|incorrect|missing|expired) api[ _-]?key|api[ _-]?key (is )?(not valid|invalid|expired)"
    r"|credit balance is too low|insufficient (balance|credit)",
    re.IGNORECASE,
)

# A duration as Go writes it: 7.66s, 1m26.4s, 250ms. One in words, or with other units, is not read.
_WAIT = re.compile(
    r"try again in ((?:\d{1,6}(?:\.\d{1,9})?(?:h|ms|m|s))+)(?![a-z\d])", re.IGNORECASE
)
_STEP = re.compile(r"([\d.]+)(h|ms|m|s)", re.IGNORECASE)
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def by_status(status: int) -> ErrorClass:
    """The class of an answer whose body says nothing."""
    known = _BY_STATUS.get(status)
    if known is not None:
        return known
    return ErrorClass.OVERLOAD if status >= 500 else ErrorClass.INVALID


def by_words(status: int, message: str) -> ErrorClass:
    """The class of an answer whose body has a message and no code that is known."""
    error_class = by_status(status)
    if error_class is not ErrorClass.INVALID:
        return error_class
    if _CONTEXT_LENGTH.search(message):
        return ErrorClass.CONTEXT_LENGTH
    if _AUTH.search(message):
        return ErrorClass.AUTH
    return ErrorClass.NOT_FOUND if _NOT_FOUND.search(message) else error_class


def wait(message: str) -> float | None:
    """How many seconds a message says to wait; None if it does not say."""
    found = _WAIT.search(message)
    if found is None:
        return None
    return sum(float(count) * _SECONDS[unit.lower()] for count, unit in _STEP.findall(found[1]))


def shown(message: str, status: int) -> str:
    """A message fit to be shown: on one line, not too long, never empty."""
    line = " ".join(message.split())
    if not line:
        return f"The provider answered with status {status} and no message."
    return line if len(line) <= MOST_MESSAGE else line[: MOST_MESSAGE - 1] + "…"


def plain(body: bytes, status: int) -> str:
    """The message of a body that is not JSON: its text, or nothing of it if it is a web page."""
    text = body[: 8 * MOST_MESSAGE].decode("utf-8", "replace").strip()
    return shown("" if text.startswith("<") else text, status)
