from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from agentos.cli import watching
from agentos.cli.budgets import micros
from agentos.cli.client import Client, Url
from agentos.cli.events import follow
from agentos.cli.output import AsJson, Row, print_json, print_json_line
from agentos.cli.session_approvals import tell_once
from agentos.cli.session_bodies import parse_gates, read_files, read_json, read_text
from agentos.cli.session_ids import short
from agentos.kernel.errors import Invalid

app = typer.Typer(rich_markup_mode=None)

_LAST_EVENTS = frozenset({"session.completed", "session.failed", "session.rolled_back"})
_ON_FAIL = ("fail", "retry", "rollback")

JsonLines = Annotated[
    bool, typer.Option("--json-lines", help="Print its events, one JSON object a line.")
]


@app.command()
def run(
    prompt: Annotated[str, typer.Argument(help="What the agent shall do; `-`: read from stdin.")],
    model: Annotated[str | None, typer.Option(help="Default: auto, the tenant's first.")] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--file", help="A text file to start with. Repeat it for more."),
    ] = None,
    tools: Annotated[
        str | None,
        typer.Option(help="Only these tools, separated by commas; an empty text means none."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A host that tools may reach. Repeat it for more.")
    ] = None,
    instructions_file: Annotated[
        Path | None, typer.Option(help="A file with instructions, in place of the usual ones.")
    ] = None,
    output_schema: Annotated[
        Path | None, typer.Option(help="A JSON Schema; the result has to satisfy it.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="The most that its model calls may cost, in dollars.")
    ] = None,
    max_turns: Annotated[int | None, typer.Option(min=1, help="The most model calls.")] = None,
    gate: Annotated[
        list[str] | None,
        typer.Option(
            help="A check at the end: tests, command:'pytest -q', file:PATH, approval:'Ship it?', "
            "rubric:TEXT, cost:DOLLARS, time:SECONDS, schema:FILE, or a gate in JSON. Repeat it "
            "for more."
        ),
    ] = None,
    on_fail: Annotated[
        str | None, typer.Option(help="What a failing gate does: fail, retry or rollback.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Default: the beginning of the prompt.")] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Start it and do not wait for it.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
    json_lines: JsonLines = False,
) -> None:
    """Let an agent do something, and watch it. Ends with 0 if it completes, else with 1."""
    if on_fail is not None and on_fail not in _ON_FAIL:
        raise Invalid(f"There is no '{on_fail}'.", hint="There are: fail, retry, rollback.")
    body: dict[str, Any] = {
        "prompt": typer.get_text_stream("stdin").read() if prompt == "-" else prompt,
        "model": model,
        "files": read_files(files) if files else None,
        "tools": None if tools is None else [each.strip() for each in tools.split(",") if each],
        "allowed_hosts": allow_host or None,
        "instructions": read_text(instructions_file) if instructions_file else None,
        "output_schema": read_json(output_schema) if output_schema else None,
        "budget_micros": None if budget is None else micros(budget),
        "guards": None if max_turns is None else {"max_turns": max_turns},
        "gates": parse_gates(gate, on_fail) if gate else None,
        "title": title,
    }
    client = Client.open(url)
    # Before it is made, so that none of its events is missed.
    after = None if detach else watching.newest_event(client)
    given = {name: value for name, value in body.items() if value is not None}
    session = client.post("/api/sessions", given)
    if detach:
        _started(session, as_json=as_json)
    else:
        attend(client, session, after, as_json=as_json, json_lines=json_lines)


def _started(session: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(session)
        return
    print(f"Session {session['id']} is {session['state']}.")
    print(f"Watch it with `agentos sessions watch {short(session['id'])}`.")


def attend(
    client: Client,
    session: dict[str, Any],
    after: int | None,
    *,
    as_json: bool,
    json_lines: bool,
    seen: int = 0,
) -> None:
    """Shows a session until it ends; the exit code says how that was."""
    shown = not (as_json or json_lines)
    patient = shown and sys.stdout.isatty()
    with watching.Interrupts(session["id"], patient=patient).handled() as interrupts:
        if json_lines:
            ended = _print_events(client, session["id"], after)
        elif as_json:
            ended = _wait(client, session, after, interrupts)
            print_json(ended)
        else:
            ended = _show(client, session, after, interrupts, seen)
    if ended["state"] != "COMPLETE":
        raise typer.Exit(1)


def _show(
    client: Client,
    session: dict[str, Any],
    after: int | None,
    interrupts: watching.Interrupts,
    seen: int,
) -> Row:
    from agentos.cli import live

    bell = watching.Bell(client, session["id"], after)
    with live.open_view(client, session) as view:
        ended = watching.watch(client, session["id"], bell, view, interrupts, seen=seen)
    live.show_outcome(ended, state_shown=sys.stdout.isatty())
    return ended


class _Unseen:
    """Shows nothing but what needs a person, beside the output."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def step(self, step: Row) -> None:
        """Nobody looks."""

    def session(self, session: Row, /) -> None:
        """Nobody looks."""

    def approvals(self, waiting: list[dict[str, Any]]) -> None:
        tell_once(waiting, self._told)


def _wait(
    client: Client, session: dict[str, Any], after: int | None, interrupts: watching.Interrupts
) -> Row:
    bell = watching.Bell(client, session["id"], after)
    return watching.watch(client, session["id"], bell, _Unseen(), interrupts, seen=session["steps"])


def _print_events(client: Client, session_id: str, after: int | None) -> Row:
    for event in follow(client, watching.EVENTS, after):
        if watching.is_about(event, session_id):
            print_json_line(event)
            if event["type"] in _LAST_EVENTS:
                break
    ended: dict[str, Any] = client.get(f"/api/sessions/{session_id}")
    return ended
