"""A claim picks sessions first and takes them then: what people do in between counts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.execution.pulse.conftest import Lab, script
from tests.execution.pulse.faults.books import check_journal
from tests.execution.pulse.faults.processes import until

from agentos.execution.pulse import dispatch, service
from agentos.kernel.clock import SystemClock
from agentos.kernel.database import Database
from agentos.kernel.ids import uuid7

# Whether somebody waits for a lock that another transaction has.
_WAITS = """select exists (select from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock')"""


@pytest.mark.parametrize(("verb", "state"), [("pause", "PAUSED"), ("cancel", "FAILED")])
async def test_what_was_stopped_in_the_meantime_is_not_taken(
    lab: Lab, platform_db: Database, monkeypatch: pytest.MonkeyPatch, verb: str, state: str
) -> None:
    session_id = await lab.create(script("say Done."))
    worker = dispatch.identify(uuid7())
    await dispatch.register(platform_db, worker, 1)
    claims: list[asyncio.Task[list[dispatch.Claimed]]] = []
    real = service.details

    async def waits() -> bool:
        return bool(await lab.superuser.fetchval(_WAITS))

    async def details(*args: Any) -> Any:
        """Asked for when the session is changed, and the change not committed yet."""
        claim = dispatch.claim(platform_db, worker, 1, SystemClock().now())
        claims.append(asyncio.create_task(claim))
        await until(waits)
        return await real(*args)

    monkeypatch.setattr(service, "details", details)
    await lab.post(f"/api/sessions/{session_id}/{verb}")
    assert await claims[0] == []
    monkeypatch.undo()
    assert (await lab.read(session_id))["state"] == state
    await check_journal(lab.superuser, session_id)
