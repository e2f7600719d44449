from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from agentos.cli.client import Client, Url, segment
from agentos.cli.named import POST_ACTION, SCHEDULE, WEBHOOK, Yes, confirm, find, one_of
from agentos.cli.output import AsJson, Column, Row, show_done, show_list
from agentos.cli.session_bodies import read_text
from agentos.kernel.errors import Invalid

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

_AFTER = ("success", "failure", "any")
_METHODS = ("POST", "PUT", "PATCH", "GET", "DELETE")

OfSchedule = Annotated[str | None, typer.Option("--schedule", help="Name or id of a schedule.")]
OfWebhook = Annotated[str | None, typer.Option("--webhook", help="Name or id of a webhook.")]


@app.command("list")
def list_post_actions(
    schedule: OfSchedule = None, webhook: OfWebhook = None, url: Url = None, as_json: AsJson = False
) -> None:
    """HTTP calls that follow the runs of schedules and webhooks."""
    client = Client.open(url)
    columns = (
        Column("Name", "name"),
        Column("After", "after"),
        Column("Call", lambda row: f"{row['method']} {row['url']}"),
        Column("Auth", _auth_of),
        Column("Enabled", "enabled"),
        Column("Id", "id"),
    )
    show_list(
        client.items(POST_ACTION.path, **_source(client, schedule, webhook)),
        columns,
        as_json=as_json,
        empty="No post-actions. Make one with `agentos post-actions create NAME --schedule SCHEDULE "
        "--to https://…`.",
    )


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What it is called.")],
    to: Annotated[
        str, typer.Option("--to", help="Where to call; may name {{run.state}} and more.")
    ],
    schedule: OfSchedule = None,
    webhook: OfWebhook = None,
    after: Annotated[str, typer.Option(help="After: success, failure or any.")] = "any",
    method: Annotated[str, typer.Option(help=f"One of {', '.join(_METHODS)}.")] = "POST",
    header: Annotated[
        list[str] | None, typer.Option(help="A header, 'Name: value'. Repeat it for more.")
    ] = None,
    body_file: Annotated[
        Path | None, typer.Option(help="A template of the body. Default: the run as JSON.")
    ] = None,
    auth: Annotated[
        str | None,
        typer.Option(
            help="bearer:SECRET, basic:USER:SECRET or header:NAME:SECRET; SECRET is a name in the "
            "vault."
        ),
    ] = None,
    max_attempts: Annotated[
        int | None, typer.Option(min=1, max=20, help="How often it is tried. Default: 5.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make an HTTP call after the runs of a schedule or a webhook."""
    if (schedule is None) == (webhook is None):
        raise Invalid("After what?", hint="Give --schedule or --webhook.")
    options: dict[str, Any] = {
        "name": name,
        "url": to,
        "after": one_of(after, _AFTER, "outcome"),
        "method": one_of(method.upper(), _METHODS, "method"),
        "headers": dict(_header(each) for each in header or []),
        "body": None if body_file is None else read_text(body_file),
        "auth": None if auth is None else _auth(auth),
        "max_attempts": max_attempts,
    }
    client = Client.open(url)
    options |= _source(client, schedule, webhook)
    given = {key: value for key, value in options.items() if value is not None}
    made = client.post(POST_ACTION.path, given)
    show_done(f"Made the post-action {made['name']}.", made, as_json=as_json)


@app.command()
def deliveries(
    run: Annotated[str, typer.Argument(help="Id of a run.", metavar="RUN")],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """What became of the post-actions of a run."""
    columns = (
        Column("State", "state"),
        Column("Attempts", "attempts"),
        Column("Answered", "status"),
        Column("Error", "error"),
        Column("Next", "next_at"),
        Column("Post-action", "post_action_id"),
    )
    show_list(
        Client.open(url).get(f"/api/runs/{segment(run)}/deliveries"),
        columns,
        as_json=as_json,
        empty="No post-action follows this run, or it has not ended.",
    )


@app.command()
def delete(
    post_action: Annotated[str, typer.Argument(help="Name or id.", metavar="POST_ACTION")],
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Remove a post-action."""
    client = Client.open(url)
    found = find(client, POST_ACTION, post_action)
    confirm(f"Delete {post_action}?", yes)
    client.delete(f"{POST_ACTION.path}/{found}")
    show_done("Deleted the post-action.", {"deleted": found}, as_json=as_json)


def _source(client: Client, schedule: str | None, webhook: str | None) -> dict[str, Any]:
    return {
        "schedule_id": None if schedule is None else find(client, SCHEDULE, schedule),
        "webhook_id": None if webhook is None else find(client, WEBHOOK, webhook),
    }


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise Invalid(f"'{text}' is not a header.", hint="Write 'Name: value'.")
    return name.strip(), value.strip()


def _auth(text: str) -> dict[str, str]:
    match text.split(":"):
        case ["bearer", secret] if secret:
            return {"kind": "bearer", "secret": secret}
        case ["basic", user, secret] if secret:
            return {"kind": "basic", "user": user, "secret": secret}
        case ["header", name, secret] if name and secret:
            return {"kind": "header", "header": name, "secret": secret}
    raise Invalid(
        "This is no way to authenticate.",
        hint="Write bearer:SECRET, basic:USER:SECRET or header:NAME:SECRET, with the name of a "
        "secret in the vault.",
    )


def _auth_of(row: Row) -> str:
    auth = row["auth"]
    return auth["kind"] if auth["kind"] == "none" else f"{auth['kind']} {auth['secret']}"
