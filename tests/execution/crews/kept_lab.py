"""A whole installation in this process, with teams of real agent CLIs in their sandboxes.

A module of tests opens one lab for all of its tests: agent CLIs take seconds to start.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import psutil
import pytest
from tests.conftest import SECRET_KEY, TEMPLATE, Engines
from tests.execution.crews.native_lab import sse
from tests.gateways import Gateway, Person, running_gateway
from tests.sidecar.agents import agents_directory, call

from agentos.execution.crews.keeping.engine import CrewEngine
from agentos.execution.crews.keeping.pace import Pace
from agentos.execution.crews.parts import CrewParts, Runtimes
from agentos.execution.pulse.engine import Engine
from agentos.execution.pulse.parts import PulseParts, pulse_parts
from agentos.execution.runs.engine import RunEngine
from agentos.integrations.models.demo_upstream import DemoUpstream
from agentos.integrations.models.upstream import UpstreamAnswer
from agentos.integrations.workspaces.places import Places, workspace_uid
from agentos.kernel.bus import Bus
from agentos.kernel.clock import SystemClock
from agentos.kernel.database import Database
from agentos.kernel.schema import PLATFORM_ROLE, RUNTIME_ROLE
from agentos.kernel.settings import Settings
from agentos.tenancy.tokens import Tokens
from agentos.tenancy.vault.service import Vault

# A CLI on a machine that has much else to do.
PATIENCE = 100.0
ENDED = ("answered", "failed", "cancelled", "uncertain")


@dataclass(frozen=True)
class Kit:
    """What a provider's CLI calls things."""

    provider: str
    shell_tool: str
    # What its permissions call the tool of the MCP server in the tests.
    note_tool: str
    # Lines of a script for the demo model.
    shell: Callable[[str], str]
    read: Callable[[str], str]
    worker: Callable[[str, str], str] | None = None
    skill: Callable[[str], str] | None = None
    mcp: Callable[[str], tuple[str, ...]] | None = None
    command: tuple[str, ...] | None = None


CLAUDE_CODE = Kit(
    "claude-code",
    "Bash",
    "mcp__notes__note",
    shell=lambda command: call("Bash", command=command, description="x"),
    read=lambda path: call("Read", file_path=f"/workspace/{path}"),
    worker=lambda name, text: call("Agent", subagent_type=name, description="Look", prompt=text),
    skill=lambda name: call("Skill", skill=name),
    mcp=lambda text: (
        call("ToolSearch", query="select:mcp__notes__note"),
        "then",
        call("mcp__notes__note", text=text),
    ),
)
OPENCODE = Kit(
    "opencode",
    "bash",
    "notes_note",
    shell=lambda command: call("bash", command=command, description="x"),
    read=lambda path: call("read", filePath=f"/workspace/{path}"),
    worker=lambda name, text: call("task", subagent_type=name, description="Look", prompt=text),
    skill=lambda name: call("skill", name=name),
    mcp=lambda text: (call("notes_note", text=text),),
)
ACP = replace(OPENCODE, provider="acp", shell_tool="execute", command=("opencode", "acp"))
NATIVE = Kit(
    "native",
    "shell",
    "note",
    shell=lambda command: call("shell", command=command),
    read=lambda path: call("read_file", path=path),
)


@dataclass
class Crew:
    """One team, and what a test does to it."""

    lab: KeptLab
    kit: Kit
    person: Person
    id: UUID

    @property
    def client(self) -> httpx.AsyncClient:
        return self.person.client

    @property
    def workspace(self) -> Path:
        """The team's files, as this machine has them."""
        directory = self.lab.pulse.workspaces.directory
        return Places.of(directory, self.person.tenant_id, self.id).files

    async def call(self, method: str, path: str = "", expect: int = 200, **body: Any) -> Any:
        answer = await self.client.request(method, f"/api/teams/{self.id}{path}", json=body or None)
        assert answer.status_code == expect, answer.text
        return answer.json() if answer.content else None

    async def read(self) -> dict[str, Any]:
        read: dict[str, Any] = await self.call("GET")
        return read

    async def until(self, *statuses: str) -> dict[str, Any]:
        """The team once it has one of these statuses."""
        read: dict[str, Any] = {}
        try:
            async with asyncio.timeout(self.lab.patience):
                while (read := await self.read())["status"] not in statuses:  # noqa: ASYNC110 - the API is asked
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{read['status']}: {read['reason']}") from None
        return read

    async def send(self, *lines: str, **more: Any) -> str:
        """The id of a new message, with a script for the demo model."""
        text = "\n".join(["```demo", *lines, "```"])
        return str((await self.call("POST", "/messages", 201, text=text, **more))["id"])

    async def message(self, message_id: str) -> dict[str, Any]:
        read: dict[str, Any] = await self.call("GET", f"/messages/{message_id}")
        return read

    async def ended(self, message_id: str) -> dict[str, Any]:
        """The message once it has ended."""
        read: dict[str, Any] = {}
        try:
            async with asyncio.timeout(self.lab.patience):
                while (read := await self.message(message_id))["state"] not in ENDED:  # noqa: ASYNC110 - the API is asked
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{read}; {await self.read()}") from None
        return read

    async def ask(self, *lines: str, **more: Any) -> dict[str, Any]:
        return await self.ended(await self.send(*lines, **more))

    async def answer(self, *lines: str, **more: Any) -> str:
        """What is answered, which it has to be."""
        read = await self.ask(*lines, **more)
        assert read["state"] == "answered", read
        return str(read["answer"])

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[AsyncIterator[tuple[str, dict[str, Any]]]]:
        """What is heard in the chat, by somebody who has joined it."""
        path = f"/api/teams/{self.id}/chat"
        async with self.client.stream("GET", path, timeout=self.lab.patience) as response:
            heard = sse(response)
            assert (await anext(heard))[0] == "snapshot"
            yield heard

    async def begun(self, *after: str, before: str = "") -> tuple[str, Path]:
        """A message whose tool has begun and waits for the file `go`; with that file's path.

        The tool notes each time that it is begun in `<name>.begun`.
        """
        name = f"hold-{uuid4().hex[:8]}"
        command = f"echo x >> {name}.begun; while [ ! -e {name}.go ]; do sleep 0.05; done"
        lines = [before, self.kit.shell(command), *(after or (f"say {name} done.",))]
        message_id = await self.send(*filter(None, lines))
        await eventually((self.workspace / f"{name}.begun").exists)
        return message_id, self.workspace / f"{name}.go"

    async def approval(self) -> dict[str, Any]:
        """What waits for a person, once something does."""
        async with asyncio.timeout(self.lab.patience):
            while True:
                page = (await self.client.get("/api/approvals?state=waiting")).json()
                if page["items"]:
                    found: dict[str, Any] = page["items"][0]
                    return found
                await asyncio.sleep(0.05)

    async def decide(self, approval: dict[str, Any], verb: str, **body: Any) -> None:
        answer = await self.client.post(f"/api/approvals/{approval['id']}/{verb}", json=body)
        assert answer.status_code == 200, answer.text

    async def events(self, kind: str) -> list[dict[str, Any]]:
        """What was announced of this team, in order."""
        rows = await self.lab.rows(
            """select id, data from outbox where type = $1 and tenant_id = $2
               union all select id, data from events where type = $1 and tenant_id = $2
               order by id""",
            kind,
            self.person.tenant_id,
        )
        found = [row["data"] for row in rows]
        return [each for each in found if each["team_id"] == str(self.id)]

    def processes(self, program: str) -> list[psutil.Process]:
        """The processes of this team's sandbox whose command line names this."""
        uid = workspace_uid(self.person.tenant_id)
        found = []
        for process in psutil.Process().children(recursive=True):
            try:
                ours = uid is None or process.uids().real == uid
                if ours and any(program in word for word in process.cmdline()):
                    found.append(process)
            except psutil.NoSuchProcess:
                continue
        return found

    def kill(self, program: str) -> None:
        """Kills them, without a word before."""
        found = self.processes(program)
        assert found, f"there is no {program}"
        for process in found:
            # With the first of a sandbox, all of them end.
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

    def kill_agent(self) -> None:
        self.kill("/opt/agents/")

    def kill_sidecar(self) -> None:
        self.kill("/opt/sidecar")


@dataclass
class KeptLab:
    gateway: Gateway
    pulse: PulseParts
    settings: Settings
    engines: Engines
    database: str
    pace: Pace
    # Seconds that anything may take.
    patience: float = PATIENCE
    # What the demo model was asked, as it came over the wire.
    asked: list[bytes] = field(default_factory=list)

    async def rows(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        """What the database has, whoever it belongs to. On a connection of its own, so that it
        does not matter whether the database was restarted."""
        connection = await asyncpg.connect(self.engines.dsn("postgres", self.database))
        try:
            await connection.set_type_codec(
                "jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
            )
            return await connection.fetch(query, *arguments)
        finally:
            await connection.close()

    async def value(self, query: str, *arguments: Any) -> Any:
        rows = await self.rows(query, *arguments)
        return rows[0][0] if rows else None

    def crew_parts(self, **other: Any) -> CrewParts:
        parts = self.gateway.parts
        clock = parts.clock
        given: dict[str, Any] = {
            "settings": self.settings,
            "db": parts.db,
            "platform_db": parts.platform_db,
            "bus": parts.bus,
            "bus_url": self.engines.nats.url,
            "gateway_url": self.gateway.url,
            "authority": self.engines.authority,
            "tokens": Tokens(SECRET_KEY, clock, timedelta(hours=1)),
            "outbox": self.pulse.outbox,
            "clock": clock,
            "objects": parts.objects,
            "vault": self.pulse.vault,
            "workspaces": self.pulse.workspaces,
            "runtimes": Runtimes(self.settings, self.pulse.sandbox, "test"),
        }
        return CrewParts(**(given | other))

    @asynccontextmanager
    async def worker(self, pace: Pace | None = None, **other: Any) -> AsyncIterator[Worker]:
        """A worker's engines, at work while the block lasts."""
        engine = Engine(self.pulse, capacity=8, drain_seconds=10)
        crew = CrewEngine(self.crew_parts(**other), lambda: engine.worker_id, pace or self.pace)
        pulse = asyncio.create_task(engine.run())
        async with asyncio.timeout(PATIENCE):
            while not await self.value(  # noqa: ASYNC110 - the database is asked
                "select exists (select from workers where id = $1)", engine.worker_id
            ):
                await asyncio.sleep(0.02)
        worker = Worker(engine, asyncio.create_task(crew.run()))
        try:
            yield worker
        finally:
            # Teams first: the worker's row says that they are kept.
            await cancelled(worker.keeping)
            await cancelled(pulse)

    @asynccontextmanager
    async def running_runs(self) -> AsyncIterator[None]:
        """With schedules that fire."""
        task = asyncio.create_task(RunEngine(self.pulse).run())
        try:
            yield
        finally:
            await cancelled(task)

    async def tenant(self) -> Person:
        """A new tenant whose person comes with a key, which outlives access tokens."""
        person = await self.gateway.tenant(plan="pro")
        person.client = await self.gateway.client(await self.gateway.api_key(person.tenant_id))
        return person

    async def crew(self, kit: Kit, person: Person | None = None, **given: Any) -> Crew:
        """A new team, deployed unless told otherwise."""
        person = person or await self.tenant()
        body = {
            "name": "Crew",
            "provider": kit.provider,
            "model": "demo",
            "leader": {"name": "lead", "role": "Leads", "instructions": "Be brief."},
            "deploy": True,
            **({"command": list(kit.command)} if kit.command else {}),
            **given,
        }
        answer = await person.client.post("/api/teams", json=body)
        assert answer.status_code == 201, answer.text
        return Crew(self, kit, person, UUID(answer.json()["id"]))


@dataclass
class Worker:
    engine: Engine
    keeping: asyncio.Task[None]


async def cancelled(task: asyncio.Task[None]) -> None:
    while not task.done():
        # More than once: clients may swallow a cancellation while they flush.
        task.cancel()
        await asyncio.wait({task}, timeout=30)
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error


async def eventually(true: Callable[[], object]) -> None:
    """Waits for something outside of this process, which nothing here can be told of."""
    async with asyncio.timeout(PATIENCE):
        while not true():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.05)


@asynccontextmanager
async def open_lab(
    engines: Engines, *, agents: Path | None = None, pace: Pace | None = None
) -> AsyncIterator[KeptLab]:
    """A gateway on a port of its own, with a database of its own, and no worker yet."""
    place = Path(tempfile.mkdtemp(prefix="aos-k-", dir="/tmp"))
    # The accounts of sandboxes have to get into it.
    place.chmod(0o711)  # noqa: ASYNC240 - at once
    settings = Settings(
        data_dir=place,
        signup="open",
        anonymous_requests_per_minute=100_000,
        secret_key=None,
        agents_dir=agents or agents_directory(),
        drain_seconds=20,
    )
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, place)
        name = f"kept_{os.getpid()}_{uuid4().hex[:8]}"
        admin = await asyncpg.connect(engines.postgres.superuser_dsn())
        await admin.execute(f"create database {name} template {TEMPLATE} owner agentos_owner")
        await admin.close()
        db = await Database.connect(engines.dsn(RUNTIME_ROLE, name), size=8, name="test")
        stack.push_async_callback(db.close)
        platform_db = await Database.connect(engines.dsn(PLATFORM_ROLE, name), size=4, name="test")
        stack.push_async_callback(platform_db.close)
        bus = await Bus.connect(
            engines.nats.url, engines.authority.platform_credentials(), name="test"
        )
        stack.push_async_callback(bus.close)
        clock = SystemClock()
        gateway = await stack.enter_async_context(
            running_gateway(
                settings, SECRET_KEY, clock=clock, db=db, platform_db=platform_db, bus=bus
            )
        )
        pulse = await pulse_parts(
            settings,
            clock,
            db=db,
            platform_db=platform_db,
            bus=bus,
            objects=gateway.parts.objects,
            vault=Vault(gateway.parts.keyring),
            outbox=gateway.outbox,
            router=gateway.models.router,
        )
        lab = KeptLab(gateway, pulse, settings, engines, name, pace or Pace())
        stack.enter_context(_noting(lab.asked))
        yield lab


@contextmanager
def _noting(asked: list[bytes]) -> Iterator[None]:
    """Notes what the demo model is asked."""
    send = DemoUpstream.send

    def noted(
        self: DemoUpstream, method: str, url: str, **given: Any
    ) -> AbstractAsyncContextManager[UpstreamAnswer]:
        asked.append(given["body"])
        return send(self, method, url, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DemoUpstream, "send", noted)
        yield
