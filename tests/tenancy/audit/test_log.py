from __future__ import annotations

from typing import Any

import asyncpg
import pytest
from tests.conftest import TenantWork

from agentos.kernel.database import Database
from agentos.tenancy.audit.log import MASK, SECRET_FIELDS, masked


def test_secret_fields_are_masked_and_others_kept() -> None:
    state = dict.fromkeys(SECRET_FIELDS, "canary") | {"name": "kept", "scopes": ["a"]}

    shown = masked(state)

    assert shown == dict.fromkeys(SECRET_FIELDS, MASK) | {"name": "kept", "scopes": ["a"]}
    assert masked(None) is None


async def test_nothing_secret_reaches_the_table(
    tenant_work: TenantWork, superuser: asyncpg.Connection[Any]
) -> None:
    async with tenant_work() as work:
        await work.record(
            "thing.changed",
            target=("thing", "1"),
            before=dict.fromkeys(SECRET_FIELDS, "canary"),
            after=dict.fromkeys(SECRET_FIELDS, "canary"),
        )
    row = await superuser.fetchval("select a::text from audit_log a")
    assert MASK in row
    assert "canary" not in row


@pytest.mark.parametrize("table", ["audit_log", "platform_audit_log"])
@pytest.mark.parametrize(
    "change",
    ["update {} set action = 'forged'", "delete from {}", "truncate {}", "truncate {} cascade"],
)
async def test_nobody_can_change_what_is_written(
    tenant_work: TenantWork,
    db: Database,
    platform_db: Database,
    superuser: asyncpg.Connection[Any],
    table: str,
    change: str,
) -> None:
    async with tenant_work() as work:
        await work.record("thing.changed", target=("thing", "1"))
        tenant = work.tenant_id
    statement = change.format(table)

    for role in (db, platform_db):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with role.transaction(tenant_id=tenant) as tx:
                await tx.execute(statement)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="append-only"):
        await superuser.execute(statement)

    assert await superuser.fetchval("select action from audit_log") == "thing.changed"


async def test_a_tenant_cannot_write_into_anothers_log(
    tenant_work: TenantWork, db: Database
) -> None:
    async with tenant_work() as work:
        victim = work.tenant_id
    async with tenant_work() as work:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await work.tx.execute(
                """insert into audit_log (tenant_id, id, at, actor_kind, actor_id, actor_name,
                       action, target_kind, target_id)
                   values ($1, gen_random_uuid(), now(), '', '', '', '', '', '')""",
                victim,
            )
