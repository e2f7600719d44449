from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter

from agentos.execution.runs import service
from agentos.execution.runs.schemas import DeliveryRead, RunRead
from agentos.tenancy.edge import CurrentWork

router = APIRouter(prefix="/api/runs", tags=["runs"])


@router.get("/{run_id}")
async def read_run(run_id: UUID, work: CurrentWork) -> RunRead:
    """One run of a schedule or a webhook."""
    return await service.read_run(work, run_id)


@router.get("/{run_id}/deliveries")
async def run_deliveries(run_id: UUID, work: CurrentWork) -> list[DeliveryRead]:
    """What became of the post-actions of a run."""
    return await service.deliveries_of(work, run_id)
