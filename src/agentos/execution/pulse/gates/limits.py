"""Gates for what a session may take: money and time."""

from __future__ import annotations

import asyncpg

from agentos.execution.pulse.gates.schemas import CostGate, TimeGate
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.waits import Verdict
from agentos.tenancy.ledger.periods import WHOLE_LIFE


async def check_cost(run: Run, gate: CostGate) -> Verdict:
    """By the ledger, once all that this process knows of is in it."""
    await run.parts.router.escrow.flush()
    spent: int = (await _taken(run))["spent_micros"]
    passed = spent <= gate.most_micros
    reason = f"It cost {_dollars(spent)}; it may cost {_dollars(gate.most_micros)}."
    return Verdict(passed, reason, {"spent_micros": spent})


async def check_time(run: Run, gate: TimeGate) -> Verdict:
    """By the database's clock; waiting does not count."""
    seconds = (await _taken(run))["ran_ms"] / 1000
    passed = seconds <= gate.most_seconds
    reason = f"It ran for {seconds:.1f} seconds; it may run for {gate.most_seconds:g}."
    return Verdict(passed, reason, {"seconds": round(seconds, 3)})


async def _taken(run: Run) -> asyncpg.Record:
    session = run.session
    async with run.parts.db.transaction(tenant_id=session.tenant_id) as tx:
        row = await tx.row(
            """select coalesce(a.spent_micros, 0)::bigint as spent_micros,
                   s.ran_ms + greatest(0, (extract(epoch from clock_timestamp()
                       - coalesce(s.running_since, clock_timestamp())) * 1000)::bigint) as ran_ms
               from sessions s left join accounts a on a.tenant_id = s.tenant_id
                   and a.scope = 'session' and a.subject_id = s.id and a.period = $3
               where s.tenant_id = $1 and s.id = $2""",
            session.tenant_id,
            session.id,
            WHOLE_LIFE,
        )
    assert row is not None, "it is being worked on"
    return row


def _dollars(micros: int) -> str:
    return f"${micros / 1_000_000:.6f}".rstrip("0").rstrip(".")
