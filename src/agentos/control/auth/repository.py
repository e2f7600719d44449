from __future__ import annotations

from datetime import datetime
from uuid import UUID

import asyncpg

from agentos.kernel.database import Transaction
from agentos.kernel.ids import LoginId, TenantId, UserId


async def user_by_email(tx: Transaction, email: str) -> asyncpg.Record | None:
    await tx.set("app.email", email)
    return await tx.row("select id, email, name, password_hash from users where email = $1", email)


async def user_by_id(tx: Transaction, user_id: UUID) -> asyncpg.Record | None:
    return await tx.row("select id, email, name, password_hash from users where id = $1", user_id)


async def insert_user(
    tx: Transaction, user_id: UserId, email: str, name: str, password_hash: str
) -> None:
    await tx.set("app.user_id", str(user_id))
    await tx.set("app.email", email)
    await tx.execute(
        "insert into users (id, email, name, password_hash) values ($1, $2, $3, $4)",
        user_id,
        email,
        name,
        password_hash,
    )


async def set_password(tx: Transaction, user_id: UUID, password_hash: str) -> None:
    await tx.execute("update users set password_hash = $2 where id = $1", user_id, password_hash)


async def tenants_of(tx: Transaction, user_id: UUID) -> list[asyncpg.Record]:
    return await tx.fetch(
        """select t.id, t.name, t.slug, m.role from members m join tenants t on t.id = m.tenant_id
           where m.user_id = $1 order by m.created_at, t.id""",
        user_id,
    )


async def insert_login(
    tx: Transaction, user_id: UserId, login_id: LoginId, user_agent: str, expires_at: datetime
) -> None:
    await tx.execute(
        "insert into logins (user_id, id, user_agent, expires_at) values ($1, $2, $3, $4)",
        user_id,
        login_id,
        user_agent[:200],
        expires_at,
    )


async def rotate_login(
    tx: Transaction,
    user_id: UserId,
    login_id: LoginId,
    generation: int,
    now: datetime,
    until: datetime,
) -> bool:
    """Moves the sign-in to its next generation, if it is still alive and at this one."""
    return (
        await tx.execute(
            """update logins set generation = generation + 1, last_used_at = $4, expires_at = $5
           where user_id = $1 and id = $2 and generation = $3
             and revoked_at is null and expires_at > $4""",
            user_id,
            login_id,
            generation,
            now,
            until,
        )
        == 1
    )


async def was_rotated_since(
    tx: Transaction, user_id: UserId, login_id: LoginId, generation: int, since: datetime
) -> bool:
    """Whether the sign-in is alive and left this generation for its next one after `since`."""
    rotated: bool = await tx.value(
        """select exists (select from logins
           where user_id = $1 and id = $2 and generation = $3 + 1 and last_used_at >= $4
             and revoked_at is null)""",
        user_id,
        login_id,
        generation,
        since,
    )
    return rotated


async def login(tx: Transaction, user_id: UUID, login_id: UUID) -> asyncpg.Record | None:
    return await tx.row("select * from logins where user_id = $1 and id = $2", user_id, login_id)


async def live_logins(tx: Transaction, user_id: UUID, now: datetime) -> list[asyncpg.Record]:
    return await tx.fetch(
        """select * from logins where user_id = $1 and revoked_at is null and expires_at > $2
           order by id desc""",
        user_id,
        now,
    )


async def end_login(
    tx: Transaction, user_id: UUID, login_id: UUID, now: datetime, reason: str
) -> bool:
    return (
        await tx.execute(
            """update logins set revoked_at = $3, revoked_reason = $4
           where user_id = $1 and id = $2 and revoked_at is null""",
            user_id,
            login_id,
            now,
            reason,
        )
        == 1
    )


async def end_other_logins(tx: Transaction, user_id: UUID, keep: UUID | None, now: datetime) -> int:
    return await tx.execute(
        """update logins set revoked_at = $3, revoked_reason = 'password changed'
           where user_id = $1 and revoked_at is null and id is distinct from $2""",
        user_id,
        keep,
        now,
    )


async def user_principal(
    tx: Transaction, user_id: UUID, tenant_id: TenantId, login_id: UUID
) -> asyncpg.Record | None:
    """Everything an access token stands for, or None if any part of it is gone."""
    return await tx.row(
        """select u.name, u.platform_admin, m.role, t.plan, t.limits
           from logins l
           join users u on u.id = l.user_id
           join members m on m.user_id = u.id and m.tenant_id = $2
           join tenants t on t.id = m.tenant_id
           where l.user_id = $1 and l.id = $3 and l.revoked_at is null""",
        user_id,
        tenant_id,
        login_id,
    )
