"""MCP servers: remote ones over HTTP, and commands that run in the sandbox, never on the host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from agentos.integrations.sandboxes.base import Command, Outcome
from agentos.integrations.tools.building import MENDABLE
from agentos.integrations.tools.errors import (
    HostRefused,
    HostUnreachable,
    McpServerFailed,
    McpServerUnreachable,
)
from agentos.integrations.tools.http_client import http_client
from agentos.integrations.tools.interactive import EndedEarly, interactive
from agentos.integrations.tools.mcp_links import (
    MOST_BYTES,
    McpCallFailed,
    McpLink,
    Way,
    line_transport,
)
from agentos.integrations.tools.routes import AnyHost, Routes, session_routes
from agentos.integrations.tools.schemas import McpServer, SecretValue
from agentos.integrations.tools.surroundings import Surroundings as Surroundings
from agentos.kernel.errors import AgentOSError

T = TypeVar("T")

# A server lives as long as its toolbox, and computes for as long as it is asked.
_LIFE_SECONDS = 24 * 3600.0
_CPU_SECONDS = 3600
_TOLD_CHARACTERS = 500
_END_SECONDS = 2.0
_GRACE_SECONDS = 30.0


class McpConnection:
    """A server as a session uses it: one that was lost is connected again by the next call."""

    def __init__(self, server: McpServer, around: Surroundings):
        self.server = server
        self._around = around
        self._link: McpLink | None = None
        # What a server that has ended printed last.
        self._words = ""
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        """Raises McpServerFailed."""
        async with self._turn:
            if self._link is not None and not self._link.lost:
                return
            await self._close()
            self._words = ""
            self._link = McpLink(self.server.name, self._transport)
            try:
                await self._link.opened()
            except McpServerFailed as error:
                await self._close()
                raise self._with_words(error) from None

    async def ask(self, question: Callable[[Client], Coroutine[Any, Any, T]], seconds: float) -> T:
        """What the server answers. Raises McpCallFailed."""
        try:
            await self.open()
        except McpServerFailed as error:
            raise McpCallFailed(error.message) from None
        assert self._link is not None
        return await self._link.ask(question, seconds)

    async def close(self) -> None:
        async with self._turn:
            await self._close()

    async def _close(self) -> None:
        if self._link is not None:
            await self._link.close()
            self._link = None

    def _with_words(self, error: McpServerFailed) -> McpServerFailed:
        if not self._words:
            return error
        return McpServerFailed(
            f"The MCP server {self.server.name} cannot be used. {self._words}", hint=error.advice
        )

    def _transport(self) -> AbstractAsyncContextManager[Way]:
        return self._remote() if self.server.url is not None else self._local()

    @asynccontextmanager
    async def _remote(self) -> AsyncIterator[Way]:
        url = self.server.url
        assert url is not None
        routes = Routes(AnyHost(self._around.hosts))
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            await routes.addresses(parts.hostname or "", port)
        except (HostRefused, HostUnreachable) as error:
            kind = McpServerFailed if isinstance(error, HostRefused) else McpServerUnreachable
            raise kind(
                f"The MCP server {self.server.name} cannot be reached: {error.message}"
            ) from None
        headers = await self._values(self.server.headers)
        async with http_client(
            routes,
            # A call is given up before its connection is: others go on over the same one.
            read_seconds=self.server.timeout_seconds + _GRACE_SECONDS,
            most_bytes=MOST_BYTES,
            headers=headers,
        ) as client:
            yield (
                streamable_http_client(url, http_client=client, max_sse_event_size=MOST_BYTES),
                None,
            )

    @asynccontextmanager
    async def _local(self) -> AsyncIterator[Way]:
        around = self._around
        assert self.server.command is not None
        env = await self._values(self.server.env)
        command = Command(
            argv=tuple(self.server.command),
            workspace=around.workspace.root,
            uid=around.workspace.uid,
            env=env,
            limits=replace(around.limits, seconds=_LIFE_SECONDS, cpu_seconds=_CPU_SECONDS),
        )
        hidden = [env[name] for name, value in self.server.env.items() if _is_secret(value)]
        routes = session_routes(around.allowed_hosts, around.hosts)
        try:
            async with interactive(
                around.sandbox, command, routes, around.allowed_hosts
            ) as running:
                try:
                    yield line_transport((running.reader, running.writer)), running.ended
                finally:
                    # Its streams are closed: it has a moment to end by itself, and to say how.
                    await asyncio.wait({running.ended}, timeout=_END_SECONDS)
                    if running.ended.done() and running.ended.exception() is None:
                        self._words = _last_words(running.ended.result(), hidden)
        except EndedEarly as ended:
            self._words = _last_words(ended.outcome, hidden)
            raise

    async def _values(self, given: Mapping[str, str | SecretValue]) -> dict[str, str]:
        return {
            name: await self._secret(value) if isinstance(value, SecretValue) else value
            for name, value in given.items()
        }

    async def _secret(self, value: SecretValue) -> str:
        if self._around.secrets is None:
            raise McpServerFailed(
                f"The MCP server {self.server.name} needs the secret {value.secret}, and there is "
                "no vault here."
            )
        try:
            return await self._around.secrets(value.secret)
        except AgentOSError as error:
            if error.kind not in MENDABLE:
                raise
            raise McpServerFailed(
                f"The MCP server {self.server.name} needs the secret {value.secret}: "
                f"{error.message}",
                hint=error.advice,
            ) from None


def _last_words(outcome: Outcome, hidden: list[str]) -> str:
    words = outcome.output.decode(errors="replace").strip()
    for secret in hidden:
        words = words.replace(secret, "***") if secret else words
    words = words[-_TOLD_CHARACTERS:]
    how = (
        "It ended" if outcome.exit_code is None else f"It ended with exit code {outcome.exit_code}"
    )
    return f"{how}: {words}" if words else f"{how}."


def _is_secret(value: object) -> bool:
    return isinstance(value, SecretValue)
