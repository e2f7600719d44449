"""Errors in the dialect of Anthropic."""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.wires import classing, sse
from agentos.integrations.models.wires.decoding import UNREADABLE

_CLASSES = {
    "overloaded_error": ErrorClass.OVERLOAD,
    "api_error": ErrorClass.OVERLOAD,
    "rate_limit_error": ErrorClass.RATE_LIMIT,
    "authentication_error": ErrorClass.AUTH,
    "permission_error": ErrorClass.AUTH,
    "billing_error": ErrorClass.AUTH,
    "not_found_error": ErrorClass.NOT_FOUND,
    "timeout_error": ErrorClass.TIMEOUT,
}
_TYPES = {
    ErrorClass.OVERLOAD: "overloaded_error",
    ErrorClass.RATE_LIMIT: "rate_limit_error",
    ErrorClass.AUTH: "authentication_error",
    ErrorClass.TIMEOUT: "timeout_error",
    ErrorClass.CONTEXT_LENGTH: "invalid_request_error",
    ErrorClass.NOT_FOUND: "not_found_error",
    ErrorClass.INVALID: "invalid_request_error",
}
# Where the status says more than the class does.
_TYPES_BY_STATUS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
# Claude Code looks for these words, and then makes its conversation shorter.
_TOO_LONG = "prompt is too long"
_STREAM_STATUS = 500


def error_class(status: int, body: bytes) -> tuple[ErrorClass, str]:
    """The class and message of an error answer."""
    try:
        decoded: Any = msgspec.json.decode(body)
    except UNREADABLE:
        message = classing.plain(body, status)
        return classing.by_words(status, message), message
    return error_class_of(status, decoded)


def error_class_of(status: int, decoded: Any) -> tuple[ErrorClass, str]:
    """The same for a body, or an event of a stream, that was decoded already."""
    error = decoded.get("error") if isinstance(decoded, dict) else None
    if not isinstance(error, dict):
        error = {"message": error}
    message = error.get("message")
    shown = classing.shown(message if isinstance(message, str) else "", status)
    known = _CLASSES.get(str(error.get("type")))
    # A request that is too large, or not valid, is told apart by its words only.
    return known or classing.by_words(_bad_request(status, error), shown), shown


def broken_class(event: Any) -> tuple[ErrorClass, str]:
    """The class and message of an error inside a stream, which has no status of its own."""
    return error_class_of(_STREAM_STATUS, event)


def error(status: int, error_class: str, code: str, message: str) -> bytes:
    """A whole error answer as Anthropic's SDKs read it."""
    return msgspec.json.encode(_error(_type(status, error_class), error_class, code, message))


def stream_error(error_class: str, code: str, message: str) -> bytes:
    body = _error(_type(None, error_class), error_class, code, message)
    return sse.frame(msgspec.json.encode(body), "error")


def _error(kind: str, error_class: str, code: str, message: str) -> dict[str, Any]:
    if error_class == ErrorClass.CONTEXT_LENGTH and _TOO_LONG not in message.lower():
        message = f"{_TOO_LONG}: {message}"
    details = {"error_code": code}
    error = {"type": kind, "message": message, "code": code, "details": details}
    return {"type": "error", "error": error, "request_id": None}


def _type(status: int | None, error_class: str) -> str:
    if status in (402, 403, 413):
        return _TYPES_BY_STATUS[status]
    try:
        return _TYPES[ErrorClass(error_class)]
    except ValueError:
        fallback = "invalid_request_error" if (status or 500) < 500 else "api_error"
        return _TYPES_BY_STATUS.get(status or 500, fallback)


def _bad_request(status: int, error: dict[str, Any]) -> int:
    """The status to go by: inside a stream a bad request has none of its own."""
    named = error.get("type") in ("invalid_request_error", "request_too_large")
    return 400 if named and status not in (401, 402, 403, 404, 429) else status
