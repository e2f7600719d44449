from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from agentos.cli import session_files, session_history, watching
from agentos.cli.client import Client, Url
from agentos.cli.named import TEAM, find
from agentos.cli.output import (
    AsJson,
    Column,
    Row,
    cell,
    print_json,
    print_table,
    printable,
    show_done,
    show_list,
)
from agentos.cli.run import JsonLines, attend
from agentos.cli.session_ids import SessionRef, find_session, short
from agentos.cli.step_lines import duration, flat, line_of, plan_of
from agentos.cli.usage import dollars
from agentos.kernel.errors import Invalid

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

_STATES = (
    *("CREATED", "QUEUED", "RUNNING", "CHECKPOINT", "GATE_CHECK"),
    *("COMPLETE", "PAUSED", "FAILED", "ROLLBACK", "ROLLED_BACK"),
)
_KINDS = (
    *("message", "state", "model", "tool", "checkpoint"),
    *("gate", "rollback", "compaction", "approval"),
)
_WIDE = 80
# As many steps from before as `watch` shows.
_BEFORE = 10


@app.command("list")
def list_sessions(
    state: Annotated[str | None, typer.Option(help="Only in this state.")] = None,
    search: Annotated[
        str | None, typer.Option(help="Only with these words in their title.", metavar="TEXT")
    ] = None,
    team: Annotated[
        str | None, typer.Option(help="Only of this team, by name or id.", metavar="TEAM")
    ] = None,
    parent: Annotated[str | None, typer.Option(help="Only sub-agents of this session.")] = None,
    chain: Annotated[str | None, typer.Option(help="Only of this chain, by id.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 20,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """The sessions of this tenant, newest first."""
    wanted = None if state is None else _one_of(state.upper(), _STATES, "state")
    client = Client.open(url)
    found = client.items(
        "/api/sessions",
        limit=limit,
        state=wanted,
        q=search,
        team_id=None if team is None else find(client, TEAM, team),
        parent_id=None if parent is None else find_session(client, parent),
        chain_id=chain,
    )
    filtered = state or search or team or parent or chain
    show_list(
        found,
        _columns(),
        as_json=as_json,
        empty="There is no such session."
        if filtered
        else 'No sessions yet. Start one with `agentos run "Write a haiku generator in Python and '
        'test it"`.',
    )


def _columns() -> tuple[Column, ...]:
    """What reads a pipe wants all of it; a terminal has no room for whole ids and titles."""
    if not sys.stdout.isatty():
        return (
            Column("Id", "id"),
            Column("State", _state),
            Column("Title", "title"),
            Column("Turns", "turns"),
            Column("Cost", lambda row: dollars(row["cost_micros"])),
            Column("Ran", lambda row: duration(row["ran_ms"])),
            Column("Created", "created_at"),
        )
    from shutil import get_terminal_size

    width = get_terminal_size().columns
    wide = width >= _WIDE
    room = max(16, width - (58 if wide else 40))
    cost = [Column("Cost", lambda row: dollars(row["cost_micros"]))] if wide else []
    return (
        Column("Id", lambda row: short(row["id"])),
        Column("State", _state),
        *cost,
        Column("Age", _age),
        Column("Title", lambda row: flat(row["title"], room)),
    )


def _age(row: Row) -> str:
    from datetime import UTC, datetime

    age = datetime.now(UTC) - datetime.fromisoformat(row["created_at"])
    seconds = max(0, int(age.total_seconds()))
    for name, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {name}"
    return f"{seconds} s"


def _state(row: Row) -> str:
    waits = f" ({row['waiting_for']})" if row["waiting_for"] else ""
    return f"{row['state']}{waits}"


@app.command()
def show(session: SessionRef, url: Url = None, as_json: AsJson = False) -> None:
    """One session: what it was told, how it is, and what came of it."""
    client = Client.open(url)
    found = client.get(f"/api/sessions/{find_session(client, session)}")
    if as_json:
        print_json(found)
        return
    from agentos.cli.live import show_outcome

    for name, value in _facts(found):
        print(f"{name:<9} {cell(value)}")
    print(f"\n{printable(found['config']['prompt'], lines=True)}\n")
    show_outcome(found)


def _facts(session: Row) -> list[tuple[str, object]]:
    config = session["config"]
    facts: list[tuple[str, object]] = [
        ("Session", session["id"]),
        ("State", _state(session)),
        ("Model", session["model"]),
        ("Steps", session["steps"]),
        ("Created", f"{cell(session['created_at'])} by {session['created_by']}"),
    ]
    if session["position"]:
        facts.append(("Queue", f"number {session['position']} of this tenant"))
    if config["gates"]:
        facts.append(("Gates", [gate["name"] for gate in config["gates"]]))
    if config["budget_micros"] is not None:
        facts.append(("Budget", dollars(config["budget_micros"])))
    if session["parent_id"]:
        facts.append(("Parent", session["parent_id"]))
    if session["forked_from"]:
        facts.append(("Fork of", f"{session['forked_from']}, step {session['forked_seq']}"))
    if session["chain_id"]:
        facts.append(("Chain", f"{session['chain_id']}, node {session['chain_node']}"))
    return facts


@app.command()
def steps(
    session: SessionRef,
    kind: Annotated[str | None, typer.Option(help=f"Only: {', '.join(_KINDS)}.")] = None,
    step: Annotated[
        int | None, typer.Option(min=1, help="Only this step, with all of its input and output.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """The timeline: every step with what came of it, also those that a rollback has undone."""
    client = Client.open(url)
    path = f"/api/sessions/{find_session(client, session)}/steps"
    if step is not None:
        print_json(client.get(f"{path}/{step}"))
        return
    wanted = None if kind is None else _one_of(kind, _KINDS, "kind of step")
    found = client.items(path, kind=wanted)
    if as_json:
        print_json(found)
    elif not found:
        print("There are no such steps.")
    elif sys.stdout.isatty():
        _print_steps(found)
    else:
        print_table(["Step", "What", "Took", "In force"], [_cells(row) for row in found])


def _cells(row: Row) -> list[str]:
    line = line_of(row)
    return [str(row["seq"]), _with_plan(row, line.text), line.took, cell(row["in_force"])]


def _with_plan(row: Row, text: str) -> str:
    plan = plan_of(row)
    if plan is None:
        return text
    done = sum(each["status"] == "done" for each in plan)
    return f"✓ plan        {done} of {len(plan)} done"


def _print_steps(found: list[dict[str, Any]]) -> None:
    from rich.console import Console

    from agentos.cli.live import step_text

    console = Console(markup=False, emoji=False, highlight=False)
    width = len(str(found[-1]["seq"])) + 1
    for row in found:
        text = step_text(row, console.width - width)
        if not row["in_force"]:
            text.stylize("strike dim")
        console.print(f"{row['seq']:>{width - 1}} ", end="", style="dim")
        console.print(text)
    if not all(row["in_force"] for row in found):
        console.print("Struck out: undone by a rollback.", style="dim")


@app.command()
def run(session: SessionRef, url: Url = None, as_json: AsJson = False) -> None:
    """Run a session that was only created."""
    _do(session, "run", "is in the queue", url, as_json=as_json)


@app.command()
def pause(session: SessionRef, url: Url = None, as_json: AsJson = False) -> None:
    """Pause a session, at its next step at the latest. It stays paused across restarts."""
    _do(session, "pause", "pauses at its next step at the latest", url, as_json=as_json)


@app.command()
def resume(session: SessionRef, url: Url = None, as_json: AsJson = False) -> None:
    """Let a paused session go on."""
    _do(session, "resume", "goes on", url, as_json=as_json)


@app.command()
def cancel(session: SessionRef, url: Url = None, as_json: AsJson = False) -> None:
    """End a session and its sub-agents at once."""
    _do(session, "cancel", "is cancelled", url, as_json=as_json)


def _do(session: str, verb: str, what: str, url: str | None, *, as_json: bool) -> None:
    client = Client.open(url)
    done = client.post(f"/api/sessions/{find_session(client, session)}/{verb}")
    show_done(f"Session {short(done['id'])} ({done['title']}) {what}.", done, as_json=as_json)


@app.command()
def watch(
    session: SessionRef, url: Url = None, as_json: AsJson = False, json_lines: JsonLines = False
) -> None:
    """Watch a session until it ends. Ends with 0 if it completes, else with 1."""
    client = Client.open(url)
    session_id = find_session(client, session)
    after = watching.newest_event(client)
    found = client.get(f"/api/sessions/{session_id}")
    ended = found["state"] in watching.ENDED
    attend(
        client,
        found,
        after,
        as_json=as_json,
        # Nothing more will happen to it by itself.
        json_lines=json_lines and not ended,
        seen=max(0, found["steps"] - _BEFORE),
    )


def _one_of(given: str, known: tuple[str, ...], what: str) -> str:
    if given not in known:
        raise Invalid(f"There is no {what} '{given}'.", hint=f"There are: {', '.join(known)}.")
    return given


# The commands of these stand beside the ones above.
app.add_typer(session_history.app)
app.add_typer(session_files.app)
