from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from agentos.cli.output import AsJson, show_done, show_one
from agentos.kernel.errors import Invalid, SetupError

if TYPE_CHECKING:
    from agentos.kernel.settings import Settings

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

T = TypeVar("T")


@app.command()
def upgrade(as_json: AsJson = False) -> None:
    """Bring roles and schema up to date. Needs DATABASE_URL of the owner, or the embedded engine."""
    before, now = asyncio.run(_with_owner(_upgrade))
    told = {"from": before, "to": now, "changed": before != now}
    sentence = f"Schema brought from {before or 'empty'} to {now}."
    if before == now:
        sentence = f"The schema is at {now} already."
    show_done(sentence, told, as_json=as_json)


@app.command()
def downgrade(
    target: Annotated[str, typer.Argument(help="Revision to go back to, such as 0003, or base.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; data may be lost.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take the schema back to an older revision. What only the newer one can hold is lost."""
    if not yes:
        if not sys.stdin.isatty():
            raise Invalid("Going back can lose data.", hint="Say --yes if that is meant.")
        typer.confirm(f"Going back to {target} can lose data. Go on?", abort=True, err=True)

    async def go_back(owner: str, _: bytes) -> str | None:
        return await _migrate_to(owner, target)

    before = asyncio.run(_with_owner(go_back))
    show_done(
        f"Schema taken from {before or 'empty'} back to {target}.",
        {"from": before, "to": target},
        as_json=as_json,
    )


@app.command()
def status(as_json: AsJson = False) -> None:
    """The revision the database is at, and the one this code needs. Exit code 1 if they differ."""
    found = asyncio.run(_with_owner(_status))
    show_one(found, as_json=as_json)
    if not found["up_to_date"]:
        raise typer.Exit(1)


async def _with_owner(work: Callable[[str, bytes], Awaitable[T]]) -> T:
    """Runs `work` with the owner's address; an engine that is not there is said plainly."""
    import asyncpg

    from agentos.cli.machine import not_running, secret_key
    from agentos.kernel.installation import database_addresses
    from agentos.kernel.settings import load_settings

    settings: Settings = load_settings()
    key = secret_key(settings)
    owner = database_addresses(settings, key).owner
    if owner is None:
        raise SetupError(
            "DATABASE_URL is not set, so the schema cannot be looked after from here.",
            hint="Set DATABASE_URL to the role that owns the database.",
        )
    try:
        return await work(owner, key)
    except (OSError, asyncpg.PostgresConnectionError, asyncpg.CannotConnectNowError):
        raise not_running(settings) from None
    except (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError):
        raise SetupError(
            "PostgreSQL refuses the user or password of DATABASE_URL.",
            hint="Check both, and AGENTOS_SECRET_KEY if PostgreSQL is embedded.",
        ) from None


async def _upgrade(owner: str, key: bytes) -> tuple[str | None, str]:
    from agentos.kernel import schema
    from agentos.kernel.installation import role_password

    passwords = schema.RolePasswords(
        runtime=role_password(key, schema.RUNTIME_ROLE),
        platform=role_password(key, schema.PLATFORM_ROLE),
    )
    await schema.ensure_roles(owner, passwords)
    return await schema.migrate(owner), schema.head()


async def _migrate_to(owner: str, target: str) -> str | None:
    from alembic.util import CommandError

    from agentos.kernel import schema

    try:
        return await schema.migrate(owner, target)
    except CommandError as error:
        raise Invalid(f"{target} is not a revision to go back to: {error}") from None


async def _status(owner: str, _: bytes) -> dict[str, Any]:
    import asyncpg

    from agentos.kernel import schema

    connection = await asyncpg.connect(owner, timeout=5)
    try:
        revision = await schema.current(connection)
    finally:
        await connection.close()
    needed = schema.head()
    return {"revision": revision, "needed": needed, "up_to_date": revision == needed}
