"""What has to hold for every session, whatever happened to it: its journal and its books."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any
from uuid import UUID

import asyncpg

from agentos.execution.pulse.states import TRANSITIONS, State


async def check_journal(
    superuser: asyncpg.Connection[Any], session_id: UUID
) -> list[asyncpg.Record]:
    """The journal has no gap and no illegal transition, and the session is where it ends."""
    session = await superuser.fetchrow("select * from sessions where id = $1", session_id)
    assert session is not None
    rows = await superuser.fetch(
        "select * from steps where session_id = $1 order by seq", session_id
    )
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert session["seq"] == len(rows)
    assert all(row["parent"] < row["seq"] for row in rows)
    assert all(row["parent"] == row["seq"] - 1 for row in rows if row["kind"] != "rollback")
    states = [row for row in rows if row["kind"] == "state"]
    for row in states:
        before = State(json.loads(row["input"])["from"])
        assert State(row["name"]) in TRANSITIONS[before], (before, row["name"])
    for row, following in pairwise(states):
        assert json.loads(following["input"])["from"] == row["name"], [r["name"] for r in states]
    assert session["state"] == (states[-1]["name"] if states else "CREATED"), dict(session)
    assert session["owner"] is None or session["queued_at"] is None
    return rows


async def check_books(superuser: asyncpg.Connection[Any]) -> None:
    """Accounts, ledger and journal say the same, and nothing is held any more."""
    assert await superuser.fetchval("select count(*) from holds") == 0
    held = await superuser.fetch(
        """select * from accounts where held_micros <> 0 or held_tokens <> 0 or held_calls <> 0"""
    )
    assert held == []
    assert await superuser.fetch(_NOT_ENDED) == []
    for row in await superuser.fetch(_SUMS):
        assert row["account"] == row["entries"] == row["calls"], dict(row)
        assert row["journaled"] + row["unjournaled"] == row["calls"], dict(row)


# Calls that were begun: each has ended, once.
_NOT_ENDED = """select call_id from ledger_entries group by tenant_id, call_id
    having count(*) filter (where kind <> 'reserve') <> 1"""

# A call is in the journal with the step that names it; one that was cut off is in the ledger only.
_SUMS = """
select s.id,
    coalesce((select spent_micros from accounts a where a.tenant_id = s.tenant_id
        and a.scope = 'session' and a.subject_id = s.id), 0) as account,
    coalesce((select sum(spent_micros) from ledger_entries l
        where l.tenant_id = s.tenant_id and l.session_id = s.id), 0) as entries,
    coalesce((select sum(cost_micros) from model_calls c
        where c.tenant_id = s.tenant_id and c.session_id = s.id), 0) as calls,
    coalesce((select sum(cost_micros) from steps j
        where j.tenant_id = s.tenant_id and j.session_id = s.id), 0) as journaled,
    coalesce((select sum(cost_micros) from model_calls c
        where c.tenant_id = s.tenant_id and c.session_id = s.id and not exists (
            select from steps j where j.tenant_id = c.tenant_id and j.session_id = s.id
                and j.call_id = c.id)), 0) as unjournaled
from sessions s
"""
