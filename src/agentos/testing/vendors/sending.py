"""Sends an answer, and lets its fault strike where it should."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from agentos.testing.records import RecordedRequest
from agentos.testing.scripts import Fault, FaultKind
from agentos.testing.vendors.endpoints import Frame

JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"


class Cut(Exception):
    """The connection has been closed on purpose."""


class Sending:
    """One answer on its way to the client."""

    def __init__(
        self,
        request: web.Request,
        record: RecordedRequest,
        headers: dict[str, str],
        fault: Fault | None,
        stall: Callable[[], Awaitable[None]],
    ) -> None:
        self._request = request
        self._record = record
        self._headers = headers
        self._fault = fault
        self._stall = stall

    async def whole(self, status: int, body: bytes, content_type: str = JSON) -> web.StreamResponse:
        """Sends a body with its length. Raises Cut."""
        at = self._half(body)
        if at == 0 and self._is(FaultKind.STALL):
            await self._stall()
            at = len(body)
        full = body[:at] if self._is(FaultKind.MALFORMED) else body
        response = await self._begin(status, content_type, len(full))
        await response.write(body[:at])
        if self._is(FaultKind.CUT):
            self.cut()
        if self._is(FaultKind.STALL) and at < len(body):
            await self._stall()
            await response.write(body[at:])
        await response.write_eof()
        return response

    async def stream(
        self, frames: Sequence[Frame], delay: float, broken: Callable[[int], bytes]
    ) -> web.StreamResponse:
        """Sends frames one by one. Raises Cut."""
        at = position(self._fault, frames)
        if at == 0 and self._is(FaultKind.STALL):
            await self._stall()
            at = None
        response = await self._begin(200, EVENTS, None)
        for index, frame in enumerate(frames):
            if index == at and await self._strike(response, frames, index, broken):
                return response
            # Between the pieces: the first one comes at once.
            if frame.content and delay and self._record.chunks:
                await asyncio.sleep(delay)
            await response.write(frame.data)
            self._record.chunks += frame.content
        await response.write_eof()
        return response

    async def _begin(
        self, status: int, content_type: str, length: int | None
    ) -> web.StreamResponse:
        headers = {"Content-Type": content_type, **self._headers}
        response = web.StreamResponse(status=status, headers=headers)
        if length is None:
            response.enable_chunked_encoding()
        else:
            response.content_length = length
        self._record.status = status
        await response.prepare(self._request)
        return response

    async def _strike(
        self,
        response: web.StreamResponse,
        frames: Sequence[Frame],
        at: int,
        broken: Callable[[int], bytes],
    ) -> bool:
        """Lets the fault happen before this frame; whether the stream is over by that."""
        if self._is(FaultKind.STALL):
            await self._stall()
            return False
        if self._is(FaultKind.CUT):
            self.cut()
        last = broken(at) if self._is(FaultKind.STREAM_ERROR) else _malformed(frames, at)
        await response.write(last)
        await response.write_eof()
        return True

    def cut(self) -> None:
        """Closes the connection. Raises Cut, always."""
        transport = self._request.transport
        if transport is not None and self._fault is not None and self._fault.reset:
            sock = transport.get_extra_info("socket")
            # Linger for 0 seconds: what makes a close a reset.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        elif transport is not None:
            transport.close()
        raise Cut

    def _is(self, kind: FaultKind) -> bool:
        return self._fault is not None and self._fault.kind is kind

    def _half(self, body: bytes) -> int:
        """How much of a body goes out before its fault."""
        if self._fault is None or self._fault.kind is FaultKind.SLOW:
            return len(body)
        first = self._fault.after_chunks == 0 and not self._fault.after_events
        if first and self._fault.kind is not FaultKind.MALFORMED:
            return 0
        return len(body) // 2


def position(fault: Fault | None, frames: Sequence[Frame]) -> int | None:
    """The index of the frame before which the fault strikes."""
    if fault is None or fault.kind is FaultKind.SLOW:
        return None
    content = [index for index, frame in enumerate(frames) if frame.content]
    if fault.after_events is not None:
        return min(fault.after_events, len(frames) - 1)
    if fault.after_chunks == 0:
        return 0
    if not content:
        return len(frames) - 1
    return min(content[min(fault.after_chunks, len(content)) - 1] + 1, len(frames) - 1)


def _malformed(frames: Sequence[Frame], at: int) -> bytes:
    """The next event that has any JSON, without the end of it, but still an event."""
    # Comments and [DONE] have none; in a stream that is all but over, an earlier one must do.
    data = next(frame.data for frame in (*frames[at:], *reversed(frames)) if b"{" in frame.data)
    whole = data.rstrip()
    opening = whole.find(b"{")
    return whole[: opening + (len(whole) - opening) // 2] + b"\n\n"
