"""Canary secrets through every kind of request; none comes out where it should not."""

from __future__ import annotations

import asyncio
import base64
import io
import logging
import secrets
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg
import httpx
import pytest
import structlog

from agentos.execution.relay import Relay
from agentos.kernel.bus import Bus
from agentos.kernel.database import Database
from agentos.kernel.logs import clear_context, configure_logging
from tests.conftest import Engines
from tests.gateways import Gateway


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Everything that is logged, down to the least important line."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    hooks = sys.excepthook, threading.excepthook
    stream = io.StringIO()
    configure_logging("debug", "json", stream)
    yield stream
    root.handlers[:], sys.excepthook, threading.excepthook = handlers, *hooks
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()
    clear_context()


def new_canary() -> str:
    """A secret with what has to be encoded, around a core that nothing encodes."""
    return f"Pa+ss/{secrets.token_hex(12)} %w\u00f6rd"


def encodings(value: str) -> list[str]:
    """Plain, base64, hexadecimal and percent-encoded."""
    raw = value.encode()
    return [value, base64.b64encode(raw).decode(), raw.hex(), quote(value, safe="")]


@dataclass
class Aviary:
    """The canaries, and where one has been seen."""

    values: dict[str, str] = field(default_factory=dict)
    escaped: list[str] = field(default_factory=list)

    def add(self, name: str, value: str) -> str:
        self.values[name] = value
        return value

    def watch(self, where: str, text: str) -> None:
        for name, value in self.values.items():
            traces = {form.rstrip("=") for form in encodings(value)}
            # Also what JSON, SQL or a log would escape differently.
            traces |= {piece for piece in value.split() if len(piece) > 12}
            traces.add(base64.urlsafe_b64encode(value.encode()).decode().rstrip("="))
            if any(trace in text for trace in traces):
                self.escaped.append(f"{name} in {where}: {text[:300]}")

    def watch_answer(self, answer: httpx.Response) -> None:
        request = answer.request
        headers = str(answer.headers.raw)
        self.watch(f"{request.method} {request.url.path[:40]}", answer.text + headers)


async def make_canaries(gateway: Gateway, aviary: Aviary) -> httpx.AsyncClient:
    """Uses every secret as it is meant to be used, and says who has done so."""
    anonymous = await gateway.client()
    password = aviary.add("password", new_canary())
    registered = await anonymous.post(
        "/api/auth/register",
        json={
            "email": "ada@example.com",
            "name": "Ada",
            "password": password,
            "tenant_name": "Engines",
            "tenant_slug": "engines",
        },
    )
    first = registered.json()
    async with gateway.parts.platform_db.transaction() as tx:
        await tx.execute("update tenants set plan = 'pro'")
    aviary.add("used refresh token", first["refresh_token"])
    refreshed = await anonymous.post(
        "/api/auth/refresh", json={"refresh_token": first["refresh_token"]}
    )
    aviary.add("refresh token", refreshed.json()["refresh_token"])
    access = aviary.add("access token", refreshed.json()["access_token"])
    owner = await gateway.client(access)
    key = await owner.post("/api/keys", json={"name": "ci"}, headers={"Idempotency-Key": "canary"})
    aviary.add("API key", key.json()["key"])
    service = await owner.post(
        "/api/service-tokens", json={"subject": "worker", "scopes": ["events:read"]}
    )
    aviary.add("service token", service.json()["token"])
    ticket = await owner.post("/api/events/ticket")
    aviary.add("socket ticket", ticket.json()["ticket"])
    invited = await owner.post("/api/invitations", json={"email": "grace@example.com"})
    aviary.add("open invitation", invited.json()["token"])
    value = aviary.add("vault value", new_canary())
    stored = await owner.put("/api/vault/CANARY", json={"value": value})
    second = await owner.post("/api/invitations", json={"email": "joan@example.com"})
    joined = await anonymous.post(
        "/api/auth/accept-invitation",
        json={
            "token": aviary.add("used invitation", second.json()["token"]),
            "name": "Joan",
            "password": aviary.add("password of a new member", new_canary()),
        },
    )
    changed = await (await gateway.client(joined.json()["access_token"])).post(
        "/api/auth/password",
        json={
            "current_password": aviary.values["password of a new member"],
            "new_password": aviary.add("new password", new_canary()),
        },
    )
    hook = await owner.post(
        "/api/webhooks",
        json={"name": "ci", "session": {"prompt": "Theirs"}},
        headers={"Idempotency-Key": "hook"},
    )
    rotated = await owner.post(f"/api/webhooks/{hook.json()['id']}/rotate")
    aviary.add("old webhook token", hook.json()["token"])
    fired = await anonymous.post(
        f"/api/hooks/{aviary.add('webhook token', rotated.json()['token'])}", json={}
    )
    made = (registered, refreshed, key, service, ticket, invited, stored, joined, changed, hook)
    for answer in (*made, rotated, fired):
        assert answer.is_success, answer.text
    aviary.watch_answer(stored)
    aviary.watch_answer(changed)
    aviary.watch_answer(fired)
    return owner


def failing_requests(client: httpx.AsyncClient, form: str) -> Iterator[httpx.Request]:
    """A secret in every place of a request where it does not belong, or is wrong."""
    build = client.build_request
    header = form.encode("utf-8")
    path = quote(form, safe="")
    yield build("POST", "/api/auth/token", json={"email": form, "password": "x"})
    yield build("POST", "/api/auth/token", json={"email": "a@b.example", "password": {"x": form}})
    yield build("POST", "/api/auth/token", json={"email": "a@b.example", "hint": form})
    yield build("POST", "/api/auth/token", content=b'{"password": "' + form.encode())
    yield build("POST", "/api/auth/token", content=form.encode())
    yield build("POST", "/api/auth/refresh", json={"refresh_token": form + "x"})
    yield build("POST", "/api/auth/refresh", json={"refresh_token": form, "tenant": form})
    yield build("POST", "/api/auth/logout", json={"refresh_token": [form]})
    yield build("POST", "/api/auth/accept-invitation", json={"token": form, "password": form * 9})
    yield build("POST", "/api/auth/register", json={"password": form, "tenant_slug": form})
    yield build("POST", "/api/keys", json={"name": {"x": form}, "scopes": [form]})
    yield build("POST", "/api/keys", json={"name": "x", "expires_at": form})
    yield build("PUT", "/api/vault/bad%20name", json={"value": form})
    yield build("PUT", "/api/vault/NAME", json={"value": [form], "valeu": form})
    yield build("PUT", f"/api/vault/{path}", json={"value": ""})
    yield build("GET", "/api/keys", params={"cursor": form, "limit": form})
    yield build("GET", "/api/audit", params={"since": form})
    yield build("GET", f"/api/{path}")
    yield build("DELETE", f"/api/keys/{path}")
    yield build("PATCH", f"/api/members/{path}", json={"role": form})
    yield build("POST", f"/api/objects/{path}")
    yield build("POST", f"/api/hooks/x{path}", json={})
    yield build("GET", f"/api/hooks/{path}")
    yield build("POST", f"/api/team-templates/{path}/create", json={})
    yield build("DELETE", f"/api/teams/x/workers/{path}")
    yield build("POST", "/api/teams", json={"name": "x", "leader": {"name": form}})
    yield build("POST", "/api/teams/import", json={"name": [form], form: 1})
    yield build("POST", "/api/teams/import", content=b"{" + form.encode())
    yield build("POST", "/api/webhooks", json={"name": "x", "prompt": {"x": form}})
    yield build("GET", "/api/none", headers=[(b"Authorization", b"Token " + header)])
    yield build("GET", "/api/none", headers=[(b"Authorization", b"Bearer x" + header)])
    yield build("GET", "/api/none", headers=[(b"Authorization", b"Basic " + header)])
    yield build("GET", "/api/none", headers=[(b"Cookie", b"agentos_access=x" + header)])
    yield build(
        "POST", "/api/keys", json={"name": 1}, headers=[(b"Idempotency-Key", header + b"\xff")]
    )
    yield build(
        "GET",
        "/api/none",
        headers=[(b"User-Agent", header), (b"X-Forwarded-For", header), (b"Traceparent", header)],
    )


async def everything_readable(client: httpx.AsyncClient) -> list[httpx.Response]:
    return [
        await client.get(path)
        for path in (
            "/api/auth/me",
            "/api/auth/logins",
            "/api/tenants",
            "/api/plan",
            "/api/members",
            "/api/invitations",
            "/api/keys",
            "/api/vault",
            "/api/vault/CANARY",
            "/api/audit?limit=200",
            "/api/audit/export?format=csv",
            "/api/audit/export?format=ndjson",
            "/api/events?limit=200",
            "/api/webhooks",
            "/api/sessions",
            "/api/openapi.json",
            "/metrics",
            "/health/ready",
        )
    ]


async def relay_all(platform_db: Database, bus: Bus, superuser: asyncpg.Connection[Any]) -> None:
    relaying = asyncio.create_task(Relay(platform_db, bus).run())
    async with asyncio.timeout(30):
        while not await superuser.fetchval(  # noqa: ASYNC110 - the relay tells nobody it is done
            """select not exists (select from outbox)
               and (select max(position) from events) = (select published from relay_cursor)"""
        ):
            await asyncio.sleep(0.01)
    relaying.cancel()
    await asyncio.gather(relaying, return_exceptions=True)


async def dump(superuser: asyncpg.Connection[Any]) -> dict[str, str]:
    """Every table as text; bytes are in hexadecimal, so that plain ones would be found, too."""
    tables = await superuser.fetch("select tablename from pg_tables where schemaname = 'public'")
    return {
        row["tablename"]: str(
            await superuser.fetchval(
                f"select string_agg(t::text, chr(10)) from {row['tablename']} t"
            )
        )
        for row in tables
    }


async def test_no_secret_comes_out(
    gateway: Gateway,
    platform_db: Database,
    bus: Bus,
    superuser: asyncpg.Connection[Any],
    engines: Engines,
    tmp_path: Path,
    logged: io.StringIO,
) -> None:
    aviary = Aviary()
    owner = await make_canaries(gateway, aviary)
    stranger = await gateway.tenant()
    anonymous = await gateway.client()

    refused = 0
    for value in list(aviary.values.values()):
        for form in encodings(value):
            client = stranger.client if form == value else owner
            requests = [client.send(request) for request in failing_requests(client, form)]
            for answer in await asyncio.gather(*requests):
                aviary.watch_answer(answer)
                refused += answer.is_error
    assert refused > 1000
    for name in ("password", "vault value"):
        wrong = {"email": "ada@example.com", "password": aviary.values[name] + "x"}
        aviary.watch_answer(await anonymous.post("/api/auth/token", json=wrong))

    await relay_all(platform_db, bus, superuser)
    for client in (owner, stranger.client, anonymous):
        for answer in await everything_readable(client):
            assert client is not owner or answer.status_code == 200, answer.url
            aviary.watch_answer(answer)

    for table, contents in (await dump(superuser)).items():
        aviary.watch(f"the table {table}", contents)
    assert await superuser.fetchval("select count(*) from events") > 5
    aviary.watch("the log", logged.getvalue())
    assert logged.getvalue().count('"event": "request"') > 1000
    files = [file for place in (tmp_path, engines.data_dir) for file in place.rglob("*")]
    for file in files:
        # The database's own files hold what the tables hold, which is above.
        if file.is_file() and "postgres" not in file.parts:
            aviary.watch(f"the file {file.name}", file.read_bytes().decode("latin-1"))
    for file in engines.data_dir.rglob("*.log"):
        aviary.watch(f"the log {file.name}", file.read_bytes().decode("utf-8", "replace"))
    assert aviary.escaped == []


async def test_the_aviary_notices_an_escape() -> None:
    aviary = Aviary()
    value = aviary.add("secret", new_canary())
    for form in encodings(value):
        aviary.escaped.clear()
        aviary.watch("here", f'{{"x": "{form}"}}')
        assert aviary.escaped


async def test_a_guess_is_not_confirmed_by_a_mask(gateway: Gateway) -> None:
    # The process knows the vault's values, to keep them out of logs; nobody else may learn that.
    owner, stranger = await gateway.tenant(), await gateway.tenant()
    for secret in ("correcthorse", "Extra inputs"):
        stored = await owner.client.put("/api/vault/WEAK", json={"value": secret})
        assert stored.is_success, stored.text
    anonymous = await gateway.client()
    for client, path in ((stranger.client, "/api/keys"), (anonymous, "/api/auth/token")):
        right, wrong = [
            (await client.post(path, json={guess: 1})).text
            for guess in ("correcthorse", "batterystaple")
        ]
        assert "correcthorse" in right
        assert "Extra inputs" in right
        assert "batterystaple" in wrong
    right, wrong = [
        (await stranger.client.get("/api/events", params={"types": guess})).text
        for guess in ("correcthorse", "batterystaple")
    ]
    assert ("correcthorse" in right) == ("batterystaple" in wrong)
