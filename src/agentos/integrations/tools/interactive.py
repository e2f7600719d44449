"""A command in a sandbox that one can talk to while it runs.

A sandbox runs a command from its beginning to its end and hands its output back then. What it
does have is a unix socket to the outside, that of the egress proxy: a command that is talked to
has that as its standard streams. So every kind of sandbox can do it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from agentos.integrations.sandboxes.base import Command, Outcome, Sandbox
from agentos.integrations.tools.egress import STREAMS_GREETING, Streams, egress_proxy
from agentos.integrations.tools.forwarder import (
    SOCKET,
    SOCKET_VARIABLE,
    forwarded,
    proxy_environment,
)
from agentos.integrations.tools.routes import Routes

_SCRIPT = f"""
import os, socket, sys
try:
    link = socket.socket(socket.AF_UNIX)
    link.connect(os.environ.get("{SOCKET_VARIABLE}", "{SOCKET}"))
except OSError as error:
    sys.exit(f"This kind of sandbox cannot be talked to: {{error.strerror}}")
link.sendall({STREAMS_GREETING!r})
os.dup2(link.fileno(), 0)
os.dup2(link.fileno(), 1)
try:
    os.execvp(sys.argv[1], sys.argv[1:])
except OSError as error:
    sys.exit(f"{{sys.argv[1]}}: {{error.strerror}}")
"""


class EndedEarly(Exception):
    """The command ended before anything could be said to it."""

    def __init__(self, outcome: Outcome):
        super().__init__("the command ended at once")
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Interactive:
    """A command that is running."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    # Done when the command has ended; its output is what it printed on its error stream.
    ended: asyncio.Task[Outcome]


@asynccontextmanager
async def interactive(
    sandbox: Sandbox, command: Command, routes: Routes, allowed_hosts: Sequence[str]
) -> AsyncIterator[Interactive]:
    """Runs a command for as long as the block lasts. Raises EndedEarly, SandboxMissing."""
    async with egress_proxy(routes, command.uid) as egress:
        waiting: asyncio.Future[Streams] = asyncio.get_running_loop().create_future()
        egress.streams = waiting
        argv = ("python3", "-I", "-c", _SCRIPT, *command.argv)
        env = dict(command.env)
        if allowed_hosts:
            argv, env = forwarded(argv), {**env, **proxy_environment(allowed_hosts)}
        running = asyncio.create_task(
            sandbox.run(replace(command, argv=argv, env=env, egress=egress.socket))
        )
        try:
            either: set[asyncio.Future[Any]] = {running, waiting}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise EndedEarly(await running)
            reader, writer = waiting.result()
            yield Interactive(reader, writer, running)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
