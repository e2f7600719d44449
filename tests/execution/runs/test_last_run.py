"""What lists say of the newest run of each schedule and webhook."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from asyncpg import Record
from tests.execution.pulse.conftest import script
from tests.execution.runs.conftest import Runs

from agentos.execution.runs.schemas import LastRun
from agentos.execution.schedules import repository as schedules
from agentos.execution.webhooks import repository as webhooks
from agentos.kernel.database import Transaction

SESSION = {"prompt": script("say Done."), "model": "demo"}
FAILING = {"prompt": script("fail invalid The request made no sense."), "model": "demo"}


async def listed(runs: Runs, kind: str) -> dict[str, Any]:
    """What the list says of each, by name; and that each says the same by itself."""
    items = (await runs.call("GET", f"/api/{kind}"))["items"]
    for item in items:
        alone = await runs.call("GET", f"/api/{kind}/{item['id']}")
        assert _same(alone["last_run"]) == _same(item["last_run"])
    return {item["name"]: item["last_run"] for item in items}


def _same(run: dict[str, Any] | None) -> LastRun | None:
    """Moments as such: a list writes them a little differently."""
    return None if run is None else LastRun.model_validate(run)


async def test_the_newest_run_of_each_schedule(runs: Runs) -> None:
    good = await runs.schedule(name="good", every_seconds=3600, session=SESSION)
    bad = await runs.schedule(name="bad", every_seconds=3600, session=FAILING)
    made = await runs.schedule(name="new", every_seconds=3600, session=SESSION)
    assert made["last_run"] is None
    assert await listed(runs, "schedules") == {"good": None, "bad": None, "new": None}
    async with runs.lab.engine():
        for schedule in (good, good, bad):
            run = await runs.call("POST", f"/api/schedules/{schedule['id']}/run", 201)
            now = (await listed(runs, "schedules"))[schedule["name"]]
            assert (now["id"], now["finished_at"]) == (run["id"], None)
            ended = await runs.ended(run["id"])
            shown = (await listed(runs, "schedules"))[schedule["name"]]
            assert _same(shown) == _same({name: ended[name] for name in shown})
    states = {name: run and run["state"] for name, run in (await listed(runs, "schedules")).items()}
    assert states == {"good": "succeeded", "bad": "failed", "new": None}
    changed = await runs.call("PATCH", f"/api/schedules/{bad['id']}", json={"name": "worse"})
    assert changed["last_run"]["error"]


async def test_what_was_skipped_is_the_last_run_too(runs: Runs) -> None:
    await runs.schedule(name="late", every_seconds=3600, session=SESSION, missed="skip")
    runs.lab.clock.advance(timedelta(hours=5, minutes=30))
    await runs.rounds()
    late = (await listed(runs, "schedules"))["late"]
    assert (late["state"], late["finished_at"] is None) == ("skipped", False)


async def test_the_newest_run_of_each_webhook(runs: Runs) -> None:
    used = await runs.webhook(name="used", session=SESSION)
    await runs.webhook(name="new", session=SESSION)
    assert used["last_run"] is None
    sender = await runs.lab.gateway.client()
    for _ in range(2):
        fired = (await sender.post(used["path"])).json()
    found = await listed(runs, "webhooks")
    assert found["new"] is None
    assert (found["used"]["id"], found["used"]["state"]) == (fired["run_id"], "running")
    rotated = await runs.call("POST", f"/api/webhooks/{used['id']}/rotate")
    assert rotated["last_run"]["id"] == fired["run_id"]


class Explained(Transaction):
    """Says how the database goes about what it is asked for."""

    plan: dict[str, Any]

    async def fetch(self, query: str, *args: Any) -> list[Record]:
        told = await self.value(f"explain (analyze, buffers, format json) {query}", *args)
        self.plan = json.loads(told)[0]["Plan"]
        return []


# Of all that are there: with runs of several, and with those of one that fill the whole table.
@pytest.mark.parametrize("others", [20, 1])
@pytest.mark.parametrize(
    ("slice_", "index"), [(schedules, "runs_of_schedule"), (webhooks, "runs_of_webhook")]
)
async def test_it_costs_one_step_into_an_index(
    runs: Runs, slice_: Any, index: str, others: int
) -> None:
    """However many runs there are, of it and of others, and also if it has none."""
    noun = index.removeprefix("runs_of_")
    when = {"every_seconds": 60} if slice_ is schedules else {}
    make = runs.schedule if slice_ is schedules else runs.webhook
    made = [await make(name=f"n{n}", session=SESSION, **when) for n in range(12)]
    tenant_id = runs.lab.person.tenant_id
    await runs.lab.superuser.execute(
        f"""insert into runs (tenant_id, id, {noun}_id, due_at, manual, state, created_at)
            select $1, gen_random_uuid(), case when n % $4 = 0 then $3 else $2 end::uuid, now(),
                true, 'succeeded', now() from generate_series(1, 5000) n""",
        *(tenant_id, made[0]["id"], made[1]["id"], others),
    )
    await runs.lab.superuser.execute("analyze runs")
    async with runs.lab.parts.db.transaction(tenant_id=tenant_id) as tx:
        explained = Explained(tx._connection)
        await slice_.page(explained, tenant_id, None, UUID(int=0), 4)
    (looked,) = _nodes(explained.plan, "Relation Name", "runs")
    assert looked["Index Name"] == index
    assert looked["Actual Loops"] == 4, "only for those that are shown"
    assert looked["Actual Rows"] <= 1
    assert looked.get("Rows Removed by Filter", 0) == 0
    assert looked["Shared Hit Blocks"] + looked["Shared Read Blocks"] <= 6 * 4


def _nodes(plan: dict[str, Any], name: str, value: str) -> list[dict[str, Any]]:
    below = [node for each in plan.get("Plans", []) for node in _nodes(each, name, value)]
    return [plan, *below] if plan.get(name) == value else below
