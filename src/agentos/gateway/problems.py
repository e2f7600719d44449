"""Errors as RFC 9457 problem documents: a stable code, what happened, and how to go on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import asyncpg
import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from agentos.kernel.errors import AgentOSError, Invalid, Kind
from agentos.kernel.logs import get_logger
from agentos.kernel.redaction import redact

log = get_logger(__name__)

STATUS: dict[Kind, int] = {
    Kind.INVALID: 422,
    Kind.UNAUTHENTICATED: 401,
    Kind.PLAN: 402,
    Kind.FORBIDDEN: 403,
    Kind.NOT_FOUND: 404,
    Kind.CONFLICT: 409,
    Kind.TOO_LARGE: 413,
    Kind.LIMITED: 429,
    Kind.TRANSIENT: 503,
    Kind.SETUP: 503,
    Kind.INTERNAL: 500,
}

MEDIA_TYPE = "application/problem+json"
_MOST_FIELDS = 50
_PLAIN = re.compile(r"[A-Za-z_-]{1,40}|[0-9]{1,6}")


class InternalError(AgentOSError):
    """Something went wrong on our side; nothing was changed."""

    code = "internal"
    kind = Kind.INTERNAL
    hint = "Try again. If it stays, give the operator the request id in this answer."


class NotSetUp(AgentOSError):
    """This installation is not set up for that."""

    code = "not_set_up"
    kind = Kind.TRANSIENT
    hint = "Ask the operator: the reason is in the log, and `agentos doctor` shows it."


class BadInput(Invalid):
    """The request holds text that cannot be stored."""

    code = "bad_input"
    hint = "Remove NUL characters and values out of range."


_HTTP_CODES = {404: "no_such_route", 405: "method_not_allowed", 400: "bad_request"}
_HTTP_HINTS = {
    404: "GET /api/openapi.json lists every route.",
    405: "The Allow header names the methods this route has.",
    400: "Check the request's syntax.",
}


def problem_body(
    status: int, code: str, detail: str, hint: str | None, request_id: str | None, **extra: Any
) -> bytes:
    document: dict[str, Any] = {
        "type": f"urn:agentos:error:{code}",
        "title": code.replace("_", " "),
        "status": status,
        "code": code,
        # A failure of ours may quote what another program said, secrets included. What is wrong
        # with a request quotes that at most, and must not be redacted: a caller could see by the
        # mask that some tenant has the secret they guessed.
        "detail": redact(detail) if status >= 500 else detail,
    }
    if hint:
        document["hint"] = hint
    if request_id:
        document["request_id"] = request_id
    return msgspec.json.encode(document | extra)


def problem(error: AgentOSError, request_id: str | None) -> Response:
    status = STATUS[error.kind]
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in (429, 503):
        headers["Retry-After"] = str(error.details.get("retry_after", 1))
    body = problem_body(
        status, error.code, error.message, error.advice, request_id, **error.details
    )
    return Response(body, status, headers, MEDIA_TYPE)


def _shown(parts: Iterable[object]) -> str:
    """Where an error is. An unknown field is named only if it looks like the name of one."""
    shown = (str(part) if _PLAIN.fullmatch(str(part)) else "…" for part in parts)
    return ".".join(shown)


def answer(error: Exception, request_id: str | None) -> Response:
    """The problem document for whatever a route raised."""
    if isinstance(error, AgentOSError):
        return problem(_for_callers(error), request_id)
    if isinstance(error, RequestValidationError):
        return _validation(error, request_id)
    if isinstance(error, HTTPException):
        return _http(error, request_id)
    if isinstance(error, asyncpg.DataError | asyncpg.InterfaceError):
        return problem(BadInput(), request_id)
    log.error("request failed", exc_info=error)
    return problem(InternalError(), request_id)


def _for_callers(error: AgentOSError) -> AgentOSError:
    if error.kind in (Kind.INTERNAL, Kind.SETUP):
        log.error("request failed", error=error.code, detail=error.message)
    # Paths and names of this machine are for its operator, who has them in the log.
    return NotSetUp() if error.kind is Kind.SETUP else error


def _validation(error: RequestValidationError, request_id: str | None) -> Response:
    # Only where and why: the rejected value may be a secret.
    fields = [
        {"field": _shown(item["loc"]), "message": _message(item)}
        for item in error.errors()[:_MOST_FIELDS]
    ]
    detail = "; ".join(f"{item['field']}: {item['message']}" for item in fields[:3])
    body = problem_body(
        422, "invalid", detail, "Correct the named fields.", request_id, fields=fields
    )
    return Response(body, 422, media_type=MEDIA_TYPE)


def _message(item: dict[str, Any]) -> str:
    """Why a field was refused. Of the library's own messages one quotes all of what was sent."""
    if item["type"] != "union_tag_invalid":
        return str(item["msg"])
    context = item["ctx"]
    return f"There is no kind '{_shown([context['tag']])}', only {context['expected_tags']}"


def _http(error: HTTPException, request_id: str | None) -> Response:
    if isinstance(error.__cause__, AgentOSError):
        # Raised by the edge while FastAPI was reading the body.
        return problem(error.__cause__, request_id)
    status = error.status_code
    body = problem_body(
        status,
        _HTTP_CODES.get(status, "http_error"),
        str(error.detail),
        _HTTP_HINTS.get(status),
        request_id,
    )
    return Response(body, status, error.headers, MEDIA_TYPE)
