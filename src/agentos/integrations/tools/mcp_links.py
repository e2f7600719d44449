"""A connection to one MCP server, in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import anyio
import mcp_types
from httpx2 import TransportError
from mcp import Client, MCPError
from mcp.client import Transport
from mcp.shared.message import SessionMessage
from mcp_types import Implementation
from pydantic import ValidationError

from agentos import __version__
from agentos.integrations.tools.errors import McpServerFailed, McpServerUnreachable
from agentos.kernel.errors import AgentOSError

T = TypeVar("T")

MOST_BYTES = 8 * 1024 * 1024
_OPEN_SECONDS = 30.0
# A server that does not let go is left to the end of its sandbox, or of its connection.
_CLOSE_SECONDS = 10.0
_CHUNK = 64 * 1024

# How to get to a server, and what is done when it has ended, if that can be known.
Way = tuple[Transport, asyncio.Future[Any] | None]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class McpCallFailed(Exception):
    """A call was not answered; the text is for the model. `uncertain`: it may still have happened."""

    def __init__(self, text: str, *, uncertain: bool = False):
        super().__init__(text)
        self.uncertain = uncertain


class McpLink:
    """A server one can ask. Whatever it does, an answer or a failure comes in time.

    The client of the MCP package lives in task groups, and those must be left by the task that
    entered them; and what fails in them cancels it. So it has a task of its own.
    """

    def __init__(self, name: str, transport: Callable[[], AbstractAsyncContextManager[Way]]):
        self.name = name
        self._transport = transport
        self._ending = asyncio.Event()
        self._stale = False
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(), name=f"mcp:{name}")

    async def opened(self) -> None:
        """Waits until the server can be asked. Raises McpServerFailed."""
        either: set[asyncio.Future[Any]] = {self._task, self._ready}
        await asyncio.wait(either, timeout=_OPEN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if self._ready.done():
            return
        if not self._task.done():
            raise McpServerUnreachable(
                f"The MCP server {self.name} did not answer within {_OPEN_SECONDS:g} seconds."
            )
        error = self._task.exception()
        first = _first(error) if error is not None else None
        if isinstance(first, AgentOSError):
            raise first
        kind = McpServerUnreachable if isinstance(first, TransportError) else McpServerFailed
        raise kind(f"The MCP server {self.name} cannot be used: {_said(first)}")

    @property
    def lost(self) -> bool:
        """Whether it is of no use any more, and a new one has to be made."""
        return self._stale or self._task.done()

    async def ask(self, question: Callable[[Client], Coroutine[Any, Any, T]], seconds: float) -> T:
        """What the server answers. Raises McpCallFailed."""
        asking = asyncio.create_task(question(self._ready.result()))
        try:
            await asyncio.wait(
                {asking, self._task}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not asking.done():
                raise McpCallFailed(self._silent(seconds), uncertain=True)
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        return self._answer(asking)

    async def close(self) -> None:
        self._ending.set()
        await asyncio.wait({self._task}, timeout=_CLOSE_SECONDS)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _live(self) -> None:
        async with self._transport() as (transport, ended):
            info = Implementation(name="agentos", version=__version__)
            async with Client(transport, client_info=info, cache=None) as client:
                self._ready.set_result(client)
                ending = asyncio.create_task(self._ending.wait())
                either: set[asyncio.Future[Any]] = {ending} if ended is None else {ending, ended}
                try:
                    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    ending.cancel()

    def _silent(self, seconds: float) -> str:
        if self._task.done():
            return f"The MCP server {self.name} ended during the call."
        return f"The MCP server {self.name} did not answer within {seconds:g} seconds."

    def _answer(self, asked: asyncio.Task[T]) -> T:
        error = asked.exception()
        if error is None:
            return asked.result()
        first = _first(error)
        if isinstance(first, MCPError):
            lost = first.code in (mcp_types.CONNECTION_CLOSED, mcp_types.REQUEST_TIMEOUT)
            # Also how a remote server says that it does not know this connection any more.
            self._stale |= first.code in (mcp_types.CONNECTION_CLOSED, mcp_types.INVALID_REQUEST)
            if first.code == mcp_types.CONNECTION_CLOSED:
                text = f"The connection to the MCP server {self.name} was lost during the call."
            else:
                text = f"The MCP server {self.name} answered with an error: {first.message[:2000]}"
            raise McpCallFailed(text, uncertain=lost)
        raise McpCallFailed(
            f"The answer of the MCP server {self.name} cannot be used: {_said(first)}",
            uncertain=True,
        )


@asynccontextmanager
async def line_transport(streams: Streams) -> AsyncIterator[Any]:
    """MCP over a pair of streams: a JSON message a line."""
    reader, writer = streams
    inward, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, outward = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = (
        asyncio.create_task(_read_lines(reader, inward)),
        asyncio.create_task(_write_lines(outward, writer, inward)),
    )
    try:
        yield read_stream, write_stream
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # How a server on standard streams is asked to end.
        writer.close()
        for stream in (inward, read_stream, write_stream, outward):
            stream.close()


async def _read_lines(reader: asyncio.StreamReader, sink: Any) -> None:
    """Hands on each message. A line that never ends, or the end of the stream, ends the server."""
    async with sink:
        begun: list[bytes] = []
        size = 0
        while data := await reader.read(_CHUNK):
            *lines, left = data.split(b"\n")
            if lines:
                lines[0] = b"".join([*begun, lines[0]])
                begun, size = [], 0
            for line in lines:
                # Servers that print to their output by mistake are common; that is no message.
                if (message := _message(line)) is not None:
                    await sink.send(message)
            begun.append(left)
            size += len(left)
            if size > MOST_BYTES:
                return


async def _write_lines(source: Any, writer: asyncio.StreamWriter, sink: Any) -> None:
    try:
        async for item in source:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            writer.write(text.encode() + b"\n")
            await writer.drain()
    except OSError:
        sink.close()


def _message(line: bytes) -> SessionMessage | None:
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValidationError:
        return None


def _first(error: BaseException) -> BaseException:
    """The first real failure in what task groups have wrapped."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _said(error: BaseException | None) -> str:
    if error is None:
        return "it ended at once."
    if isinstance(error, ValidationError):
        return "it does not speak MCP as it should."
    return str(error)[:500] or type(error).__name__
