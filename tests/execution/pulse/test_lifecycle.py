"""Pausing, resuming, cancelling; limits and the queue."""

from __future__ import annotations

import asyncio
from uuid import UUID

from tests.execution.pulse.conftest import HOLD, Lab, script

LONG = script(*["wait 5000"] * 12, "say Late.")


async def test_a_session_that_is_only_created_runs_when_told(lab: Lab) -> None:
    session_id = await lab.create(script("say Hello."), run=False)
    assert (await lab.read(session_id))["state"] == "CREATED"
    async with lab.engine():
        await lab.post(f"/api/sessions/{session_id}/run")
        assert (await lab.ended(session_id))["state"] == "COMPLETE"
    again = await lab.post(f"/api/sessions/{session_id}/run", 409)
    assert again["code"] == "illegal_transition"


async def test_a_queued_session_is_paused_at_once_and_resumed(lab: Lab) -> None:
    session_id = await lab.create(script("say Hello."))
    paused = await lab.post(f"/api/sessions/{session_id}/pause")
    assert (paused["state"], paused["waiting_for"], paused["queued"]) == ("PAUSED", "pause", False)
    async with lab.engine():
        await asyncio.sleep(0)
        await lab.post(f"/api/sessions/{session_id}/resume")
        assert (await lab.ended(session_id))["state"] == "COMPLETE"
    assert await lab.kinds(session_id) == [
        "message", "QUEUED", "PAUSED", "RUNNING", "model",
        "CHECKPOINT", "checkpoint", "GATE_CHECK", "COMPLETE",
    ]  # fmt: skip


async def test_a_running_session_is_paused_at_its_next_step(lab: Lab) -> None:
    session_id = await lab.create(script(HOLD, "say One."))
    async with lab.engine():
        held = await lab.held(session_id)
        await lab.post(f"/api/sessions/{session_id}/pause")
        held.unlink()
        paused = await lab.until(session_id, "PAUSED")
        assert paused["result"] is None
        await lab.post(f"/api/sessions/{session_id}/resume")
        assert (await lab.ended(session_id))["result"]["text"] == "One."


async def test_pausing_survives_the_worker(lab: Lab) -> None:
    session_id = await lab.create(script(HOLD, "say One."))
    async with lab.engine():
        held = await lab.held(session_id)
        await lab.post(f"/api/sessions/{session_id}/pause")
        held.unlink()
        await lab.until(session_id, "PAUSED")
    async with lab.engine():
        await asyncio.sleep(0.3)
        assert (await lab.read(session_id))["state"] == "PAUSED"


async def test_cancelling_stops_a_running_model_call_at_once(lab: Lab) -> None:
    session_id = await lab.create(LONG)
    async with lab.engine():
        await lab.until(session_id, "RUNNING")
        await lab.post(f"/api/sessions/{session_id}/cancel")
        ended = await lab.read(session_id)
        assert (ended["state"], ended["error_code"]) == ("FAILED", "cancelled")
        async with asyncio.timeout(30):
            while await lab.superuser.fetchval("select count(*) from model_calls") == 0:  # noqa: ASYNC110 - the ledger is asked
                await asyncio.sleep(0.05)
    assert await lab.superuser.fetchval("select outcome from model_calls") == "cancelled"
    again = await lab.post(f"/api/sessions/{session_id}/cancel", 409)
    assert again["code"] == "illegal_transition"


async def test_a_stopping_worker_finishes_its_step_and_gives_the_session_back(lab: Lab) -> None:
    session_id = await lab.create(script(HOLD, "say One."))
    async with lab.engine():
        held = await lab.held(session_id)
        # The engine is told to stop, right after this, before the loop comes to any timer.
        asyncio.get_running_loop().call_later(0.1, held.unlink)
    given_back = await lab.read(session_id)
    assert (given_back["state"], given_back["queued"], given_back["position"]) == (
        "RUNNING",
        True,
        1,
    )
    assert (await lab.kinds(session_id)).count("tool") == 1
    async with lab.engine():
        assert (await lab.ended(session_id))["state"] == "COMPLETE"
    assert (await lab.kinds(session_id)).count("tool") == 1


async def test_the_plan_limits_how_many_run_at_once(lab: Lab) -> None:
    free = await lab.gateway.tenant(plan="free")
    lab.person = free
    ids = [await lab.create(script("wait 200", "say Hi.")) for _ in range(6)]
    most = 0
    async with lab.engine(), lab.engine():
        while {(await lab.read(i))["state"] for i in ids} != {"COMPLETE"}:
            running = await lab.superuser.fetchval(
                "select count(*) from sessions where owner is not null"
            )
            most = max(most, running)
            await asyncio.sleep(0.01)
    assert most == 2
    started = await lab.superuser.fetch("select id from sessions order by started_at, id")
    assert [row["id"] for row in started] == ids


async def test_the_place_in_the_queue_is_shown(lab: Lab) -> None:
    first, second = await lab.create(), await lab.create()
    urgent = await lab.create(priority=5)

    async def place(session_id: UUID) -> int:
        position: int = (await lab.read(session_id))["position"]
        return position

    assert [await place(i) for i in (urgent, first, second)] == [1, 2, 3]


async def test_a_session_ends_when_its_time_is_up(lab: Lab) -> None:
    session_id = await lab.create(
        script('call shell {"command": "sleep 60"}'), guards={"max_seconds": 1}
    )
    async with lab.engine():
        ended = await lab.ended(session_id)
    assert (ended["state"], ended["error_code"]) == ("FAILED", "time_limit")


async def test_sessions_of_other_tenants_are_not_there(lab: Lab) -> None:
    session_id = await lab.create()
    lab.person = await lab.gateway.tenant()
    missing = UUID(int=7)
    for path in ("", "/run", "/pause", "/resume", "/cancel"):
        method = "GET" if not path else "POST"
        theirs = await lab.client.request(method, f"/api/sessions/{session_id}{path}")
        nobodys = await lab.client.request(method, f"/api/sessions/{missing}{path}")
        assert theirs.status_code == nobodys.status_code == 404
        assert theirs.json()["code"] == nobodys.json()["code"] == "session_not_found"
