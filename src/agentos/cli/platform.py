from __future__ import annotations

import asyncio
import getpass
from typing import Annotated

import typer

from agentos.cli.output import AsJson, show_done

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
    """Whether that changed anything."""
    from agentos.cli.machine import platform_database
    from agentos.control.platform.service import set_platform_admin
    from agentos.kernel.clock import SystemClock
    from agentos.kernel.outbox import Outbox
    from agentos.kernel.settings import load_settings
    from agentos.tenancy.principals import platform_principal
    from agentos.tenancy.work import PlatformWork

    operator = platform_principal("operator", f"{_system_user()} (agentos command)")
    async with platform_database(load_settings()) as database, database.transaction() as tx:
        # Nothing is announced here, so nobody has to be woken.
        work = PlatformWork(tx, operator, Outbox(lambda: None), SystemClock())
        return await set_platform_admin(work, email.lower(), admin=admin)


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account number without a name, as in some containers
        return "unknown"
