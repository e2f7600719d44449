"""A tenant with providers that are servers on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.gateways import Gateway, Person

from agentos.kernel.settings import Settings
from agentos.testing.vendors import AnthropicServer, GoogleServer, OpenAIServer
from agentos.testing.vendors.base import VendorServer

# Every server answers calls for this model.
CLAUDE, GPT, GEMINI = "claude-sonnet-5-5", "gpt-5.2", "gemini-2.5-flash"


@dataclass
class Lab:
    """One tenant: its owner's client, and one with an API key for model calls."""

    gateway: Gateway
    person: Person
    key: str
    models: httpx.AsyncClient

    async def connect(self, kind: str, server: VendorServer, **more: Any) -> dict[str, Any]:
        body = {"kind": kind, "base_url": server.url, "key": server.key or None, **more}
        answer = await self.person.client.post("/api/models/providers", json=body)
        assert answer.status_code == 201, answer.text
        connected: dict[str, Any] = answer.json()
        return connected

    async def chain(self, *targets: str, on: tuple[str, ...] = ()) -> None:
        answer = await self.person.client.put(
            "/api/models/fallback-chain", json={"targets": targets, "fall_back_on": on}
        )
        assert answer.status_code == 200, answer.text

    async def calls(self) -> list[dict[str, Any]]:
        """The calls of this tenant, oldest first, once all are in the books."""
        await self.gateway.models.router.escrow.flush()
        answer = await self.person.client.get("/api/usage/calls", params={"limit": 200})
        assert answer.status_code == 200, answer.text
        items: list[dict[str, Any]] = answer.json()["items"]
        return items[::-1]


@dataclass
class Labs:
    gateway: Gateway

    async def tenant(self, plan: str = "pro") -> Lab:
        person = await self.gateway.tenant(plan=plan)
        key = await self.gateway.api_key(person.tenant_id)
        return Lab(self.gateway, person, key, await self.gateway.client(key))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Impatient: what stays silent for a second has timed out, and nobody queues for longer."""
    return Settings(
        data_dir=tmp_path,
        signup="open",
        anonymous_requests_per_minute=100_000,
        secret_key=None,
        model_timeout_seconds=1,
        model_queue_seconds=1.5,
    )


@pytest.fixture
async def labs(gateway: Gateway) -> Labs:
    return Labs(gateway)


@pytest.fixture
async def lab(labs: Labs) -> Lab:
    return await labs.tenant()


@pytest.fixture
async def anthropic_server() -> AsyncIterator[AnthropicServer]:
    async with AnthropicServer(models=[CLAUDE]) as server:
        yield server


@pytest.fixture
async def openai_server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer(models=[GPT]) as server:
        yield server


@pytest.fixture
async def google_server() -> AsyncIterator[GoogleServer]:
    async with GoogleServer(models=[GEMINI]) as server:
        yield server


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as entered:
        yield entered
