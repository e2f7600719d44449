from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.execution.pulse.conftest import script
from tests.execution.runs.conftest import Runs

from agentos.execution.runs.engine import RunEngine
from agentos.execution.schedules import times
from agentos.execution.schedules.schemas import Timing

SESSION = {"prompt": script("say Done."), "model": "demo"}


async def test_a_session_by_cron(runs: Runs) -> None:
    made = await runs.schedule(cron="0 9 * * *", timezone="Europe/Berlin", session=SESSION)
    assert made["kind"] == "cron"
    assert len(made["upcoming"]) == 5
    due = datetime.fromisoformat(made["next_at"])
    runs.lab.clock.advance(due - runs.lab.clock.now())
    async with runs.lab.engine():
        await runs.rounds()
        (run,) = await runs.runs_of(made)
        assert datetime.fromisoformat(run["due_at"]) == due
        ended = await runs.ended(run["id"])
    assert (ended["state"], ended["result"]) == ("succeeded", "Done.")
    assert ended["session_id"] is not None
    read = await runs.call("GET", f"/api/schedules/{made['id']}")
    assert datetime.fromisoformat(read["next_at"]) > due


async def test_an_interval_goes_on_from_its_beginning(runs: Runs) -> None:
    made = await runs.schedule(every_seconds=3600, session=SESSION)
    start = datetime.fromisoformat(made["at"])
    assert [datetime.fromisoformat(each) for each in made["upcoming"]] == [
        start + timedelta(hours=n) for n in range(1, 6)
    ]


async def test_once_is_once(runs: Runs) -> None:
    at = runs.lab.clock.now() + timedelta(days=400)
    made = await runs.schedule(at=at.isoformat(), session=SESSION)
    assert [datetime.fromisoformat(each) for each in made["upcoming"]] == [at]
    runs.lab.clock.advance(at - runs.lab.clock.now())
    await runs.rounds()
    read = await runs.call("GET", f"/api/schedules/{made['id']}")
    assert (read["next_at"], read["upcoming"]) == (None, [])
    assert len(await runs.runs_of(made)) == 1
    refused = await runs.lab.client.post(f"/api/schedules/{made['id']}/resume")
    assert refused.json()["code"] == "nothing_to_come"


async def test_a_prompt_for_a_team(runs: Runs) -> None:
    team_id = await runs.team()
    made = await runs.schedule(
        every_seconds=60, team_id=str(team_id), prompt=script("say Good morning.")
    )
    runs.lab.clock.advance(datetime.fromisoformat(made["next_at"]) - runs.lab.clock.now())
    async with runs.lab.engine():
        await runs.rounds()
        (run,) = await runs.runs_of(made)
        ended = await runs.ended(run["id"])
    assert (ended["state"], ended["result"]) == ("succeeded", "Good morning.")
    messages = (await runs.call("GET", f"/api/teams/{team_id}/messages"))["items"]
    assert [(m["source"], m["run_id"], m["author"]) for m in messages] == [
        ("schedule", run["id"], "s")
    ]


async def test_pause_and_resume(runs: Runs) -> None:
    made = await runs.schedule(every_seconds=60, session=SESSION)
    paused = await runs.call("POST", f"/api/schedules/{made['id']}/pause")
    assert (paused["enabled"], paused["next_at"]) == (False, None)
    runs.lab.clock.advance(timedelta(hours=1))
    await runs.rounds()
    assert await runs.runs_of(made) == []
    resumed = await runs.call("POST", f"/api/schedules/{made['id']}/resume")
    assert datetime.fromisoformat(resumed["next_at"]) > runs.lab.clock.now()


async def test_run_now_leaves_the_next_moment_alone(runs: Runs) -> None:
    made = await runs.schedule(cron="0 0 1 1 *", session=SESSION)
    run = await runs.call("POST", f"/api/schedules/{made['id']}/run", 201)
    assert (run["manual"], run["state"]) == (True, "running")
    async with runs.lab.engine():
        ended = await runs.ended(run["id"])
    assert ended["state"] == "succeeded"
    assert (await runs.call("GET", f"/api/schedules/{made['id']}"))["next_at"] == made["next_at"]


async def test_a_failing_session_is_a_failed_run(runs: Runs) -> None:
    made = await runs.schedule(
        every_seconds=60, session={**SESSION, "guards": {"max_turns": 1}, "prompt": _turns(3)}
    )
    run = await runs.call("POST", f"/api/schedules/{made['id']}/run", 201)
    async with runs.lab.engine():
        ended = await runs.ended(run["id"])
    assert ended["state"] == "failed"
    assert ended["error"]


def _turns(count: int) -> str:
    return script(*['call update_plan {"plan": []}'] * count, "say Done.")


@pytest.mark.parametrize(
    ("policy", "states"),
    [("skip", ["skipped"]), ("once", ["queued"]), ("all", ["queued"] * 5)],
)
async def test_what_was_missed(runs: Runs, policy: str, states: list[str]) -> None:
    made = await runs.schedule(every_seconds=3600, session=SESSION, missed=policy)
    # Nobody was there for a while; nothing is started, so that what was made can be seen.
    runs.lab.parts.settings.scheduler_max_concurrent = 0
    runs.lab.clock.advance(timedelta(hours=5, minutes=30))
    await runs.rounds()
    found = await runs.runs_of(made)
    assert sorted(run["state"] for run in found) == states
    if policy != "skip":
        newest = datetime.fromisoformat(found[0]["due_at"])
        assert runs.lab.clock.now() - newest == timedelta(minutes=30)
    next_at = (await runs.call("GET", f"/api/schedules/{made['id']}"))["next_at"]
    assert datetime.fromisoformat(next_at) - runs.lab.clock.now() == timedelta(minutes=30)


async def test_after_years_only_the_newest_are_made_up_for(runs: Runs) -> None:
    made = await runs.schedule(every_seconds=10, session=SESSION, missed="all")
    runs.lab.parts.settings.scheduler_max_concurrent = 0
    runs.lab.clock.advance(timedelta(days=30))
    await runs.rounds()
    count = await runs.lab.superuser.fetchval("select count(*) from runs")
    assert count == times.MOST_MISSED
    newest = datetime.fromisoformat((await runs.runs_of(made))[0]["due_at"])
    assert runs.lab.clock.now() - newest < timedelta(seconds=10)


async def test_two_schedulers_make_each_run_once(runs: Runs) -> None:
    made = [await runs.schedule(name=f"s{n}", every_seconds=60, session=SESSION) for n in range(10)]
    runs.lab.clock.advance(timedelta(seconds=61))
    engines = [RunEngine(runs.lab.parts) for _ in range(4)]
    await asyncio.gather(*(each.round(runs.deliverer) for each in engines for _ in range(3)))
    await runs.rounds()
    for each in made:
        assert len(await runs.runs_of(each)) == 1
    assert await runs.lab.superuser.fetchval("select count(*) from sessions") == 10


async def test_no_more_at_once_than_the_setting_allows(runs: Runs) -> None:
    runs.lab.parts.settings.scheduler_max_concurrent = 2
    made = [
        await runs.schedule(name=f"s{n}", every_seconds=3600, session=SESSION) for n in range(5)
    ]
    runs.lab.clock.advance(timedelta(hours=1, seconds=1))
    await runs.rounds()
    states = [(await runs.runs_of(each))[0]["state"] for each in made]
    assert sorted(states) == ["queued"] * 3 + ["running"] * 2
    async with runs.lab.engine():
        for each in made:
            run = (await runs.runs_of(each))[0]
            assert (await runs.ended(run["id"]))["state"] == "succeeded"


async def test_a_run_whose_team_cannot_take_it_has_failed(runs: Runs) -> None:
    made = await runs.schedule(every_seconds=60, session=SESSION)
    config = {**SESSION, "model": "gone/model"}
    await runs.lab.superuser.execute("update schedules set session = $1", _json(config))
    runs.lab.clock.advance(timedelta(seconds=61))
    await runs.rounds()
    (run,) = await runs.runs_of(made)
    assert (run["state"], run["error_code"]) == ("failed", "model_not_found")


def _json(value: Any) -> str:
    import json

    return json.dumps(value)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"cron": "61 * * * *"}, "bad_cron"),
        ({"cron": "*/5 * * * * *"}, "bad_cron"),
        ({"cron": "0 0 30 2 *"}, "bad_cron"),
        ({"cron": "* * * * *", "timezone": "Mars/Olympus"}, "bad_time_zone"),
        ({"cron": "* * * * *", "timezone": "../../etc/passwd"}, "bad_time_zone"),
        ({"at": "2001-01-01T00:00:00Z"}, "nothing_to_come"),
        ({}, "invalid"),
        ({"cron": "* * * * *", "every_seconds": 60}, "invalid"),
        ({"every_seconds": 60, "prompt": "x"}, "bad_target"),
        ({"every_seconds": 60, "session": {"prompt": "x", "model": "no/such"}}, "model_not_found"),
    ],
)
async def test_what_cannot_be_scheduled(runs: Runs, body: dict[str, Any], code: str) -> None:
    body = {"session": SESSION, "name": "s", **body}
    answer = await runs.lab.client.post("/api/schedules", json=body)
    assert answer.status_code in (409, 422, 404, 400), answer.text
    assert answer.json()["code"] == code


async def test_a_team_of_another_tenant_is_no_team(runs: Runs) -> None:
    stranger = await runs.lab.gateway.tenant()
    body = {"name": "T", "model": "demo", "leader": {"name": "leader"}}
    theirs = (await stranger.client.post("/api/teams", json=body)).json()["id"]
    answer = await runs.lab.client.post(
        "/api/schedules",
        json={"name": "s", "every_seconds": 60, "team_id": theirs, "prompt": "x"},
    )
    assert (answer.status_code, answer.json()["code"]) == (404, "team_not_found")


async def test_change_and_delete(runs: Runs) -> None:
    made = await runs.schedule(every_seconds=60, session=SESSION)
    path = f"/api/schedules/{made['id']}"
    changed = await runs.call("PATCH", path, json={"cron": "30 4 * * *", "name": "other"})
    assert (changed["kind"], changed["every_seconds"], changed["name"]) == ("cron", None, "other")
    await runs.schedule(name="taken", every_seconds=60, session=SESSION)
    clash = await runs.lab.client.patch(path, json={"name": "TAKEN"})
    assert (clash.status_code, clash.json()["code"]) == (409, "schedule_name_taken")
    await runs.call("DELETE", path, 204)
    assert (await runs.lab.client.get(path)).status_code == 404


async def test_a_run_says_what_its_session_was_asked(runs: Runs) -> None:
    made = await runs.schedule(every_seconds=60, session=SESSION)
    run = await runs.call("POST", f"/api/schedules/{made['id']}/run", 201)
    assert run["prompt"] == SESSION["prompt"]
    # As it was stored until it was stored beside the session.
    await runs.lab.superuser.execute("update runs set prompt = null")
    assert [each["prompt"] for each in await runs.runs_of(made)] == [SESSION["prompt"]]
    changed = await runs.call(
        "PATCH", f"/api/schedules/{made['id']}", json={"prompt": script("say Other.")}
    )
    assert changed["prompt"] is None
    assert changed["session"] == {**made["session"], "prompt": script("say Other.")}
    runs.lab.clock.advance(timedelta(minutes=1))
    await runs.rounds()
    asked = [each["prompt"] for each in await runs.runs_of(made)]
    assert asked == [script("say Other."), SESSION["prompt"]]


async def test_a_team_stays_and_its_prompt_changes(runs: Runs) -> None:
    team_id = await runs.team()
    made = await runs.schedule(every_seconds=60, team_id=str(team_id), prompt="One")
    path = f"/api/schedules/{made['id']}"
    changed = await runs.call("PATCH", path, json={"prompt": "Two"})
    assert (changed["prompt"], changed["team_id"]) == ("Two", str(team_id))
    refused = await runs.lab.client.patch(path, json={"session": SESSION})
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_target")
    both = await runs.schedule(name="other", every_seconds=60, session=SESSION)
    refused = await runs.lab.client.patch(
        f"/api/schedules/{both['id']}", json={"session": SESSION, "prompt": "Three"}
    )
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_target")
    assert (await runs.call("GET", path))["prompt"] == "Two"


# The clock change of Berlin in 2026: 29 March and 25 October.


def _moments(cron: str, after: datetime, count: int) -> list[str]:
    timing = Timing(cron=cron, timezone="Europe/Berlin")
    return [each.strftime("%d %H:%M") for each in times.upcoming(timing, after, count)]


def test_what_falls_into_the_missing_hour_happens_right_after_it() -> None:
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)
    # 2:30 does not exist on the 29th: it is 3:00 summer time, which is 1:00 UTC.
    assert _moments("30 2 * * *", before, 2) == ["29 01:00", "30 00:30"]


def test_what_falls_into_the_hour_that_comes_twice_happens_once() -> None:
    before = datetime(2026, 10, 24, 12, tzinfo=UTC)
    assert _moments("30 2 * * *", before, 2) == ["25 00:30", "26 01:30"]


def test_every_half_hour_follows_the_time_that_passes() -> None:
    before = datetime(2026, 10, 24, 23, 59, tzinfo=UTC)
    assert _moments("*/30 * * * *", before, 5) == [
        "25 00:00",
        "25 00:30",
        "25 01:00",
        "25 01:30",
        "25 02:00",
    ]
