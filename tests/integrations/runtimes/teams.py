"""Teams to run in a runtime under test, and a way to do things inside of them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID, uuid4

from agentos.integrations.runtimes.base import Place, Resources, Running, Runtime

ROOT = os.geteuid() == 0
MIB = 1024 * 1024
PYTHON = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
RESOURCES = Resources(memory_bytes=256 * MIB, cpu_percent=100, processes=64)
# What a stand-in takes to start, on a machine where everything runs at once.
PATIENCE = 60


class Link:
    """The other end of a stand-in's socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def __call__(self, program: str) -> Any:
        """What the program has in `result` after it was run inside."""
        self.send(program)
        async with asyncio.timeout(PATIENCE):
            line = await self._reader.readline()
        assert line, "the stand-in is gone"
        return json.loads(line)

    def send(self, program: str) -> None:
        self._writer.write(json.dumps(program).encode() + b"\n")

    def close(self) -> None:
        self._writer.close()


@dataclass
class Team:
    """A team's files on this machine."""

    home: Path
    tenant_id: UUID
    uid: int | None
    team_id: UUID = field(default_factory=uuid4)

    def __post_init__(self) -> None:
        for made in (self.workspace, self.run_directory, self.agents, self.sidecar):
            made.mkdir(parents=True)
        (self.agents / "an-agent").write_text("#!/bin/sh\necho an agent\n")
        (self.agents / "an-agent").chmod(0o755)
        source = Path(__file__).with_name("stand_in.py")
        shutil.copyfile(source, self.sidecar / "__main__.py")
        if self.uid is not None:
            for given in (self.workspace, self.run_directory):
                os.chown(given, self.uid, self.uid)
                given.chmod(0o700)

    @property
    def workspace(self) -> Path:
        return self.home / "workspace"

    @property
    def run_directory(self) -> Path:
        return self.home / "run"

    @property
    def agents(self) -> Path:
        return self.home / "agents"

    @property
    def sidecar(self) -> Path:
        return self.home / "sidecar"

    def place(self, **changed: Any) -> Place:
        given: dict[str, Any] = {
            "tenant_id": self.tenant_id,
            "team_id": self.team_id,
            "workspace": self.workspace,
            "uid": self.uid,
            "run_directory": self.run_directory,
            "agents": self.agents,
            "sidecar": self.sidecar,
            "argv": (PYTHON, "-I", "-S", "/opt/sidecar"),
            "resources": RESOURCES,
            "env": {"FLAVOUR": "vanilla"},
        }
        return Place(**given | changed)

    @asynccontextmanager
    async def running(
        self, runtime: Runtime, **changed: Any
    ) -> AsyncIterator[tuple[Running, Link]]:
        """The team, started and linked; ended afterwards."""
        async with self._listening() as links:
            running = await runtime.start(self.place(**changed))
            try:
                async with asyncio.timeout(PATIENCE):
                    link = await _first(links, running)
                yield running, link
                link.close()
            finally:
                await running.stop(0)

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[asyncio.Queue[Link]]:
        links: asyncio.Queue[Link] = asyncio.Queue()
        address = self.run_directory / "test.sock"
        address.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(
            lambda reader, writer: links.put_nowait(Link(reader, writer)), address
        )
        if self.uid is not None:
            os.chown(address, self.uid, self.uid)
        async with server:
            yield links


async def _first(links: asyncio.Queue[Link], running: Running) -> Link:
    """The link, or a failure with what the place had to say."""
    linked, ended = asyncio.create_task(links.get()), asyncio.create_task(running.ended())
    await asyncio.wait({linked, ended}, return_when=asyncio.FIRST_COMPLETED)
    assert linked.done(), f"it ended before it was linked: {ended.result()}"
    ended.cancel()
    return linked.result()


class Teams(Protocol):
    """Makes teams that are removed with the test."""

    def __call__(self, tenant_id: UUID | None = None) -> Team: ...
