from __future__ import annotations

import csv
import io
from datetime import UTC, date, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from tests.gateways import Gateway
from tests.usage_rows import called, metered, used

from agentos.cli import usage
from agentos.cli.usage import dollars
from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database

from .conftest import Cli, FakeGateway


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock(datetime(2026, 11, 16, 12, tzinfo=UTC))


@pytest.fixture
async def tenant_id(gateway: Gateway) -> UUID:
    return (await gateway.tenant()).tenant_id


@pytest.fixture
async def owner(cli: Cli, gateway: Gateway, tenant_id: UUID) -> Cli:
    key = await gateway.api_key(tenant_id)
    return Cli(cli.env | {"AGENTOS_URL": gateway.url, "AGENTOS_API_KEY": key})


@pytest.mark.parametrize(
    ("micros", "shown"),
    [
        (0, "$0.00"),
        (1, "$0.000001"),
        (12_300, "$0.0123"),
        (500_000, "$0.50"),
        (25_000_000, "$25.00"),
        (1_234_567_890_123, "$1,234,567.890123"),
        (None, "unknown"),
    ],
)
def test_dollars_are_exact(micros: int | None, shown: str) -> None:
    assert dollars(micros) == shown


def test_a_part_that_is_unknown_shows() -> None:
    assert dollars(5, at_least=True) == "≥ $0.000005"
    assert dollars(None, at_least=True) == "unknown"


async def test_nothing_used_says_what_to_do(owner: Cli) -> None:
    assert (await owner("usage")).out.startswith("No model calls yet. Try: agentos models list\n")
    assert "No calls match." in (await owner("usage", "--model", "gpt-5")).out
    assert (await owner("usage", "calls")).out == ("No model calls yet. Try: agentos models list\n")
    assert "No calls match." in (await owner("usage", "calls", "--outcome", "failed")).out
    assert (await owner("usage", "--json")).json["rows"] == []


async def test_a_report(owner: Cli, platform_db: Database, tenant_id: UUID) -> None:
    await used(platform_db, tenant_id, date(2026, 11, 3), cost_micros=12_300)
    await used(
        *(platform_db, tenant_id, date(2026, 11, 5)),
        model="dark\x1b[2J",
        unpriced_calls=10,
        cost_micros=0,
        rated_micros=0,
    )
    await metered(platform_db, tenant_id, date(2026, 11, 3), "compute_seconds", 60)
    shown = (await owner("usage")).out
    lines = [line.split() for line in shown.splitlines()]
    assert lines[:4] == [
        ["Day", "Calls", "Failed", "In", "Out", "Cost"],
        ["2026-11-03", "10", "0", "1,000", "200", "$0.0123"],
        # A day without calls is there, too: it is part of the picture.
        ["2026-11-04", "0", "0", "0", "0", "$0.00"],
        ["2026-11-05", "10", "0", "1,000", "200", "unknown"],
    ]
    assert "20 calls, 2,400 tokens, ≥ $0.0123 at the providers" in shown
    assert "The price of 10 calls is unknown. Set it with `agentos models price set`." in shown
    assert ["Compute", "60", "s", "$0.005"] in lines
    assert ["Total", "≥", "$0.00615"] in lines

    by_model = (await owner("usage", "--by", "model")).out
    assert "openai/dark\\x1b[2J" in by_model
    assert "\x1b" not in by_model
    assert "Charged" not in (await owner("usage", "--model", "gpt-5")).out


async def test_options_reach_the_gateway(cli: Cli, fake: FakeGateway) -> None:
    fake.handler = lambda _: (200, {"rows": []})
    cli = Cli(cli.env | {"AGENTOS_URL": fake.url, "AGENTOS_API_KEY": "sk_test"})
    options = ("--from", "2026-11-01", "--to", "2026-11-30", "--by", "session", "--model", "m")
    more = ("--session", "s", "--team", "t", "--provider", "p")
    await cli("usage", *options, *more, "--json")
    await cli("usage", "export", *options, *more)
    query = "?from=2026-11-01&to=2026-11-30&by=session&team_id=t&session_id=s&provider=p&model=m"
    assert [request.path for request in fake.seen] == [
        f"/api/usage{query}",
        f"/api/usage/export.csv{query}",
    ]
    refused = await cli("usage", "--model", "m", "calls", code=2)
    assert "Options come after `calls`." in refused.err
    assert len(fake.seen) == 2


async def test_wrong_options_are_told_by_the_gateway(owner: Cli) -> None:
    told = await owner("usage", "--from", "2026-11-20", "--to", "2026-11-01", code=2)
    assert "`from` is after `to`." in told.err
    await owner("usage", "--by", "moon", code=2)


async def test_calls(owner: Cli, platform_db: Database, tenant_id: UUID) -> None:
    session = uuid4()
    await called(platform_db, tenant_id, session_id=session)
    failed = {"outcome": "failed", "error_class": "overload"}
    await called(platform_db, tenant_id, **failed, cost_micros=None, rated_micros=None)
    listed = (await owner("usage", "calls")).out.splitlines()
    assert "failed: overload" in listed[1]
    assert "unknown" in listed[1]
    assert "openai/gpt-5" in listed[2]
    assert "$0.0001" in listed[2]
    assert len((await owner("usage", "calls", "--limit", "1", "--json")).json) == 1
    (one,) = (await owner("usage", "calls", "--session", str(session), "--json")).json
    assert one["session_id"] == str(session)


async def test_export(owner: Cli, platform_db: Database, tenant_id: UUID, tmp_path: Path) -> None:
    await used(platform_db, tenant_id, date(2026, 11, 3), provider="=cmd()")
    out = (await owner("usage", "export", "--by", "provider")).out
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["provider"], row["cost_micros"]) for row in rows] == [("'=cmd()", "1000")]
    file = tmp_path / "usage.csv"
    done = await owner("usage", "export", "--by", "provider", "-o", str(file), "--json")
    assert done.json == {"file": str(file), "bytes": file.stat().st_size}
    assert list(csv.DictReader(io.StringIO(file.read_text()))) == rows


def test_bars_compare_rows_by_cost_or_else_by_tokens() -> None:
    def row(cost: int | None, tokens: int) -> dict[str, int | None]:
        return {"cost_micros": cost, "input_tokens": tokens, "output_tokens": 0}

    rows = [row(100, 9), row(50, 1), row(1, 9), row(0, 9), row(None, 9)]
    assert usage._bars(rows) == ["█" * 16, "█" * 8, "▏", "", ""]
    assert usage._bars([row(0, 8), row(None, 2)]) == ["█" * 16, "█" * 4]
    assert usage._bars([row(0, 0)]) == [""]


def test_a_terminal_gets_a_chart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"calls": 1, "failed_calls": 0, "unpriced_calls": 0, "input_tokens": 1}
    row |= {"output_tokens": 1, "cost_micros": 5}
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    usage._show_rows("day", [row | {"key": "2026-11-03"}])
    assert "█" * 16 in capsys.readouterr().out
