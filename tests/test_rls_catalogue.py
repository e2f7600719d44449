"""Walks the catalogue of a migrated database: no table can forget what keeps tenants apart."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, TypeAlias

import asyncpg
import pytest

from agentos.kernel.schema import PLATFORM_ROLE, RUNTIME_ROLE
from tests.conftest import Engines

Catalogue: TypeAlias = "asyncpg.Connection[Any]"

ROLES = (RUNTIME_ROLE, PLATFORM_ROLE)
OWN_TENANT = "(tenant_id = ( SELECT app_tenant() AS app_tenant))"

GLOBAL_TABLES = {
    "tenants": "is the tenant itself; its id is what tenant_id means",
    "users": "a person can belong to many tenants",
    "logins": "a sign-in belongs to a person, who can change tenants within it",
    "platform_audit_log": "what the platform did across tenants; the runtime role has no grant",
    "relay_cursor": "one row: how far the relay has published",
    "rate_buckets": "counters that hold nothing; the runtime role reaches them only by take_tokens",
    "workers": "processes of the installation; the runtime role has no grant",
    "alembic_version": "one row: the revision of the schema",
}
# Global tables that the runtime role can reach and that say something about people.
GUARDED_GLOBAL_TABLES = {"tenants", "users", "logins"}

ORDER_OVER_TENANTS = {
    "events_in_order": "the relay's order over all tenants; assigned by the database, never given",
}
FURTHER_RUNTIME_POLICIES = {
    ("members", "own"): (
        "r",
        "(user_id = ( SELECT app_user() AS app_user))",
        "a person lists the tenants they belong to before choosing one",
    ),
}
DEFINER_FUNCTIONS = {
    "take_tokens": "the runtime role may take tokens from a bucket, but not fill one",
}

GRANTS = {
    RUNTIME_ROLE: {
        "accounts": "insert select update",
        "alembic_version": "select",
        "api_keys": "insert select update",
        "approvals": "insert select update",
        "audit_log": "insert select",
        "budgets": "delete insert select update",
        "bus_revocations": "insert",
        "chain_nodes": "delete insert select update",
        "chains": "insert select update",
        "checkpoints": "insert select",
        "commit_changes()": "execute",
        "deliveries": "insert select update",
        "discarded_objects": "delete insert select",
        "event_counters": "select",
        "events": "select",
        "fallback_chains": "delete insert select update",
        "holds": "delete insert select update",
        "idempotency_keys": "insert select update",
        "invitations": "delete insert select update",
        "ledger_entries": "insert select",
        "logins": "insert select update",
        "members": "delete insert select update",
        "meters": "insert select update",
        "model_calls": "insert select",
        "model_prices": "delete insert select update",
        "model_providers": "delete insert select update",
        "objects": "delete insert select update",
        "outbox": "insert",
        "post_actions": "delete insert select update",
        "queue_message()": "execute",
        "runs": "delete insert select update",
        "schedules": "delete insert select update",
        "sessions": "insert select update",
        "settle_call()": "execute",
        "socket_tickets": "delete insert select",
        "steps": "insert select",
        "storage_usage": "insert select update",
        "take_tokens()": "execute",
        "team_agents": "delete insert select update",
        "team_logs": "delete insert select",
        "team_messages": "delete insert select update",
        "teams": "delete insert select update",
        "tenants": "insert select",
        "tenants.name": "update",
        "tenants.settings": "update",
        "tenants.slug": "update",
        "tenants.updated_at": "update",
        "tool_policies": "delete insert select update",
        "usage_days": "insert select update",
        "users": "insert select",
        "users.name": "update",
        "users.password_hash": "update",
        "vault_keys": "delete insert select",
        "vault_secrets": "delete insert select update",
        "webhooks": "delete insert select update",
        "workspace_packs": "insert select update",
        "workspace_snapshots": "delete insert select",
    },
    PLATFORM_ROLE: {
        "accounts": "insert select update",
        "alembic_version": "select",
        "api_keys": "insert select",
        "approvals": "delete select update",
        "audit_log": "insert select",
        "budgets": "select",
        "bus_revocations": "delete select",
        "chain_nodes": "delete insert select update",
        "chains": "delete select update",
        "checkpoints": "delete select",
        "deliveries": "delete insert select update",
        "discarded_objects": "delete insert select",
        "event_counters": "insert select update",
        "events": "delete insert select",
        "fallback_chains": "select",
        "holds": "delete insert select update",
        "idempotency_keys": "delete insert select update",
        "invitations": "delete insert select update",
        "ledger_entries": "insert select",
        "logins": "delete select update",
        "members": "delete insert select update",
        "meters": "insert select update",
        "model_calls": "insert select",
        "model_prices": "select",
        "model_providers": "select",
        "objects": "select",
        "outbox": "delete insert select",
        "platform_audit_log": "insert select",
        "post_actions": "select",
        "rate_buckets": "delete select",
        "relay_cursor": "select update",
        "runs": "delete insert select update",
        "schedules": "select update",
        "sessions": "delete select update",
        "socket_tickets": "delete select",
        "steps": "delete insert select",
        "storage_usage": "select update",
        "team_agents": "select",
        "team_logs": "delete insert select",
        "team_messages": "delete select update",
        "teams": "select update",
        "tenants": "insert select update",
        "tool_policies": "select",
        "usage_days": "insert select update",
        "users": "insert select update",
        "vault_keys": "select update",
        "webhooks": "select",
        "workers": "delete insert select update",
        "workspace_packs": "delete select update",
        "workspace_snapshots": "delete select update",
    },
    # What PostgreSQL gives everybody for a new function; none of these reads a table.
    "public": {
        "app_email()": "execute",
        "app_tenant()": "execute",
        "app_user()": "execute",
        "protect_tenant_table()": "execute",
        "refuse_change()": "execute",
    },
}

_OURS = "n.nspname !~ '^pg_' and n.nspname <> 'information_schema'"


async def flaws(catalogue: Catalogue) -> list[str]:
    """Everything in the catalogue that could let one tenant see another."""
    found: list[str] = []
    for table in await catalogue.fetch(
        f"""select c.oid, c.relname, c.relrowsecurity, c.relforcerowsecurity,
                   exists (select from pg_attribute a where a.attrelid = c.oid
                           and a.attname = 'tenant_id' and a.attnotnull
                           and a.atttypid = 'uuid'::regtype) as bound
            from pg_class c join pg_namespace n on n.oid = c.relnamespace
            where c.relkind in ('r', 'p') and {_OURS} order by 2"""
    ):
        name = table["relname"]
        is_global = name in GLOBAL_TABLES
        if is_global and name not in GUARDED_GLOBAL_TABLES:
            continue
        if not table["relrowsecurity"]:
            found.append(f"{name}: row-level security is off")
        if not table["relforcerowsecurity"]:
            found.append(f"{name}: row-level security does not bind the owner")
        found += await _policy_flaws(catalogue, table["oid"], name, is_global)
        if not is_global:
            if not table["bound"]:
                found.append(f"{name}: no tenant_id uuid not null")
            found += await _key_flaws(catalogue, table["oid"], name)
            found += await _reference_flaws(catalogue, table["oid"], name)
    return found + await _relation_flaws(catalogue) + await _function_flaws(catalogue)


async def _policy_flaws(catalogue: Catalogue, oid: int, name: str, is_global: bool) -> list[str]:
    found: list[str] = []
    bound = False
    for policy in await catalogue.fetch(
        """select polname, polcmd::text, polpermissive,
                  pg_get_expr(polqual, polrelid) as visible,
                  pg_get_expr(polwithcheck, polrelid) as allowed,
                  array(select coalesce(r.rolname, 'public') from unnest(polroles) as role(oid)
                        left join pg_roles r on r.oid = role.oid) as roles
           from pg_policy where polrelid = $1""",
        oid,
    ):
        label = f"{name}: policy {policy['polname']}"
        if not set(policy["roles"]) <= set(ROLES):
            found.append(f"{label} is for {', '.join(policy['roles'])}")
        elif policy["roles"] == [PLATFORM_ROLE] or not policy["polpermissive"]:
            continue
        elif (policy["polcmd"], policy["visible"], policy["allowed"]) == (
            "*",
            OWN_TENANT,
            OWN_TENANT,
        ):
            bound = True
        elif is_global:
            if "true" in (policy["visible"], policy["allowed"]):
                found.append(f"{label} lets everything through")
        else:
            known = FURTHER_RUNTIME_POLICIES.get((name, policy["polname"]), (None, None))
            if (policy["polcmd"], policy["visible"]) != known[:2] or policy["allowed"] is not None:
                found.append(f"{label} goes past the tenant")
    if not bound and not is_global:
        found.append(f"{name}: the runtime role is not bound to its tenant for reads and writes")
    return found


async def _key_flaws(catalogue: Catalogue, oid: int, name: str) -> list[str]:
    indexes = await catalogue.fetch(
        """select c.relname, i.indisprimary, a.attname as leads
           from pg_index i join pg_class c on c.oid = i.indexrelid
           left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
           where i.indrelid = $1 and i.indisunique""",
        oid,
    )
    found = [
        f"{name}: unique index {index['relname']} does not begin with tenant_id"
        for index in indexes
        if index["leads"] != "tenant_id" and index["relname"] not in ORDER_OVER_TENANTS
    ]
    if not any(index["indisprimary"] for index in indexes):
        found.append(f"{name}: no primary key")
    return found


async def _reference_flaws(catalogue: Catalogue, oid: int, name: str) -> list[str]:
    found: list[str] = []
    owned = False
    for reference in await catalogue.fetch(
        """select k.conname, t.relname as target,
                  array(select a.attname::text from unnest(k.conkey) with ordinality as c(n, o)
                        join pg_attribute a on a.attrelid = k.conrelid and a.attnum = c.n
                        order by c.o) as mine,
                  array(select a.attname::text from unnest(k.confkey) with ordinality as c(n, o)
                        join pg_attribute a on a.attrelid = k.confrelid and a.attnum = c.n
                        order by c.o) as theirs,
                  not exists (select from unnest(k.conkey) as c(n) join pg_attribute a
                        on a.attrelid = k.conrelid and a.attnum = c.n where not a.attnotnull)
                      as not_null
           from pg_constraint k join pg_class t on t.oid = k.confrelid
           where k.contype = 'f' and k.conrelid = $1""",
        oid,
    ):
        pairs = set(zip(reference["mine"], reference["theirs"], strict=True))
        if reference["target"] == "tenants":
            owned = owned or pairs == {("tenant_id", "id")}
        elif ("tenant_id", "tenant_id") in pairs and reference["not_null"]:
            # The part of a thing belongs to whom the thing belongs.
            owned = True
        elif reference["target"] not in GLOBAL_TABLES and ("tenant_id", "tenant_id") not in pairs:
            found.append(f"{name}: {reference['conname']} can point into another tenant")
    if not owned:
        found.append(f"{name}: tenant_id does not reference tenants")
    return found


async def _relation_flaws(catalogue: Catalogue) -> list[str]:
    rows = await catalogue.fetch(
        f"""select c.relname, c.relkind::text, coalesce(c.reloptions, '{{}}') as options
            from pg_class c join pg_namespace n on n.oid = c.relnamespace
            where c.relkind in ('v', 'm', 'f') and {_OURS}"""
    )
    found = []
    for row in rows:
        if row["relkind"] == "m":
            found.append(f"{row['relname']}: a materialized view has no row-level security")
        elif row["relkind"] == "f":
            found.append(f"{row['relname']}: a foreign table has no row-level security")
        elif not {"security_invoker=true", "security_invoker=on"} & set(row["options"]):
            found.append(f"{row['relname']}: the view reads with its owner's rights")
    return found


async def _function_flaws(catalogue: Catalogue) -> list[str]:
    rows = await catalogue.fetch(
        f"""select p.proname, coalesce(p.proconfig, '{{}}') as config,
                   has_function_privilege('public', p.oid, 'execute') as open
            from pg_proc p join pg_namespace n on n.oid = p.pronamespace
            where p.prosecdef and {_OURS}"""
    )
    found = []
    for row in rows:
        if row["proname"] not in DEFINER_FUNCTIONS:
            found.append(f"{row['proname']}(): runs with its owner's rights")
        if not any(setting.startswith("search_path=") for setting in row["config"]):
            found.append(f"{row['proname']}(): the search path is the caller's")
        if row["open"]:
            found.append(f"{row['proname']}(): everybody can call it")
    return found


async def test_every_table_keeps_tenants_apart(superuser: Catalogue) -> None:
    assert await flaws(superuser) == []


async def test_the_lists_name_nothing_that_is_gone(superuser: Catalogue) -> None:
    tables = {row["tablename"] for row in await superuser.fetch("select tablename from pg_tables")}
    assert set(GLOBAL_TABLES) <= tables
    indexes = {row["indexname"] for row in await superuser.fetch("select * from pg_indexes")}
    assert set(ORDER_OVER_TENANTS) <= indexes
    policies = await superuser.fetch("select tablename, policyname from pg_policies")
    assert set(FURTHER_RUNTIME_POLICIES) <= {tuple(row) for row in policies}


_GOOD_TABLE = """create table things (
    tenant_id uuid not null references tenants, id uuid not null, primary key (tenant_id, id));
    call protect_tenant_table('things', 'select, insert', '');"""


@pytest.mark.parametrize(
    ("ddl", "flaw"),
    [
        ("create table bad (id uuid primary key)", "bad: row-level security is off"),
        ("create table bad (id uuid primary key)", "bad: no tenant_id uuid not null"),
        ("create table bad (tenant_id uuid)", "bad: no tenant_id uuid not null"),
        ("create table bad (tenant_id uuid not null)", "bad: no primary key"),
        (
            "create table bad (tenant_id uuid not null, id uuid primary key)",
            "bad: unique index bad_pkey does not begin with tenant_id",
        ),
        (
            "create table bad (tenant_id uuid not null); alter table bad enable row level security",
            "bad: row-level security does not bind the owner",
        ),
        (
            "create table bad (tenant_id uuid not null)",
            "bad: the runtime role is not bound to its tenant for reads and writes",
        ),
        (
            "create table bad (tenant_id uuid primary key)",
            "bad: tenant_id does not reference tenants",
        ),
        (
            f"{_GOOD_TABLE} alter table things disable row level security",
            "things: row-level security is off",
        ),
        (
            f"{_GOOD_TABLE} alter table things no force row level security",
            "things: row-level security does not bind the owner",
        ),
        (
            f"{_GOOD_TABLE} create policy all_in on things to agentos_runtime using (true)",
            "things: policy all_in goes past the tenant",
        ),
        (
            f"{_GOOD_TABLE} create policy open on things for select using (true)",
            "things: policy open is for public",
        ),
        (
            f"""{_GOOD_TABLE} alter policy tenant on things using (tenant_id = app_tenant())""",
            "things: the runtime role is not bound to its tenant for reads and writes",
        ),
        (
            f"""{_GOOD_TABLE} drop policy tenant on things; create policy tenant on things
                for select to agentos_runtime using (tenant_id = (select app_tenant()))""",
            "things: the runtime role is not bound to its tenant for reads and writes",
        ),
        (
            f"{_GOOD_TABLE} alter table things add name text unique",
            "things: unique index things_name_key does not begin with tenant_id",
        ),
        (
            f"""{_GOOD_TABLE} create unique index on things (id);
                create table more (like things including all); alter table more
                add constraint loose foreign key (id) references things (id)""",
            "more: loose can point into another tenant",
        ),
        (
            "alter table members disable row level security",
            "members: row-level security is off",
        ),
        ("alter table users disable row level security", "users: row-level security is off"),
        (
            "create policy open on logins to agentos_runtime using (true)",
            "logins: policy open lets everything through",
        ),
        ("create view bad as select * from members", "bad: the view reads with its owner's rights"),
        (
            "create materialized view bad as select 1",
            "bad: a materialized view has no row-level security",
        ),
        (
            "create function bad() returns int language sql security definer as 'select 1'",
            "bad(): runs with its owner's rights",
        ),
        (
            "alter function take_tokens reset search_path",
            "take_tokens(): the search path is the caller's",
        ),
        (
            "grant execute on function take_tokens to public",
            "take_tokens(): everybody can call it",
        ),
    ],
)
async def test_the_walk_reports_what_is_wrong(superuser: Catalogue, ddl: str, flaw: str) -> None:
    await superuser.execute(ddl)
    assert flaw in await flaws(superuser)


async def test_the_walk_is_content_with_a_well_made_table(superuser: Catalogue) -> None:
    await superuser.execute(_GOOD_TABLE)
    await superuser.execute("create view good with (security_invoker) as select * from things")
    assert await flaws(superuser) == []


async def test_the_roles_have_no_power_of_their_own(superuser: Catalogue) -> None:
    for role in ROLES:
        row = await superuser.fetchrow(
            """select rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication,
                      exists (select from pg_auth_members where member = r.oid) as is_member,
                      exists (select from pg_shdepend where refobjid = r.oid and deptype = 'o')
                          as is_owner,
                      has_schema_privilege(rolname, 'public', 'create') as can_create
               from pg_roles r where rolname = $1""",
            role,
        )
        assert row is not None
        assert not any(row.values()), (role, dict(row))


async def test_nobody_is_granted_more_than_is_listed(superuser: Catalogue) -> None:
    rows = await superuser.fetch(
        f"""select coalesce(r.rolname, 'public') as role, g.thing, lower(g.privilege) as privilege
            from (
                select c.relname::text as thing, a.grantee, a.privilege_type as privilege, c.relowner as owner
                from pg_class c join pg_namespace n on n.oid = c.relnamespace,
                     aclexplode(c.relacl) a where {_OURS}
                union all
                select c.relname || '.' || t.attname, a.grantee, a.privilege_type, c.relowner
                from pg_attribute t join pg_class c on c.oid = t.attrelid
                join pg_namespace n on n.oid = c.relnamespace,
                     aclexplode(t.attacl) a where {_OURS}
                union all
                select p.proname || '()', a.grantee, a.privilege_type, p.proowner
                from pg_proc p join pg_namespace n on n.oid = p.pronamespace,
                     aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where {_OURS}
            ) g left join pg_roles r on r.oid = g.grantee
            where g.grantee <> g.owner"""
    )
    granted: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        granted[row["role"]][row["thing"]].append(row["privilege"])
    assert {
        role: {thing: " ".join(sorted(rights)) for thing, rights in sorted(things.items())}
        for role, things in granted.items()
    } == GRANTS
    assert await superuser.fetch("select * from pg_default_acl") == []


async def test_take_tokens_cannot_be_led_to_other_tables(
    engines: Engines, database: str, superuser: Catalogue
) -> None:
    # A temporary table goes before all others unless the path names pg_temp last, and a trigger
    # on it would run as the owner of the function.
    runtime = await asyncpg.connect(engines.dsn(RUNTIME_ROLE, database))
    try:
        await runtime.execute(
            """create temp table rate_buckets
                   (key text primary key, tokens double precision, at timestamptz);
               grant all on rate_buckets to public"""
        )
        await runtime.execute("select take_tokens('a', 1, 10, 1)")
        assert await runtime.fetch("select * from pg_temp.rate_buckets") == []
    finally:
        await runtime.close()
    assert await superuser.fetchval("select count(*) from rate_buckets") == 1
