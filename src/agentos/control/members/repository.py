from __future__ import annotations

from datetime import datetime
from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction

_MEMBER = "m.user_id, u.email, u.name, m.role, m.created_at"
_INVITATION = "id, email, role, invited_by, created_at, expires_at"


async def insert(tx: Transaction, tenant_id: UUID, user_id: UUID, role: str) -> None:
    await tx.execute(
        "insert into members (tenant_id, user_id, role) values ($1, $2, $3)",
        tenant_id,
        user_id,
        role,
    )


async def members(
    tx: Transaction, tenant_id: UUID, after: UUID, limit: int
) -> list[asyncpg.Record]:
    return await tx.fetch(
        f"""select {_MEMBER} from members m join users u on u.id = m.user_id
            where m.tenant_id = $1 and m.user_id > $2
            order by m.user_id limit $3""",
        tenant_id,
        after,
        limit,
    )


async def lock(tx: Transaction, tenant_id: UUID, user_id: UUID) -> asyncpg.Record | None:
    return await tx.row(
        f"""select {_MEMBER} from members m join users u on u.id = m.user_id
            where m.tenant_id = $1 and m.user_id = $2 for update of m""",
        tenant_id,
        user_id,
    )


async def owners(tx: Transaction, tenant_id: UUID) -> int:
    count: int = await tx.value(
        "select count(*) from members where tenant_id = $1 and role = 'owner'", tenant_id
    )
    return count


async def seats(tx: Transaction, tenant_id: UUID, now: datetime) -> int:
    """Members and open invitations: each holds a place in the plan."""
    count: int = await tx.value(
        """select (select count(*) from members where tenant_id = $1)
                + (select count(*) from invitations where tenant_id = $1 and expires_at > $2)""",
        tenant_id,
        now,
    )
    return count


async def is_member(tx: Transaction, tenant_id: UUID, email: str) -> bool:
    found: bool = await tx.value(
        """select exists (select from members m join users u on u.id = m.user_id
                          where m.tenant_id = $1 and u.email = $2)""",
        tenant_id,
        email,
    )
    return found


async def set_role(tx: Transaction, tenant_id: UUID, user_id: UUID, role: str) -> None:
    await tx.execute(
        "update members set role = $3 where tenant_id = $1 and user_id = $2",
        tenant_id,
        user_id,
        role,
    )


async def delete(tx: Transaction, tenant_id: UUID, user_id: UUID) -> None:
    await tx.execute(
        "delete from members where tenant_id = $1 and user_id = $2", tenant_id, user_id
    )


async def insert_invitation(
    tx: Transaction,
    tenant_id: UUID,
    invitation_id: UUID,
    *,
    email: str,
    role: str,
    token_hash: bytes,
    invited_by: str,
    expires_at: datetime,
) -> asyncpg.Record:
    """Inserts an invitation; a new one for the same address takes the place of the old."""
    row = await tx.row(
        f"""insert into invitations (tenant_id, id, email, role, token_hash, invited_by, expires_at)
            values ($1, $2, $3, $4, $5, $6, $7)
            on conflict (tenant_id, email) do update set id = excluded.id, role = excluded.role,
                token_hash = excluded.token_hash, invited_by = excluded.invited_by,
                created_at = now(), expires_at = excluded.expires_at
            returning {_INVITATION}""",
        tenant_id,
        invitation_id,
        email,
        role,
        token_hash,
        invited_by,
        expires_at,
    )
    assert row is not None
    return row


async def invitations(
    tx: Transaction, tenant_id: UUID, now: datetime, after: UUID, limit: int
) -> list[asyncpg.Record]:
    return await tx.fetch(
        f"""select {_INVITATION} from invitations
            where tenant_id = $1 and expires_at > $2 and id > $3
            order by id limit $4""",
        tenant_id,
        now,
        after,
        limit,
    )


async def take_invitation(
    tx: Transaction, tenant_id: UUID, token_hash: bytes, now: datetime
) -> asyncpg.Record | None:
    """Uses up an invitation; of two at once, one gets it."""
    return await tx.row(
        f"""delete from invitations where tenant_id = $1 and token_hash = $2 and expires_at > $3
            returning {_INVITATION}""",
        tenant_id,
        token_hash,
        now,
    )


async def delete_invitation(
    tx: Transaction, tenant_id: UUID, invitation_id: UUID
) -> asyncpg.Record | None:
    return await tx.row(
        f"delete from invitations where tenant_id = $1 and id = $2 returning {_INVITATION}",
        tenant_id,
        invitation_id,
    )
