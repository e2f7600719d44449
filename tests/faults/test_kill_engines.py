"""kill -9 of the engines under load: back within ten seconds, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest
from tests.faults.test_up import (
    Installation,
    Place,
    is_gone,
    nats_server,
    new_place,
    postmaster,
    until,
)

from agentos.kernel.installation import Addresses, addresses
from agentos.kernel.secret_key import load_secret_key
from agentos.kernel.settings import Settings

RECOVERY_SECONDS = 10.0
CLIENTS_PER_TENANT = 3
_LOST = (httpx.TransportError, json.JSONDecodeError)


@dataclass
class Tenant:
    """One tenant as its clients see it: what was acknowledged, and what the stream brought."""

    id: str
    url: str
    key: str
    acknowledged: dict[str, str] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    delivered: list[dict[str, Any]] = field(default_factory=list)
    connections: int = 0

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=20
        )

    @property
    def seqs(self) -> list[int]:
        return [event["seq"] for event in self.delivered]

    @property
    def names(self) -> list[str]:
        """The names of the keys whose making was announced."""
        return [
            event["data"]["name"]
            for event in self.delivered
            if event["type"] == "api_key.created" and event["data"]["name"].startswith("load ")
        ]

    async def write(self, client: httpx.AsyncClient, name: str) -> None:
        """One request, repeated with the same key until it is acknowledged, as real clients do."""
        headers = {"Idempotency-Key": str(uuid4())}
        body = {"name": name, "scopes": ["events:read"]}
        while True:
            try:
                response = await client.post("/api/keys", json=body, headers=headers)
                self.statuses[response.status_code] += 1
                if response.status_code == 201:
                    self.acknowledged[name] = response.json()["id"]
                    return
                if response.status_code not in (409, 429, 503):
                    self.failures.append(f"{response.status_code} {response.text}")
            except _LOST as error:
                self.failures.append(repr(error))
            await asyncio.sleep(0.05)

    async def load(self, number: int, enough: asyncio.Event) -> None:
        async with self.client() as client:
            count = 0
            while not enough.is_set():
                count += 1
                await self.write(client, f"load {number}-{count}")
                await asyncio.sleep(0.01)

    async def follow(self) -> None:
        """A subscriber that comes back after every loss with the last event it has."""
        async with self.client() as client:
            while True:
                try:
                    await self._follow(client)
                except httpx.TransportError:
                    await asyncio.sleep(0.1)

    async def _follow(self, client: httpx.AsyncClient) -> None:
        last = self.seqs[-1] if self.delivered else 0
        headers = {"Last-Event-ID": str(last)}
        async with client.stream("GET", "/api/events/stream", headers=headers) as answer:
            if answer.status_code != 200:
                assert answer.status_code == 503, answer.status_code
                await asyncio.sleep(0.1)
                return
            self.connections += 1
            async for line in answer.aiter_lines():
                if line.startswith("data:"):
                    event = json.loads(line.removeprefix("data:"))
                    if "seq" in event:
                        self.delivered.append(event)


async def tenants_of(installation: Installation) -> list[Tenant]:
    """The demo tenant and a new one, both without limits that a load would meet."""
    async with httpx.AsyncClient(base_url=installation.url, timeout=20) as client:
        demo = {k: installation.demo[k] for k in ("email", "password")}
        admin = (await client.post("/api/auth/token", json=demo)).raise_for_status().json()
        slug = f"t-{uuid4().hex[:12]}"
        registered = await client.post(
            "/api/auth/register",
            json={
                "email": f"{slug}@test.example",
                "name": "Ada",
                "password": "correct horse battery staple",
                "tenant_name": "Second",
                "tenant_slug": slug,
            },
        )
        found = []
        for tokens in (admin, registered.raise_for_status().json()):
            change = await client.patch(
                f"/api/platform/tenants/{tokens['tenant_id']}",
                json={"plan": "enterprise"},
                headers={"Authorization": f"Bearer {admin['access_token']}"},
            )
            change.raise_for_status()
            key = await client.post(
                "/api/keys",
                json={"name": "clients"},
                headers={"Authorization": f"Bearer {tokens['access_token']}"},
            )
            key.raise_for_status()
            found.append(Tenant(tokens["tenant_id"], installation.url, key.json()["key"]))
    return found


@asynccontextmanager
async def under_load(tenants: list[Tenant]) -> AsyncIterator[None]:
    """Clients that write and a subscriber in each tenant; every write begun is seen through."""
    enough = asyncio.Event()
    followers = [asyncio.create_task(tenant.follow()) for tenant in tenants]
    writers = [
        asyncio.create_task(tenant.load(number, enough))
        for tenant in tenants
        for number in range(CLIENTS_PER_TENANT)
    ]
    try:
        await until(lambda: all(len(tenant.acknowledged) >= 10 for tenant in tenants))
        yield
        enough.set()
        async with asyncio.timeout(30):
            await asyncio.gather(*writers)
        await until(lambda: all(len(set(t.names)) >= len(t.acknowledged) for t in tenants))
    finally:
        for task in (*writers, *followers):
            task.cancel()
        await asyncio.gather(*writers, *followers, return_exceptions=True)


async def more_written(tenants: list[Tenant], count: int) -> None:
    written = [len(tenant.acknowledged) for tenant in tenants]
    await until(
        lambda: all(
            len(tenant.acknowledged) >= before + count
            for tenant, before in zip(tenants, written, strict=True)
        )
    )


async def back_to_work(tenants: list[Tenant], url: str, since: float) -> float:
    """Waits until every tenant's new writes are acknowledged and delivered; how long it took."""
    written = [len(tenant.acknowledged) for tenant in tenants]
    async with httpx.AsyncClient(base_url=url, timeout=20) as client:
        while True:
            with_news = all(
                min(len(tenant.acknowledged), len(tenant.names)) > before + CLIENTS_PER_TENANT
                for tenant, before in zip(tenants, written, strict=True)
            )
            if with_news and (await client.get("/health/ready")).status_code == 200:
                return time.monotonic() - since
            await asyncio.sleep(0.02)


def where(data_dir: Path) -> Addresses:
    settings = Settings(data_dir=data_dir)
    return addresses(settings, load_secret_key(settings))


async def check_nothing_lost(tenants: list[Tenant], dsn: str) -> None:
    """Each acknowledged write once in the database, once in history, once delivered, in order."""
    database = await asyncpg.connect(dsn)
    try:
        for tenant in tenants:
            rows = await database.fetch(
                "select id::text, name from api_keys where tenant_id = $1 and name like 'load %'",
                tenant.id,
            )
            assert sorted(row["name"] for row in rows) == sorted(tenant.acknowledged)
            assert {row["name"]: row["id"] for row in rows} == tenant.acknowledged
            events = await database.fetch(
                """select seq, type, data->>'name' as name from events
                   where tenant_id = $1 order by seq""",
                tenant.id,
            )
            assert [row["seq"] for row in events] == list(range(1, len(events) + 1))
            announced = [
                row["name"]
                for row in events
                if row["type"] == "api_key.created" and row["name"].startswith("load ")
            ]
            assert sorted(announced) == sorted(tenant.acknowledged)
            assert tenant.seqs == list(range(1, len(tenant.seqs) + 1))
            assert tenant.names == announced
    finally:
        await database.close()


def errors_in(log: str) -> list[str]:
    return [line for line in log.splitlines() if '"level": "error"' in line]


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with new_place() as here:
        yield here


async def test_killed_engines_come_back_and_nothing_is_lost(place: Place) -> None:
    up, installation = await place.up()
    tenants = await tenants_of(installation)
    engines: dict[str, list[Callable[[Path], int]]] = {
        "PostgreSQL": [postmaster],
        "NATS": [nats_server],
        "both": [postmaster, nats_server],
    }
    recoveries: dict[str, float] = {}
    async with under_load(tenants):
        for name, victims in engines.items():
            await more_written(tenants, 40)
            pids = [find(place.data_dir) for find in victims]
            killed = time.monotonic()
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            await until(lambda pids=pids: all(is_gone(pid) for pid in pids))  # type: ignore[misc]
            async with asyncio.timeout(RECOVERY_SECONDS):
                recoveries[name] = await back_to_work(tenants, installation.url, killed)
            assert not set(pids) & {find(place.data_dir) for find in victims}
            assert not up.ended
    assert max(recoveries.values()) <= RECOVERY_SECONDS, recoveries
    for tenant in tenants:
        assert tenant.failures == [], errors_in(up.err)
        assert set(tenant.statuses) <= {201, 409, 503}
        assert tenant.connections >= 1
    await check_nothing_lost(tenants, where(place.data_dir).platform)
    assert await up.stop() == 0
    assert errors_in(up.err) == []
