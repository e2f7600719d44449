"""W3C trace context: one trace id follows a request through every part, recorded or not.

OpenTelemetry is imported only when there is a collector to send to. Without one, a span just
hands on the trace it was given, or starts one, so that logs can be joined by trace id anyway.
"""

from __future__ import annotations

import random
import re
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from agentos.kernel.redaction import redact

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

# Version 00 ends after the flags; later versions may append fields, which we do not need.
_TRACEPARENT = re.compile(
    r"(?P<version>(?!ff)[0-9a-f]{2})-(?P<trace>(?!0{32})[0-9a-f]{32})"
    r"-(?P<parent>(?!0{16})[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?"
)
_SAMPLED = 0x01


class _Position(NamedTuple):
    """Where we are in a trace."""

    trace_id: str
    span_id: str
    flags: int


class _Recording:
    """Where spans go; both are None as long as nothing is recorded."""

    provider: TracerProvider | None = None
    tracer: Tracer | None = None


_NOWHERE = _Position("", "", 0)
_current: ContextVar[_Position | None] = ContextVar("agentos_trace", default=None)
_recording = _Recording()


class span:  # noqa: N801 - used like a function: `with span("…") as here:`
    """One step of a trace, as a context manager; it becomes the parent of the spans inside it.

    `traceparent` continues the trace of a caller; one that is malformed starts a new trace, as
    the standard asks. Without it, the enclosing span is continued. Text in attributes is
    redacted, and an exception is recorded by its type alone, because what leaves for a collector
    does not pass through the log's redaction.
    """

    __slots__ = ("_attributes", "_name", "_position", "_span", "_token", "_traceparent")

    def __init__(self, name: str, *, traceparent: str | None = None, **attributes: Any) -> None:
        self._name = name
        self._traceparent = traceparent
        self._attributes = attributes
        self._position = _NOWHERE
        self._span: Span | None = None
        self._token: Token[_Position | None] | None = None

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits."""
        return self._position.trace_id

    @property
    def traceparent(self) -> str:
        """What to send along, so that the next part continues this span."""
        return f"00-{self._position.trace_id}-{self._position.span_id}-{self._position.flags:02x}"

    def __enter__(self) -> span:
        parent = _parsed(self._traceparent) if self._traceparent else None
        if parent is None:
            parent = _current.get()
        if _recording.tracer is not None:
            self._span = _start(_recording.tracer, self._name, parent, self._attributes)
            context = self._span.get_span_context()
            self._position = _Position(
                f"{context.trace_id:032x}", f"{context.span_id:016x}", int(context.trace_flags)
            )
        else:
            # Whoever does not record passes its parent on unchanged: an id of our own would
            # point at a span that no collector ever sees.
            self._position = parent or _new_position()
        self._token = _current.set(self._position)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._token is not None:
            _current.reset(self._token)
            self._token = None
        if self._span is not None:
            if kind is not None:
                _mark_failed(self._span, kind)
            self._span.end()


def current_trace_id() -> str | None:
    """The trace that the code is running in, if it is in one."""
    position = _current.get()
    return None if position is None else position.trace_id


def configure_tracing(endpoint: str | None, service: str) -> None:
    """Sends spans to the OTLP/HTTP collector at `endpoint`; without one, records nothing."""
    shutdown_tracing()
    if endpoint is None:
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    address = endpoint.rstrip("/")
    if not address.endswith("/v1/traces"):
        address += "/v1/traces"
    # Our own provider, not the global one: that can be set only once in the life of a process.
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=address)))
    _recording.provider, _recording.tracer = provider, provider.get_tracer("agentos")


def shutdown_tracing() -> None:
    """Sends what is still waiting, and stops recording. Blocks for as long as that takes."""
    provider = _recording.provider
    _recording.provider = _recording.tracer = None
    if provider is not None:
        provider.shutdown()


def _parsed(traceparent: str) -> _Position | None:
    match = _TRACEPARENT.fullmatch(traceparent.strip())
    if match is None or (match["version"] == "00" and match["more"]):
        return None
    return _Position(match["trace"], match["parent"], int(match["flags"], 16) & _SAMPLED)


def _new_position() -> _Position:
    # Not secret, so the fast generator will do; Python seeds it anew in forked processes.
    digits = f"{random.getrandbits(192):048x}"
    return _Position(digits[:32], digits[32:], 0)


def _start(tracer: Tracer, name: str, parent: _Position | None, attributes: dict[str, Any]) -> Span:
    return tracer.start_span(
        name,
        context=_context_of(parent),
        attributes={key: _attribute(value) for key, value in attributes.items()},
        record_exception=False,
        set_status_on_exception=False,
    )


def _context_of(parent: _Position | None) -> Context:
    from opentelemetry.context import Context
    from opentelemetry.trace import (
        NonRecordingSpan,
        SpanContext,
        TraceFlags,
        set_span_in_context,
    )

    if parent is None:
        return Context()
    position = SpanContext(
        int(parent.trace_id, 16), int(parent.span_id, 16), True, TraceFlags(parent.flags)
    )
    return set_span_in_context(NonRecordingSpan(position), Context())


def _attribute(value: Any) -> bool | int | float | str:
    return value if isinstance(value, bool | int | float) else redact(str(value))


def _mark_failed(recorded: Span, kind: type[BaseException]) -> None:
    from opentelemetry.trace import StatusCode

    recorded.set_attribute("error.type", kind.__qualname__)
    recorded.set_status(StatusCode.ERROR)
