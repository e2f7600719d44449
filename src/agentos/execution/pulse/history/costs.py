"""What a session costs: the contract's getSessionCost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import asyncpg

from agentos.execution.pulse.history import repository
from agentos.execution.pulse.history.paths import InForce
from agentos.execution.pulse.history.reading import in_force, tip_of
from agentos.execution.pulse.history.schemas import (
    BudgetLeft,
    ComputeCost,
    CostSum,
    ModelCost,
    SessionCost,
    StepsCost,
)
from agentos.tenancy.ledger.charges import compute_micros
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

_MONEY = ("cost_micros", "rated_micros")


async def session_cost(work: Work, session_id: UUID) -> SessionCost:
    """What a session's model calls and its running time cost, and those of its sub-agents."""
    work.require(Scope.SESSIONS_READ)
    tx, tenant_id = work.tx, work.tenant_id
    tip = await tip_of(tx, tenant_id, session_id)
    path = await in_force(tx, tenant_id, session_id, tip)
    models = await repository.model_costs(tx, tenant_id, session_id)
    others = await repository.family_costs(tx, tenant_id, session_id)
    assert others is not None, "a sum is always there"
    times = await repository.running_times(tx, tenant_id, session_id)
    budget = await repository.budget(tx, tenant_id, session_id)
    own = _sum(1, models, [ms for ran, ms in times if ran == session_id])
    theirs = _sum(others["sessions"], [others], [ms for ran, ms in times if ran != session_id])
    return SessionCost(
        session_id=session_id,
        models=[_model(row) for row in models],
        own=own,
        sub_agents=theirs,
        total_micros=own.total_micros + theirs.total_micros,
        steps=_steps(await repository.step_costs(tx, tenant_id, session_id), path),
        budget=None if budget is None else BudgetLeft(**budget),
    )


def _model(row: asyncpg.Record) -> ModelCost:
    # A model none of whose calls has a known price has added nothing to the sums.
    unknown = row["unpriced_calls"] > 0
    money: dict[str, Any] = {
        name: None if unknown and row[name] == 0 else row[name] for name in _MONEY
    }
    return ModelCost(**{**row, **money})


def _sum(sessions: int, rows: Sequence[asyncpg.Record], times_ms: Sequence[int]) -> CostSum:
    # Each time by itself is rounded up to whole seconds, as it was metered.
    seconds = sum(-(-ms // 1000) for ms in times_ms)
    compute = ComputeCost(seconds=seconds, rated_micros=compute_micros(seconds))
    rated = sum(row["rated_micros"] for row in rows)
    return CostSum(
        sessions=sessions,
        calls=sum(row["calls"] for row in rows),
        unpriced_calls=sum(row["unpriced_calls"] for row in rows),
        tokens=sum(row["input_tokens"] + row["output_tokens"] for row in rows),
        cost_micros=sum(row["cost_micros"] for row in rows),
        rated_micros=rated,
        compute=compute,
        total_micros=rated + compute.rated_micros,
    )


def _steps(costs: Sequence[tuple[int, int, int]], path: InForce) -> StepsCost:
    return StepsCost(
        cost_micros=sum(cost for _, cost, _ in costs),
        undone_micros=sum(cost for seq, cost, _ in costs if seq not in path),
        tokens=sum(tokens for _, _, tokens in costs),
    )
