"""The agent CLI's model endpoint: every request goes to the gateway with the right token on it.

The CLI holds no key. Each message has a token of its own, so that what its model calls cost is
booked to it; this puts the token on, whatever the CLI sent. Nothing is buffered: a piece of the
answer is passed on as it comes, and a client that hangs up ends the model call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import h11
import msgspec

from agentos.sidecar.tasks import end

_LOOPBACK = "127.0.0.1"
_PIECE = 64 * 1024
_MOST_HEADER_BYTES = 64 * 1024
# All that the gateway offers to a model token.
_PATHS = b"/api/ai/"

# What belongs to one connection only, and every way to name a key.
_NOT_FORWARDED = frozenset(
    {
        b"authorization",
        b"connection",
        b"cookie",
        b"expect",
        b"host",
        b"keep-alive",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"upgrade",
        b"x-api-key",
        b"x-goog-api-key",
    }
)
_NOT_RETURNED = frozenset({b"connection", b"keep-alive", b"trailer", b"upgrade"})


class _Broken(Exception):
    """One of the two sides is gone: nothing more can be said on this connection."""


class Forwarder:
    """Listens for the CLI. `token` is what the calls are made with from now on."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.token = ""
        # A connection to the gateway that is open before there is a call for it.
        self._spare: asyncio.Task[_Gateway] | None = None

    @classmethod
    async def open(cls, socket: Path) -> Forwarder:
        forwarder = cls(socket)
        forwarder._server = await asyncio.start_server(forwarder._serve, _LOOPBACK, 0)
        return forwarder

    @property
    def url(self) -> str:
        """What the model endpoints' paths are appended to."""
        assert self._server is not None, "made by open()"
        return f"http://{_LOOPBACK}:{self._server.sockets[0].getsockname()[1]}/api/ai"

    def use(self, token: str) -> None:
        """Makes calls with this token from now on, the first of them soon."""
        self.token = token
        if self._spare is None:
            self._spare = asyncio.create_task(_Gateway.connect(self._socket))

    async def close(self) -> None:
        """Ends the port and its connections; harmless twice."""
        if self._server is not None:
            self._server.close()
        await end(*self._open)
        spare, self._spare = self._spare, None
        if spare is not None:
            await end(spare)
            if not spare.cancelled() and spare.exception() is None:
                spare.result().abort()

    async def _connected(self) -> _Gateway:
        """A connection to the gateway: the one that is open already, or a new one. Raises OSError."""
        spare, self._spare = self._spare, None
        if spare is not None:
            with suppress(OSError):
                gateway = await spare
                if not gateway.is_gone:
                    return gateway
                gateway.abort()
        return await _Gateway.connect(self._socket)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        client = _Client(reader, writer)
        try:
            while (request := await client.request()) is not None:
                await self._answer(client, request)
                if not client.next():
                    return
        except (_Broken, OSError):
            # Cut, not closed: half an answer must not look like a whole one.
            writer.transport.abort()
        except asyncio.CancelledError:
            # Ended by close(). The server's own callback reports a cancelled handler as an error.
            return
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer(self, client: _Client, request: h11.Request) -> None:
        if not request.target.startswith(_PATHS):
            await client.refuse(404, "not_found_error", "There is no model endpoint at this path.")
        elif not self.token:
            await client.refuse(
                401,
                "authentication_error",
                "No message is being answered, so there is nothing to book a model call to.",
            )
        else:
            try:
                gateway = await self._connected()
            except OSError:
                await client.refuse(
                    502, "api_error", "The gateway cannot be reached; try again in a moment."
                )
                return
            try:
                await self._exchange(client, gateway, request)
            finally:
                gateway.abort()

    async def _exchange(self, client: _Client, gateway: _Gateway, request: h11.Request) -> None:
        upward = asyncio.create_task(self._pass_request(client, gateway, request))
        downward = asyncio.create_task(_pass_response(client, gateway))
        try:
            await asyncio.wait({upward, downward}, return_when=asyncio.FIRST_COMPLETED)
            if not downward.done() and upward.exception() is None:
                gone = asyncio.create_task(client.gone())
                try:
                    await asyncio.wait({downward, gone}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    await end(gone)
            if not downward.done():
                raise _Broken
            downward.result()
        finally:
            await end(upward, downward)

    async def _pass_request(self, client: _Client, gateway: _Gateway, request: h11.Request) -> None:
        headers = [(name, value) for name, value in request.headers if name not in _NOT_FORWARDED]
        headers += [
            (b"host", b"agentos"),
            (b"authorization", b"Bearer " + self.token.encode()),
            (b"connection", b"close"),
        ]
        await gateway.send(
            h11.Request(method=request.method, target=request.target, headers=headers)
        )
        async for data in client.body():
            await gateway.send(h11.Data(data=data))
        await gateway.send(h11.EndOfMessage())


async def _pass_response(client: _Client, gateway: _Gateway) -> None:
    begun = False
    try:
        async for event in gateway.events():
            await client.send(event)
            begun = True
    except _Broken:
        if begun:
            raise
        await client.refuse(502, "api_error", "The gateway ended the connection; try again.")


class _Side:
    """One connection, with what HTTP/1.1 says about it."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        role: type[h11.CLIENT] | type[h11.SERVER],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(role, max_incomplete_event_size=_MOST_HEADER_BYTES)

    async def send(self, event: h11.Event) -> None:
        try:
            data = self._http.send(event)
        except h11.LocalProtocolError as error:
            raise _Broken from error
        if data:
            self._writer.write(data)
            await self._writer.drain()

    async def _event(self) -> h11.Event | type[h11.PAUSED]:
        """The next event. Raises RemoteProtocolError."""
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]
            await self._before_reading()
            self._http.receive_data(await self._reader.read(_PIECE))

    async def _before_reading(self) -> None:
        return


class _Client(_Side):
    """The CLI's end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer, h11.SERVER)

    async def request(self) -> h11.Request | None:
        """The next request; None if there will be none."""
        try:
            event = await self._event()
        except h11.RemoteProtocolError as error:
            if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
                await self.refuse(error.error_status_hint, "invalid_request_error", "Not HTTP/1.1.")
            return None
        return event if isinstance(event, h11.Request) else None

    async def body(self) -> AsyncIterator[bytes]:
        """The rest of the request, as it comes."""
        try:
            while isinstance(event := await self._event(), h11.Data):
                yield bytes(event.data)
        except h11.RemoteProtocolError as error:
            raise _Broken from error

    async def gone(self) -> None:
        """Returns when the client has hung up; what it sends before that waits its turn."""
        while data := await self._reader.read(_PIECE):
            self._http.receive_data(data)

    def next(self) -> bool:
        """Whether this connection can carry another request."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            return True
        return False

    async def refuse(self, status: int, kind: str, message: str) -> None:
        """An answer of our own, in a form that the clients of each provider understand."""
        if self._http.their_state is h11.SEND_BODY:
            # Unread bytes would make the system reset the connection, and the answer be lost.
            async for _ in self.body():
                pass
        error = {"type": kind, "message": message, "code": kind}
        body = msgspec.json.encode({"type": "error", "error": error})
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        await self.send(h11.Response(status_code=status, headers=headers))
        await self.send(h11.Data(data=body))
        await self.send(h11.EndOfMessage())

    async def _before_reading(self) -> None:
        if self._http.they_are_waiting_for_100_continue:
            await self.send(h11.InformationalResponse(status_code=100, headers=[]))


class _Gateway(_Side):
    """The gateway's end; it carries one request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer, h11.CLIENT)

    @classmethod
    async def connect(cls, socket: Path) -> _Gateway:
        """Raises OSError."""
        return cls(*await asyncio.open_unix_connection(socket))

    @property
    def is_gone(self) -> bool:
        """Whether the gateway has ended the connection, as far as was heard by now."""
        return self._reader.at_eof() or self._reader.exception() is not None

    def abort(self) -> None:
        self._writer.transport.abort()

    async def events(self) -> AsyncIterator[h11.Event]:
        """The response, without what belongs to this connection only. Raises _Broken."""
        try:
            while True:
                match event := await self._event():
                    case h11.Response():
                        headers = [pair for pair in event.headers if pair[0] not in _NOT_RETURNED]
                        yield h11.Response(
                            status_code=event.status_code, headers=headers, reason=event.reason
                        )
                    case h11.Data():
                        yield event
                    case h11.EndOfMessage():
                        yield event
                        return
                    case h11.InformationalResponse():
                        continue
                    case _:
                        raise _Broken
        except (h11.RemoteProtocolError, OSError) as error:
            raise _Broken from error
