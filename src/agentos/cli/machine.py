"""The installation on this machine, as its operator reaches it: without the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agentos.kernel.errors import SetupError, Unavailable
from agentos.kernel.settings import Settings

if TYPE_CHECKING:
    from agentos.kernel.database import Database


def secret_key(settings: Settings) -> bytes:
    """The installation's key. Unlike a start, looking never makes one."""
    from agentos.kernel.secret_key import load_secret_key

    file = settings.data_dir / "secrets" / "secret_key"
    if settings.secret_key is None and settings.embedded_postgres and not file.exists():
        raise SetupError(
            f"There is no installation in {settings.data_dir}.",
            hint="Start one with `agentos up`, or name its place with AGENTOS_DATA_DIR.",
        )
    return load_secret_key(settings)


@asynccontextmanager
async def platform_database(settings: Settings) -> AsyncIterator[Database]:
    """The platform role's connection, for what spans tenants."""
    from agentos.kernel.database import Database
    from agentos.kernel.installation import database_addresses

    where = database_addresses(settings, secret_key(settings))
    try:
        database = await Database.connect(where.platform, size=2, name="agentos-cli")
    except Unavailable:
        raise not_running(settings) from None
    try:
        yield database
    finally:
        await database.close()


def not_running(settings: Settings) -> SetupError:
    if settings.embedded_postgres:
        return SetupError(
            f"PostgreSQL is not running for {settings.data_dir}.",
            hint="Start it with `agentos up`, or name another place with AGENTOS_DATA_DIR.",
        )
    return SetupError(
        "The database at DATABASE_URL does not answer.",
        hint="Check that PostgreSQL runs and that the address is right.",
    )
