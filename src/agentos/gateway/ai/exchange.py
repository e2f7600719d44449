"""One HTTP exchange of the AI proxy: plain ASGI, because models stream many small chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import Receive, Scope, Send

from agentos.gateway.edge import RequestTooLarge
from agentos.gateway.headers import Headers
from agentos.kernel.ids import uuid7

_WATCH_AFTER_SECONDS = 0.05


class CallerGone(Exception):
    """The caller closed the connection."""


class AiExchange:
    def __init__(self, scope: Scope, receive: Receive, send: Send):
        self.scope = scope
        self.headers = Headers(scope["headers"])
        self.request_id = str(uuid7())
        self.status = 0
        self._receive = receive
        self._send = send
        self._finished = False
        self._stopped_by: Exception | None = None
        self._watcher: asyncio.Task[None] | None = None

    @property
    def begun(self) -> bool:
        return self.status != 0

    async def body(self, most: int) -> bytes:
        """The request's body; raises RequestTooLarge as soon as it is known to be."""
        declared = self.headers.get(b"content-length")
        if declared is not None and declared.isdigit() and int(declared) > most:
            raise _too_large(most)
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise CallerGone
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            return body
        parts, size = [body], len(body)
        while message.get("more_body", False):
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise CallerGone
            part = message.get("body", b"")
            size += len(part)
            if size > most:
                raise _too_large(most)
            parts.append(part)
        return b"".join(parts)

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        """While the block runs, the caller leaving, or `stop`, interrupts it.

        The block then raises CallerGone, or what `stop` was given.
        """
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        # A moment later: most short answers are over by then, and need no watcher.
        timer = asyncio.get_running_loop().call_later(_WATCH_AFTER_SECONDS, self._start_watching)
        try:
            yield
        except asyncio.CancelledError:
            if self._stopped_by is None:
                raise
            task.uncancel()
            raise self._stopped_by from None
        finally:
            timer.cancel()
            if self._watcher is not None:
                self._watcher.cancel()

    def stop(self, reason: Exception) -> None:
        """Ends what `stoppable` surrounds, with this reason."""
        if self._stopped_by is None and not self._finished:
            self._stopped_by = reason
            self._task.cancel()

    def _start_watching(self) -> None:
        self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.stop(CallerGone())

    async def answer(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """The whole answer."""
        headers.append((b"content-length", str(len(body)).encode()))
        await self.begin(status, headers)
        self._finished = True
        await self._send({"type": "http.response.body", "body": body})

    async def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status
        headers.append((b"x-request-id", self.request_id.encode()))
        headers.append((b"cache-control", b"no-store"))
        headers.append((b"x-content-type-options", b"nosniff"))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self, data: bytes = b"") -> None:
        self._finished = True
        await self._send({"type": "http.response.body", "body": data})


def _too_large(most: int) -> RequestTooLarge:
    return RequestTooLarge(
        f"The request is larger than {most:,} bytes.",
        hint="Send fewer or smaller images and files.",
    )
