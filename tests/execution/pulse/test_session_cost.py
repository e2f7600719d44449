"""What a session costs, and that it is what the ledger and the meters have."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from uuid import UUID

from tests.execution.pulse.conftest import Lab, script

PRICES = {"provider": "demo", "model": "demo", "input": 1_000_000, "output": 2_000_000}


async def cost(lab: Lab, session_id: UUID) -> dict[str, Any]:
    answer = await lab.client.get(f"/api/sessions/{session_id}/cost")
    assert answer.status_code == 200, answer.text
    read: dict[str, Any] = answer.json()
    return read


async def run_ms(lab: Lab, session_id: UUID, ran_ms: int) -> None:
    """As if the session had run this long."""
    await lab.superuser.execute("update sessions set ran_ms = $2 where id = $1", session_id, ran_ms)


async def priced(lab: Lab) -> None:
    assert (await lab.client.put("/api/models/prices", json=PRICES)).status_code == 200


async def test_model_calls_and_compute(lab: Lab) -> None:
    await priced(lab)
    async with lab.engine():
        session_id = await lab.create(
            script("call list_files {}", "usage 100 10", "say Done.", "usage 200 20"),
            budget_micros=1_000_000,
        )
        await lab.ended(session_id)
    await run_ms(lab, session_id, 61_001)
    read = await cost(lab, session_id)
    (model,) = read["models"]
    assert (model["provider"], model["model"], model["calls"]) == ("demo", "demo", 2)
    assert (model["input_tokens"], model["output_tokens"]) == (300, 30)
    assert (model["cost_micros"], model["rated_micros"]) == (360, 414)
    own = read["own"]
    assert (own["calls"], own["tokens"], own["cost_micros"]) == (2, 330, 360)
    # A minute is 5,000 micro-dollars, and a second begun counts.
    assert own["compute"] == {"seconds": 62, "rated_micros": 5167}
    assert own["total_micros"] == read["total_micros"] == 414 + 5167
    assert read["steps"] == {"cost_micros": 360, "undone_micros": 0, "tokens": 330}
    assert read["budget"] == {
        "cap_micros": 1_000_000,
        "spent_micros": 360,
        "left_micros": 999_640,
    }
    assert read["sub_agents"]["sessions"] == 0


async def test_what_was_undone_stays_spent(lab: Lab) -> None:
    await priced(lab)
    async with lab.engine():
        session_id = await lab.create(script("say Hi.", "usage 100 10"))
        await lab.ended(session_id)
        await lab.post(f"/api/sessions/{session_id}/rollback", to_seq=1)
        prompt = script("say Again.", "usage 50 0")
        await lab.post(f"/api/sessions/{session_id}/continue", prompt=prompt)
        await lab.ended(session_id)
    read = await cost(lab, session_id)
    assert read["steps"] == {"cost_micros": 170, "undone_micros": 120, "tokens": 160}
    assert (read["own"]["cost_micros"], read["budget"]) == (170, None)


async def test_sub_agents_are_a_sum_of_their_own(lab: Lab) -> None:
    await priced(lab)
    async with lab.engine():
        ids = [await lab.create(script("say Hi.", "usage 100 0")) for _ in range(3)]
        for session_id in ids:
            await lab.ended(session_id)
    for parent, child in pairwise(ids):
        await lab.superuser.execute(
            "update sessions set parent_id = $1 where id = $2", parent, child
        )
    for session_id in ids:
        await run_ms(lab, session_id, 1)
    read = await cost(lab, ids[0])
    assert read["own"]["cost_micros"] == 100
    theirs = read["sub_agents"]
    assert (theirs["sessions"], theirs["calls"], theirs["cost_micros"]) == (2, 2, 200)
    assert theirs["compute"]["seconds"] == 2
    assert read["total_micros"] == read["own"]["total_micros"] + theirs["total_micros"]


async def test_unknown_prices_are_said_to_be_unknown(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script("say Hi."))
        await lab.ended(session_id)
    await lab.superuser.execute(
        "update usage_days set unpriced_calls = calls, cost_micros = 0, rated_micros = 0"
    )
    read = await cost(lab, session_id)
    (model,) = read["models"]
    assert (model["cost_micros"], model["rated_micros"]) == (None, None)
    assert read["own"]["unpriced_calls"] == 1


async def test_compute_is_what_the_tenant_is_charged(lab: Lab) -> None:
    """Each time that a session is put to work is rounded up by itself, here as in the meter."""
    async with lab.engine():
        session_id = await lab.create(script('call shell {"command": "sleep 0.2"}', "say One."))
        await lab.ended(session_id)
        for _ in range(2):
            await lab.post(f"/api/sessions/{session_id}/continue", prompt=script("say More."))
            await lab.ended(session_id)
    read = await cost(lab, session_id)
    assert read["own"]["compute"]["seconds"] >= 3
    usage = (await lab.client.get("/api/usage")).json()
    assert usage["rated"]["compute_seconds"] == read["own"]["compute"]["seconds"]
    assert usage["rated"]["compute_micros"] == read["own"]["compute"]["rated_micros"]
    assert usage["totals"]["calls"] == read["own"]["calls"]


async def test_others_cannot_see_it(lab: Lab) -> None:
    session_id = await lab.create(run=False)
    other = await lab.gateway.tenant()
    answer = await other.client.get(f"/api/sessions/{session_id}/cost")
    assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")
    key = await lab.gateway.api_key(lab.person.tenant_id, frozenset())
    answer = await (await lab.gateway.client(key)).get(f"/api/sessions/{session_id}/cost")
    assert answer.status_code == 403
