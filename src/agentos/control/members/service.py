"""Members of a tenant, and the invitations by which they come."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from agentos.contracts.events import (
    InvitationRevoked,
    MemberInvited,
    MemberJoined,
    MemberRemoved,
    MemberRoleChanged,
)
from agentos.control.members import repository
from agentos.control.members.errors import AlreadyMember, InvitationInvalid, LastOwner
from agentos.control.members.schemas import (
    InvitationCreate,
    InvitationCreated,
    InvitationRead,
    MemberRead,
)
from agentos.kernel.database import Transaction
from agentos.kernel.errors import NotFound
from agentos.kernel.ids import InvitationId, TenantId, uuid7
from agentos.tenancy.opaque_tokens import new_token, parse_token
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import Forbidden, Role, Scope
from agentos.tenancy.work import Work

INVITATION_LIFE = timedelta(days=7)
_SEATS = "team_members"


@dataclass(frozen=True)
class Redeemed:
    tenant_id: TenantId
    email: str
    role: Role


async def redeem_invitation(tx: Transaction, text: str, now: datetime) -> Redeemed:
    """Uses an invitation up and binds the transaction to the tenant that sent it."""
    token = parse_token("inv", text)
    if token is None:
        raise InvitationInvalid()
    await tx.set("app.tenant_id", str(token.tenant_id))
    row = await repository.take_invitation(tx, token.tenant_id, token.digest, now)
    if row is None:
        raise InvitationInvalid()
    return Redeemed(token.tenant_id, row["email"], Role(row["role"]))


async def join(work: Work, user_id: UUID, email: str, role: Role) -> None:
    """Makes a user a member; the caller has made sure that they may be."""
    if await repository.is_member(work.tx, work.tenant_id, email):
        raise AlreadyMember()
    await repository.insert(work.tx, work.tenant_id, user_id, role)
    await work.record(
        "member.joined",
        MemberJoined(user_id=user_id, role=role),
        target=("member", user_id),
        after={"email": email, "role": role},
    )


async def list_members(work: Work, page: PageRequest) -> RowPage[MemberRead]:
    work.require(Scope.MEMBERS_READ)
    rows = await repository.members(work.tx, work.tenant_id, page.after_id, page.limit + 1)
    return page.of(MemberRead, rows, key="user_id")


async def change_role(work: Work, user_id: UUID, role: Role) -> MemberRead:
    work.require(Scope.MEMBERS_WRITE)
    member = await _lock_member(work, user_id)
    _only_owners_touch_owners(work, member.role, role)
    if member.role == role:
        return member
    await _keep_an_owner(work, member)
    await repository.set_role(work.tx, work.tenant_id, user_id, role)
    await work.record(
        "member.role_changed",
        MemberRoleChanged(user_id=user_id, role=role),
        target=("member", user_id),
        before={"role": member.role},
        after={"role": role},
    )
    return member.model_copy(update={"role": role})


async def remove_member(work: Work, user_id: UUID) -> None:
    """Removes a member; anybody may remove themselves."""
    if work.principal.user_id != user_id:
        work.require(Scope.MEMBERS_WRITE)
    member = await _lock_member(work, user_id)
    if work.principal.user_id != user_id:
        _only_owners_touch_owners(work, member.role)
    await _keep_an_owner(work, member)
    await repository.delete(work.tx, work.tenant_id, user_id)
    await work.record(
        "member.removed",
        MemberRemoved(user_id=user_id),
        target=("member", user_id),
        before={"email": member.email, "role": member.role},
    )


async def invite(work: Work, body: InvitationCreate) -> InvitationCreated:
    work.require(Scope.MEMBERS_WRITE)
    _only_owners_touch_owners(work, body.role)
    await work.hold(_SEATS)
    if await repository.is_member(work.tx, work.tenant_id, body.email):
        raise AlreadyMember()
    await work.quota(_SEATS, await repository.seats(work.tx, work.tenant_id, work.now()))
    token = new_token("inv", work.tenant_id)
    row = await repository.insert_invitation(
        work.tx,
        work.tenant_id,
        InvitationId(uuid7()),
        email=body.email,
        role=body.role,
        token_hash=token.digest,
        invited_by=work.principal.name,
        expires_at=work.now() + INVITATION_LIFE,
    )
    await work.record(
        "member.invited",
        MemberInvited(invitation_id=row["id"], email=body.email, role=body.role),
        target=("invitation", row["id"]),
        after={"email": body.email, "role": body.role},
    )
    return InvitationCreated(**row, token=token.text)


async def list_invitations(work: Work, page: PageRequest) -> RowPage[InvitationRead]:
    work.require(Scope.MEMBERS_READ)
    rows = await repository.invitations(
        work.tx, work.tenant_id, work.now(), page.after_id, page.limit + 1
    )
    return page.of(InvitationRead, rows)


async def revoke_invitation(work: Work, invitation_id: UUID) -> None:
    work.require(Scope.MEMBERS_WRITE)
    row = await repository.delete_invitation(work.tx, work.tenant_id, invitation_id)
    if row is None:
        raise NotFound()
    await work.record(
        "member.invitation_revoked",
        InvitationRevoked(invitation_id=invitation_id),
        target=("invitation", invitation_id),
        before={"email": row["email"], "role": row["role"]},
    )


async def _lock_member(work: Work, user_id: UUID) -> MemberRead:
    row = await repository.lock(work.tx, work.tenant_id, user_id)
    if row is None:
        raise NotFound()
    return MemberRead(**row)


async def _keep_an_owner(work: Work, member: MemberRead) -> None:
    if member.role is Role.OWNER:
        await work.hold("owners")
        if await repository.owners(work.tx, work.tenant_id) == 1:
            raise LastOwner()


def _only_owners_touch_owners(work: Work, *roles: Role) -> None:
    # An admin who could make or unmake owners would be one.
    if Role.OWNER in roles and Scope.TENANT_WRITE not in work.principal.scopes:
        raise Forbidden("Only an owner can make, change or remove an owner.")
