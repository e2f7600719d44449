from __future__ import annotations

from typing import Annotated, Any

import typer

from agentos.cli.client import Client, Url
from agentos.cli.named import TEAM, WEBHOOK, WebhookRef, Yes, confirm, find, path_of
from agentos.cli.output import (
    AsJson,
    Column,
    Row,
    cell,
    print_json,
    printable,
    show_done,
    show_list,
)
from agentos.cli.runs import (
    Limit,
    OfTeam,
    OtherSession,
    SessionFile,
    Team,
    check_change,
    last_run,
    print_last_run,
    show_runs,
    target,
    target_change,
    team_names,
)
from agentos.cli.session_ids import short

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

Prompt = Annotated[
    str | None,
    typer.Option(help="What it is asked; {{a.path}} comes from the JSON that is sent."),
]


@app.command("list")
def list_webhooks(team: OfTeam = None, url: Url = None, as_json: AsJson = False) -> None:
    """The webhooks of this tenant."""
    client = Client.open(url)
    found = client.items(WEBHOOK.path, team_id=None if team is None else find(client, TEAM, team))
    names = team_names(client) if found and not as_json else {}
    columns = (
        Column("Name", "name"),
        Column("Enabled", "enabled"),
        Column("Ends in", "token_hint"),
        Column("Starts", lambda row: _starts(row, names)),
        Column("Last run", last_run),
        Column("Id", "id"),
    )
    show_list(
        found,
        columns,
        as_json=as_json,
        empty="No webhooks yet. Make one with `agentos webhooks create NAME --team TEAM --prompt "
        "'Look at this: {{body}}'`.",
    )


def _starts(row: Row, names: dict[str, str]) -> str:
    if row["team_id"] is None:
        return "a session"
    return f"team {names.get(row['team_id'], short(row['team_id']))}"


@app.command()
def show(webhook: WebhookRef, url: Url = None, as_json: AsJson = False) -> None:
    """One webhook, and what came of it last. Its token is not shown again."""
    client = Client.open(url)
    found = client.get(path_of(client, WEBHOOK, webhook))
    if as_json:
        print_json(found)
        return
    names = team_names(client) if found["team_id"] else {}
    print(f"Webhook   {printable(found['name'])} ({found['id']})")
    print(f"Enabled   {cell(found['enabled'])}")
    print(f"Token     ends in {printable(found['token_hint'])}")
    print(
        f"Starts    {printable(_starts(found, names))}, {found['max_unfinished']} at once at most"
    )
    print(f"Last used {cell(found['used_at'])}")
    print_last_run(found, 10)
    print(f"Created   {cell(found['created_at'])} by {printable(found['created_by'])}")
    print(f"\n{printable(found['prompt'] or found['session']['prompt'], lines=True)}")


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What it is called.")],
    team: Team = None,
    prompt: Prompt = None,
    session_file: SessionFile = None,
    max_unfinished: Annotated[
        int | None, typer.Option(min=1, help="Runs at once; more are refused. Default: 20.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make a webhook. Its token is shown only now."""
    client = Client.open(url)
    body: dict[str, Any] = {"name": name, **target(client, team, prompt, session_file)}
    if max_unfinished is not None:
        body["max_unfinished"] = max_unfinished
    made = client.post(WEBHOOK.path, body)
    _show_token(client, made, f"Made the webhook {made['name']}.", as_json=as_json)


@app.command()
def update(
    webhook: WebhookRef,
    name: Annotated[str | None, typer.Option(help="What it shall be called.")] = None,
    prompt: Prompt = None,
    session_file: OtherSession = None,
    max_unfinished: Annotated[
        int | None, typer.Option(min=1, help="Runs at once; more are refused.")
    ] = None,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether it takes what is sent.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Change a webhook. What is not given stays; its team and its address stay, too."""
    options = {"name": name, "max_unfinished": max_unfinished, "enabled": enabled}
    body = {key: value for key, value in options.items() if value is not None}
    body |= target_change(prompt, session_file)
    check_change(body, "webhooks update")
    client = Client.open(url)
    done = client.patch(path_of(client, WEBHOOK, webhook), body)
    off = "" if done["enabled"] else "; it is disabled"
    show_done(f"Changed the webhook {done['name']}{off}.", done, as_json=as_json)


@app.command()
def rotate(webhook: WebhookRef, url: Url = None, as_json: AsJson = False) -> None:
    """Give a webhook a new token. The old one stops working within a second."""
    client = Client.open(url)
    made = client.post(f"{path_of(client, WEBHOOK, webhook)}/rotate")
    sentence = f"The webhook {made['name']} has a new token; the old one has ended."
    _show_token(client, made, sentence, as_json=as_json)


@app.command()
def runs(webhook: WebhookRef, limit: Limit = 20, url: Url = None, as_json: AsJson = False) -> None:
    """What a webhook has started, newest first."""
    client = Client.open(url)
    path = path_of(client, WEBHOOK, webhook)
    show_runs(client, path, limit, as_json=as_json, empty="Nothing was sent to it yet.")


@app.command()
def enable(webhook: WebhookRef, url: Url = None, as_json: AsJson = False) -> None:
    """Let a webhook start things again."""
    _switch(webhook, True, url, as_json=as_json)


@app.command()
def disable(webhook: WebhookRef, url: Url = None, as_json: AsJson = False) -> None:
    """Have a webhook refuse what is sent to it."""
    _switch(webhook, False, url, as_json=as_json)


@app.command()
def delete(webhook: WebhookRef, yes: Yes = False, url: Url = None, as_json: AsJson = False) -> None:
    """Remove a webhook and its history."""
    client = Client.open(url)
    path = path_of(client, WEBHOOK, webhook)
    found = client.get(path)
    confirm(f"Delete {found['name']} with its history?", yes)
    client.delete(path)
    show_done(f"Deleted the webhook {found['name']}.", {"deleted": found["id"]}, as_json=as_json)


def _switch(webhook: str, enabled: bool, url: str | None, *, as_json: bool) -> None:
    client = Client.open(url)
    done = client.patch(path_of(client, WEBHOOK, webhook), {"enabled": enabled})
    show_done(
        f"The webhook {done['name']} is {'enabled' if enabled else 'disabled'}.",
        done,
        as_json=as_json,
    )


def _show_token(client: Client, made: dict[str, Any], sentence: str, *, as_json: bool) -> None:
    address = f"{client.url}{made['path']}"
    told = (
        f"{sentence} Keep the token safe; it is shown only now:\n\n"
        f"  {made['token']}\n\nSend to it with:\n\n"
        f"  curl -X POST {address} -H 'Content-Type: application/json' -d '{{}}'"
    )
    show_done(told, {**made, "url": address}, as_json=as_json)
