"""A lab, with an engine for runs, and a server that post-actions are sent to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from tests.execution.pulse.conftest import Lab, lab, settings

from agentos.execution.post_actions.delivering import Deliverer
from agentos.execution.runs.engine import RunEngine

__all__ = ["lab", "settings"]

_PATIENCE = 60


@dataclass
class Runs:
    """The API of schedules and webhooks, and the engine that brings runs to their end."""

    lab: Lab
    engine: RunEngine
    deliverer: Deliverer

    async def call(
        self, method: str, path: str, expect: int = 200, **options: Any
    ) -> dict[str, Any]:
        answer = await self.lab.client.request(method, path, **options)
        assert answer.status_code == expect, answer.text
        read: dict[str, Any] = answer.json() if answer.content else {}
        return read

    async def team(self, name: str = "Crew", *, deploy: bool = True) -> UUID:
        body = {
            "name": name,
            "model": "demo",
            "leader": {"name": "leader", "instructions": "Help."},
            "deploy": deploy,
        }
        return UUID((await self.call("POST", "/api/teams", 201, json=body))["id"])

    async def schedule(self, expect: int = 201, **body: Any) -> dict[str, Any]:
        return await self.call("POST", "/api/schedules", expect, json={"name": "s", **body})

    async def webhook(self, expect: int = 201, **body: Any) -> dict[str, Any]:
        return await self.call("POST", "/api/webhooks", expect, json={"name": "w", **body})

    async def runs_of(self, source: dict[str, Any]) -> list[dict[str, Any]]:
        kind = "webhooks" if "token_hint" in source else "schedules"
        page = await self.call("GET", f"/api/{kind}/{source['id']}/runs")
        items: list[dict[str, Any]] = page["items"]
        return items

    async def rounds(self) -> None:
        """Lets the engine do all that is to be done now."""
        while await self.engine.round(self.deliverer):
            pass

    async def ended(self, run_id: str) -> dict[str, Any]:
        """The run once it has ended."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                await self.rounds()
                run = await self.call("GET", f"/api/runs/{run_id}")
                if run["state"] not in ("queued", "running"):
                    return run
                await asyncio.sleep(0.02)


@pytest.fixture
async def runs(lab: Lab) -> Runs:
    # An access token would not outlive the clocks of these tests.
    key = await lab.gateway.api_key(lab.person.tenant_id)
    lab.person.client = await lab.gateway.client(key)
    return Runs(lab, RunEngine(lab.parts), Deliverer(lab.parts))


@dataclass
class Receiver:
    """A server that takes calls, and answers as it was told to, then with 200."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    calls: list[tuple[str, str, dict[str, str], str]] = field(default_factory=list)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    told = Receiver()

    async def take(request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        told.calls.append((request.method, request.path_qs, headers, await request.text()))
        return web.Response(status=told.answers.pop(0) if told.answers else 200)

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    told.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield told
    await runner.cleanup()
