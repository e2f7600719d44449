"""What a worker that has nothing to do sees: one statement tells it all."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from tests.execution.pulse.conftest import Lab, script

from agentos.execution.pulse import dispatch
from agentos.execution.pulse.dispatch import Glance, WorkerIdentity
from agentos.kernel.ids import uuid7

NOTHING = Glance(alive=True, queued=False, due=False, broke=False, lost=False)


@pytest.fixture
async def worker(lab: Lab) -> WorkerIdentity:
    return await joined(lab, dispatch.identify(uuid7()))


async def joined(lab: Lab, worker: WorkerIdentity) -> WorkerIdentity:
    await dispatch.register(lab.parts.platform_db, worker, 1)
    return worker


async def glance(lab: Lab, worker: WorkerIdentity, *, says: bool = False) -> Glance:
    db, now = lab.parts.platform_db, lab.clock.now()
    return await dispatch.beat(db, worker, now, says=says, draining=False)


async def waiting(lab: Lab, what: str) -> UUID:
    session_id = await lab.create()
    await lab.superuser.execute(
        "update sessions set state = 'PAUSED', queued_at = null, waiting_for = $2 where id = $1",
        session_id,
        what,
    )
    return session_id


async def silent_for(lab: Lab, worker: WorkerIdentity, seconds: float) -> None:
    await lab.superuser.execute(
        "update workers set seen_at = clock_timestamp() - $2 * interval '1 second' where id = $1",
        worker.id,
        seconds,
    )


async def test_a_beat_is_noted_only_if_the_worker_says_so(lab: Lab, worker: WorkerIdentity) -> None:
    seen = "select clock_timestamp() - seen_at from workers"
    await silent_for(lab, worker, 5)
    assert await glance(lab, worker) == NOTHING
    assert await lab.superuser.fetchval(seen) > timedelta(seconds=4)
    assert await glance(lab, worker, says=True) == NOTHING
    assert await lab.superuser.fetchval(seen) < timedelta(seconds=4)


async def test_who_was_buried_hears_of_it(lab: Lab, worker: WorkerIdentity) -> None:
    await lab.superuser.execute("delete from workers")
    assert not (await glance(lab, worker)).alive
    assert not (await glance(lab, worker, says=True)).alive


async def test_the_queue_is_seen(lab: Lab, worker: WorkerIdentity) -> None:
    await lab.create()
    assert await glance(lab, worker) == replace(NOTHING, queued=True)


async def test_a_time_to_go_on_is_seen_when_it_has_come(lab: Lab, worker: WorkerIdentity) -> None:
    session_id = await waiting(lab, "retry")
    await lab.superuser.execute(
        "update sessions set wake_at = $2 where id = $1",
        session_id,
        lab.clock.now() + timedelta(seconds=1),
    )
    assert await glance(lab, worker) == NOTHING
    lab.clock.advance(timedelta(seconds=1))
    assert await glance(lab, worker) == replace(NOTHING, due=True)
    await lab.superuser.execute("update sessions set pause_requested = true")
    assert await glance(lab, worker) == NOTHING, "people have paused it"


async def test_sessions_without_budget_are_seen(lab: Lab, worker: WorkerIdentity) -> None:
    await waiting(lab, "budget")
    assert await glance(lab, worker) == replace(NOTHING, broke=True)


async def test_dead_workers_are_seen(lab: Lab, worker: WorkerIdentity) -> None:
    lost = replace(NOTHING, lost=True)
    other = await joined(lab, replace(worker, id=uuid7()))
    assert await glance(lab, worker) == NOTHING, "it is a process that lives"
    await silent_for(lab, other, dispatch.DEAD_SECONDS + 1)
    assert await glance(lab, worker) == lost
    await dispatch.unregister(lab.parts.platform_db, other)
    assert await glance(lab, worker) == NOTHING
    await joined(lab, replace(worker, id=uuid7(), pid_started=worker.pid_started - 1))
    assert await glance(lab, worker) == lost, "its pid belongs to another process now"


async def test_sessions_whose_worker_is_gone_are_seen(lab: Lab, worker: WorkerIdentity) -> None:
    await lab.create()
    other = await joined(lab, replace(worker, id=uuid7()))
    assert len(await dispatch.claim(lab.parts.platform_db, other, 1, lab.clock.now())) == 1
    assert await glance(lab, worker) == NOTHING
    await dispatch.unregister(lab.parts.platform_db, other)
    assert await glance(lab, worker) == replace(NOTHING, lost=True)


async def test_a_session_starts_although_its_hint_got_lost(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lab.engine():
        await asyncio.sleep(0.1)
        monkeypatch.setattr(type(lab.parts.bus), "is_connected", property(lambda _: False))
        session_id = await lab.create(script("say Done."))
        assert (await lab.ended(session_id))["state"] == "COMPLETE"
