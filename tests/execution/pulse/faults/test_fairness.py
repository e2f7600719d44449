"""Many tenants at their limits, two workers: never too many at once, and no slot left idle."""

from __future__ import annotations

import heapq
from itertools import accumulate
from uuid import UUID

from tests.execution.pulse.conftest import Lab, script
from tests.execution.pulse.faults.books import check_books
from tests.execution.pulse.faults.processes import Crew, until

from agentos.execution.pulse.dispatch import CLAIM_LOCK

TENANTS, SESSIONS, LIMIT = 50, 6, 2

# Every taking and leaving of a slot, by the database's clock. A slot is left before the commit
# that others see, and taken after it: what overlaps here has overlapped.
WATCH = """
create table slots (tenant_id uuid, session_id uuid, owner uuid, change integer,
    at timestamptz default clock_timestamp());
create function watch_slots() returns trigger language plpgsql security definer as $$
begin
    insert into slots (tenant_id, session_id, owner, change) values (new.tenant_id, new.id,
        new.owner, (new.owner is not null)::int - (old.owner is not null)::int);
    return null;
end $$;
create trigger watch after update on sessions for each row
    when ((old.owner is null) <> (new.owner is null)) execute function watch_slots();
"""


async def test_fifty_tenants_keep_to_their_limits_and_waste_no_time(lab: Lab, crew: Crew) -> None:
    await lab.superuser.execute(WATCH)
    people = [await lab.gateway.tenant(plan="free") for _ in range(TENANTS)]
    for _ in range(SESSIONS):
        for lab.person in people:
            await lab.create(script("wait 1000", "say Done."))
    # Nobody can take anything before both are there.
    await lab.superuser.execute("select pg_advisory_lock($1)", CLAIM_LOCK)
    for _ in range(2):
        await crew.start(capacity=64)
    await lab.superuser.execute("select pg_advisory_unlock($1)", CLAIM_LOCK)

    async def are_complete() -> bool:
        query = "select not exists (select from sessions where state <> 'COMPLETE')"
        return bool(await lab.superuser.fetchval(query))

    await until(are_complete)
    await crew.dismiss()

    most = [max(accumulate(changes)) for changes in await changes_by_tenant(lab)]
    assert most == [LIMIT] * TENANTS
    assert await lab.superuser.fetchval("select count(distinct owner) from slots") == 2
    spans = await spans_by_tenant(lab)
    ideal = max(shortest([end - start for start, end in each]) for each in spans)
    taken = max(end for each in spans for _, end in each) - min(
        start for each in spans for start, _ in each
    )
    assert ideal / taken >= 0.9, (ideal, taken)
    await check_books(lab.superuser)


def shortest(durations: list[float]) -> float:
    """How long a tenant's sessions take, one after the other in as many slots as it has."""
    slots = [0.0] * LIMIT
    for duration in durations:
        heapq.heapreplace(slots, slots[0] + duration)
    return max(slots)


async def changes_by_tenant(lab: Lab) -> list[list[int]]:
    rows = await lab.superuser.fetch(
        "select array_agg(change order by at) as changes from slots group by tenant_id"
    )
    return [row["changes"] for row in rows]


async def spans_by_tenant(lab: Lab) -> list[list[tuple[float, float]]]:
    """From when to when each session had its slot, in the order of beginning."""
    rows = await lab.superuser.fetch(
        """select tenant_id, extract(epoch from min(at))::float8 as began,
               extract(epoch from max(at))::float8 as ended
           from slots group by tenant_id, session_id order by min(at)"""
    )
    spans: dict[UUID, list[tuple[float, float]]] = {}
    for row in rows:
        spans.setdefault(row["tenant_id"], []).append((row["began"], row["ended"]))
    return list(spans.values())
