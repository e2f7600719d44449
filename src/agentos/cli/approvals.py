from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from agentos.cli.client import Client, Url, segment
from agentos.cli.output import AsJson, Column, Row, show_done, show_list
from agentos.kernel.errors import Invalid

app = typer.Typer(rich_markup_mode=None, invoke_without_command=True)

_STATES = ("waiting", "approved", "rejected", "expired", "withdrawn", "all")
# More would push everything else off the terminal; --json has all of it.
_LONGEST = 80

State = Annotated[str, typer.Option("--state", help=f"Only these: {', '.join(_STATES)}.")]
Session = Annotated[str | None, typer.Option("--session", help="Only of this session.")]
Approval = Annotated[str, typer.Argument(help="Id of the approval.", metavar="ID")]


@app.callback()
def needs_you(
    ctx: typer.Context,
    state: State = "waiting",
    session: Session = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """What needs you: tool calls, gates and questions that wait for a person."""
    if ctx.invoked_subcommand is None:
        _list(state, session, url, as_json=as_json)
    elif as_json or url or session or state != "waiting":
        raise Invalid(
            f"Options come after `{ctx.invoked_subcommand}`.",
            hint=f"See `agentos approvals {ctx.invoked_subcommand} --help`.",
        )


@app.command("list")
def list_approvals(
    state: State = "waiting", session: Session = None, url: Url = None, as_json: AsJson = False
) -> None:
    """What needs you, the longest waiting first; the same as without a command."""
    _list(state, session, url, as_json=as_json)


@app.command()
def approve(
    approval: Approval,
    always: Annotated[
        bool, typer.Option("--always", help="Allow the tool for the rest of the session.")
    ] = False,
    answer: Annotated[str | None, typer.Option(help="What to answer to a question.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Say yes, or answer a question. The session goes on by itself."""
    body: dict[str, Any] = {"always": always}
    if answer is not None:
        body["answer"] = answer
    done = Client.open(url).post(f"/api/approvals/{segment(approval)}/approve", body)
    said = "Answered" if done["kind"] == "question" else "Approved"
    for_good = " It is allowed for the rest of the session." if always else ""
    show_done(f"{said}: {_about(done)}.{for_good}", done, as_json=as_json)


@app.command()
def reject(
    approval: Approval,
    reason: Annotated[str | None, typer.Option(help="Why; the agent is told.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Say no. The agent goes on without it."""
    body = {} if reason is None else {"reason": reason}
    done = Client.open(url).post(f"/api/approvals/{segment(approval)}/reject", body)
    show_done(f"Rejected: {_about(done)}.", done, as_json=as_json)


def _list(state: str, session: str | None, url: str | None, *, as_json: bool) -> None:
    if state not in _STATES:
        raise Invalid(f"There is no state '{state}'.", hint=f"There are: {', '.join(_STATES)}.")
    columns = (
        Column("What", "kind"),
        Column("About", lambda row: _cut(row["subject"])),
        Column("With", lambda row: _cut(_details(row))),
        Column("State", "state"),
        Column("Of", lambda row: _cut(_whose(row))),
        Column("Expires", "expires_at"),
        Column("Id", "id"),
    )
    show_list(
        Client.open(url).items("/api/approvals", state=state, session_id=session),
        columns,
        as_json=as_json,
        empty="Nothing needs you. What will waits here until you say "
        "`agentos approvals approve ID` or `agentos approvals reject ID --reason TEXT`."
        if state == "waiting"
        else "There are none.",
    )


def _details(row: Row) -> str:
    """What a decision is about, in short."""
    details = row["details"]
    if row["kind"] == "question":
        return " | ".join(details.get("choices") or [])
    return json.dumps(details.get("arguments", details), ensure_ascii=False)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _whose(row: Row) -> str:
    """The session or the team that waits."""
    if row["message_id"] is not None:
        return f"team {row['team_name']}"
    return f"session {row['session_title']}"


def _about(row: Row) -> str:
    return f"{_cut(row['subject']).rstrip('.')} ({_whose(row)})"
