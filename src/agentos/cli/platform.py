from __future__ import annotations

import asyncio
import getpass
from typing import Annotated

import typer

from agentos.cli.output import AsJson, show_done
from agentos.kernel.errors import NotFound

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

Email = Annotated[str, typer.Argument(help="E-mail address of somebody who has an account.")]


@app.command()
def grant_admin(email: Email, as_json: AsJson = False) -> None:
    """Make somebody a platform admin. For operators, on the installation's machine."""
    changed = asyncio.run(_set_admin(email, admin=True))
    show_done(
        f"{email} is a platform admin." if changed else f"{email} was a platform admin already.",
        {"email": email, "platform_admin": True, "changed": changed},
        as_json=as_json,
    )


@app.command()
def revoke_admin(email: Email, as_json: AsJson = False) -> None:
    """Take that right away again. For operators, on the installation's machine."""
    changed = asyncio.run(_set_admin(email, admin=False))
    show_done(
        f"{email} is no platform admin any more." if changed else f"{email} was no platform admin.",
        {"email": email, "platform_admin": False, "changed": changed},
        as_json=as_json,
    )


async def _set_admin(email: str, *, admin: bool) -> bool:
    """Whether that changed anything. What changes is in the platform's audit log."""
    from agentos.cli.machine import platform_database
    from agentos.kernel.clock import SystemClock
    from agentos.kernel.ids import TenantId, uuid7
    from agentos.kernel.outbox import Outbox
    from agentos.kernel.settings import load_settings
    from agentos.tenancy.principals import Principal, PrincipalKind, Scope
    from agentos.tenancy.work import PlatformWork

    operator = Principal(
        kind=PrincipalKind.PLATFORM,
        id="operator",
        name=f"{_system_user()} (agentos command)",
        tenant_id=TenantId(uuid7()),
        scopes=frozenset(Scope),
        plan="enterprise",
    )
    async with platform_database(load_settings()) as database, database.transaction() as tx:
        user = await tx.row(
            "select id, platform_admin from users where email = $1 for update", email.lower()
        )
        if user is None:
            raise NotFound(
                f"Nobody has an account with {email}.",
                hint="They join with an invitation first: `agentos members invite`.",
            )
        if user["platform_admin"] == admin:
            return False
        await tx.execute("update users set platform_admin = $2 where id = $1", user["id"], admin)
        work = PlatformWork(tx, operator, Outbox(lambda: None), SystemClock())
        action = "platform_admin.granted" if admin else "platform_admin.revoked"
        await work.record(action, user_id=str(user["id"]), email=email.lower())
    return True


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account number without a name, as in some containers
        return "unknown"
