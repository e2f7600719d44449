"""External servers: two gateways and two workers on one PostgreSQL, one NATS, one object store."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest
from tests.conftest import LoopThread
from tests.faults.test_up import Command, Place, new_directory, new_place

from agentos.kernel.engines.account import engine_account
from agentos.kernel.engines.nats import EmbeddedNats
from agentos.kernel.engines.postgres import EmbeddedPostgres
from agentos.kernel.installation import bus_authority

OWNER_PASSWORD = "0wner: p@ss/w%rd"
PEOPLE = {"name": "Ada", "password": "correct horse battery staple", "tenant_name": "Tenant"}


@dataclass
class External:
    """Somebody else's servers, and the settings that point at them."""

    path: Path
    postgres: EmbeddedPostgres
    nats: EmbeddedNats
    secret_key: str

    @property
    def env(self) -> dict[str, str]:
        return {
            "DATABASE_URL": self.postgres.dsn("dba", OWNER_PASSWORD, "company"),
            "NATS_URL": self.nats.url,
            "NATS_MONITOR_URL": self.nats.monitor_url,
            "OBJECT_STORE_URL": f"file://{self.path / 'objects'}",
            "AGENTOS_SECRET_KEY": self.secret_key,
            "AGENTOS_KEK": f"k1:{self.secret_key[::-1]}",
        }


@asynccontextmanager
async def external_servers() -> AsyncIterator[External]:
    path, account, key = new_directory(), engine_account(), secrets.token_bytes(32)

    def quiet(_: str) -> None:
        return None

    postgres = EmbeddedPostgres(
        path, superuser_password="theirs", account=account, on_notice=quiet, fsync=False
    )
    nats = EmbeddedNats(path, bus_authority(key), account=account, on_notice=quiet)
    try:
        await asyncio.gather(postgres.start(), nats.start())
        admin = await asyncpg.connect(postgres.superuser_dsn())
        # What a DBA grants at most: roles may be made, nothing else beyond the own database.
        await admin.execute(f"create role dba login createrole password '{OWNER_PASSWORD}'")
        await admin.execute("create database company owner dba")
        await admin.close()
        (path / "objects").mkdir()
        yield External(path, postgres, nats, key.hex())
    finally:
        await nats.stop()
        await postgres.stop()
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def servers() -> Iterator[External]:
    """For the tests that need no empty database."""
    loop = LoopThread()
    running = external_servers()
    try:
        yield loop.run(running.__aenter__())
    finally:
        loop.run(running.__aexit__(None, None, None))
        loop.close()


@pytest.fixture
async def place(servers: External) -> AsyncIterator[Place]:
    async with new_place() as here:
        here.env |= servers.env
        yield here


@dataclass
class Cluster:
    servers: External
    gateways: list[str]
    workers: list[Command]
    token: str
    admin: str

    def client(self, gateway: int, token: str | None = None) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.gateways[gateway],
            headers={"Authorization": f"Bearer {token or self.token}"},
            timeout=20,
        )


@asynccontextmanager
async def running_cluster(servers: External, place: Place) -> AsyncIterator[Cluster]:
    """Four processes on four machines, as far as their directories go, started at once."""
    place.env |= servers.env
    starts = [("serve", "--port", "0")] * 2 + [("worker",)] * 2
    commands = [
        await place.run(*args, AGENTOS_DATA_DIR=str(place.path / f"machine-{number}"))
        for number, args in enumerate(starts)
    ]
    told = [
        await command.line('"serving"' if number < 2 else '"working"')
        for number, command in enumerate(commands)
    ]
    gateways = [line["url"] for line in told[:2]]
    token, _ = await register(gateways[0])
    admin, email = await register(gateways[1])
    connection = await asyncpg.connect(servers.postgres.superuser_dsn("company"))
    await connection.execute("update users set platform_admin = true where email = $1", email)
    await connection.close()
    await asyncio.sleep(1.1)  # what a gateway read about a credential is believed for a second
    try:
        yield Cluster(servers, gateways, commands[2:], token, admin)
    finally:
        await place.close()
    assert [command.process.returncode for command in commands] == [0, 0, 0, 0]
    for command in commands:
        assert '"level": "error"' not in command.output
        assert "Traceback" not in command.output


async def register(url: str) -> tuple[str, str]:
    slug = f"t-{uuid4().hex[:12]}"
    email = f"{slug}@test.example"
    async with httpx.AsyncClient(base_url=url, timeout=20) as client:
        answer = await client.post(
            "/api/auth/register", json={**PEOPLE, "email": email, "tenant_slug": slug}
        )
        return str(answer.raise_for_status().json()["access_token"]), email


async def test_two_gateways_and_two_workers_are_one_installation() -> None:
    async with (
        external_servers() as empty,
        new_place() as place,
        running_cluster(empty, place) as cluster,
    ):
        await _came_up_without_a_superuser(cluster)
        async with cluster.client(0) as one, cluster.client(1) as other:
            await _written_through_one_read_through_the_other(one, other)
            await _same_key_same_effect(one, other)
            await _events_cross_over(one, other)
        await _limits_are_shared(cluster)


async def _came_up_without_a_superuser(cluster: Cluster) -> None:
    connection = await asyncpg.connect(cluster.servers.postgres.superuser_dsn("company"))
    try:
        rows = await connection.fetch(
            """select rolname, rolsuper, rolbypassrls, rolcreaterole from pg_roles
               where rolname in ('dba', 'agentos_runtime', 'agentos_platform') order by 1"""
        )
        assert [tuple(row) for row in rows] == [
            ("agentos_platform", False, False, False),
            ("agentos_runtime", False, False, False),
            ("dba", False, False, True),
        ]
        # Four processes found it empty; one of them made it.
        assert await connection.fetchval("select count(*) from alembic_version") == 1
        assert await connection.fetchval("select count(*) from relay_cursor") == 1
    finally:
        await connection.close()


async def _written_through_one_read_through_the_other(
    one: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    stored = await one.put("/api/vault/shared", json={"value": "canary"})
    assert stored.status_code == 200, stored.text
    # Encrypts anew what the other has encrypted, so it has to be able to read it.
    assert (await other.post("/api/vault/rotate")).status_code == 200
    listed = (await other.get("/api/vault")).json()["items"]
    assert [secret["name"] for secret in listed] == ["shared"]
    uploaded = await one.put("/api/objects/notes/a.txt", content=b"the same bytes")
    assert uploaded.status_code in (200, 201), uploaded.text
    downloaded = await other.get("/api/objects/notes/a.txt")
    assert downloaded.content == b"the same bytes"
    made = (await other.post("/api/keys", json={"name": "made elsewhere"})).json()
    assert (
        await one.get("/api/auth/me", headers={"Authorization": f"Bearer {made['key']}"})
    ).status_code == 200


async def _same_key_same_effect(one: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": str(uuid4())}
    body = {"name": "once"}
    answers = await asyncio.gather(
        *(client.post("/api/keys", json=body, headers=headers) for client in (one, other) * 5)
    )
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["key"] for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    changed = await other.post("/api/keys", json={"name": "twice"}, headers=headers)
    assert changed.status_code == 422
    names = [key["name"] for key in (await one.get("/api/keys")).json()["items"]]
    assert names.count("once") == 1
    assert names.count("twice") == 0


async def _events_cross_over(one: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    async with other.stream("GET", "/api/events/stream") as answer:
        lines = answer.aiter_lines()
        await anext(lines)
        await one.put("/api/vault/announced", json={"value": "canary"})
        async with asyncio.timeout(20):
            while (event := _event(await anext(lines))) is None or "seq" not in event:
                continue
    assert (event["type"], event["data"]["name"]) == ("secret.stored", "announced")
    for client in (one, other):
        history = (await client.get("/api/events?limit=200")).json()["items"]
        assert [item["seq"] for item in history] == list(range(1, len(history) + 1))
        assert history[-1] == event


def _event(line: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = (
        json.loads(line.removeprefix("data:")) if line.startswith("data:") else None
    )
    return found


async def _limits_are_shared(cluster: Cluster) -> None:
    """Twice the gateways do not give twice the requests."""
    per_minute = 120
    async with cluster.client(1, cluster.admin) as admin:
        me = (await admin.get("/api/auth/me")).json()
        change = await admin.patch(
            f"/api/platform/tenants/{me['tenant_id']}",
            json={"limits": {"requests_per_minute": per_minute}},
        )
        assert change.status_code == 200, change.text
        key = (await admin.post("/api/keys", json={"name": "limited"})).json()["key"]
    async with cluster.client(0, key) as one, cluster.client(1, key) as other:
        began = time.monotonic()
        statuses = [
            (await client.get("/api/auth/me")).status_code for client in (one, other) * per_minute
        ]
        took = time.monotonic() - began
    allowed = statuses.count(200)
    assert set(statuses) == {200, 429}
    # A full bucket, what ran in meanwhile, and a lease of two per cent for each process.
    leases = 2 * (per_minute // 50)
    assert per_minute - leases <= allowed <= per_minute * (1 + (took + 1) / 60) + leases


async def test_a_missing_secret_key_is_said(place: Place) -> None:
    del place.env["AGENTOS_SECRET_KEY"]
    for command in (["serve", "--port", "0"], ["worker"]):
        _, said = await place.fails(*command)
        assert "AGENTOS_SECRET_KEY" in said
        assert "openssl rand -hex 32" in said
        assert OWNER_PASSWORD not in said


async def test_a_missing_vault_key_is_said(place: Place) -> None:
    del place.env["AGENTOS_KEK"]
    _, said = await place.fails("serve", "--port", "0")
    assert "AGENTOS_KEK" in said


@pytest.mark.parametrize("command", ["serve", "worker"])
async def test_a_wrong_password_is_said_but_not_told(
    servers: External, place: Place, command: str
) -> None:
    wrong = servers.postgres.dsn("dba", "canary-password", "company")
    _, said = await place.fails(command, DATABASE_URL=wrong, AGENTOS_PORT="0")
    assert "DATABASE_URL" in said
    assert "password" in said
    for secret in ("canary-password", servers.secret_key, servers.secret_key[::-1]):
        assert secret not in said


async def test_servers_that_do_not_answer_are_named(servers: External, place: Place) -> None:
    _, said = await place.fails(
        "serve", "--port", "0", DATABASE_URL="postgresql://dba:canary@127.0.0.1:1/company"
    )
    assert "DATABASE_URL" in said
    assert "canary" not in said


async def test_another_secret_key_is_recognised(servers: External, place: Place) -> None:
    first = await place.run("worker")
    await first.line('"working"')
    assert await first.stop() == 0
    _, said = await place.fails("worker", AGENTOS_SECRET_KEY=secrets.token_hex(32))
    assert "AGENTOS_SECRET_KEY" in said
    assert "another password" in said
