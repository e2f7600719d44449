"""From a port on the sandbox's own loopback to a unix socket that leads out of it.

An HTTP client takes no unix socket as its proxy. The port exists in the sandbox's network namespace
only.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from agentos.sidecar.tasks import end

EGRESS_PORT = 3128
_LOOPBACK = "127.0.0.1"
_PIECE = 64 * 1024


class Link:
    """An open port whose connections all lead to one socket."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, socket: Path, port: int = 0) -> Link:
        """Listening, on any free port if the wished one is taken."""
        link = cls(socket)
        try:
            link._server = await asyncio.start_server(link._carry, _LOOPBACK, port)
        except OSError:
            if not port:
                raise
            link._server = await asyncio.start_server(link._carry, _LOOPBACK, 0)
        return link

    @property
    def port(self) -> int:
        assert self._server is not None, "made by open()"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Ends the port and its connections; harmless twice."""
        if self._server is not None:
            self._server.close()
        await end(*self._open)

    async def _carry(self, near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._joined(near, near_out)
        except asyncio.CancelledError:
            # Ended by close(). The server's own callback reports a cancelled handler as an error.
            return
        finally:
            self._open.discard(task)
            near_out.close()

    async def _joined(self, near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        try:
            far, far_out = await asyncio.open_unix_connection(self._socket)
        except OSError:
            return
        outward = asyncio.create_task(_pump(near, far_out))
        try:
            await _pump(far, near_out)
            await outward
        finally:
            await end(outward)
            far_out.close()


async def _pump(source: asyncio.StreamReader, drain: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(_PIECE):
            drain.write(data)
            await drain.drain()
        drain.write_eof()
    except OSError:
        drain.close()


def proxy_environment(port: int) -> dict[str, str]:
    """What tells HTTP clients inside to use the egress proxy.

    Never for what is inside, even if the same address outside is allowed: the model forwarder
    listens there.
    """
    proxy = f"http://{_LOOPBACK}:{port}"
    lower = {
        "http_proxy": proxy,
        "https_proxy": proxy,
        "no_proxy": "localhost,127.0.0.1,::1",
    }
    return lower | {name.upper(): value for name, value in lower.items()}
