from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from agentos.cli.client import Client, Url, segment
from agentos.cli.output import AsJson, Column, counted, show_done, show_list, show_one
from agentos.kernel.errors import Invalid, SetupError

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the secret.")]


@app.command("list")
def list_secrets(url: Url = None, as_json: AsJson = False) -> None:
    """The secrets of this tenant, without their values."""
    columns = (
        Column("Name", "name"),
        Column("Version", "version"),
        Column("Ends in", lambda row: row["last_four"] or None),
        Column("Changed", "updated_at"),
    )
    show_list(
        Client.open(url).items("/api/vault"),
        columns,
        as_json=as_json,
        empty="No secrets yet. Store one with `agentos vault set NAME`.",
    )


@app.command("set")
def set_secret(
    name: Name,
    value_from_env: Annotated[
        str | None,
        typer.Option(metavar="VAR", help="Take the value from this environment variable."),
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Store a secret, or replace its value. It is asked for, or read from stdin."""
    client = Client.open(url)
    stored = client.put(f"/api/vault/{segment(name)}", {"value": _value(value_from_env)})
    show_done(f"Stored {stored['name']}, version {stored['version']}.", stored, as_json=as_json)


@app.command()
def show(name: Name, url: Url = None, as_json: AsJson = False) -> None:
    """What is known of a secret. Its value can never be read back."""
    show_one(Client.open(url).get(f"/api/vault/{segment(name)}"), as_json=as_json)


@app.command()
def delete(name: Name, url: Url = None, as_json: AsJson = False) -> None:
    """Delete a secret."""
    Client.open(url).delete(f"/api/vault/{segment(name)}")
    show_done(f"Deleted {name}.", {"deleted": name}, as_json=as_json)


@app.command()
def rotate(url: Url = None, as_json: AsJson = False) -> None:
    """Give this tenant a new encryption key and encrypt all its secrets anew."""
    done = Client.open(url).post("/api/vault/rotate")
    show_done(
        f"The tenant's key is now version {done['version']}; "
        f"{counted(done['reencrypted'], 'secret')} encrypted anew.",
        done,
        as_json=as_json,
    )


@app.command()
def rotate_kek(as_json: AsJson = False) -> None:
    """Add a new key-encryption key to this installation. For operators, on its machine."""
    from agentos.cli.machine import secret_key
    from agentos.kernel.settings import load_settings
    from agentos.tenancy.vault.keyring import FileKeyring, open_keyring

    settings = load_settings()
    secret_key(settings)  # says so if there is no installation here
    keyring = open_keyring(settings)
    if not isinstance(keyring, FileKeyring):
        raise SetupError(
            "The key-encryption keys are in AGENTOS_KEK, which this command cannot change.",
            hint="Put a new `id:64hex` in front of the others there (openssl rand -hex 32), restart "
            "every process, then run `agentos vault rewrap`.",
        )
    kek_id = keyring.add_key()
    show_done(
        f"{kek_id} is the newest key. Now bring the tenants' keys under it:\n\n"
        "  agentos vault rewrap",
        {"kek_id": kek_id},
        as_json=as_json,
    )


@app.command()
def rewrap(as_json: AsJson = False) -> None:
    """Bring all tenants' keys under the newest key-encryption key. For operators, on its machine."""
    import asyncio

    moved, kek_id = asyncio.run(_rewrap())
    show_done(
        f"{counted(moved, 'key')} brought under {kek_id}. Older key-encryption keys may go now, "
        "unless a backup still needs them.",
        {"rewrapped": moved, "kek_id": kek_id},
        as_json=as_json,
    )


async def _rewrap() -> tuple[int, str]:
    from agentos.cli.machine import platform_database
    from agentos.kernel.settings import load_settings
    from agentos.tenancy.vault.keyring import open_keyring
    from agentos.tenancy.vault.service import rewrap_keys

    settings = load_settings()
    async with platform_database(settings) as database:
        keyring = open_keyring(settings)
        return await rewrap_keys(database, keyring), keyring.current_id


def _value(variable: str | None) -> str:
    """The value from where nobody else sees it: process lists and shell histories show arguments."""
    if variable is not None:
        if variable not in os.environ:
            raise Invalid(f"The environment variable {variable} is not set.")
        return os.environ[variable]
    if sys.stdin.isatty():
        answer: str = typer.prompt("Value", hide_input=True, err=True)
        return answer
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise Invalid(
            "The value is not text.", hint="Encode it first, for example with base64."
        ) from None
    # One line is what `echo` makes of a value; in more lines the last break belongs to it.
    return text.rstrip("\n") if text.count("\n") == 1 else text
