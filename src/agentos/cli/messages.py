from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from agentos.cli.chat_view import deed_line, figures
from agentos.cli.client import Client, Url
from agentos.cli.named import TEAM, TeamRef, one_of, path_of
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
from agentos.cli.session_ids import short
from agentos.cli.step_lines import flat
from agentos.cli.usage import dollars
from agentos.kernel.errors import Invalid, NotFound

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

_STATES = ("queued", "running", "answered", "failed", "cancelled", "uncertain")
_WHOLE = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_PART = re.compile(r"[0-9a-f-]{8,35}")
_SEARCHED = 2_000
_SHOWN = 40

MessageRef = Annotated[
    str, typer.Argument(help="Id of the message, its number, or `last`.", metavar="MESSAGE")
]


@app.command("list")
def list_messages(
    team: TeamRef,
    q: Annotated[
        str | None, typer.Option("--q", help="Only with these words in the text or the answer.")
    ] = None,
    state: Annotated[str | None, typer.Option(help=f"Only: {', '.join(_STATES)}.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 20,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """What a team was asked, and what it answered, newest first."""
    wanted = None if state is None else one_of(state, _STATES, "state")
    client = Client.open(url)
    path = f"{path_of(client, TEAM, team)}/messages"
    show_list(
        client.items(path, limit=limit, q=q, state=wanted),
        _columns(),
        as_json=as_json,
        empty="There is no such message."
        if q or state
        else f'No messages yet. Send one with `agentos chat {printable(team)} "…"`.',
    )


def _columns() -> tuple[Column, ...]:
    longest = _SHOWN if sys.stdout.isatty() else 200
    return (
        Column("No", "position"),
        Column("State", "state"),
        Column("From", lambda row: row["author"] if row["source"] == "chat" else row["source"]),
        Column("Text", lambda row: flat(row["text"], longest)),
        Column("Answer", lambda row: flat(row["answer"] or row["error"] or "", longest)),
        Column("Cost", lambda row: dollars(row["cost_micros"])),
        Column("Sent", "created_at"),
    )


@app.command()
def show(team: TeamRef, message: MessageRef, url: Url = None, as_json: AsJson = False) -> None:
    """One message: what was asked, what was done, and the answer."""
    client = Client.open(url)
    found = client.get(_path(client, team, message))
    if as_json:
        print_json(found)
        return
    again = f", given {found['attempt']} times" if found["attempt"] > 1 else ""
    print(f"Message {found['position']} ({found['id']})")
    print(f"{printable(found['author'])}, {cell(found['created_at'])}, by {found['source']}{again}")
    print(f"\n{printable(found['text'], lines=True)}\n")
    for each in found["attachments"]:
        print(f"  + {printable(each['name'])}")
    for deed in found["activity"]:
        print(f"  {_mark(deed)} {deed_line(deed)}")
    print(figures(found))
    for told in (found["error"], found["answer"]):
        if told:
            print(f"\n{printable(told.expandtabs(), lines=True)}")


@app.command()
def cancel(team: TeamRef, message: MessageRef, url: Url = None, as_json: AsJson = False) -> None:
    """Take a message out of the queue, or stop the answer to it."""
    client = Client.open(url)
    done = client.post(f"{_path(client, team, message)}/cancel")
    told = "is cancelled" if done["state"] == "cancelled" else "is being stopped"
    show_done(f"Message {done['position']} ({short(done['id'])}) {told}.", done, as_json=as_json)


def _mark(deed: Row) -> str:
    return "✓" if deed.get("state", "done") == "done" else "✗"


def _path(client: Client, team: str, given: str) -> str:
    path = f"{path_of(client, TEAM, team)}/messages"
    return f"{path}/{_find(client, path, given)}"


def _find(client: Client, path: str, given: str) -> str:
    """The id of the message that is meant."""
    text = given.strip().lower()
    if _WHOLE.fullmatch(text):
        return text
    if text == "last":
        found = client.items(path, limit=1)
    elif text.isascii() and text.isdigit() and len(text) < 8:
        found = client.items(path, limit=1, before=int(text) + 1)
        found = [row for row in found if row["position"] == int(text)]
    elif _PART.fullmatch(text):
        found = [row for row in client.items(path, limit=_SEARCHED) if row["id"].endswith(text)]
    else:
        raise Invalid(
            f"'{given}' is not a message.",
            hint="Give its id, the last eight characters of it, its number, or `last`.",
        )
    if not found:
        raise NotFound(
            f"There is no message '{given}'.", hint="`agentos messages list TEAM` shows them."
        )
    return str(found[0]["id"])
