"""Budgets over HTTP: shapes, paging, who may, and what a wrong request is told."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from tests.gateways import Gateway
from tests.usage_rows import insert

from agentos.kernel.clock import MovableClock
from agentos.tenancy.principals import Scope

DECEMBER = datetime(2027, 12, 31, 23, 59, 59, tzinfo=UTC)
SESSION = UUID("01890000-0000-7000-8000-000000000001")


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock(DECEMBER)


async def _client(gateway: Gateway, *scopes: Scope) -> tuple[UUID, httpx.AsyncClient]:
    """A new tenant, and a client with its API key: tokens end when the clock is moved."""
    tenant_id = (await gateway.tenant()).tenant_id
    key = await gateway.api_key(tenant_id, frozenset(scopes or Scope))
    return tenant_id, await gateway.client(key)


async def _put(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await client.put("/api/budgets", json=body)
    assert answer.status_code == 200, answer.text
    budget: dict[str, Any] = answer.json()
    return budget


async def test_the_life_of_a_budget(gateway: Gateway) -> None:
    tenant_id, client = await _client(gateway)
    made = await _put(client, scope="tenant", cap_micros=25_000_000)
    assert made == {
        "id": made["id"],
        "scope": "tenant",
        "subject_id": str(tenant_id),
        "cap_micros": 25_000_000,
        "spent_micros": 0,
        "held_micros": 0,
        "remaining_micros": 25_000_000,
        "percent": 0,
        "state": "open",
        "period": "2027-12-01",
        "created_by": "test",
        "created_at": made["created_at"],
        "updated_at": made["created_at"],
    }
    raised = await _put(client, scope="tenant", subject_id=str(tenant_id), cap_micros=26_000_000)
    assert raised["id"] == made["id"]
    session = await _put(client, scope="session", subject_id=str(SESSION), cap_micros=0)
    assert (session["period"], session["state"], session["percent"]) == (None, "exhausted", 100)
    assert (await client.get(f"/api/budgets/{made['id']}")).json() == raised
    assert (await client.get("/api/budgets")).json() == {
        "items": [raised, session],
        "next_cursor": None,
    }
    assert (await client.delete(f"/api/budgets/{made['id']}")).status_code == 204
    assert (await client.get(f"/api/budgets/{made['id']}")).status_code == 404
    assert (await client.delete(f"/api/budgets/{made['id']}")).status_code == 404


async def test_what_is_spent_and_held_and_the_turn_of_the_year(
    gateway: Gateway, clock: MovableClock
) -> None:
    tenant_id, client = await _client(gateway)
    for scope, subject, period in (
        ("tenant", tenant_id, DECEMBER.date().replace(day=1)),
        ("session", SESSION, date(1970, 1, 1)),
    ):
        await insert(
            gateway.parts.platform_db,
            "accounts",
            tenant_id=tenant_id,
            scope=scope,
            subject_id=subject,
            period=period,
            spent_micros=799_999,
            held_micros=200_000,
        )
    await _put(client, scope="tenant", cap_micros=1_000_000)
    await _put(client, scope="session", subject_id=str(SESSION), cap_micros=900_000)

    async def shown() -> list[tuple[Any, ...]]:
        names = ("spent_micros", "held_micros", "remaining_micros", "percent", "state", "period")
        items = (await client.get("/api/budgets")).json()["items"]
        return [tuple(item[name] for name in names) for item in items]

    session = (799_999, 200_000, 0, 88, "warned", None)
    assert await shown() == [(799_999, 200_000, 1, 79, "open", "2027-12-01"), session]
    clock.advance(timedelta(seconds=1))
    # A month begins with all of its money; a session has one budget for its life.
    assert await shown() == [(0, 0, 1_000_000, 0, "open", "2028-01-01"), session]


async def test_pages_and_filters(gateway: Gateway) -> None:
    _, client = await _client(gateway)
    teams = [str(uuid4()) for _ in range(5)]
    for team in teams:
        await _put(client, scope="team", subject_id=team, cap_micros=1)
    await _put(client, scope="tenant", cap_micros=1)
    first = (await client.get("/api/budgets?limit=4")).json()
    rest = (
        await client.get("/api/budgets?limit=4", params={"cursor": first["next_cursor"]})
    ).json()
    listed = [item["subject_id"] for item in first["items"] + rest["items"]]
    assert (listed[:5], len(listed), rest["next_cursor"]) == (teams, 6, None)

    async def found(**query: str) -> list[str]:
        items = (await client.get("/api/budgets", params=query)).json()["items"]
        return [item["subject_id"] for item in items]

    assert await found(scope="team") == teams
    assert await found(scope="team", subject_id=teams[2]) == [teams[2]]
    assert await found(scope="session") == []


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"scope": "tenant", "subject_id": str(SESSION), "cap_micros": 1}, "the tenant itself"),
        ({"scope": "team", "cap_micros": 1}, "needs its subject_id"),
        ({"scope": "session", "cap_micros": 1}, "needs its subject_id"),
        ({"scope": "planet", "cap_micros": 1}, ""),
        ({"scope": "tenant", "cap_micros": -1}, ""),
        ({"scope": "tenant", "cap_micros": 1.5}, ""),
        ({"scope": "tenant", "cap_micros": "1"}, ""),
        ({"scope": "tenant", "cap_micros": True}, ""),
        ({"scope": "tenant", "cap_micros": 10**15 + 1}, ""),
        ({"scope": "tenant", "cap_micros": 1, "currency": "EUR"}, ""),
        ({"scope": "tenant"}, ""),
    ],
)
async def test_what_is_not_a_budget(gateway: Gateway, body: dict[str, Any], told: str) -> None:
    _, client = await _client(gateway)
    answer = await client.put("/api/budgets", json=body)
    assert answer.status_code == 422, answer.text
    assert told in answer.json()["detail"]
    assert (await client.get("/api/budgets")).json()["items"] == []


async def test_who_may(gateway: Gateway) -> None:
    tenant_id, owner = await _client(gateway)
    budget = await _put(owner, scope="tenant", cap_micros=1)
    path = f"/api/budgets/{budget['id']}"
    reader = await gateway.client(await gateway.api_key(tenant_id, frozenset({Scope.USAGE_READ})))
    writer = await gateway.client(
        await gateway.api_key(tenant_id, frozenset({Scope.BUDGETS_WRITE}))
    )
    body = {"scope": "tenant", "cap_micros": 2}
    assert (await reader.get("/api/budgets")).status_code == 200
    assert (await reader.get(path)).status_code == 200
    assert (await reader.put("/api/budgets", json=body)).status_code == 403
    assert (await reader.delete(path)).status_code == 403
    assert (await writer.get("/api/budgets")).status_code == 403
    assert (await writer.get(path)).status_code == 403
    assert (await writer.put("/api/budgets", json=body)).status_code == 200
    _, stranger = await _client(gateway)
    assert (await stranger.get("/api/budgets")).json()["items"] == []
    assert (await stranger.get(path)).status_code == 404
    assert (await stranger.delete(path)).status_code == 404
    assert (await writer.delete(path)).status_code == 204


async def test_sets_at_once_make_one_budget(gateway: Gateway) -> None:
    _, client = await _client(gateway)
    made = await asyncio.gather(
        *(_put(client, scope="tenant", cap_micros=cap) for cap in (1, 2, 3, 4, 3, 2))
    )
    assert len({budget["id"] for budget in made}) == 1
    items = (await client.get("/api/budgets")).json()["items"]
    assert len(items) == 1
    # What the log says was there before is what the set before it left.
    log = (await client.get("/api/audit?action=budget.set")).json()["items"][::-1]
    assert log[0]["before"] is None
    for earlier, later in pairwise(log):
        assert later["before"] == earlier["after"]
    assert log[-1]["after"]["cap_micros"] == items[0]["cap_micros"]
