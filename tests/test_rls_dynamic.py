"""Tries, on every table, what row-level security has to refuse: reading and writing as another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import pytest

from agentos.kernel.database import Database, Transaction
from agentos.kernel.ids import uuid7
from tests.test_rls_catalogue import GLOBAL_TABLES

Superuser: TypeAlias = "asyncpg.Connection[Any]"

# Values that a check or a foreign key asks for; all other columns are filled by their type.
_BY_NAME: dict[str, Any] = {
    "role": "member",
    "version": 1,
    "key_version": 1,
    "scope": "team",
    "outcome": "answered",
    "meter": "api_calls",
    "kind": "reserve",
    "spent_micros": 0,
    "spent_tokens": 0,
}


# The same, where a name means different things.
_BY_TABLE: dict[tuple[str, str], Any] = {
    ("approvals", "kind"): "tool",
    ("chain_nodes", "state"): "PENDING",
    ("chains", "state"): "CREATED",
    ("deliveries", "state"): "waiting",
    ("post_actions", "after"): "any",
    ("post_actions", "method"): "POST",
    ("runs", "state"): "queued",
    ("schedules", "kind"): "once",
    ("sessions", "state"): "CREATED",
    ("steps", "kind"): "message",
    ("steps", "parent"): 0,
    ("steps", "status"): "done",
    ("team_logs", "level"): "info",
    ("team_logs", "source"): "team",
    ("team_messages", "source"): "chat",
    ("team_messages", "state"): "queued",
    ("teams", "provider"): "native",
    ("tool_policies", "decision"): "ask",
}
# One session, chain, team, … a tenant: what is part of them names them.
_WHOLES = ("sessions", "chains", "teams", "schedules", "post_actions", "runs")
_PARTS = ("session_id", "chain_id", "team_id", "schedule_id", "post_action_id", "run_id")
# Columns that may be null, but not together with others.
_ALSO = {
    "approvals": {"session_id": "uuid"},
    "post_actions": {"schedule_id": "uuid"},
    "runs": {"schedule_id": "uuid"},
    "schedules": {"team_id": "uuid", "prompt": "text"},
    "webhooks": {"team_id": "uuid", "prompt": "text"},
}


@dataclass(frozen=True)
class Table:
    name: str
    columns: dict[str, str]

    def row(self, tenant: Tenant) -> dict[str, Any]:
        """A row of this tenant that satisfies the table's constraints."""
        return {
            name: _BY_TABLE[self.name, name]
            if (self.name, name) in _BY_TABLE
            else tenant.user_id
            if name in _PARTS or (name == "id" and self.name in _WHOLES)
            else _value(name, kind, tenant)
            for name, kind in self.columns.items()
        }

    async def insert(self, connection: Superuser | Transaction, row: dict[str, Any]) -> None:
        places = ", ".join(f"${n}" for n in range(1, len(row) + 1))
        await connection.execute(
            f"insert into {self.name} ({', '.join(row)}) values ({places})", *row.values()
        )


@dataclass(frozen=True)
class Tenant:
    id: UUID
    user_id: UUID
    email: str


def _value(name: str, kind: str, tenant: Tenant) -> Any:
    if name == "tenant_id":
        return tenant.id
    if name in ("user_id", "subject_id"):
        return tenant.user_id
    if name == "email":
        return f"{uuid7().hex}@test.example"
    if name in _BY_NAME:
        return _BY_NAME[name]
    if kind == "jsonb":
        return "{}"
    return {
        "uuid": uuid7(),
        "text": uuid7().hex,
        "bytea": uuid7().bytes,
        "text[]": [],
        "uuid[]": [],
        "integer": 1,
        "smallint": 1,
        "bigint": 1,
        "boolean": True,
        "date": date(2030, 1, 1),
        "timestamp with time zone": datetime.now(UTC),
    }[kind]


async def tenant_tables(superuser: Superuser) -> list[Table]:
    """All tables of tenants, those that others refer to first."""
    rows = await superuser.fetch(
        """with recursive refers(child, parent) as (
               select conrelid, confrelid from pg_constraint where contype = 'f' and conrelid <> confrelid
           ), depths(oid, depth) as (
               select child, 1 from refers
               union select r.child, d.depth + 1 from refers r join depths d on d.oid = r.parent
           )
           select c.relname, a.attname, format_type(a.atttypid, a.atttypmod) as kind
           from pg_class c join pg_attribute a on a.attrelid = c.oid
           where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
             and c.relname <> all ($1) and a.attnum > 0 and not a.attisdropped
             and a.attnotnull and not a.atthasdef and a.attidentity = ''
           order by (select max(depth) from depths where oid = c.oid) nulls first,
                    c.relname, a.attnum""",
        sorted(GLOBAL_TABLES),
    )
    columns: dict[str, dict[str, str]] = {}
    for row in rows:
        columns.setdefault(row["relname"], {})[row["attname"]] = row["kind"]
    assert len(columns) >= 14
    return [Table(name, kinds | _ALSO.get(name, {})) for name, kinds in columns.items()]


async def make_tenant(superuser: Superuser) -> Tenant:
    tenant = Tenant(uuid7(), uuid7(), f"{uuid7().hex}@test.example")
    await superuser.execute(
        "insert into tenants (id, name, slug) values ($1, 'T', $2)", tenant.id, f"t-{uuid7().hex}"
    )
    await superuser.execute(
        "insert into users (id, email, name, password_hash) values ($1, $2, 'P', 'none')",
        tenant.user_id,
        tenant.email,
    )
    await superuser.execute(
        "insert into logins (user_id, id, expires_at) values ($1, $2, $3)",
        tenant.user_id,
        uuid7(),
        datetime.now(UTC) + timedelta(days=1),
    )
    return tenant


@dataclass(frozen=True)
class World:
    """Two tenants with one row in every table."""

    tables: list[Table]
    ours: Tenant
    theirs: Tenant
    superuser: Superuser

    async def contents(self) -> dict[str, str]:
        """All that the other tenant has, as one digest a table."""
        return {
            table.name: await self.superuser.fetchval(
                f"""select string_agg(md5(t::text), '' order by t::text) from {table.name} t
                    where tenant_id = $1""",
                self.theirs.id,
            )
            for table in self.tables
        }


@pytest.fixture
async def world(superuser: Superuser) -> World:
    tables = await tenant_tables(superuser)
    ours, theirs = await make_tenant(superuser), await make_tenant(superuser)
    for table in tables:
        for tenant in (ours, theirs):
            await table.insert(superuser, table.row(tenant))
    return World(tables, ours, theirs, superuser)


@asynccontextmanager
async def as_tenant(db: Database, tenant: Tenant | None) -> AsyncIterator[Transaction]:
    """A transaction that is undone, whatever it did."""
    try:
        async with db.transaction(
            tenant_id=tenant.id if tenant else None, user_id=tenant.user_id if tenant else None
        ) as tx:
            yield tx
            raise _Undone
    except _Undone:
        return


class _Undone(Exception):
    pass


async def touched(db: Database, tenant: Tenant | None, statement: str, *args: Any) -> int:
    """How many rows a statement reads or changes; 0 if it is refused."""
    try:
        async with as_tenant(db, tenant) as tx:
            return await tx.execute(statement, *args)
    except asyncpg.InsufficientPrivilegeError:
        return 0


async def refused(db: Database, tenant: Tenant | None, statement: str, *args: Any) -> bool:
    try:
        async with as_tenant(db, tenant) as tx:
            await tx.execute(statement, *args)
    except asyncpg.InsufficientPrivilegeError:
        return True
    return False


async def test_no_row_of_another_tenant_is_seen_or_changed(world: World, db: Database) -> None:
    before = await world.contents()
    assert all(before.values()), "the other tenant has a row in every table"
    for table in world.tables:
        for statement in (
            f"select from {table.name} where tenant_id = $1",
            f"update {table.name} set tenant_id = tenant_id where tenant_id = $1",
            f"delete from {table.name} where tenant_id = $1",
        ):
            assert await touched(db, world.ours, statement, world.theirs.id) == 0, statement
            assert await touched(db, None, statement, world.theirs.id) == 0, statement
        assert await refused(db, world.ours, f"truncate {table.name}"), table.name
    assert await world.contents() == before


async def test_a_tenant_sees_exactly_its_own_rows(world: World, db: Database) -> None:
    for table in world.tables:
        readable = await world.superuser.fetchval(
            "select has_table_privilege('agentos_runtime', $1, 'select')", table.name
        )
        seen = await touched(db, world.ours, f"select from {table.name}")
        assert seen == (1 if readable else 0), table.name


async def test_nobody_sees_nothing(world: World, db: Database) -> None:
    stranger = Tenant(uuid7(), uuid7(), "nobody@test.example")
    # Which revision the schema has is nobody's secret: processes look whether they fit it.
    closed = GLOBAL_TABLES.keys() - {"alembic_version"}
    for table in [*world.tables, *(Table(name, {}) for name in closed)]:
        for nobody in (None, stranger):
            assert await touched(db, nobody, f"select from {table.name}") == 0, table.name


async def test_no_row_can_be_given_to_another_tenant(world: World, db: Database) -> None:
    for table in world.tables:
        theirs = table.row(world.theirs)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with as_tenant(db, world.ours) as tx:
                await table.insert(tx, theirs)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with as_tenant(db, None) as tx:
                await table.insert(tx, theirs)
        moved = f"update {table.name} set tenant_id = $1"
        assert await refused(db, world.ours, moved, world.theirs.id), table.name


async def test_a_conflict_with_another_tenants_row_is_not_noticed(
    world: World, db: Database
) -> None:
    # The same ids and names as the other tenant has: a unique key without the tenant would say so.
    for table in world.tables:
        row = await world.superuser.fetchrow(
            f"select {', '.join(table.columns)} from {table.name} where tenant_id = $1",
            world.theirs.id,
        )
        assert row is not None
        copy = dict(row) | {"tenant_id": world.ours.id}
        await world.superuser.execute("begin")
        if table.name == "vault_keys":
            await world.superuser.execute("delete from vault_secrets")
        await world.superuser.execute("set local session_replication_role = replica")
        await world.superuser.execute(
            f"delete from {table.name} where tenant_id = $1", world.ours.id
        )
        await table.insert(world.superuser, copy)
        await world.superuser.execute("rollback")


@pytest.mark.parametrize("table", ["platform_audit_log", "relay_cursor", "rate_buckets", "workers"])
async def test_the_platforms_own_tables_are_closed(world: World, db: Database, table: str) -> None:
    assert await refused(db, world.ours, f"select from {table}")
    assert await refused(db, world.ours, f"delete from {table}")


async def test_tenants_by_their_own_rules(world: World, db: Database) -> None:
    ours, theirs = world.ours, world.theirs
    assert await touched(db, ours, "select from tenants") == 1
    assert await touched(db, ours, "update tenants set name = 'x' where id = $1", theirs.id) == 0
    assert await touched(db, ours, "update tenants set name = 'x'") == 1
    assert await refused(db, ours, "update tenants set id = $1", theirs.id)
    assert await refused(db, ours, "update tenants set plan = 'enterprise'")
    assert await refused(db, ours, "update tenants set limits = '{}'")
    assert await refused(db, ours, "delete from tenants")
    founding = "insert into tenants (id, name, slug, plan) values ($1, 'x', $2, $3)"
    assert await refused(db, ours, founding, uuid7(), uuid7().hex, "free")
    new = Tenant(uuid7(), ours.user_id, ours.email)
    assert await refused(db, new, founding, new.id, uuid7().hex, "pro")
    assert await touched(db, new, founding, new.id, uuid7().hex, "free") == 1


async def test_a_person_sees_all_tenants_they_belong_to(world: World, db: Database) -> None:
    await world.superuser.execute(
        "insert into members (tenant_id, user_id, role) values ($1, $2, 'member')",
        world.theirs.id,
        world.ours.user_id,
    )
    assert await touched(db, world.ours, "select from tenants") == 2
    # Their own membership in the other tenant, not those of the people there.
    assert await touched(db, world.ours, "select from members") == 2
    assert (
        await touched(db, world.ours, "delete from members where tenant_id = $1", world.theirs.id)
        == 0
    )
    assert (
        await touched(
            db,
            world.ours,
            "update members set role = 'owner' where tenant_id = $1",
            world.theirs.id,
        )
        == 0
    )


async def test_users_by_their_own_rules(world: World, db: Database) -> None:
    ours, theirs = world.ours, world.theirs
    fellow = await make_tenant(world.superuser)
    await world.superuser.execute(
        "insert into members (tenant_id, user_id, role) values ($1, $2, 'member')",
        ours.id,
        fellow.user_id,
    )
    async with as_tenant(db, ours) as tx:
        seen = {row["id"] for row in await tx.fetch("select id from users")}
    assert seen == {ours.user_id, fellow.user_id}
    rename = "update users set name = 'x' where id = $1"
    assert await touched(db, ours, rename, theirs.user_id) == 0
    assert await touched(db, ours, rename, fellow.user_id) == 0
    assert await touched(db, ours, rename, ours.user_id) == 1
    assert await refused(db, ours, "update users set platform_admin = true")
    assert await refused(db, ours, "update users set email = 'x@test.example'")
    assert await refused(db, ours, "update users set id = $1", uuid7())
    assert await refused(db, ours, "delete from users")


async def test_an_address_opens_one_user_and_no_other(world: World, db: Database) -> None:
    async with as_tenant(db, None) as tx:
        await tx.set("app.email", world.theirs.email)
        assert await tx.execute("select from users") == 1
        assert await tx.execute("update users set name = 'x'") == 0
        assert await tx.execute("select from logins") == 0
        assert await tx.execute("select from members") == 0


async def test_a_new_user_is_who_they_say_and_no_admin(world: World, db: Database) -> None:
    insert = """insert into users (id, email, name, password_hash, platform_admin)
                values ($1, $2, 'x', 'none', $3)"""
    for user_id, email, admin in (
        (uuid7(), "new@test.example", False),
        (world.ours.user_id, "new@test.example", True),
        (world.ours.user_id, "other@test.example", False),
    ):
        async with db.transaction(user_id=world.ours.user_id) as tx:
            await tx.set("app.email", "new@test.example")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await tx.execute(insert, user_id, email, admin)


async def test_logins_by_their_own_rules(world: World, db: Database) -> None:
    ours, theirs = world.ours, world.theirs
    await world.superuser.execute(
        "insert into members (tenant_id, user_id, role) values ($1, $2, 'member')",
        ours.id,
        theirs.user_id,
    )
    assert await touched(db, ours, "select from logins") == 1
    assert await touched(db, ours, "select from logins where user_id = $1", theirs.user_id) == 0
    ended = "update logins set revoked_at = now() where user_id = $1"
    assert await touched(db, ours, ended, theirs.user_id) == 0
    assert await refused(db, ours, "update logins set user_id = $1", theirs.user_id)
    assert await refused(
        db,
        ours,
        "insert into logins (user_id, id, expires_at) values ($1, $2, now())",
        theirs.user_id,
        uuid7(),
    )
    assert await refused(db, ours, "delete from logins")
