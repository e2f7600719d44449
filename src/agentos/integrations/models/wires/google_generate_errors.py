"""Errors in the dialect of Google."""

from __future__ import annotations

import re

import msgspec
from msgspec import field

from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.wires import classing, sse
from agentos.integrations.models.wires.decoding import UNREADABLE

_CLASSES = {
    "RESOURCE_EXHAUSTED": ErrorClass.RATE_LIMIT,
    "UNAVAILABLE": ErrorClass.OVERLOAD,
    "INTERNAL": ErrorClass.OVERLOAD,
    "ABORTED": ErrorClass.OVERLOAD,
    "DEADLINE_EXCEEDED": ErrorClass.TIMEOUT,
    "CANCELLED": ErrorClass.TIMEOUT,
    "NOT_FOUND": ErrorClass.NOT_FOUND,
    "PERMISSION_DENIED": ErrorClass.AUTH,
    "UNAUTHENTICATED": ErrorClass.AUTH,
}
_STATUSES = {
    ErrorClass.OVERLOAD: (503, "UNAVAILABLE"),
    ErrorClass.RATE_LIMIT: (429, "RESOURCE_EXHAUSTED"),
    ErrorClass.AUTH: (401, "UNAUTHENTICATED"),
    ErrorClass.TIMEOUT: (504, "DEADLINE_EXCEEDED"),
    ErrorClass.CONTEXT_LENGTH: (400, "INVALID_ARGUMENT"),
    ErrorClass.NOT_FOUND: (404, "NOT_FOUND"),
    ErrorClass.INVALID: (400, "INVALID_ARGUMENT"),
}
_UNKNOWN_STATUS = (500, "INTERNAL")
_KEY_REASONS = frozenset({"API_KEY_INVALID", "API_KEY_EXPIRED"})
# Said like haste, but waiting does not help.
_NO_CREDIT = re.compile(r"credits? (?:are|is|were|was|has|have been) (?:depleted|exhausted)")
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


class _Detail(msgspec.Struct, omit_defaults=True, rename="camel"):
    type: str = field(default="", name="@type")
    reason: str | None = None
    domain: str | None = None
    retry_delay: str | None = None


class GoogleError(msgspec.Struct):
    code: int = 0
    message: str = ""
    status: str = ""
    details: list[_Detail] = []


class _WithError(msgspec.Struct):
    error: GoogleError


_ERROR: msgspec.json.Decoder[_WithError | list[_WithError]] = msgspec.json.Decoder(
    _WithError | list[_WithError]
)


def error_class(status: int, body: bytes) -> tuple[ErrorClass, str]:
    """The class and message of an error answer."""
    error = _read_error(body)
    if error is None:
        message = classing.plain(body, status)
        return classing.by_words(status, message), message
    return class_of(error, status), classing.shown(error.message, status)


def class_of(error: GoogleError, status: int) -> ErrorClass:
    known = _CLASSES.get(error.status)
    if known is ErrorClass.RATE_LIMIT and _NO_CREDIT.search(error.message):
        return ErrorClass.AUTH
    if known is not None:
        return known
    if any(detail.reason in _KEY_REASONS for detail in error.details):
        return ErrorClass.AUTH
    return classing.by_words(status or 500, error.message)


def retry_after(body: bytes) -> float | None:
    """How many seconds Google asks to wait, which it says in the body and in no header."""
    error = _read_error(body)
    for detail in error.details if error is not None else []:
        found = _SECONDS.fullmatch(detail.retry_delay or "")
        if detail.type == _RETRY_INFO and found:
            return float(found[1])
    return None


def error(status: int, error_class: str, code: str, message: str) -> bytes:
    """A whole error answer as Google's SDKs read it."""
    name = _status(error_class)[1]
    info = _Detail(_ERROR_INFO, reason=code, domain="agentos")
    return msgspec.json.encode(_WithError(GoogleError(status, message, name, [info])))


def stream_error(error_class: str, code: str, message: str) -> bytes:
    return sse.frame(error(_status(error_class)[0], error_class, code, message))


def _read_error(body: bytes) -> GoogleError | None:
    try:
        decoded = _ERROR.decode(body)
    except UNREADABLE:
        return None
    if isinstance(decoded, list):
        return decoded[0].error if decoded else None
    return decoded.error


def _status(error_class: str) -> tuple[int, str]:
    return _STATUSES[ErrorClass(error_class)] if error_class in _STATUSES else _UNKNOWN_STATUS
