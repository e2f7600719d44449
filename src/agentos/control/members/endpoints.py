from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter, Request, Response

from agentos.control.members import service
from agentos.control.members.schemas import (
    InvitationCreate,
    InvitationCreated,
    InvitationRead,
    MemberRead,
    MemberUpdate,
)
from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of

router = APIRouter(prefix="/api/members", tags=["members"])
invitations = APIRouter(prefix="/api/invitations", tags=["members"])


@router.get("", response_model=Page[MemberRead], openapi_extra=PAGED)
async def list_members(work: CurrentWork, request: Request) -> Response:
    """The people of this tenant."""
    return (await service.list_members(work, page_of(request))).response()


@router.patch("/{user_id}")
async def change_role(user_id: UUID, body: MemberUpdate, work: CurrentWork) -> MemberRead:
    """Change a member's role."""
    return await service.change_role(work, user_id, body.role)


@router.delete("/{user_id}", status_code=204)
async def remove_member(user_id: UUID, work: CurrentWork) -> None:
    """Remove a member, or leave the tenant yourself."""
    await service.remove_member(work, user_id)


@invitations.post("", status_code=201)
async def invite(body: InvitationCreate, work: CurrentWork) -> InvitationCreated:
    """Invite somebody by e-mail address; hand the token to them."""
    return await service.invite(work, body)


@invitations.get("", response_model=Page[InvitationRead], openapi_extra=PAGED)
async def list_invitations(work: CurrentWork, request: Request) -> Response:
    """Invitations that are still open."""
    return (await service.list_invitations(work, page_of(request))).response()


@invitations.delete("/{invitation_id}", status_code=204)
async def revoke_invitation(invitation_id: UUID, work: CurrentWork) -> None:
    """Withdraw an invitation."""
    await service.revoke_invitation(work, invitation_id)
