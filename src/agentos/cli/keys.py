from __future__ import annotations

from typing import Annotated, Any

import typer

from agentos.cli.client import Client, Url, segment
from agentos.cli.output import AsJson, Column, Row, show_done, show_list
from agentos.kernel.errors import Invalid

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

_FEW_SCOPES = 3  # more would push everything else off the terminal; --json has them all
_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@app.command("list")
def list_keys(url: Url = None, as_json: AsJson = False) -> None:
    """The API keys of this tenant, revoked ones included."""
    columns = (
        Column("Name", "name"),
        Column("Ends in", "last_four"),
        Column("State", _state),
        Column("Last used", "last_used_at"),
        Column("Expires", "expires_at"),
        Column("Scopes", _scopes),
        Column("Id", "id"),
    )
    show_list(
        Client.open(url).items("/api/keys"),
        columns,
        as_json=as_json,
        empty="No API keys yet. Make one with `agentos keys create NAME`.",
    )


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(help="What it may do, such as events:read; repeatable. Default: all you may."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="In 30m, 12h, 90d or 8w, or at a date. Default: never.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make an API key. It is shown only now."""
    body: dict[str, Any] = {"name": name}
    if scope:
        body["scopes"] = scope
    if expires is not None:
        body["expires_at"] = moment(expires, ahead=True)
    made = Client.open(url).post("/api/keys", body)
    show_done(
        f"Made the key {made['name']}. Keep it safe; it is shown only now:\n\n  {made['key']}",
        made,
        as_json=as_json,
    )


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(help="Id of the key.")],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Revoke an API key. It stops working within a second."""
    Client.open(url).delete(f"/api/keys/{segment(key)}")
    show_done("Key revoked.", {"revoked": key}, as_json=as_json)


def moment(text: str, *, ahead: bool) -> str:
    """A moment from now (`90d`; ago unless `ahead`), or the date in `text` in local time."""
    from datetime import datetime, timedelta

    number, unit = text[:-1], text[-1:]
    now = datetime.now().astimezone()
    try:
        if number.isdigit() and unit in _UNITS:
            step = timedelta(seconds=int(number) * _UNITS[unit])
            return (now + step if ahead else now - step).isoformat()
        return datetime.fromisoformat(text).astimezone().isoformat()
    except (ValueError, OverflowError):
        raise Invalid(
            f"'{text}' is not a time.", hint="Use 30m, 12h, 90d, 8w, or a date like 2030-05-31."
        ) from None


def _scopes(key: Row) -> str:
    scopes = key["scopes"]
    return ", ".join(scopes) if len(scopes) <= _FEW_SCOPES else f"{len(scopes)} scopes"


def _state(key: Row) -> str:
    from datetime import UTC, datetime

    if key["revoked_at"] is not None:
        return "revoked"
    expires = key["expires_at"]
    if expires is not None and datetime.fromisoformat(expires) <= datetime.now(UTC):
        return "expired"
    return "active"
