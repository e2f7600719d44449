"""A gateway with native teams, engines and a relay beside it. Import its fixtures into a test module."""

from __future__ import annotations

import asyncio
import json
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
from fastapi import FastAPI
from tests.conftest import SECRET_KEY
from tests.execution.pulse.conftest import Lab
from tests.gateways import running_gateway

from agentos.execution.crews.endpoints import router as teams
from agentos.execution.crews.front import CrewFront, CrewHints
from agentos.execution.crews.messages.endpoints import router as messages
from agentos.execution.crews.native_crew import NativeCrew
from agentos.execution.pulse.parts import pulse_parts
from agentos.execution.relay import Relay
from agentos.gateway import app as gateway_app
from agentos.gateway.chat import router as chat
from agentos.kernel.bus import Bus
from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database
from agentos.kernel.settings import Settings
from agentos.tenancy.vault.service import Vault

_PATIENCE = 60


@dataclass
class TeamLab(Lab):
    """What a test does to teams and their messages."""

    async def team(self, *, deploy: bool = True, **given: Any) -> UUID:
        body = {
            "name": "Crew",
            "model": "demo",
            "leader": {"name": "lead", "role": "Leads"},
            "deploy": deploy,
            **given,
        }
        return UUID((await self.post("/api/teams", 201, **body))["id"])

    async def send(self, team_id: UUID, text: str, expect: int = 201, **more: Any) -> Any:
        return await self.post(f"/api/teams/{team_id}/messages", expect, text=text, **more)

    async def message(self, team_id: UUID, message_id: str) -> dict[str, Any]:
        answer = await self.client.get(f"/api/teams/{team_id}/messages/{message_id}")
        assert answer.status_code == 200, answer.text
        read: dict[str, Any] = answer.json()
        return read

    async def message_in(self, team_id: UUID, message_id: str, *states: str) -> dict[str, Any]:
        """The message once it is in one of these states."""
        async with asyncio.timeout(_PATIENCE):
            while (read := await self.message(team_id, message_id))["state"] not in states:  # noqa: ASYNC110 - the API is asked
                await asyncio.sleep(0.02)
        return read

    async def answered(self, team_id: UUID, message_id: str) -> dict[str, Any]:
        """The message once it has ended."""
        return await self.message_in(
            team_id, message_id, "answered", "failed", "cancelled", "uncertain"
        )

    async def ask(self, team_id: UUID, text: str, **more: Any) -> dict[str, Any]:
        """Sends a message and waits for its end."""
        return await self.answered(team_id, (await self.send(team_id, text, **more))["id"])

    async def events(self, kind: str) -> list[dict[str, Any]]:
        """What was announced, relayed or not."""
        rows = await self.superuser.fetch(
            """select data::text from outbox where type = $1 and tenant_id = $2
               union all select data::text from events where type = $1 and tenant_id = $2""",
            kind,
            self.person.tenant_id,
        )
        return [json.loads(row["data"]) for row in rows]

    @asynccontextmanager
    async def relaying(self) -> AsyncIterator[None]:
        """With a relay at work, so that events reach those who listen."""
        task = asyncio.create_task(Relay(self.parts.platform_db, self.parts.bus).run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def store(self, key: str, data: bytes) -> str:
        """The id of a new object."""
        answer = await self.client.put(f"/api/objects/{key}", content=data)
        assert answer.status_code in (200, 201), answer.text
        return str(answer.json()["id"])


@pytest.fixture
def settings() -> Iterator[Settings]:
    """With a data directory that the accounts of sandboxes can get into, unlike pytest's own."""
    place = Path(tempfile.mkdtemp(prefix="aos-crews-", dir="/tmp"))
    place.chmod(0o711)
    yield Settings(
        data_dir=place, signup="open", anonymous_requests_per_minute=100_000, secret_key=None
    )
    shutil.rmtree(place)


@pytest.fixture
async def lab(
    settings: Settings,
    clock: MovableClock,
    db: Database,
    platform_db: Database,
    bus: Bus,
    superuser: asyncpg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[TeamLab]:
    apps: list[FastAPI] = []
    create_api = gateway_app.create_api

    def with_teams() -> FastAPI:
        app = create_api()
        known = {getattr(route, "path", None) for route in app.routes}
        for router in (messages, chat, teams):
            app.router.routes.extend(
                route for route in router.routes if getattr(route, "path", None) not in known
            )
        apps.append(app)
        return app

    monkeypatch.setattr(gateway_app, "create_api", with_teams)
    async with running_gateway(
        settings, SECRET_KEY, clock=clock, db=db, platform_db=platform_db, bus=bus
    ) as gateway:
        router = gateway.models.router
        native = NativeCrew(apps[0].state.pulse)
        apps[0].state.crew = CrewFront(CrewHints(bus), native, router.directory, "public")
        pulse = await pulse_parts(
            settings,
            clock,
            db=db,
            platform_db=platform_db,
            bus=bus,
            objects=gateway.parts.objects,
            vault=Vault(gateway.parts.keyring),
            outbox=gateway.outbox,
            router=router,
        )
        yield TeamLab(gateway, pulse, await gateway.tenant(), clock, superuser)


def texts(answers: list[dict[str, Any]]) -> list[str]:
    return [answer["answer"] for answer in answers]


async def sse(response: httpx.Response) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """The events of a stream, each as its kind and its data."""
    kind = ""
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            kind = line[7:]
        elif line.startswith("data: "):
            yield kind, json.loads(line[6:])
