"""The HTTP server: uvicorn with our own start, signals and shutdown."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress

import uvicorn

from agentos.gateway.app import Gateway
from agentos.gateway.events.protocol import PreframedProtocol
from agentos.kernel.errors import SetupError
from agentos.kernel.settings import Settings

# How long open requests may take to finish when the server stops.
_GRACE_SECONDS = 5
_IDLE_SECONDS = 75
_DATE_SECONDS = 1.0
_MOMENT_SECONDS = 0.002
_BACKLOG = 2048


class _QuietServer(uvicorn.Server):
    """uvicorn that leaves signals to whoever runs it, and is told when to stop."""

    def __init__(self, config: uvicorn.Config):
        super().__init__(config)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def main_loop(self) -> None:
        """Keeps the Date header right; uvicorn's own looks ten times a second whether to stop."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(_DATE_SECONDS):
                    await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Until those are noticed who have gone by now.
        await asyncio.sleep(_MOMENT_SECONDS)
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
            return
        # uvicorn would wait for a tenth of a second for nobody.
        for server in self.servers:
            server.close()
            await server.wait_closed()
        for each in sockets or []:
            each.close()


class Server:
    """Holds the listening socket from the moment it is made."""

    def __init__(self, host: str, port: int):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # By name: asyncio sends small answers at once (TCP_NODELAY) only if it sees that it is TCP.
        self._socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
            # Not left to uvicorn: a port that is only bound can be bound by others as well.
            self._socket.listen(_BACKLOG)
        except OSError as error:
            self._socket.close()
            raise SetupError(
                f"Cannot listen on {host}:{port}: {error.strerror}.",
                hint="Stop what is using the port, or choose another with --port or AGENTOS_PORT.",
            ) from None
        self.port: int = self._socket.getsockname()[1]

    @property
    def address(self) -> str:
        """The address at which processes of this machine reach it."""
        host = self._socket.getsockname()[0]
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def url(self, settings: Settings) -> str:
        """The address to show people."""
        # The setting may say 0, which takes any free port.
        return settings.model_copy(update={"port": self.port}).url

    def close(self) -> None:
        """Gives the port back; for a start that comes to nothing."""
        self._socket.close()

    @asynccontextmanager
    async def running(self, gateway: Gateway) -> AsyncIterator[None]:
        """Serves while the block lasts, then lets open requests finish."""
        async with gateway.background(), self._serving(gateway):
            yield

    @asynccontextmanager
    async def _serving(self, gateway: Gateway) -> AsyncIterator[None]:
        config = uvicorn.Config(
            gateway,
            http="httptools",
            ws=PreframedProtocol,
            loop="none",
            lifespan="off",
            # Our sockets send many small texts and receive a ping now and then.
            ws_per_message_deflate=False,
            ws_max_size=65_536,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            # Ours are few and short-lived; the edge reads X-Forwarded-For itself.
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            # Longer than clients keep an idle connection, so that they close it, not we: a request
            # sent into a connection just being closed is lost.
            timeout_keep_alive=_IDLE_SECONDS,
        )
        server = _QuietServer(config)
        task = asyncio.create_task(server.serve([self._socket]))
        try:
            while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn tells no other way
                await asyncio.sleep(0.005)
            if task.done():
                await task  # raises why it did not start
            yield
        finally:
            await gateway.close()
            server.stop()
            await task
            self.close()
