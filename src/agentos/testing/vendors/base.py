"""What all test servers share: listening, recording, the script and its faults."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ClassVar, Self

import msgspec
from aiohttp import ClientConnectionResetError, web

from agentos.testing.answers import Prompt, answer
from agentos.testing.records import RecordedRequest, Watch
from agentos.testing.scripts import WITHIN_ANSWER, Fault, FaultKind, Reply, Step
from agentos.testing.vendors.endpoints import Endpoint, Incoming, Refusal, Route
from agentos.testing.vendors.sending import Cut, Sending

_HOST = "127.0.0.1"
_LARGEST_BODY = 64 * 1024 * 1024
# A test that is over wants its server gone, not its last requests finished.
_SHUTDOWN_SECONDS = 0.1
_HTML = (
    b"<html>\r\n<head><title>%(status)s</title></head>\r\n"
    b"<body>\r\n<center><h1>%(status)s</h1></center>\r\n<hr><center>nginx</center>\r\n"
    b"</body>\r\n</html>\r\n"
)


class VendorServer:
    """A server on this machine that speaks one vendor's wire format.

    Use it as `async with OpenAIServer() as server:` and point a client at `server.url`.
    """

    vendor: ClassVar[str]
    # The path of the vendor's base URL.
    prefix: ClassVar[str] = ""
    key: str = ""
    models: Sequence[str] = ()

    def __init__(
        self, *, port: int = 0, key: str | None = None, models: Sequence[str] | None = None
    ) -> None:
        self.key = self.key if key is None else key
        self.models = list(self.models if models is None else models)
        self.requests: list[RecordedRequest] = []
        self.open = 0
        self.most_open = 0
        self.stalled = 0
        self._port = port
        self._default = Reply()
        self._queues: dict[str | None, deque[Step]] = {}
        self._answers = 0
        self._watch = Watch()
        self._released = asyncio.Event()
        self._stopping = False
        self._runner: web.AppRunner | None = None

    # What a vendor says of itself

    def routes(self) -> list[Route]:
        raise NotImplementedError

    def authorize(self, incoming: Incoming) -> None:
        """Raises Refusal unless the request carries the key."""
        raise NotImplementedError

    def refusal(self, kind: FaultKind, model: str, retry_after: float | None) -> Refusal:
        """The vendor's answer to something that went wrong."""
        raise NotImplementedError

    def invalid(self, message: str, field: str | None = None) -> Refusal:
        """The vendor's answer to a request that is not well formed."""
        raise NotImplementedError

    def unknown_path(self, incoming: Incoming) -> Refusal:
        raise NotImplementedError

    def answer_headers(self, number: int) -> dict[str, str]:  # noqa: ARG002 - most number them
        """Headers the vendor puts on every answer."""
        return {}

    def encode(self, body: Any) -> bytes:
        """JSON with the vendor's own taste in white space."""
        return msgspec.json.encode(body)

    # What a test says

    def reply(self, reply: Reply) -> None:
        """Sets what is answered whenever nothing is queued."""
        self._default = reply

    def queue(self, *steps: Step, on: str | None = None) -> None:
        """Sets what comes next, one step for each model call.

        Calls that ask for no answer of the model (lists of models, token counts) leave the queue
        alone. With `on`, the steps are for the endpoint of that name, such as "models".
        """
        self._queues.setdefault(on, deque()).extend(steps)

    def release(self) -> None:
        """Lets every stalled answer go on."""
        before, self._released = self._released, asyncio.Event()
        before.set()

    # What a test sees

    @property
    def origin(self) -> str:
        return f"http://{_HOST}:{self.port}"

    @property
    def url(self) -> str:
        """The base URL, in the form of the vendor's own."""
        return self.origin + self.prefix

    @property
    def port(self) -> int:
        return self._port

    async def wait_requests(self, count: int = 1, timeout: float = 10) -> None:
        """Returns when so many requests have come in."""
        await self._watch.until(lambda: len(self.requests) >= count, timeout)

    async def wait_open(self, count: int = 1, timeout: float = 10) -> None:
        """Returns when exactly so many requests are open; 0: when all have ended."""
        await self._watch.until(lambda: self.open == count, timeout)

    async def wait_stalled(self, count: int = 1, timeout: float = 10) -> None:
        """Returns when so many answers have come to their stall."""
        await self._watch.until(lambda: self.stalled >= count, timeout)

    async def wait_cancelled(self, count: int = 1, timeout: float = 10) -> RecordedRequest:
        """Returns when so many clients have left early; gives the last of their requests."""
        await self._watch.until(lambda: len(self._cancelled()) >= count, timeout)
        return self._cancelled()[count - 1]

    def _cancelled(self) -> list[RecordedRequest]:
        return [record for record in self.requests if record.cancelled]

    # Running

    async def start(self) -> None:
        app = web.Application(client_max_size=_LARGEST_BODY)
        for route in self.routes():
            app.router.add_route(route.method, route.path, self._handler(route.endpoint))
        app.router.add_route("*", "/{path:.*}", self._handler(None))
        # Cancellation is how we learn that a client has left.
        self._runner = web.AppRunner(
            app,
            handler_cancellation=True,
            shutdown_timeout=_SHUTDOWN_SECONDS,
            access_log=None,
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, _HOST, self._port).start()
        self._port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        self._stopping = True
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def _handler(
        self, endpoint: Endpoint | None
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            record = RecordedRequest(
                method=request.method,
                path=request.path,
                query=dict(request.query),
                headers=request.headers,
                body=b"",
                json=None,
                at=time.time(),
            )
            with self._following(record):
                record.body = await request.read()
                record.json = _json(record.body)
                self.requests.append(record)
                self._watch.changed()
                return await self._answer(endpoint, request, record)

        return handle

    @contextmanager
    def _following(self, record: RecordedRequest) -> Iterator[None]:
        """Counts a request as open, and notes whether its client waited for the end."""
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            yield
        except (asyncio.CancelledError, ClientConnectionResetError):
            record.cancelled = not self._stopping
            raise
        finally:
            self.open -= 1
            record.ended = True
            self._watch.changed()

    async def _answer(
        self, endpoint: Endpoint | None, request: web.Request, record: RecordedRequest
    ) -> web.StreamResponse:
        self._answers += 1
        headers = self.answer_headers(self._answers)
        try:
            return await self._serve(endpoint, request, record, headers)
        except Refusal as refusal:
            sending = Sending(request, record, headers | refusal.headers, None, self._stall)
            if isinstance(refusal.body, bytes):
                return await sending.whole(refusal.status, refusal.body, "text/html")
            return await sending.whole(refusal.status, self.encode(refusal.body))
        except Cut:
            # The connection is closed; aiohttp wants something that it then cannot send.
            return web.Response()

    async def _serve(
        self,
        endpoint: Endpoint | None,
        request: web.Request,
        record: RecordedRequest,
        headers: dict[str, str],
    ) -> web.StreamResponse:
        number = self._answers
        incoming = _incoming(request, record)
        self.authorize(incoming)
        if endpoint is None:
            raise self.unknown_path(incoming)
        prompt = endpoint.read(incoming)
        step = self._next(endpoint)
        fault = step if isinstance(step, Fault) else None
        sending = Sending(request, record, headers, fault, self._stall)
        if fault is not None:
            await self._fail(fault, prompt, sending)
        reply = step if isinstance(step, Reply) else step.reply or self._default
        made = answer(reply, prompt, number)
        if not prompt.stream:
            return await sending.whole(200, self.encode(endpoint.whole(prompt, made)))
        return await sending.stream(
            list(endpoint.frames(prompt, made)),
            made.delay,
            lambda events: endpoint.broken(prompt, made, events),
        )

    def _next(self, endpoint: Endpoint) -> Step:
        own = self._queues.get(endpoint.name)
        if own:
            return own.popleft()
        queue = self._queues.get(None)
        return queue.popleft() if queue and endpoint.in_turn else self._default

    async def _fail(self, fault: Fault, prompt: Prompt, sending: Sending) -> None:
        """Lets those faults happen that leave no answer at all."""
        if fault.kind is FaultKind.SLOW:
            await asyncio.sleep(fault.seconds)
        elif fault.kind is FaultKind.REFUSE:
            sending.cut()
        elif fault.kind is FaultKind.HTML:
            raise Refusal(fault.status, _HTML % {b"status": str(fault.status).encode()})
        elif fault.kind is FaultKind.STREAM_ERROR and not prompt.stream:
            raise self.refusal(FaultKind.SERVER_ERROR, prompt.model, None)
        elif fault.kind not in WITHIN_ANSWER:
            raise self.refusal(fault.kind, prompt.model, fault.retry_after)

    async def _stall(self) -> None:
        self.stalled += 1
        self._watch.changed()
        try:
            await self._released.wait()
        finally:
            self.stalled -= 1


def _incoming(request: web.Request, record: RecordedRequest) -> Incoming:
    return Incoming(
        method=record.method,
        path=record.path,
        query=record.query,
        headers=record.headers,
        match=request.match_info,
        json=record.json if isinstance(record.json, dict) else None,
    )


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
