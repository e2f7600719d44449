"""Errors of model calls, said in the dialect of the SDK that made the call."""

from __future__ import annotations

from dataclasses import dataclass

from agentos.gateway.problems import STATUS, InternalError, NotSetUp
from agentos.integrations.models.failures import ErrorClass, ModelCallFailed
from agentos.integrations.models.wires.base import Wire, WireName
from agentos.kernel.errors import AgentOSError, Kind
from agentos.kernel.logs import get_logger
from agentos.kernel.redaction import redact

log = get_logger(__name__)

_ANTHROPIC = frozenset({WireName.MESSAGES, WireName.COUNT_TOKENS})
# SDKs know 400 for what is wrong with a request; 422 is our own API's.
_STATUS = STATUS | {Kind.INVALID: 400}
_CLASSES = {
    Kind.INVALID: ErrorClass.INVALID,
    Kind.TOO_LARGE: ErrorClass.INVALID,
    Kind.NOT_FOUND: ErrorClass.NOT_FOUND,
    Kind.UNAUTHENTICATED: ErrorClass.AUTH,
    Kind.LIMITED: ErrorClass.RATE_LIMIT,
    Kind.TRANSIENT: ErrorClass.OVERLOAD,
}


@dataclass(frozen=True, slots=True)
class Spoken:
    """An error answer: what goes out."""

    status: int
    body: bytes
    headers: list[tuple[bytes, bytes]]


def speak(face: Wire, error: Exception) -> Spoken:
    """An error as the SDKs of this face expect it."""
    known = _known(error)
    status, error_class = _status(face, known)
    headers = [(b"content-type", b"application/json")]
    retry_after = _retry_after(known)
    if retry_after is not None:
        headers.append((b"retry-after", str(max(1, round(retry_after))).encode()))
    body = face.error(status, error_class, _code(known), told(known))
    return Spoken(status, body, headers)


def speak_in_stream(face: Wire, error: AgentOSError) -> bytes:
    """The same for a stream that has begun."""
    _, error_class = _status(face, error)
    return face.stream_error(error_class, _code(error), told(error))


def told(error: AgentOSError) -> str:
    """What happened and how to go on, in one text: these dialects have no field for advice."""
    text = f"{error.message} {error.advice}" if error.advice else error.message
    return redact(text) if error.kind is Kind.INTERNAL else text


def _known(error: Exception) -> AgentOSError:
    if isinstance(error, AgentOSError):
        if error.kind in (Kind.INTERNAL, Kind.SETUP):
            log.error("model call failed", error=error.code, detail=error.message)
        return NotSetUp() if error.kind is Kind.SETUP else error
    log.error("model call failed", exc_info=error)
    return InternalError()


def _status(face: Wire, error: AgentOSError) -> tuple[int, str]:
    if isinstance(error, ModelCallFailed):
        if error.error_class is ErrorClass.TIMEOUT:
            return 504, error.error_class
        if error.error_class is ErrorClass.OVERLOAD and face.name in _ANTHROPIC:
            # Anthropic's own status for it, which its SDKs know.
            return 529, error.error_class
        if error.error_class is ErrorClass.AUTH:
            # Not 401: the caller's own credential is good, the one kept for the provider is not.
            return 403, ""
        return _STATUS[error.kind], error.error_class
    # An empty class lets the dialect go by the status: it has words for 402, 403 and 413.
    return _STATUS[error.kind], _CLASSES.get(error.kind, "")


def _code(error: AgentOSError) -> str:
    # The one code of OpenAI's that programs compare, to shorten what they sent.
    if isinstance(error, ModelCallFailed) and error.error_class is ErrorClass.CONTEXT_LENGTH:
        return "context_length_exceeded"
    return error.code


def _retry_after(error: AgentOSError) -> float | None:
    if isinstance(error, ModelCallFailed):
        return error.retry_after
    if error.kind is Kind.LIMITED:
        return float(error.details.get("retry_after", 1))
    return None
