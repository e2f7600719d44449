"""Database roles and schema migrations."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

import agentos.migrations
from agentos.kernel.errors import SetupError

RUNTIME_ROLE = "agentos_runtime"
PLATFORM_ROLE = "agentos_platform"

# One migration at a time over all processes of an installation ("agentos" in hexadecimal).
MIGRATION_LOCK = 0x6167656E746F73

_VERSIONS = Path(agentos.migrations.__file__).parent / "versions"


def head() -> str:
    """The newest revision in this code. Revisions are numbered in one line, so names suffice."""
    return max(path.name[:4] for path in _VERSIONS.glob("[0-9]*.py"))


async def current(connection: asyncpg.Connection[Any]) -> str | None:
    """The revision the database is at, or None for an empty one."""
    if await connection.fetchval("select to_regclass('public.alembic_version')") is None:
        return None
    revision: str | None = await connection.fetchval("select version_num from alembic_version")
    return revision


async def migrate(owner_dsn: str, target: str = "head") -> str | None:
    """Brings the schema to `target`, one process at a time; returns the revision it was at."""
    connection = await asyncpg.connect(owner_dsn)
    try:
        await connection.execute("select pg_advisory_lock($1)", MIGRATION_LOCK)
        before = await current(connection)
        known = head()
        if before is not None and before > known:
            raise SetupError(
                f"The database is at schema {before}, but this version of AgentOS knows only {known}.",
                hint="Run the newer AgentOS that last used it, or restore a backup taken before.",
            )
        if before != (known if target == "head" else target):
            await _run_alembic(owner_dsn, target, downward=target != "head")
        return before
    finally:
        await connection.close()


async def _run_alembic(owner_dsn: str, target: str, *, downward: bool) -> None:
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # Imported here: together they cost half a second, and most starts have nothing to migrate.
    from alembic import command
    from alembic.config import Config
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    config = Config()
    config.set_main_option("script_location", str(_VERSIONS.parent))

    def run(sync_connection: Any) -> None:
        config.attributes["connection"] = sync_connection
        (command.downgrade if downward else command.upgrade)(config, target)

    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: asyncpg.connect(owner_dsn),
        poolclass=NullPool,
    )
    try:
        async with engine.begin() as connection:
            await connection.run_sync(run)
    finally:
        await engine.dispose()


@dataclass(frozen=True)
class RolePasswords:
    runtime: str
    platform: str

    def __repr__(self) -> str:
        return "RolePasswords(…)"


async def ensure_roles(admin_dsn: str, passwords: RolePasswords) -> None:
    """Creates the two roles AgentOS works as, if they are not there.

    An existing role keeps its password: it may serve another installation on this cluster.
    """
    connection = await asyncpg.connect(admin_dsn)
    try:
        for role, password in (
            (RUNTIME_ROLE, passwords.runtime),
            (PLATFORM_ROLE, passwords.platform),
        ):
            if not await connection.fetchval("select 1 from pg_roles where rolname = $1", role):
                await _create_role(connection, role, password)
    finally:
        await connection.close()


async def _create_role(connection: asyncpg.Connection[Any], role: str, password: str) -> None:
    # CREATE ROLE takes no parameters; the password is URL-safe base64 of our own making.
    assert "'" not in password
    try:
        await connection.execute(
            f"create role {role} login nosuperuser nocreatedb nocreaterole nobypassrls "
            f"password '{password}'"
        )
    except (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError):
        return  # another process was first
    except asyncpg.InsufficientPrivilegeError:
        raise SetupError(
            f"DATABASE_URL may not create the role {role}.",
            hint="Give that user CREATEROLE, or create agentos_runtime and agentos_platform as "
            "plain LOGIN roles and set DATABASE_RUNTIME_URL and DATABASE_PLATFORM_URL.",
        ) from None
