from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from agentos.tenancy.budgets import service
from agentos.tenancy.budgets.schemas import BudgetFilter, BudgetPut, BudgetRead, BudgetScope
from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of

router = APIRouter(prefix="/api/budgets", tags=["budgets"])


@router.get("", response_model=Page[BudgetRead], openapi_extra=PAGED)
async def list_budgets(
    work: CurrentWork,
    request: Request,
    scope: Annotated[BudgetScope | None, Query(description="Only of this scope.")] = None,
    subject_id: Annotated[UUID | None, Query(description="Only of this team or session.")] = None,
) -> Response:
    """The budgets of this tenant, and how far each is used up."""
    wanted = BudgetFilter(scope, subject_id)
    return (await service.list_budgets(work, wanted, page_of(request))).response()


@router.put("")
async def set_budget(body: BudgetPut, work: CurrentWork) -> BudgetRead:
    """Set or change a hard cap. Raising one that was exhausted lets paused work go on."""
    return await service.set_budget(work, body)


@router.get("/{budget_id}")
async def read_budget(budget_id: UUID, work: CurrentWork) -> BudgetRead:
    """One budget."""
    return await service.read_budget(work, budget_id)


@router.delete("/{budget_id}", status_code=204)
async def remove_budget(budget_id: UUID, work: CurrentWork) -> None:
    """Remove a hard cap. What it had paused goes on."""
    await service.remove_budget(work, budget_id)
