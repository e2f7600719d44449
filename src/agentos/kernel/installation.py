"""Where the parts of an installation are, and how they are brought up: embedded or external."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg

from agentos.kernel import schema
from agentos.kernel.bus_credentials import BusAuthority
from agentos.kernel.crypto import derive, derive_password
from agentos.kernel.engines.account import create_data_directory, engine_account
from agentos.kernel.engines.lock import DataDirectoryLock
from agentos.kernel.engines.nats import EmbeddedNats, remembered_urls
from agentos.kernel.engines.postgres import EmbeddedPostgres
from agentos.kernel.errors import SetupError
from agentos.kernel.redaction import register_secret
from agentos.kernel.schema import PLATFORM_ROLE, RUNTIME_ROLE, RolePasswords
from agentos.kernel.settings import Settings

Say = Callable[[str], None]

DATABASE = "agentos"
OWNER_ROLE = "agentos_owner"


@dataclass(frozen=True)
class DatabaseAddresses:
    """The database as each role. `owner` is None where migrating is somebody else's job."""

    owner: str | None = field(repr=False)
    runtime: str = field(repr=False)
    platform: str = field(repr=False)


@dataclass(frozen=True)
class Addresses(DatabaseAddresses):
    """How to reach all engines."""

    nats: str = field(repr=False)
    nats_monitor: str | None = None
    # In the process that runs it.
    embedded_nats: EmbeddedNats | None = field(default=None, repr=False)


def role_password(secret_key: bytes, role: str) -> str:
    password = derive_password(secret_key, f"database role {role}")
    register_secret(password)
    return password


def bus_authority(secret_key: bytes) -> BusAuthority:
    return BusAuthority(derive(secret_key, "bus"))


@asynccontextmanager
async def embedded_engines(
    settings: Settings, secret_key: bytes, say: Say
) -> AsyncIterator[Addresses]:
    """Runs whichever engines are not external for as long as the block lasts."""
    account = engine_account()
    data_dir = create_data_directory(settings.data_dir, account)
    async with AsyncExitStack() as stack:
        stack.enter_context(DataDirectoryLock(data_dir))
        postgres = _postgres(settings, secret_key, say)
        nats = EmbeddedNats(data_dir, bus_authority(secret_key), account=account, on_notice=say)
        starts = []
        if settings.embedded_postgres:
            stack.push_async_callback(postgres.stop)
            starts.append(_start(postgres.start(), "PostgreSQL", say))
        if settings.embedded_nats:
            stack.push_async_callback(nats.stop)
            starts.append(_start(nats.start(), "NATS", say))
        await _together(starts)
        if settings.embedded_postgres:
            await _create_database(postgres, secret_key)
        where = addresses(settings, secret_key)
        yield replace(where, embedded_nats=nats) if settings.embedded_nats else where


async def _together(starts: list[Coroutine[None, None, None]]) -> None:
    """All of them, or the first failure once the others have ended: none may start after it."""
    try:
        async with asyncio.TaskGroup() as group:
            for start in starts:
                group.create_task(start)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _start(starting: object, name: str, say: Say) -> None:
    say(f"Starting {name}")
    await starting  # type: ignore[misc]
    say(f"{name} is ready")


def addresses(settings: Settings, secret_key: bytes) -> Addresses:
    """Where the engines are, from the settings or from what `agentos up` left in the data directory."""
    nats, monitor = _nats_addresses(settings)
    database = database_addresses(settings, secret_key)
    return Addresses(database.owner, database.runtime, database.platform, nats, monitor)


def database_addresses(settings: Settings, secret_key: bytes) -> DatabaseAddresses:
    """Where the database is; for what needs no bus."""
    if settings.embedded_postgres:
        postgres = _postgres(settings, secret_key, lambda _: None)
        owner, runtime, platform = (
            postgres.dsn(role, role_password(secret_key, role), DATABASE)
            for role in (OWNER_ROLE, RUNTIME_ROLE, PLATFORM_ROLE)
        )
        return DatabaseAddresses(owner, runtime, platform)
    owner_url = settings.database_url.get_secret_value() if settings.database_url else None
    return DatabaseAddresses(
        owner_url,
        _external(settings, "runtime", owner_url, secret_key),
        _external(settings, "platform", owner_url, secret_key),
    )


def _nats_addresses(settings: Settings) -> tuple[str, str | None]:
    if settings.nats_url is not None:
        return settings.nats_url.get_secret_value(), settings.nats_monitor_url
    remembered = remembered_urls(settings.data_dir)
    if remembered is None:
        raise SetupError(
            "No NATS is running here, and NATS_URL is not set.",
            hint="Start everything with `agentos up`, or set NATS_URL.",
        )
    return remembered


def _external(settings: Settings, which: str, owner_url: str | None, secret_key: bytes) -> str:
    given = settings.database_runtime_url if which == "runtime" else settings.database_platform_url
    if given is not None:
        return given.get_secret_value()
    if owner_url is None:
        raise SetupError(
            f"DATABASE_{which.upper()}_URL is not set, and there is no DATABASE_URL to derive it from.",
            hint="Set DATABASE_URL, or both DATABASE_RUNTIME_URL and DATABASE_PLATFORM_URL.",
        )
    role = RUNTIME_ROLE if which == "runtime" else PLATFORM_ROLE
    return as_role(owner_url, role, role_password(secret_key, role))


def as_role(url: str, role: str, password: str) -> str:
    """The same database, as another role."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{role}:{quote(password, safe='')}@{host}"))


async def prepare_database(
    settings: Settings, secret_key: bytes, where: DatabaseAddresses, say: Say
) -> None:
    """Roles and schema as this code needs them; under a lock, so that many may start at once."""
    if where.owner is None or not settings.auto_migrate:
        await _require_head(where)
        return
    passwords = RolePasswords(
        runtime=role_password(secret_key, RUNTIME_ROLE),
        platform=role_password(secret_key, PLATFORM_ROLE),
    )
    await _answering(schema.ensure_roles(where.owner, passwords), "DATABASE_URL")
    before = await schema.migrate(where.owner)
    if before != schema.head():
        say(f"Schema brought from {before or 'empty'} to {schema.head()}")
    for name, dsn in (("runtime", where.runtime), ("platform", where.platform)):
        await _check_login(name, dsn)


async def _answering(attempt: object, what: str) -> None:
    try:
        await attempt  # type: ignore[misc]
    except (OSError, asyncpg.PostgresConnectionError, asyncpg.CannotConnectNowError) as error:
        raise SetupError(
            f"{what} does not answer: {type(error).__name__}.",
            hint="Check that PostgreSQL runs and that the address in the setting is right.",
        ) from error
    except (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError):
        raise SetupError(
            f"PostgreSQL refuses the user or password of {what}.",
            hint="Check both; the user must be able to log in from here.",
        ) from None


async def _check_login(name: str, dsn: str) -> None:
    try:
        connection = await asyncpg.connect(dsn)
    except asyncpg.InvalidPasswordError:
        raise SetupError(
            f"The database role agentos_{name} exists with another password.",
            hint="Give this process the AGENTOS_SECRET_KEY of the installation that made it, or "
            f"set DATABASE_{name.upper()}_URL.",
        ) from None
    await connection.close()


async def _require_head(where: DatabaseAddresses) -> None:
    connection = await asyncpg.connect(where.runtime)
    try:
        current = await schema.current(connection)
    except asyncpg.InsufficientPrivilegeError:
        current = None
    finally:
        await connection.close()
    if current != schema.head():
        raise SetupError(
            f"The database schema is at {current or 'nothing'}, this code needs {schema.head()}.",
            hint="Run `agentos db upgrade` with DATABASE_URL set to the owner.",
        )


async def _create_database(postgres: EmbeddedPostgres, secret_key: bytes) -> None:
    connection = await asyncpg.connect(postgres.superuser_dsn())
    try:
        if not await connection.fetchval("select 1 from pg_roles where rolname = $1", OWNER_ROLE):
            password = role_password(secret_key, OWNER_ROLE)
            # Roles are created by the owner, so that embedded and external take one path.
            await connection.execute(
                f"create role {OWNER_ROLE} login createrole password '{password}'"
            )
        if not await connection.fetchval("select 1 from pg_database where datname = $1", DATABASE):
            await connection.execute(f"create database {DATABASE} owner {OWNER_ROLE}")
    finally:
        await connection.close()


def _postgres(settings: Settings, secret_key: bytes, say: Say) -> EmbeddedPostgres:
    return EmbeddedPostgres(
        Path(settings.data_dir),
        superuser_password=role_password(secret_key, "postgres"),
        account=engine_account(),
        on_notice=say,
    )
