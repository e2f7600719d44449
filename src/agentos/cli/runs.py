"""Runs of schedules and webhooks, and what they start."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from agentos.cli.client import Client
from agentos.cli.documents import read_document
from agentos.cli.named import TEAM, find
from agentos.cli.output import Column, Row, cell, show_list
from agentos.cli.step_lines import flat
from agentos.kernel.errors import Invalid

_SHOWN = 60
_ASKED = 40
_ERROR = 200

Team = Annotated[str | None, typer.Option("--team", help="The team that is asked; name or id.")]
Prompt = Annotated[str | None, typer.Option("--prompt", help="What it is asked.")]
SessionFile = Annotated[
    Path | None,
    typer.Option("--session-file", help="Or a session to start, in YAML or JSON: prompt, model, …"),
]
OtherSession = Annotated[
    Path | None,
    typer.Option("--session-file", help="The session it shall start instead, in YAML or JSON."),
]
OfTeam = Annotated[str | None, typer.Option("--team", help="Only of this team.")]
Limit = Annotated[int, typer.Option(min=1, help="At most so many.")]


def target(
    client: Client, team: str | None, prompt: str | None, session_file: Path | None
) -> dict[str, Any]:
    """What a schedule or a webhook starts, as the API takes it."""
    if session_file is not None:
        if team is not None or prompt is not None:
            raise Invalid("Give --team and --prompt, or --session-file.")
        return {"session": read_document(session_file, "a session")}
    if team is None or prompt is None:
        raise Invalid("Give --team and --prompt, or --session-file.")
    return {"team_id": find(client, TEAM, team), "prompt": _text(prompt)}


def target_change(prompt: str | None, session_file: Path | None) -> dict[str, Any]:
    """What a schedule or a webhook shall start instead; nothing if it stays as it is."""
    if session_file is not None:
        if prompt is not None:
            raise Invalid("The prompt is part of the session.", hint="Give one of them.")
        return {"session": read_document(session_file, "a session")}
    return {} if prompt is None else {"prompt": _text(prompt)}


def _text(prompt: str) -> str:
    return typer.get_text_stream("stdin").read() if prompt == "-" else prompt


def check_change(body: Row, command: str) -> None:
    """Raises Invalid if nothing is to be changed."""
    if not body:
        raise Invalid("Nothing is to be changed.", hint=f"See `agentos {command} --help`.")


def team_names(client: Client) -> dict[str, str]:
    """The names of the teams, by id."""
    return {row["id"]: row["name"] for row in client.items(TEAM.path)}


def last_run(row: Row) -> str:
    """What came of the newest run of a schedule or a webhook, and when."""
    run = row["last_run"]
    return f"{run['state']} {cell(run['finished_at'] or run['due_at'])}" if run else "none"


def print_last_run(row: Row, width: int) -> None:
    """The same, with what went wrong."""
    error = (row["last_run"] or {}).get("error")
    why = f": {flat(error, _ERROR)}" if error else ""
    print(f"{'Last run':<{width}}{last_run(row)}{why}")


def show_runs(client: Client, path: str, limit: int, *, as_json: bool, empty: str) -> None:
    """What a schedule or a webhook has started, newest first."""
    terminal = sys.stdout.isatty()
    asked, longest = (_ASKED, _SHOWN) if terminal else (200, 200)
    columns = (
        Column("Due", "due_at"),
        Column("State", "state"),
        Column("By hand", "manual"),
        Column("Prompt", lambda row: flat(row["prompt"] or "", asked)),
        Column("Result", lambda row: flat(row["result"] or row["error"] or "", longest)),
        Column("Ended", "finished_at"),
        Column("Id", "id"),
    )
    show_list(client.items(f"{path}/runs", limit=limit), columns, as_json=as_json, empty=empty)
