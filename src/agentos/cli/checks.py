"""What `agentos doctor` looks at. Looking changes nothing, and no check can hang or stop the others."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from agentos.kernel.errors import AgentOSError, Unavailable

if TYPE_CHECKING:
    import asyncpg

    from agentos.kernel.installation import Addresses, DatabaseAddresses
    from agentos.kernel.settings import Settings

_LIMIT = 6.0  # seconds a check may take; all of them run at once
_CONNECT = 4.0
_OLDEST_PYTHON = (3, 11)
_OLDEST_POSTGRES = 15
_FREE_BYTES = 1_000_000_000
_LAG_WARNING, _LAG_PROBLEM = 5.0, 60.0  # seconds; the relay polls twice a second
_SKEW_WARNING, _SKEW_PROBLEM = 1.0, 30.0  # seconds; tokens are checked against the host's clock


class State(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Finding:
    """What a check found, and how to mend it."""

    part: str
    state: State
    detail: str
    fix: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Outcome:
    """A finding before it knows which part it is about."""

    state: State
    detail: str
    fix: str | None = None


def ok(detail: str) -> Outcome:
    return Outcome(State.OK, detail)


def warning(detail: str, fix: str | None = None) -> Outcome:
    return Outcome(State.WARNING, detail, fix)


def problem(detail: str, fix: str | None = None) -> Outcome:
    return Outcome(State.PROBLEM, detail, fix)


def skipped(detail: str) -> Outcome:
    return Outcome(State.SKIPPED, detail)


class PartDown(Exception):
    """Something a check needs is not there; another check has said so."""


@dataclass(frozen=True)
class Site:
    """The installation under examination."""

    settings: Settings
    key: bytes | None
    database: DatabaseAddresses | None
    nats: Addresses | None

    @property
    def runtime_dsn(self) -> str | None:
        return None if self.database is None else self.database.runtime

    @property
    def platform_dsn(self) -> str | None:
        return None if self.database is None else self.database.platform

    @property
    def owner_dsn(self) -> str | None:
        """The owner's, or where migrating is somebody else's job the runtime role's."""
        return None if self.database is None else self.database.owner or self.database.runtime


Check = Callable[[Site], Awaitable[Outcome]]


async def examine() -> AsyncIterator[Finding]:
    """All findings, in a fixed order, each as soon as it and those before it are there."""
    yield _named("Python", python_version())
    from agentos.kernel.settings import load_settings

    try:
        settings = load_settings()
    except AgentOSError as error:
        yield _named("Settings", problem(error.message, error.advice))
        return
    yield _named("Settings", ok("valid; `agentos config` shows them"))
    yield _named("Data directory", data_directory(settings))
    yield _named("Key files", key_files(settings))
    site, key_outcome = _survey(settings)
    yield _named("Secret key", key_outcome)
    running = [(part, asyncio.create_task(_limited(check, site))) for part, check in CHECKS]
    for part, task in running:
        yield _named(part, await task)


def _named(part: str, outcome: Outcome) -> Finding:
    return Finding(part, outcome.state, outcome.detail, outcome.fix)


async def _limited(check: Check, site: Site) -> Outcome:
    try:
        async with asyncio.timeout(_LIMIT):
            return await check(site)
    except PartDown as reason:
        return skipped(str(reason))
    except TimeoutError:
        return problem(f"no answer within {_LIMIT:g} s", "Check the address and the network.")
    except AgentOSError as error:
        return problem(error.message, error.advice)
    # The edge of a check: whatever it met must not keep the others from being reported.
    except Exception as error:  # noqa: BLE001
        return problem(f"{type(error).__name__}: {error}".splitlines()[0])


def _survey(settings: Settings) -> tuple[Site, Outcome]:
    from agentos.cli import machine
    from agentos.kernel.installation import addresses, database_addresses

    try:
        key = machine.secret_key(settings)
    except AgentOSError as error:
        return Site(settings, None, None, None), problem(error.message, error.advice)
    where = "AGENTOS_SECRET_KEY" if settings.secret_key else "the data directory"
    database: DatabaseAddresses | None = None
    nats: Addresses | None = None
    try:
        database = database_addresses(settings, key)
        nats = addresses(settings, key)
    except AgentOSError as error:
        if database is None:
            return Site(settings, key, None, None), problem(error.message, error.advice)
    return Site(settings, key, database, nats), ok(f"from {where}")


# This machine


def python_version() -> Outcome:
    version = ".".join(map(str, sys.version_info[:3]))
    if tuple(sys.version_info) < _OLDEST_PYTHON:
        return problem(version, "AgentOS needs Python 3.11 or newer.")
    return ok(version)


def data_directory(settings: Settings) -> Outcome:
    place = settings.data_dir
    if not place.is_dir():
        if settings.embedded_postgres or settings.embedded_nats:
            return problem(f"{place} is not there yet", "Start AgentOS with `agentos up`.")
        return skipped(f"{place} is not there, and nothing embedded needs it")
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        return problem(f"{place} is not yours to use", "Run as the user that AgentOS runs as.")
    if place.stat().st_mode & stat.S_IWOTH:
        return problem(f"everybody may write to {place}", f"Run: chmod o-w {place}")
    free = shutil.disk_usage(place).free
    if free < _FREE_BYTES:
        return warning(
            f"{place} has {free / 1e6:.0f} MB left", "Make room: at least 1 GB should be free."
        )
    return ok(f"{place}, {free / 1e9:.0f} GB free")


def key_files(settings: Settings) -> Outcome:
    files = [settings.data_dir / "secrets" / "secret_key", settings.data_dir / "vault.keys"]
    present = [file for file in files if file.exists()]
    open_to_others = [str(file) for file in present if file.stat().st_mode & 0o077]
    if open_to_others:
        names = " ".join(open_to_others)
        return problem(f"others can read {names}", f"Run: chmod 600 {names}")
    if not present:
        return skipped("none on this machine")
    return ok(f"private: {', '.join(file.name for file in present)}")


async def sandbox(_: Site) -> Outcome:
    if shutil.which("bwrap") is None:
        return warning(
            "bubblewrap is not installed; tools will need it", "Run: apt-get install bubblewrap"
        )
    argv = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    done = await asyncio.to_thread(
        subprocess.run, argv, capture_output=True, text=True, timeout=_CONNECT, check=False
    )
    if done.returncode != 0:
        reason = (done.stderr.strip() or "it failed").splitlines()[0]
        return warning(
            f"bubblewrap cannot make a sandbox: {reason}",
            "Allow user namespaces: sysctl kernel.unprivileged_userns_clone=1 "
            "kernel.apparmor_restrict_unprivileged_userns=0; in a container, run it with "
            "--security-opt seccomp=unconfined.",
        )
    return ok("bubblewrap works")


# PostgreSQL


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


# NATS


async def nats(site: Site) -> Outcome:
    import nats.errors
    import nats.js.errors

    from agentos.kernel.bus import Bus
    from agentos.kernel.installation import bus_authority

    if site.key is None or site.nats is None:
        return problem("is not running here", "Start it with `agentos up`, or set NATS_URL.")
    credentials = bus_authority(site.key).platform_credentials()
    try:
        bus = await Bus.connect(
            site.nats.nats, credentials, name="agentos-doctor", timeout=_CONNECT - 1
        )
    except Unavailable as error:
        fix = "Start it with `agentos up`."
        if not site.settings.embedded_nats:
            fix = "Check NATS_URL, and that the server has what `agentos nats config` prints."
        return problem(error.message, fix)
    try:
        server = bus._client.connected_server_version
        await bus._client.jetstream().account_info()
    except (nats.js.errors.Error, nats.errors.Error):
        return problem(
            "JetStream is off", "Add a `jetstream { … }` block to nats-server.conf and restart it."
        )
    finally:
        await bus.close()
    kind = "embedded" if site.settings.embedded_nats else "external"
    version = f"{server.major}.{server.minor}.{server.patch}"
    return ok(f"{kind}, version {version}, JetStream on")


async def nats_sync(site: Site) -> Outcome:
    from agentos.kernel.bus import assert_sync_always

    if site.nats is None:
        raise PartDown("needs NATS")
    if site.nats.nats_monitor is None:
        return warning(
            "not known: the monitoring address is not set",
            "Set NATS_MONITOR_URL, or make sure of `sync_interval: always` yourself.",
        )
    try:
        await assert_sync_always(site.nats.nats_monitor)
    except Unavailable as error:
        if site.settings.embedded_nats:
            raise PartDown("needs NATS") from None
        return warning(error.message, "Check NATS_MONITOR_URL.")
    return ok("messages are on disk before they are acknowledged")


# The rest


async def objects(site: Site) -> Outcome:
    from agentos.kernel.objects import ObjectStore

    url = site.settings.object_store_url
    # Opening a directory makes it; doctor leaves a machine as it was.
    if url is None and not (site.settings.data_dir / "objects").is_dir():
        return skipped("made at the first start")
    store = ObjectStore.open(url.get_secret_value() if url else None, site.settings.data_dir)
    await store.check()
    return ok(f"{store.where} keeps what it is given")


async def gateway(site: Site) -> Outcome:
    url = os.environ.get("AGENTOS_URL") or site.settings.url
    return await asyncio.to_thread(_probe, url)


def _probe(url: str) -> Outcome:
    import http.client
    import json
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=_CONNECT)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/health/ready")
        response = connection.getresponse()
        document = json.loads(response.read())
        state = str(document["status"])
        parts_down = [f"{k} {v}" for k, v in document.items() if k != "status" and v != "ok"]
    except OSError:
        return warning(f"not running at {url}", "Start it with `agentos up` or `agentos serve`.")
    except (http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
        return warning(f"{url} answers, but not as AgentOS", "Check AGENTOS_URL and AGENTOS_PORT.")
    finally:
        connection.close()
    if response.status != 200:
        return problem(f"{url} is {state}: {', '.join(parts_down)}", "Mend that part first.")
    return ok(f"ready at {url}")


CHECKS: tuple[tuple[str, Check], ...] = (
    ("PostgreSQL", postgres),
    ("Schema", schema_revision),
    ("Runtime role", runtime_role),
    ("Platform role", platform_role),
    ("Row security", row_level_security),
    ("Passwords", trusts_nobody),
    ("Clock", clock_skew),
    ("Event relay", relay),
    ("NATS", nats),
    ("NATS durability", nats_sync),
    ("Object store", objects),
    ("Gateway", gateway),
    ("Sandbox", sandbox),
)
