from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from agentos.cli.chat_stream import Ear, Stopping, View, attend
from agentos.cli.chat_view import Lines, Quiet, Terminal
from agentos.cli.client import Client, Url
from agentos.cli.failures import INTERRUPTED, GatewayError
from agentos.cli.named import TEAM, TeamRef, path_of
from agentos.cli.output import AsJson, Row, note, print_json, printable
from agentos.cli.run import JsonLines
from agentos.cli.session_ids import short
from agentos.cli.teams import quoted
from agentos.kernel.errors import Conflict, Invalid, Kind, NotFound

app = typer.Typer(rich_markup_mode=None)

# What is wrong with one message does not end the conversation.
_MAY_PASS = (Kind.INVALID, Kind.TOO_LARGE, Kind.LIMITED, Kind.TRANSIENT)
_REMEMBERED = 50


@app.command()
def chat(
    team: TeamRef,
    message: Annotated[
        str | None,
        typer.Argument(help="What to say; `-` reads from stdin. Without it: a conversation."),
    ] = None,
    attach: Annotated[
        list[Path] | None,
        typer.Option(help="A file for the team, at most 10 MB. Repeat it for more, up to 5."),
    ] = None,
    no_stream: Annotated[
        bool, typer.Option("--no-stream", help="Print the answer when it is whole.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Send it and do not wait for the answer.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
    json_lines: JsonLines = False,
) -> None:
    """Talk to a team. Ends with 0 if the message is answered, else with 1."""
    if message is None and not sys.stdin.isatty():
        raise Invalid(
            "What shall the team be told?", hint="Give a message, or `-` to read it from stdin."
        )
    if message is None and (attach or detach or as_json or json_lines):
        raise Invalid("These options need a message.", hint='`agentos chat TEAM "…"` gives one.')
    client = Client.open(url)
    found = client.get(path_of(client, TEAM, team))
    if not detach:
        _check_awake(found)
    if message is None:
        _converse(client, found, no_stream=no_stream)
        return
    text = typer.get_text_stream("stdin").read() if message == "-" else message
    body = {"text": text, "attachments": _stored(client, attach or [])}
    if detach:
        _sent(client.post(_messages(found), body), found, as_json=as_json or json_lines)
        return
    view = _view(client, found, no_stream=no_stream, as_json=as_json, json_lines=json_lines)
    ended, stopped = _ask(client, found, body, Ear(client, found["id"]), view)
    if ended["state"] != "answered":
        raise typer.Exit(INTERRUPTED if stopped else 1)


def _check_awake(team: Row) -> None:
    name = quoted(team["name"])
    hint = f"Start it with `agentos teams deploy {name}`; --detach leaves a message for later."
    if not team["deployed"]:
        raise Conflict(f"The team {team['name']} is stopped.", hint=hint)
    if team["status"] == "error":
        reason = team["reason"] or "It was given up on."
        raise Conflict(f"The team {team['name']} does not run: {reason}", hint=hint)


def _view(
    client: Client, team: Row, *, no_stream: bool, as_json: bool = False, json_lines: bool = False
) -> View:
    if json_lines:
        return Lines(team)
    if as_json or no_stream or not sys.stdout.isatty():
        return Quiet(team, as_json=as_json, deeds=not no_stream)
    return Terminal(client, team)


def _ask(client: Client, team: Row, body: dict[str, Any], ear: Ear, view: View) -> tuple[Row, bool]:
    """The message once it has ended, and whether that was asked for."""
    # Before it is sent, so that no word is missed.
    ear.wait_until_ready()
    ear.forget()
    sent = client.post(_messages(team), body)
    with Stopping().handled() as stopping:
        return attend(client, team, sent, ear, view, stopping), stopping.asked


def _messages(team: Row) -> str:
    return f"/api/teams/{team['id']}/messages"


def _sent(message: Row, team: Row, *, as_json: bool) -> None:
    if as_json:
        print_json(message)
        return
    print(f"Message {message['position']} to {printable(team['name'])} is {message['state']}.")
    name = quoted(team["name"])
    print(f"Read the answer with `agentos messages show {printable(name)} {short(message['id'])}`.")


def _stored(client: Client, files: list[Path]) -> list[dict[str, str]]:
    """The files as objects of the tenant, for a message to name."""
    import mimetypes

    for file in files:
        if not file.is_file():
            raise NotFound(f"There is no file {file}.", hint="Check the path.")
    stored = []
    for file in files:
        kept = client.upload(
            f"/api/objects/attachments/{uuid.uuid4()}/{quote(file.name, safe='')}",
            lambda file=file: file.open("rb"),  # type: ignore[misc]
            length=file.stat().st_size,
            content_type=mimetypes.guess_type(file.name)[0] or "application/octet-stream",
        )
        stored.append({"object_id": kept["id"], "name": file.name})
    return stored


def _converse(client: Client, team: Row, *, no_stream: bool) -> None:
    """Asks for a message and shows the answer, until the end of the input."""
    name, leader = printable(team["name"]), team["leader"]["name"]
    print(f"{name}, led by {leader}. Ctrl-C stops an answer, Ctrl-D leaves.\n")
    _remember(client, team)
    ear = Ear(client, team["id"])
    while True:
        try:
            text = input("you › ")
        except EOFError:
            print()
            return
        if not text.strip():
            continue
        view = _view(client, team, no_stream=no_stream)
        try:
            _ask(client, team, {"text": text, "attachments": []}, ear, view)
        except GatewayError as error:
            if error.kind not in _MAY_PASS:
                raise
            note(error.message)
        print()


def _remember(client: Client, team: Row) -> None:
    """Has the terminal know what this team was asked before, for the arrow keys."""
    try:
        import readline
    except ImportError:  # a Python without it: lines can be typed all the same
        return
    try:
        before = client.items(_messages(team), limit=_REMEMBERED)
    except GatewayError as error:
        if error.kind is not Kind.FORBIDDEN:
            raise
        return
    for message in reversed(before):
        if message["source"] == "chat" and "\n" not in message["text"]:
            readline.add_history(message["text"])
