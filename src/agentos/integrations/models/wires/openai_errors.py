"""Errors in the dialect of OpenAI, and of those who speak it with an accent."""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.wires import classing
from agentos.integrations.models.wires.decoding import UNREADABLE

_CODES = {
    "context_length_exceeded": ErrorClass.CONTEXT_LENGTH,
    "context_length": ErrorClass.CONTEXT_LENGTH,  # the built-in model
    "string_above_max_length": ErrorClass.INVALID,
    "exceed_context_size_error": ErrorClass.CONTEXT_LENGTH,  # llama.cpp
    "rate_limit_exceeded": ErrorClass.RATE_LIMIT,
    "rate_limit_error": ErrorClass.RATE_LIMIT,
    "requests": ErrorClass.RATE_LIMIT,
    "tokens": ErrorClass.RATE_LIMIT,
    # No credit: the next call with this key fails as well, so it is the key's fault, not haste.
    "insufficient_quota": ErrorClass.AUTH,
    "billing_hard_limit_reached": ErrorClass.AUTH,
    "billing_not_active": ErrorClass.AUTH,
    "account_deactivated": ErrorClass.AUTH,
    "organization_restricted": ErrorClass.AUTH,  # Groq
    "invalid_api_key": ErrorClass.AUTH,
    "authentication_error": ErrorClass.AUTH,
    "permission_error": ErrorClass.AUTH,
    "model_not_found": ErrorClass.NOT_FOUND,
    "model_not_available": ErrorClass.NOT_FOUND,
    "invalid_model": ErrorClass.NOT_FOUND,  # Mistral
    "content_filter": ErrorClass.INVALID,
    "content_policy_violation": ErrorClass.INVALID,
    "server_error": ErrorClass.OVERLOAD,
    "overloaded_error": ErrorClass.OVERLOAD,
    "overloaded": ErrorClass.OVERLOAD,
    "timeout": ErrorClass.TIMEOUT,
}

_LIMITED = "rate_limit_exceeded"


class _Limit(msgspec.Struct):
    code: str | None = None
    message: str = ""


class _Limited(msgspec.Struct):
    error: _Limit


_LIMIT = msgspec.json.Decoder(_Limited)

_TYPES = {
    ErrorClass.OVERLOAD: "server_error",
    ErrorClass.RATE_LIMIT: "rate_limit_error",
    ErrorClass.AUTH: "authentication_error",
    ErrorClass.TIMEOUT: "server_error",
    ErrorClass.CONTEXT_LENGTH: "invalid_request_error",
    ErrorClass.NOT_FOUND: "invalid_request_error",
    ErrorClass.INVALID: "invalid_request_error",
}
_TYPES_BY_STATUS = {
    401: "authentication_error",
    402: "insufficient_quota",
    403: "permission_error",
    429: "rate_limit_error",
}


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
    if isinstance(decoded, list) and decoded:  # Google's OpenAI face puts it into a list
        decoded = decoded[0]
    error = decoded.get("error") if isinstance(decoded, dict) else None
    if not isinstance(error, dict):
        # Ollama: {"error": "text"}; Mistral: {"object": "error", "message": …}; {"detail": […]}
        outer = decoded if isinstance(decoded, dict) else {}
        error = {**outer, "message": error} if isinstance(error, str) else outer
    message = classing.shown(_message(error), status)
    return _class(status, error, message), message


def retry_after(body: bytes) -> float | None:
    """How many seconds a rate limit's message says to wait, as OpenAI's and Groq's do."""
    try:
        error = _LIMIT.decode(body).error
    except UNREADABLE:
        return None
    return classing.wait(error.message) if error.code == _LIMITED else None


def error_object(status: int, error_class: str, code: str, message: str) -> dict[str, Any]:
    """What `error` holds in an answer. `code` is ours."""
    return {
        "message": message,
        "type": error_type(status, error_class),
        "param": None,
        "code": code,
    }


def error_type(status: int, error_class: str) -> str:
    try:
        return _TYPES[ErrorClass(error_class)]
    except ValueError:
        fallback = "server_error" if status >= 500 else "invalid_request_error"
        return _TYPES_BY_STATUS.get(status, fallback)


def error(status: int, error_class: str, code: str, message: str) -> bytes:
    """A whole error answer as OpenAI's SDKs read it."""
    return msgspec.json.encode({"error": error_object(status, error_class, code, message)})


def _class(status: int, error: dict[str, Any], message: str) -> ErrorClass:
    metadata = error.get("metadata")
    if status == 403 and isinstance(metadata, dict) and "reasons" in metadata:
        # OpenRouter's moderation: nothing is wrong with the key.
        return ErrorClass.INVALID
    for field in ("code", "type"):
        value = error.get(field)
        if isinstance(value, str) and value in _CODES:
            return _CODES[value]
    return classing.by_words(status, message)


def _message(error: dict[str, Any]) -> str:
    message = error.get("message", error.get("detail"))
    if isinstance(message, str):
        return message
    if isinstance(message, dict):  # Mistral nests a validation error's detail in its message
        message = message.get("detail")
    if isinstance(message, list):
        return "; ".join(_complaint(entry) for entry in message[:3])
    return ""


def _complaint(entry: Any) -> str:
    """One entry of a list of validation errors: where, and what."""
    if not isinstance(entry, dict):
        return str(entry)
    where = ".".join(str(step) for step in entry.get("loc") or [])
    return f"{where}: {entry.get('msg', '')}" if where else str(entry.get("msg", ""))
