from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agentos.kernel.redaction import forget_secret, register_secret
from agentos.kernel.tracing import configure_tracing, current_trace_id, shutdown_tracing, span

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@dataclass
class Collector:
    """A stand-in for an OpenTelemetry collector, on the loopback interface."""

    url: str
    paths: list[str] = field(default_factory=list)
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)

    def spans(self) -> dict[str, Span]:
        return {
            one.name: one
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for one in scope.spans
        }


@pytest.fixture
def collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            seen.paths.append(self.path)
            seen.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    seen = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield seen
    shutdown_tracing()
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_trace_is_continued_unchanged_when_nothing_is_recorded() -> None:
    with span("outer", traceparent=TRACEPARENT) as outer, span("inner") as inner:
        assert outer.trace_id == inner.trace_id == current_trace_id() == TRACE
        assert inner.traceparent == TRACEPARENT
    assert current_trace_id() is None


@pytest.mark.parametrize(
    "traceparent",
    [
        None,
        "",
        "nonsense",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-b7ad6b7169203331-01-more",
        f"ff-{TRACE}-b7ad6b7169203331-01",
        f"00-{TRACE.upper()}-b7ad6b7169203331-01",
    ],
)
def test_a_missing_or_malformed_parent_starts_a_new_trace(traceparent: str | None) -> None:
    with span("x", traceparent=traceparent) as here:
        assert re.fullmatch(r"[0-9a-f]{32}", here.trace_id)
        assert here.trace_id not in (TRACE, "0" * 32)
        assert re.fullmatch(rf"00-{here.trace_id}-[0-9a-f]{{16}}-00", here.traceparent)


def test_a_later_version_is_understood() -> None:
    with span("x", traceparent=f"cc-{TRACE}-b7ad6b7169203331-01-what-comes-next") as here:
        assert here.trace_id == TRACE


async def test_tasks_do_not_mix_their_traces() -> None:
    async def one() -> bool:
        with span("task") as here:
            await asyncio.sleep(0.001)
            return current_trace_id() == here.trace_id

    assert all(await asyncio.gather(*(one() for _ in range(20))))
    assert current_trace_id() is None


def test_opentelemetry_is_not_imported_without_a_collector() -> None:
    program = """
import sys
from agentos.kernel.tracing import configure_tracing, span
configure_tracing(None, "agentos")
with span("x", colour="red"):
    pass
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_spans_reach_the_collector_in_the_callers_trace(collector: Collector) -> None:
    configure_tracing(collector.url, "agentos-test")
    with span("request", traceparent=TRACEPARENT, status=200) as outer, span("query") as inner:
        assert current_trace_id() == TRACE
        assert inner.traceparent.startswith(f"00-{TRACE}-")
        assert inner.traceparent != outer.traceparent
    shutdown_tracing()

    assert collector.paths == ["/v1/traces"]
    request, query = collector.spans()["request"], collector.spans()["query"]
    assert request.trace_id.hex() == query.trace_id.hex() == TRACE
    assert request.parent_span_id.hex() == "b7ad6b7169203331"
    assert query.parent_span_id == request.span_id
    assert request.attributes[0].value.int_value == 200
    resource = collector.requests[0].resource_spans[0].resource
    assert "agentos-test" in {one.value.string_value for one in resource.attributes}


def test_no_secret_leaves_in_a_span(collector: Collector) -> None:
    register_secret("tr4ce-c4nary")
    configure_tracing(f"{collector.url}/v1/traces", "agentos-test")
    try:
        with pytest.raises(ValueError, match="c4nary"), span("failing", url="?k=tr4ce-c4nary"):
            raise ValueError("tr4ce-c4nary")
    finally:
        forget_secret("tr4ce-c4nary")
    shutdown_tracing()

    (request,) = collector.requests
    assert b"c4nary" not in request.SerializeToString()
    failing = collector.spans()["failing"]
    assert failing.status.code == failing.status.STATUS_CODE_ERROR
    assert "ValueError" in {one.value.string_value for one in failing.attributes}


def test_what_the_caller_does_not_sample_is_not_sent(collector: Collector) -> None:
    configure_tracing(collector.url, "agentos-test")
    with span("quiet", traceparent=TRACEPARENT[:-2] + "00") as here:
        assert here.trace_id == TRACE
        assert here.traceparent.endswith("-00")
    shutdown_tracing()
    assert collector.requests == []
