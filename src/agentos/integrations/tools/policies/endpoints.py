from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter, Request, Response

from agentos.integrations.tools.policies import service
from agentos.integrations.tools.policies.schemas import ToolList, ToolPolicyPut, ToolPolicyRead
from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of

router = APIRouter(prefix="/api/tools", tags=["tools"])


@router.get("")
async def list_tools(work: CurrentWork) -> ToolList:
    """The built-in tools, and what this tenant has decided about each."""
    return await service.list_tools(work)


@router.get("/policies", response_model=Page[ToolPolicyRead], openapi_extra=PAGED)
async def list_policies(work: CurrentWork, request: Request) -> Response:
    """What this tenant has decided about tools."""
    return (await service.list_policies(work, page_of(request))).response()


@router.put("/policies")
async def set_policy(body: ToolPolicyPut, work: CurrentWork) -> ToolPolicyRead:
    """Decide about a tool, about tools of one name, or about a tier."""
    return await service.set_policy(work, body)


@router.delete("/policies/{policy_id}", status_code=204)
async def remove_policy(policy_id: UUID, work: CurrentWork) -> None:
    """Take a decision back."""
    await service.remove_policy(work, policy_id)
