"""Checks of PostgreSQL: reachable, migrated, and isolating tenants."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agentos.cli.checks.outcomes import Outcome, PartDown, Site, ok, problem, skipped, warning

if TYPE_CHECKING:
    import asyncpg

_CONNECT = 4.0  # seconds
_OLDEST_POSTGRES = 15
_LAG_WARNING, _LAG_PROBLEM = 5.0, 60.0  # seconds; the relay polls twice a second
_SKEW_WARNING, _SKEW_PROBLEM = 1.0, 30.0  # seconds; tokens are checked against the host's clock


@asynccontextmanager
async def _connected(dsn: str | None) -> AsyncIterator[asyncpg.Connection[Any]]:
    """A connection for one check; PartDown if the check of PostgreSQL itself reports the reason."""
    import asyncpg

    if dsn is None:
        raise PartDown("needs PostgreSQL")
    try:
        connection = await asyncpg.connect(dsn, timeout=_CONNECT)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError):
        raise PartDown("needs PostgreSQL") from None
    try:
        yield connection
    finally:
        await connection.close(timeout=1)


async def postgres(site: Site) -> Outcome:
    import asyncpg

    from agentos.cli.machine import not_running

    if site.database is None:
        return problem("its address is not known", "Start AgentOS with `agentos up`.")
    try:
        connection = await asyncpg.connect(site.owner_dsn, timeout=_CONNECT)
    except (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError) as error:
        return problem(
            f"refuses us: {type(error).__name__}",
            "Check the user and password, and that AGENTOS_SECRET_KEY is this installation's.",
        )
    except (OSError, TimeoutError, asyncpg.PostgresConnectionError, asyncpg.CannotConnectNowError):
        down = not_running(site.settings)
        return problem(down.message, down.advice)
    major = connection.get_server_version().major
    version = connection.get_settings().server_version.split()[0]
    await connection.close()
    kind = "embedded" if site.settings.embedded_postgres else "external"
    if major < _OLDEST_POSTGRES:
        return problem(f"is version {version}", f"Use PostgreSQL {_OLDEST_POSTGRES} or newer.")
    return ok(f"{kind}, version {version}")


async def schema_revision(site: Site) -> Outcome:
    import asyncpg

    from agentos.kernel import schema

    async with _connected(site.owner_dsn) as connection:
        try:
            revision = await schema.current(connection)
        except asyncpg.InsufficientPrivilegeError:
            return warning(
                "may not be read by the runtime role", "Set DATABASE_URL to check the schema, too."
            )
    needed = schema.head()
    if revision == needed:
        return ok(f"at {revision}")
    if revision is not None and revision > needed:
        return problem(f"at {revision}; this code knows only {needed}", "Run the newer AgentOS.")
    return problem(f"at {revision or 'nothing'}; needs {needed}", "Run `agentos db upgrade`.")


# A member of a role can become it, so it counts as much as the role itself.
_ROLE_FAULTS = """
select r.rolname, r.rolname = current_user as itself,
       array_remove(array[
           case when r.rolsuper then 'is a superuser' end,
           case when r.rolbypassrls then 'bypasses row-level security' end,
           case when r.rolcreaterole then 'may create roles' end,
           case when exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                             where c.relowner = r.oid and n.nspname = 'public')
                then 'owns tables' end,
           case when exists (select from pg_database d
                             where d.datdba = r.oid and d.datname = current_database())
                then 'owns the database' end
       ], null) as faults
from pg_roles r where pg_has_role(current_user, r.oid, 'member')
"""


async def _role(dsn: str | None) -> Outcome:
    async with _connected(dsn) as connection:
        rows = await connection.fetch(_ROLE_FAULTS)
    name = next(row["rolname"] for row in rows if row["itself"])
    faults = [
        fault if row["itself"] else f"is a member of {row['rolname']}, which {fault}"
        for row in sorted(rows, key=lambda row: (not row["itself"], row["rolname"]))
        for fault in row["faults"]
    ]
    if faults:
        return problem(
            f"{name} {faults[0]}" + (f" (and {len(faults) - 1} more)" if faults[1:] else ""),
            f"Use a plain LOGIN role without memberships: NOSUPERUSER NOBYPASSRLS NOCREATEROLE. "
            f"Now {name} could see or change what row-level security hides.",
        )
    return ok(f"{name} has no rights beyond its grants")


async def runtime_role(site: Site) -> Outcome:
    return await _role(site.runtime_dsn)


async def platform_role(site: Site) -> Outcome:
    return await _role(site.platform_dsn)


_TENANT_TABLES = """
select c.relname as name, c.relrowsecurity and c.relforcerowsecurity
       and exists (select from pg_policy p where p.polrelid = c.oid) as protected
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
where n.nspname = 'public' and c.relkind in ('r', 'p') order by c.relname
"""


async def row_level_security(site: Site) -> Outcome:
    async with _connected(site.owner_dsn) as connection:
        tables = await connection.fetch(_TENANT_TABLES)
    if not tables:
        raise PartDown("needs the schema")
    bare = [table["name"] for table in tables if not table["protected"]]
    if bare:
        return problem(
            f"not enforced on {', '.join(bare)}",
            f"As the owner: call protect_tenant_table('{bare[0]}', …); see the migrations.",
        )
    return ok(f"enforced on all {len(tables)} tenant tables")


async def trusts_nobody(site: Site) -> Outcome:
    import asyncpg

    from agentos.kernel.installation import as_role

    if not site.settings.embedded_postgres:
        return skipped("only for the embedded PostgreSQL")
    async with _connected(site.runtime_dsn):
        assert site.runtime_dsn is not None
    for role in ("postgres", "agentos_owner", "agentos_runtime"):
        # Not without a password: the driver would then look for one in the environment.
        dsn = as_role(site.runtime_dsn, role, "not-the-password")
        try:
            connection = await asyncpg.connect(dsn, timeout=_CONNECT)
        except (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError):
            continue
        await connection.close()
        return problem(
            f"lets {role} in with any password",
            "Restart with `agentos up`, which writes pg_hba.conf anew.",
        )
    return ok("nobody gets in without a password")


async def clock_skew(site: Site) -> Outcome:
    async with _connected(site.runtime_dsn) as connection:
        before = time.time()
        theirs = (await connection.fetchval("select clock_timestamp()")).timestamp()
        ours = (before + time.time()) / 2
    skew = abs(theirs - ours)
    if skew < _SKEW_WARNING:
        return ok("database and host agree")
    found = warning if skew < _SKEW_PROBLEM else problem
    return found(f"database and host differ by {skew:.1f} s", "Run NTP on both machines.")


async def relay(site: Site) -> Outcome:
    import asyncpg

    async with _connected(site.platform_dsn) as connection:
        try:
            lag = await connection.fetchval(
                """select extract(epoch from now() - least(
                       (select min(at) from outbox),
                       (select min(at) from events
                        where position > (select published from relay_cursor))))::float8"""
            )
        except asyncpg.UndefinedTableError:
            raise PartDown("needs the schema") from None
    if lag is None or lag < _LAG_WARNING:
        return ok("no event is waiting")
    found = warning if lag < _LAG_PROBLEM else problem
    return found(
        f"an event has waited for {lag:.0f} s",
        "Is a relay running? `agentos up` and `agentos worker` have one; it also needs NATS.",
    )
