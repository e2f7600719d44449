from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from agentos.cli.client import Client, Url, segment
from agentos.cli.named import POST_ACTION, SCHEDULE, WEBHOOK, Yes, confirm, find, one_of
from agentos.cli.output import AsJson, Column, Row, show_done, show_list
from agentos.cli.runs import check_change
from agentos.cli.session_bodies import read_text
from agentos.kernel.errors import Invalid

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

_AFTER = ("success", "failure", "any")
_METHODS = ("POST", "PUT", "PATCH", "GET", "DELETE")

OfSchedule = Annotated[str | None, typer.Option("--schedule", help="Name or id of a schedule.")]
OfWebhook = Annotated[str | None, typer.Option("--webhook", help="Name or id of a webhook.")]
PostActionRef = Annotated[str, typer.Argument(help="Name or id.", metavar="POST_ACTION")]


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
def update(
    post_action: PostActionRef,
    name: Annotated[str | None, typer.Option(help="What it shall be called.")] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="Where to call; may name {{run.state}} and more.")
    ] = None,
    after: Annotated[str | None, typer.Option(help="After: success, failure or any.")] = None,
    method: Annotated[str | None, typer.Option(help=f"One of {', '.join(_METHODS)}.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(help="A header, 'Name: value', in place of those; repeat it for more."),
    ] = None,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Send none of those.")] = False,
    body_file: Annotated[Path | None, typer.Option(help="A template of the body.")] = None,
    no_body: Annotated[
        bool, typer.Option("--no-body", help="Without a template: send the run as JSON.")
    ] = False,
    auth: Annotated[
        str | None,
        typer.Option(help="bearer:SECRET, basic:USER:SECRET, header:NAME:SECRET, or none."),
    ] = None,
    max_attempts: Annotated[
        int | None, typer.Option(min=1, max=20, help="How often it is tried.")
    ] = None,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether it follows runs at all.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Change a post-action. What is not given stays; what it follows stays, too."""
    options: dict[str, Any] = {
        "name": name,
        "url": to,
        "after": None if after is None else one_of(after, _AFTER, "outcome"),
        "method": None if method is None else one_of(method.upper(), _METHODS, "method"),
        "headers": dict(_header(each) for each in header) if header else None,
        "body": None if body_file is None else read_text(body_file),
        "auth": None if auth is None else _auth(auth),
        "max_attempts": max_attempts,
        "enabled": enabled,
    }
    body = {key: value for key, value in options.items() if value is not None}
    body |= _taken_away(body, no_headers, no_body)
    check_change(body, "post-actions update")
    client = Client.open(url)
    done = client.patch(f"{POST_ACTION.path}/{find(client, POST_ACTION, post_action)}", body)
    off = "" if done["enabled"] else "; it is disabled"
    show_done(f"Changed the post-action {done['name']}{off}.", done, as_json=as_json)


def _taken_away(given: Row, no_headers: bool, no_body: bool) -> dict[str, Any]:
    if no_headers and "headers" in given:
        raise Invalid("Give --header or --no-headers.")
    if no_body and "body" in given:
        raise Invalid("Give --body-file or --no-body.")
    return ({"headers": {}} if no_headers else {}) | ({"body": None} if no_body else {})


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
    post_action: PostActionRef,
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
        case ["none"]:
            return {"kind": "none"}
        case ["bearer", secret] if secret:
            return {"kind": "bearer", "secret": secret}
        case ["basic", user, secret] if secret:
            return {"kind": "basic", "user": user, "secret": secret}
        case ["header", name, secret] if name and secret:
            return {"kind": "header", "header": name, "secret": secret}
    raise Invalid(
        "This is no way to authenticate.",
        hint="Write bearer:SECRET, basic:USER:SECRET or header:NAME:SECRET, with the name of a "
        "secret in the vault; or none.",
    )


def _auth_of(row: Row) -> str:
    auth = row["auth"]
    return auth["kind"] if auth["kind"] == "none" else f"{auth['kind']} {auth['secret']}"
