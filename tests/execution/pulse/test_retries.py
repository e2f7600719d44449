"""What becomes of a session whose model cannot be asked: it waits without a worker, or fails."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.execution.pulse.conftest import Lab, script

from agentos.execution.pulse import dispatch
from agentos.integrations.models.upstream import Upstream, UpstreamAnswer, UpstreamLost


class Flaky:
    """An upstream whose first calls do not get through."""

    def __init__(self, upstream: Upstream, failures: int):
        self._upstream = upstream
        self._failures = failures

    def send(self, *args: Any, **options: Any) -> AbstractAsyncContextManager[UpstreamAnswer]:
        if self._failures > 0:
            self._failures -= 1
            raise UpstreamLost("The line is dead.")
        return self._upstream.send(*args, **options)

    async def close(self) -> None:
        await self._upstream.close()


async def wakes_at(lab: Lab, session_id: UUID) -> datetime | None:
    at: datetime | None = await lab.superuser.fetchval(
        "select wake_at from sessions where id = $1", session_id
    )
    return at


async def paused(lab: Lab, session_id: UUID, times: int) -> dict[str, Any]:
    """The session when it is paused for the nth time."""
    async with asyncio.timeout(30):
        while (await lab.kinds(session_id)).count("PAUSED") < times:  # noqa: ASYNC110 - the journal is asked
            await asyncio.sleep(0.02)
    return await lab.until(session_id, "PAUSED")


async def test_a_busy_model_is_asked_again_each_time_later_and_then_it_fails(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script("fail overload The model is busy."))
        for nth, seconds in enumerate((2, 10, 60), 1):
            read = await paused(lab, session_id, nth)
            assert read["waiting_for"] == "retry"
            assert await wakes_at(lab, session_id) == lab.clock.now() + timedelta(seconds=seconds)
            lab.clock.advance(timedelta(seconds=seconds))
        read = await lab.ended(session_id)
    assert (read["state"], read["error_code"]) == ("FAILED", "model_call_failed")
    assert "The model is busy." in read["error"]


async def test_a_model_that_is_back_is_gone_on_with(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = lab.parts.router
    monkeypatch.setattr(router, "upstream", Flaky(router.upstream, 2))
    async with lab.engine():
        session_id = await lab.create(script("say Done."))
        await paused(lab, session_id, 1)
        lab.clock.advance(timedelta(seconds=2))
        await paused(lab, session_id, 2)
        lab.clock.advance(timedelta(seconds=10))
        read = await lab.ended(session_id)
    assert (read["state"], read["turns"]) == ("COMPLETE", 1), read["error"]


async def test_what_waiting_does_not_help_fails_at_once(lab: Lab) -> None:
    async with lab.engine():
        read = await lab.ended(await lab.create(script("fail auth The key was revoked.")))
    assert (read["state"], read["error_code"]) == ("FAILED", "model_call_failed")
    assert "PAUSED" not in await lab.kinds(UUID(read["id"]))


async def test_a_budget_pauses_it_until_it_is_raised(lab: Lab) -> None:
    price = {"provider": "demo", "model": "demo", "input": 10_000_000, "output": 10_000_000}
    answer = await lab.client.put("/api/models/prices", json=price)
    assert answer.status_code == 200, answer.text
    async with lab.engine():
        session_id = await lab.create(script("say Done."), budget_micros=1)
        read = await lab.until(session_id, "PAUSED")
        assert read["waiting_for"] == "budget"
        assert await dispatch.wake_with_budget(lab.parts.platform_db, lab.clock.now()) == 0
        raised = {"scope": "session", "subject_id": str(session_id), "cap_micros": 10_000_000}
        answer = await lab.client.put("/api/budgets", json=raised)
        assert answer.status_code == 200, answer.text
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    assert 0 < read["cost_micros"] <= 10_000_000


async def test_tokens_of_the_plan_that_are_used_up_are_asked_for_again_later(lab: Lab) -> None:
    await lab.superuser.execute(
        """update tenants set limits = limits || '{"tokens_per_month": 1}' where id = $1""",
        lab.person.tenant_id,
    )
    async with lab.engine():
        session_id = await lab.create(script("say Done."))
        read = await lab.until(session_id, "PAUSED")
        assert read["waiting_for"] == "budget"
        assert await wakes_at(lab, session_id) == lab.clock.now() + timedelta(minutes=5)
        # No budget is in its way, so none that is raised wakes it.
        assert await dispatch.wake_with_budget(lab.parts.platform_db, lab.clock.now()) == 0
