"""A gateway with engines beside it, in this process, and a tenant to run sessions in."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest
from tests.gateways import Gateway, Person

from agentos.execution.pulse.engine import Engine
from agentos.execution.pulse.parts import PulseParts, pulse_parts
from agentos.kernel.clock import MovableClock
from agentos.kernel.settings import Settings
from agentos.tenancy.vault.service import Vault

_PATIENCE = 60

# A line of a script: the shell is at work until the file it has made is taken away (`Lab.held`).
HELD_COMMAND = "touch held; while [ -e held ]; do sleep 0.02; done"
HOLD = f'call shell {{"command": "{HELD_COMMAND}"}}'


@dataclass
class Lab:
    gateway: Gateway
    parts: PulseParts
    person: Person
    clock: MovableClock
    superuser: asyncpg.Connection[Any]

    @property
    def client(self) -> httpx.AsyncClient:
        return self.person.client

    @asynccontextmanager
    async def engine(
        self, *, capacity: int = 16, drain_seconds: float = 10
    ) -> AsyncIterator[Engine]:
        """A worker's engine, at work while the block lasts."""
        engine = Engine(self.parts, capacity=capacity, drain_seconds=drain_seconds)
        task = asyncio.create_task(engine.run())
        try:
            yield engine
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def create(self, prompt: str = "What is 2 + 2?", **config: Any) -> UUID:
        """A new session of the tenant."""
        body = {"prompt": prompt, "model": "demo", **config}
        answer = await self.client.post("/api/sessions", json=body)
        assert answer.status_code == 201, answer.text
        return UUID(answer.json()["id"])

    async def read(self, session_id: UUID) -> dict[str, Any]:
        answer = await self.client.get(f"/api/sessions/{session_id}")
        assert answer.status_code == 200, answer.text
        read: dict[str, Any] = answer.json()
        return read

    async def until(self, session_id: UUID, *states: str) -> dict[str, Any]:
        """The session once it is in one of these states."""
        async with asyncio.timeout(_PATIENCE):
            while (read := await self.read(session_id))["state"] not in states:  # noqa: ASYNC110 - the API is asked
                await asyncio.sleep(0.02)
        return read

    async def held(self, session_id: UUID) -> Path:
        """The file that holds the session, once its shell is at work; to let it go, unlink it."""
        tenant, session = str(self.person.tenant_id), str(session_id)
        file = self.parts.settings.workspaces_dir / tenant / session / "files" / "held"
        async with asyncio.timeout(_PATIENCE):
            while not file.exists():  # noqa: ASYNC110 - one look at a file
                await asyncio.sleep(0.02)
        return file

    async def ended(self, session_id: UUID) -> dict[str, Any]:
        return await self.until(session_id, "COMPLETE", "FAILED", "ROLLED_BACK")

    async def post(self, path: str, expect: int = 200, **body: Any) -> dict[str, Any]:
        answer = await self.client.post(path, json=body or None)
        assert answer.status_code == expect, answer.text
        read: dict[str, Any] = answer.json()
        return read

    async def journal(self, session_id: UUID) -> list[asyncpg.Record]:
        """The rows of the journal, as the database has them."""
        return await self.superuser.fetch(
            "select * from steps where session_id = $1 order by seq", session_id
        )

    async def kinds(self, session_id: UUID) -> list[str]:
        """The journal in short: kinds, and the names of states."""
        return [
            row["name"] if row["kind"] == "state" else row["kind"]
            for row in await self.journal(session_id)
        ]


@pytest.fixture
def settings() -> Iterator[Settings]:
    """With a data directory that the accounts of sandboxes can get into, unlike pytest's own."""
    place = Path(tempfile.mkdtemp(prefix="aos-pulse-", dir="/tmp"))
    place.chmod(0o711)
    yield Settings(
        data_dir=place, signup="open", anonymous_requests_per_minute=100_000, secret_key=None
    )
    shutil.rmtree(place)


@pytest.fixture
async def lab(gateway: Gateway, clock: MovableClock, superuser: asyncpg.Connection[Any]) -> Lab:
    parts = gateway.parts
    pulse = await pulse_parts(
        parts.settings,
        clock,
        db=parts.db,
        platform_db=parts.platform_db,
        bus=parts.bus,
        objects=parts.objects,
        vault=Vault(parts.keyring),
        outbox=gateway.outbox,
        router=gateway.models.router,
    )
    return Lab(gateway, pulse, await gateway.tenant(), clock, superuser)


def script(*lines: str) -> str:
    """A prompt that tells the demo model what to do."""
    return "\n".join(["```demo", *lines, "```"])
