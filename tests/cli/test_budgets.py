from __future__ import annotations

from datetime import UTC, date, datetime
from uuid import UUID, uuid4

import pytest
from tests.gateways import Gateway
from tests.usage_rows import insert

from agentos.cli.budgets import micros
from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database
from agentos.kernel.errors import Invalid

from .conftest import Cli


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
    ("text", "exact"),
    [
        ("25", 25_000_000),
        ("25.00", 25_000_000),
        ("$0.50", 500_000),
        ("0.000001", 1),
        ("0.1", 100_000),
        ("0", 0),
        ("999999999.999999", 999_999_999_999_999),
    ],
)
def test_dollars_become_micros_exactly(text: str, exact: int) -> None:
    assert micros(text) == exact


@pytest.mark.parametrize(
    "text", ["", "-1", "1.", ".5", "1,5", "1e3", "0.0000001", "1.0000000", "€5", "٣", "nan", "1 2"]
)
def test_what_is_no_amount(text: str) -> None:
    with pytest.raises(Invalid):
        micros(text)


async def test_the_life_of_budgets(owner: Cli, platform_db: Database, tenant_id: UUID) -> None:
    assert "agentos budgets set tenant 25.00" in (await owner("budgets", "list")).out
    month = date(2026, 11, 1)
    await insert(
        *(platform_db, "accounts"),
        tenant_id=tenant_id,
        scope="tenant",
        subject_id=tenant_id,
        period=month,
        spent_micros=21_000_000,
        held_micros=500_000,
    )
    done = await owner("budgets", "set", "tenant", "25.00")
    assert done.out == "This tenant may spend $25.00 a month; $21.00 is spent.\n"
    session = str(uuid4())
    done = await owner("budgets", "set", "session", session, "0.50")
    assert done.out == f"The session {session} may spend $0.50 in all; $0.00 is spent.\n"
    listed = [line.split() for line in (await owner("budgets", "list")).out.splitlines()]
    assert listed == [
        ["Scope", "Of", "Cap", "Spent", "Held", "Left", "Used", "State", "Period"],
        [
            "tenant",
            "this",
            "tenant",
            "$25.00",
            "$21.00",
            "$0.50",
            "$3.50",
            "84",
            "%",
            "warned",
            "2026-11",
        ],
        f"session {session} $0.50 $0.00 $0.00 $0.50 0 % open in all".split(),
    ]
    items = (await owner("budgets", "list", "--json")).json
    assert [item["cap_micros"] for item in items] == [25_000_000, 500_000]

    await owner("budgets", "remove", "session", str(uuid4()), code=5)
    removed = await owner("budgets", "remove", "session", session)
    assert removed.out.startswith("Budget removed.")
    removed = await owner("budgets", "remove", "tenant", "--json")
    assert removed.json == {"removed": items[0]["id"]}
    assert (await owner("budgets", "list", "--json")).json == []


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("set", "planet", "1"), "There is no scope 'planet'."),
        (("set", "tenant", "t1", "1"), "takes no id"),
        (("set", "session", "1"), "Which session?"),
        (("set", "team", "a", "b", "1"), "Which team?"),
        (("set", "tenant", "0.0000001"), "is not an amount"),
        (("remove", "team"), "Which team?"),
        (("remove", "tenant", "x"), "takes no id"),
    ],
)
async def test_wrong_arguments_are_told_before_anything_is_asked(
    cli: Cli, args: tuple[str, ...], told: str
) -> None:
    refused = await cli("budgets", *args, code=2)
    assert told in refused.err
