"""Usage reports over HTTP, from rows as the ledger leaves them."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from tests.gateways import Gateway
from tests.usage_rows import called, metered, used

from agentos.control.usage.errors import BadRange
from agentos.control.usage.schemas import UsageFilter
from agentos.control.usage.service import usage_query
from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database
from agentos.kernel.ids import uuid7
from agentos.tenancy.principals import Scope

TODAY = date(2026, 11, 16)
NOTHING = {
    "calls": 0,
    "failed_calls": 0,
    "unpriced_calls": 0,
    "input_tokens": 0,
    "cache_read_tokens": 0,
    "cache_write_tokens": 0,
    "output_tokens": 0,
    "reasoning_tokens": 0,
    "cost_micros": 0,
    "rated_micros": 0,
}


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock(datetime(2026, 11, 16, 0, 0, 1, tzinfo=UTC))


@dataclass
class Reader:
    """A tenant's API key, and the database its usage is in."""

    tenant_id: UUID
    client: httpx.AsyncClient
    db: Database

    async def usage(self, **query: Any) -> dict[str, Any]:
        answer = await self.client.get("/api/usage", params=query)
        assert answer.status_code == 200, answer.text
        report: dict[str, Any] = answer.json()
        return report

    async def used(self, day: date, **columns: Any) -> None:
        await used(self.db, self.tenant_id, day, **columns)


async def _reader(gateway: Gateway, plan: str = "free") -> Reader:
    tenant_id = (await gateway.tenant(plan=plan)).tenant_id
    key = await gateway.api_key(tenant_id, frozenset({Scope.USAGE_READ}))
    return Reader(tenant_id, await gateway.client(key), gateway.parts.platform_db)


@pytest.fixture
async def reader(gateway: Gateway) -> Reader:
    return await _reader(gateway)


# What is asked for ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "last", "range_"),
    [
        (None, None, (date(2026, 11, 1), TODAY)),
        (date(2026, 10, 30), None, (date(2026, 10, 30), TODAY)),
        (None, date(2026, 2, 3), (date(2026, 2, 1), date(2026, 2, 3))),
        # A leap year is one range, and not a day more.
        (date(2028, 1, 1), date(2028, 12, 31), (date(2028, 1, 1), date(2028, 12, 31))),
        (date.max, date.max, (date.max, date.max)),
    ],
)
def test_the_days_asked_for(
    first: date | None, last: date | None, range_: tuple[date, date]
) -> None:
    query = usage_query(TODAY, first, last, "day", UsageFilter())
    assert (query.first, query.last) == range_


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (date(2026, 11, 2), date(2026, 11, 1)),
        (TODAY + timedelta(days=1), None),
        (date(2028, 1, 1), date(2029, 1, 1)),
        (date.min, date.max),
    ],
)
def test_days_that_are_no_range(first: date, last: date | None) -> None:
    with pytest.raises(BadRange):
        usage_query(TODAY, first, last, "day", UsageFilter())


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("from=2026-11-02&to=2026-11-01", "bad_range"),
        ("from=2025-11-15&to=2026-11-16", "bad_range"),
        ("from=yesterday", "invalid"),
        ("to=2026-02-29", "invalid"),
        ("by=hour", "invalid"),
        ("session_id=me", "invalid"),
        ("model=", "invalid"),
        ("model=a%00b", "invalid"),
    ],
)
async def test_what_is_no_report(reader: Reader, query: str, code: str) -> None:
    for path in ("/api/usage", "/api/usage/export.csv"):
        answer = await reader.client.get(f"{path}?{query}")
        assert answer.status_code == 422, answer.text
        assert answer.json()["code"] == code


# Reports -------------------------------------------------------------------------------------


async def test_a_tenant_without_usage(reader: Reader) -> None:
    assert await reader.usage() == {
        "from": "2026-11-01",
        "to": "2026-11-16",
        "by": "day",
        "rows": [],
        "truncated": False,
        "totals": NOTHING,
        "rated": {
            "tokens_micros": 0,
            "compute_seconds": 0,
            "compute_micros": 0,
            "storage_byte_hours": 0,
            "storage_micros": 0,
            "api_calls": 0,
            "api_calls_over_plan": 0,
            "api_calls_micros": 0,
            "total_micros": 0,
        },
        "unknown_prices": False,
    }


async def test_days_add_up_and_both_ends_count(reader: Reader) -> None:
    for day in (date(2026, 10, 31), date(2026, 11, 1), TODAY, TODAY + timedelta(days=1)):
        await reader.used(day)
    await reader.used(TODAY, provider="anthropic", model="claude", failed_calls=2, cost_micros=7)
    report = await reader.usage()
    assert [row["key"] for row in report["rows"]] == ["2026-11-01", "2026-11-16"]
    assert report["rows"][1] == {
        "key": "2026-11-16",
        "calls": 20,
        "failed_calls": 2,
        "unpriced_calls": 0,
        "input_tokens": 2000,
        "cache_read_tokens": 600,
        "cache_write_tokens": 100,
        "output_tokens": 400,
        "reasoning_tokens": 160,
        "cost_micros": 1007,
        "rated_micros": 2300,
    }
    for name in NOTHING:
        assert report["totals"][name] == sum(row[name] for row in report["rows"])
    assert report["rated"]["tokens_micros"] == 3450


async def test_a_leap_day_is_a_day_of_february(reader: Reader) -> None:
    await reader.used(date(2028, 2, 29))
    await reader.used(date(2028, 3, 1))
    report = await reader.usage(**{"from": "2028-02-01", "to": "2028-02-29"})
    assert [row["key"] for row in report["rows"]] == ["2028-02-29"]


async def test_every_way_to_group_and_to_filter(reader: Reader) -> None:
    team, session = uuid4(), uuid4()
    await reader.used(TODAY, team_id=team, session_id=session, cost_micros=10)
    await reader.used(TODAY, team_id=team, cost_micros=200)
    await reader.used(TODAY, model="gpt-5-mini", cost_micros=3000)
    await reader.used(TODAY, provider="azure", cost_micros=40_000)

    async def costs(**query: Any) -> dict[str | None, int]:
        report = await reader.usage(**query)
        assert report["totals"]["cost_micros"] == sum(row["cost_micros"] for row in report["rows"])
        return {row["key"]: row["cost_micros"] for row in report["rows"]}

    by_model = await costs(by="model")
    assert list(by_model.items()) == [
        ("azure/gpt-5", 40_000),
        ("openai/gpt-5-mini", 3000),
        ("openai/gpt-5", 210),
    ]
    assert await costs(by="provider") == {"azure": 40_000, "openai": 3210}
    assert await costs(by="team") == {None: 43_000, str(team): 210}
    assert await costs(by="session") == {None: 43_200, str(session): 10}
    assert await costs(by="session", session_id=session) == {str(session): 10}
    assert await costs(team_id=team) == {"2026-11-16": 210}
    assert await costs(model="gpt-5", provider="openai") == {"2026-11-16": 210}
    assert await costs(model="gpt-6") == {}
    assert (await reader.usage(model="gpt-5"))["rated"] is None


async def test_an_unknown_price_is_unknown_and_not_zero(reader: Reader) -> None:
    await reader.used(TODAY, model="dark", unpriced_calls=10, cost_micros=0, rated_micros=0)
    report = await reader.usage(by="model")
    assert report["unknown_prices"]
    for sums in (report["rows"][0], report["totals"]):
        assert (sums["cost_micros"], sums["rated_micros"]) == (None, None)
    assert report["rated"]["tokens_micros"] is None

    await reader.used(TODAY, model="free", cost_micros=0, rated_micros=0)
    await reader.used(TODAY, model="known", cost_micros=100, rated_micros=115)
    report = await reader.usage(by="model")
    assert {row["key"]: row["cost_micros"] for row in report["rows"]} == {
        "openai/known": 100,
        "openai/dark": None,
        "openai/free": 0,
    }
    # A lower bound, and said to be one.
    assert (report["totals"]["cost_micros"], report["unknown_prices"]) == (100, True)
    assert report["totals"]["unpriced_calls"] == 10
    assert not (await reader.usage(by="model", model="known"))["unknown_prices"]


async def test_a_long_report_shows_the_dearest_and_sums_up_all(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentos.control.usage.service._MOST_ROWS", 2)
    for cost in (1, 3, 2):
        await reader.used(TODAY, session_id=uuid4(), cost_micros=cost)
    report = await reader.usage(by="session")
    assert [row["cost_micros"] for row in report["rows"]] == [3, 2]
    assert (report["truncated"], report["totals"]["cost_micros"]) == (True, 6)
    assert not (await reader.usage(by="day"))["truncated"]


async def test_a_stranger_sees_nothing(gateway: Gateway, reader: Reader) -> None:
    await reader.used(TODAY)
    await metered(reader.db, reader.tenant_id, TODAY, "compute_seconds", 60)
    call_id = await called(reader.db, reader.tenant_id)
    stranger = await _reader(gateway)
    report = await stranger.usage()
    assert (report["rows"], report["totals"]) == ([], NOTHING)
    assert report["rated"]["compute_seconds"] == 0
    assert (await stranger.client.get("/api/usage/calls")).json()["items"] == []
    assert (await stranger.client.get(f"/api/usage/calls/{call_id}")).status_code == 404


async def test_usage_needs_its_scope(gateway: Gateway) -> None:
    tenant_id = (await gateway.tenant()).tenant_id
    others = frozenset(Scope) - {Scope.USAGE_READ}
    client = await gateway.client(await gateway.api_key(tenant_id, others))
    for path in ("", "/export.csv", "/calls", f"/calls/{uuid7()}"):
        assert (await client.get(f"/api/usage{path}")).status_code == 403, path


# What is charged -----------------------------------------------------------------------------


async def test_everything_that_is_charged(reader: Reader) -> None:
    await reader.used(TODAY, rated_micros=1150)
    for day in (TODAY, date(2026, 11, 1)):
        await metered(reader.db, reader.tenant_id, day, "compute_seconds", 31)
        await metered(reader.db, reader.tenant_id, day, "storage_byte_hours", 36 * 10**10)
        await metered(reader.db, reader.tenant_id, day, "api_calls", 50_001)
    assert (await reader.usage())["rated"] == {
        "tokens_micros": 1150,
        "compute_seconds": 62,
        "compute_micros": 5167,
        "storage_byte_hours": 72 * 10**10,
        "storage_micros": 100_000,
        "api_calls": 100_002,
        "api_calls_over_plan": 2,
        "api_calls_micros": 2000,
        "total_micros": 1150 + 5167 + 100_000 + 2000,
    }


async def test_each_month_has_its_own_free_calls_and_days_add_up(reader: Reader) -> None:
    for day, count in (
        (date(2026, 10, 31), 100_003),
        (date(2026, 11, 1), 99_999),
        (date(2026, 11, 2), 3),
        (date(2026, 11, 3), 10),
    ):
        await metered(reader.db, reader.tenant_id, day, "api_calls", count)

    async def over(first: str, last: str) -> int:
        rated = (await reader.usage(**{"from": first, "to": last}))["rated"]
        assert rated["api_calls_micros"] == rated["api_calls_over_plan"] * 1000
        found: int = rated["api_calls_over_plan"]
        return found

    assert await over("2026-10-01", "2026-11-30") == 3 + 12
    assert await over("2026-11-01", "2026-11-01") == 0
    assert await over("2026-11-02", "2026-11-02") == 2
    assert await over("2026-11-03", "2026-11-30") == 10


async def test_a_plan_can_include_all_calls(gateway: Gateway) -> None:
    reader = await _reader(gateway, plan="enterprise")
    await metered(reader.db, reader.tenant_id, TODAY, "api_calls", 10**12)
    assert (await reader.usage())["rated"]["api_calls_micros"] == 0


async def test_storage_is_charged_by_the_hours_of_its_month(reader: Reader) -> None:
    for day, days in ((date(2028, 2, 29), 29), (date(2028, 3, 31), 31)):
        await metered(reader.db, reader.tenant_id, day, "storage_byte_hours", 10**9 * 24 * days)
    rated = (await reader.usage(**{"from": "2028-02-29", "to": "2028-03-31"}))["rated"]
    assert rated["storage_micros"] == 200_000


# CSV -----------------------------------------------------------------------------------------


async def test_a_report_as_csv(reader: Reader) -> None:
    await reader.used(date(2026, 11, 1))
    await reader.used(TODAY, unpriced_calls=10, cost_micros=0, rated_micros=0)
    answer = await reader.client.get("/api/usage/export.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert (
        answer.headers["content-disposition"]
        == 'attachment; filename="usage-2026-11-01-2026-11-16-by-day.csv"'
    )
    assert answer.text.splitlines() == [
        "day,calls,failed_calls,unpriced_calls,input_tokens,cache_read_tokens,"
        "cache_write_tokens,output_tokens,reasoning_tokens,cost_micros,rated_micros",
        "2026-11-01,10,0,0,1000,300,50,200,80,1000,1150",
        "2026-11-16,10,0,10,1000,300,50,200,80,unknown,unknown",
    ]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", " =1", 'a"b,c\nd'])
async def test_a_name_cannot_become_a_formula(reader: Reader, name: str) -> None:
    await reader.used(TODAY, provider=name)
    answer = await reader.client.get("/api/usage/export.csv?by=provider")
    _, (cell, *_) = csv.reader(io.StringIO(answer.text, newline=""))
    assert cell == (name if name[0] == "a" else f"'{name}")


async def test_an_export_that_is_too_long_says_so(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentos.control.usage.service._MOST_EXPORTED", 2)
    for _ in range(3):
        await reader.used(TODAY, session_id=uuid4())
    answer = await reader.client.get("/api/usage/export.csv?by=session")
    assert (answer.status_code, answer.json()["code"]) == (422, "too_many_rows")
    answer = await reader.client.get("/api/usage/export.csv")
    assert answer.status_code == 200


# Calls ---------------------------------------------------------------------------------------


async def test_calls_newest_first_page_by_page(reader: Reader) -> None:
    made = [str(await called(reader.db, reader.tenant_id)) for _ in range(5)]
    first = (await reader.client.get("/api/usage/calls?limit=3")).json()
    rest = (
        await reader.client.get("/api/usage/calls", params={"cursor": first["next_cursor"]})
    ).json()
    assert [call["id"] for call in first["items"] + rest["items"]] == made[::-1]
    assert rest["next_cursor"] is None


async def test_calls_can_be_filtered(reader: Reader) -> None:
    session, team = uuid4(), uuid4()
    for columns in (
        {"session_id": session},
        {"team_id": team},
        {"model": "gpt-5-mini"},
        {"provider": "azure"},
        {"outcome": "failed", "error_class": "overload", "cost_micros": None, "rated_micros": None},
    ):
        await called(reader.db, reader.tenant_id, **columns)

    async def found(**query: Any) -> list[dict[str, Any]]:
        answer = await reader.client.get("/api/usage/calls", params=query)
        assert answer.status_code == 200, answer.text
        items: list[dict[str, Any]] = answer.json()["items"]
        return items

    assert len(await found()) == 5
    assert [call["session_id"] for call in await found(session_id=session)] == [str(session)]
    assert [call["team_id"] for call in await found(team_id=team)] == [str(team)]
    assert [call["model"] for call in await found(model="gpt-5-mini")] == ["gpt-5-mini"]
    assert [call["provider"] for call in await found(provider="azure")] == ["azure"]
    (failed,) = await found(outcome="failed")
    assert (failed["cost_micros"], failed["error_class"]) == (None, "overload")
    assert await found(outcome="failed", team_id=team) == []
    assert (await reader.client.get("/api/usage/calls?outcome=odd")).status_code == 422


async def test_a_call_with_its_chain(reader: Reader) -> None:
    call_id = await called(reader.db, reader.tenant_id)
    await called(reader.db, reader.tenant_id)
    call = (await reader.client.get(f"/api/usage/calls/{call_id}")).json()
    assert (call["id"], call["cost_micros"], call["rated_micros"]) == (str(call_id), 100, 115)
    at = "2026-11-05T12:00:00Z"
    assert call["ledger"] == [
        {
            "kind": kind,
            "at": at,
            "held_micros": held,
            "held_tokens": held,
            "spent_micros": spent,
            "spent_tokens": spent,
            "reason": None,
        }
        for kind, held, spent in (("reserve", 500, 0), ("settle", -500, 100))
    ]
    assert (await reader.client.get(f"/api/usage/calls/{uuid7()}")).status_code == 404
