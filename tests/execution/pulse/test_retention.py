"""Ended sessions go when their time has come, with everything that was theirs, and nothing else."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.execution.pulse.conftest import Lab, script
from tests.execution.pulse.test_rollback import write

from agentos.execution import retention
from agentos.execution.retention import (
    delete_ended_chains,
    delete_ended_sessions,
    discard_workspaces,
    sweep_sessions,
)
from agentos.kernel.ids import uuid7

DAY = timedelta(days=1)


async def ended(lab: Lab, *lines: str, **config: Any) -> UUID:
    async with lab.engine():
        session_id = await lab.create(script(*lines), **config)
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    return session_id


async def sweep(lab: Lab) -> int:
    return await sweep_sessions(lab.parts.platform_db, lab.clock, DAY)


async def count(lab: Lab, table: str, **where: Any) -> int:
    conditions = " and ".join(f"{name} = ${n}" for n, name in enumerate(where, 1)) or "true"
    found: int = await lab.superuser.fetchval(
        f"select count(*) from {table} where {conditions}", *where.values()
    )
    return found


def directory(lab: Lab) -> Path:
    return lab.parts.settings.workspaces_dir


async def test_an_old_session_goes_with_all_that_was_its_own(lab: Lab) -> None:
    session_id = await ended(
        lab,
        write("a", "y" * 100_000),
        'call shell {"command": "seq 1 20000"}',
        "say Done.",
        max_output_tokens=100_000,
    )
    other = await ended(lab, write("b", "kept"), "say Done.")
    rows = await lab.journal(session_id)
    owned = {row[name] for row in rows for name in ("input_object", "output_object")} - {None}
    await lab.superuser.execute(
        "update workspace_snapshots set created_at = now() - interval '2 hours'"
    )
    snapshots = await count(lab, "workspace_snapshots")
    assert await sweep(lab) == 0
    lab.clock.advance(2 * DAY)
    await lab.superuser.execute(
        "update sessions set finished_at = $2 where id = $1", other, lab.clock.now()
    )
    assert await sweep(lab) == 1
    for table in ("steps", "checkpoints", "approvals"):
        assert await count(lab, table, session_id=session_id) == 0
    assert await count(lab, "steps", session_id=other) > 0
    discarded = {row["id"] for row in await lab.superuser.fetch("select id from discarded_objects")}
    # Payloads, the whole output of the command, and the packs of the files.
    assert owned < discarded
    assert len(discarded) >= len(owned) + 2
    assert 0 < await count(lab, "workspace_snapshots") < snapshots

    workspaces = lab.parts.workspaces
    tenant = directory(lab) / str(lab.person.tenant_id)
    (tenant / "not-an-id").mkdir()
    assert {place.name for place in tenant.iterdir()} == {
        str(session_id),
        str(other),
        "not-an-id",
    }
    assert await discard_workspaces(lab.parts.platform_db, workspaces) == 1
    assert {place.name for place in tenant.iterdir()} == {str(other), "not-an-id"}
    assert await discard_workspaces(lab.parts.platform_db, workspaces) == 0


async def test_what_has_not_ended_stays(lab: Lab) -> None:
    continued = await ended(lab, "say One.")
    await lab.post(f"/api/sessions/{continued}/continue", prompt="More.")
    created = await lab.create(run=False)
    queued = await lab.create()
    paused = await lab.create()
    await lab.post(f"/api/sessions/{paused}/pause")
    lab.clock.advance(100 * DAY)
    assert await sweep(lab) == 0
    assert await count(lab, "sessions") == len({created, queued, paused, continued})


async def test_families_go_together_and_from_the_youngest(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [await lab.create(run=False) for _ in range(3)]
    for session_id in ids:
        await lab.post(f"/api/sessions/{session_id}/cancel")
    for parent, child in pairwise(ids):
        await lab.superuser.execute(
            "update sessions set parent_id = $1 where id = $2", parent, child
        )
    before = lab.clock.now() + DAY

    async def left(state: str, session_id: UUID) -> int:
        finished = None if state == "PAUSED" else lab.clock.now()
        await lab.superuser.execute(
            "update sessions set state = $2, finished_at = $3 where id = $1",
            session_id,
            state,
            finished,
        )
        await delete_ended_sessions(lab.parts.platform_db, before)
        return await count(lab, "sessions")

    # As long as the youngest has not ended, all stay.
    assert await left("PAUSED", ids[2]) == 3
    assert await left("FAILED", ids[2]) == 0
    ids = [await lab.create(run=False) for _ in range(2)]
    await lab.post(f"/api/sessions/{ids[1]}/cancel")
    await lab.superuser.execute("update sessions set parent_id = $1 where id = $2", *ids)
    assert await left("PAUSED", ids[0]) == 2
    monkeypatch.setattr(retention, "_BATCH", 1)
    assert await left("FAILED", ids[0]) == 0


async def test_a_chain_keeps_its_sessions_until_it_ends_and_goes_after_them(lab: Lab) -> None:
    session_id = await ended(lab, "say One.")
    chain_id = uuid7()
    await lab.superuser.execute(
        """insert into chains (tenant_id, id, name, definition, inputs, state, created_by,
               principal_kind, principal_id, created_at, updated_at)
           values ($1, $2, 'c', '{}', '{}', 'RUNNING', 'x', 'user', 'x', $3, $3)""",
        lab.person.tenant_id,
        chain_id,
        lab.clock.now(),
    )
    await lab.superuser.execute(
        "update sessions set chain_id = $1 where id = $2", chain_id, session_id
    )
    finished, before = lab.clock.now(), lab.clock.now() + DAY
    db = lab.parts.platform_db
    assert await delete_ended_sessions(db, before) == 0
    await lab.superuser.execute(
        "update chains set finished_at = $2, state = 'COMPLETE' where id = $1", chain_id, finished
    )
    assert await delete_ended_chains(db, before) == 0
    assert await delete_ended_sessions(db, before) == 1
    assert await delete_ended_chains(db, finished) == 0
    assert await delete_ended_chains(db, before) == 1


async def test_outputs_with_a_zero_character_do_not_stop_it(lab: Lab) -> None:
    session_id = await ended(lab, "say One.")
    await lab.superuser.execute(
        """update steps set kind = 'tool',
               output = '{"text":"\\u0000","nested":{"whole":"x"},"failed":false}'
           where session_id = $1 and kind = 'checkpoint'""",
        session_id,
    )
    lab.clock.advance(2 * DAY)
    assert await sweep(lab) == 1
    assert await count(lab, "discarded_objects") == 0


async def test_the_runtime_role_cannot_delete_history(lab: Lab) -> None:
    session_id = await ended(lab, "say One.")
    for statement in (
        "delete from steps where session_id = $1",
        "update steps set name = 'x' where session_id = $1",
        "delete from sessions where id = $1",
    ):
        with pytest.raises(Exception, match="permission denied"):
            async with lab.parts.db.transaction(tenant_id=lab.person.tenant_id) as tx:
                await tx.execute(statement, session_id)
    assert await count(lab, "steps", session_id=session_id) > 0


async def test_the_files_of_a_team_stay_until_it_is_deleted(lab: Lab) -> None:
    body = {"name": "T", "provider": "claude-code", "model": "demo", "leader": {"name": "lead"}}
    team_id = (await lab.post("/api/teams", 201, **body))["id"]
    workspaces = lab.parts.workspaces
    await workspaces.open(lab.person.tenant_id, UUID(team_id))
    assert await discard_workspaces(lab.parts.platform_db, workspaces) == 0
    answer = await lab.client.delete(f"/api/teams/{team_id}")
    assert answer.status_code == 204, answer.text
    assert await discard_workspaces(lab.parts.platform_db, workspaces) == 1
