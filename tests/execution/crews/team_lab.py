"""A gateway whose native teams are fakes, and a tenant to make teams in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest
from fastapi import FastAPI
from tests.conftest import SECRET_KEY
from tests.gateways import Gateway, Person, running_gateway

from agentos.execution.crews.front import CrewFront, CrewHints
from agentos.gateway import app as gateway_app
from agentos.kernel.bus import Bus
from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database
from agentos.kernel.settings import Settings
from agentos.tenancy.work import Work


@dataclass
class Conversations:
    """Native teams that only note what they are told."""

    told: list[tuple[str, UUID]] = field(default_factory=list)

    async def deployed(self, work: Work, team_id: UUID) -> None:
        self.told.append(("deployed", team_id))

    async def stopped(self, work: Work, team_id: UUID) -> None:
        self.told.append(("stopped", team_id))


@dataclass
class Teams:
    gateway: Gateway
    person: Person
    native: Conversations
    front: CrewFront
    superuser: asyncpg.Connection[Any]

    @property
    def client(self) -> httpx.AsyncClient:
        return self.person.client

    async def create(self, name: str = "Crew", **given: Any) -> dict[str, Any]:
        given.setdefault("leader", {"name": "lead", "role": "Leads"})
        answer = await self.client.post("/api/teams", json={"name": name, **given})
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    async def cli(self, name: str = "Machine crew", **given: Any) -> dict[str, Any]:
        return await self.create(name, provider="claude-code", **given)

    async def post(self, team: dict[str, Any], action: str) -> dict[str, Any]:
        answer = await self.client.post(f"/api/teams/{team['id']}/{action}")
        assert answer.status_code == 200, answer.text
        read: dict[str, Any] = answer.json()
        return read

    async def patch(self, team: dict[str, Any], **change: Any) -> httpx.Response:
        return await self.client.patch(f"/api/teams/{team['id']}", json=change)

    async def events(self, kind: str) -> list[dict[str, Any]]:
        """What was announced, relayed or not."""
        rows = await self.superuser.fetch(
            """select data::text from outbox where type = $1 and tenant_id = $2
               union all select data::text from events where type = $1 and tenant_id = $2""",
            kind,
            self.person.tenant_id,
        )
        return [json.loads(row["data"]) for row in rows]

    async def actions(self) -> list[str]:
        rows = await self.superuser.fetch(
            "select action from audit_log where tenant_id = $1 order by at, id",
            self.person.tenant_id,
        )
        return [row["action"] for row in rows]


@pytest.fixture
async def teams(
    settings: Settings,
    clock: MovableClock,
    db: Database,
    platform_db: Database,
    bus: Bus,
    superuser: asyncpg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Teams]:
    """A gateway whose native teams are fakes."""
    apps: list[FastAPI] = []
    create_api = gateway_app.create_api

    def noted() -> FastAPI:
        apps.append(create_api())
        return apps[0]

    monkeypatch.setattr(gateway_app, "create_api", noted)
    async with running_gateway(
        settings, SECRET_KEY, clock=clock, db=db, platform_db=platform_db, bus=bus
    ) as gateway:
        native = Conversations()
        front = CrewFront(CrewHints(bus), native, gateway.models.router.directory, "public")
        apps[0].state.crew = front
        yield Teams(gateway, await gateway.tenant(), native, front, superuser)
