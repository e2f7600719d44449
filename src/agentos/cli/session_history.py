"""`agentos sessions`: going on, going back, and going another way."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from agentos.cli import watching
from agentos.cli.client import Client, Url, segment
from agentos.cli.output import AsJson, Column, Row, counted, print_json, show_done, show_list
from agentos.cli.run import attend
from agentos.cli.session_ids import SessionRef, find_session, short
from agentos.cli.step_lines import MARKS, flat
from agentos.cli.usage import dollars
from agentos.kernel.errors import Invalid, NotFound

app = typer.Typer(rich_markup_mode=None)

Detach = Annotated[bool, typer.Option("--detach", "-d", help="Do not wait for it.")]
Model = Annotated[str | None, typer.Option(help="Another model than it had.")]
Prompt = Annotated[str | None, typer.Option(help="What it shall do from there.")]


@app.command("continue")
def continue_session(
    session: SessionRef,
    prompt: Annotated[str, typer.Argument(help="What else to do.")],
    model: Model = None,
    detach: Detach = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Give a session that has ended more to do, and watch it."""
    client = Client.open(url)
    session_id = find_session(client, session)
    after = watching.newest_event(client)
    before = client.get(f"/api/sessions/{session_id}")["steps"]
    body = _given(prompt=prompt, model=model)
    done = client.post(f"/api/sessions/{session_id}/continue", body)
    _go_on(client, done, after, before, detach=detach, as_json=as_json)


@app.command()
def fork(
    session: SessionRef,
    at: Annotated[
        int | None, typer.Option(min=1, help="The last step to share. Default: the newest.")
    ] = None,
    prompt: Prompt = None,
    model: Model = None,
    detach: Detach = False,
    no_run: Annotated[bool, typer.Option("--no-run", help="Only make it.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make a new session out of one, up to a step, and watch where it goes from there."""
    client = Client.open(url)
    session_id = find_session(client, session)
    after = watching.newest_event(client)
    seq = at or client.get(f"/api/sessions/{session_id}")["steps"]
    body = _given(seq=seq, prompt=prompt, model=model) | {"run": not no_run}
    made = client.post(f"/api/sessions/{session_id}/fork", body)
    if not as_json:
        print(f"A fork of {short(session_id)} at step {seq}.")
    _go_on(client, made, after, made["steps"], detach=detach or no_run, as_json=as_json)


def _go_on(
    client: Client,
    session: dict[str, Any],
    after: int | None,
    seen: int,
    *,
    detach: bool,
    as_json: bool,
) -> None:
    if not detach:
        attend(client, session, after, as_json=as_json, json_lines=False, seen=seen)
        return
    show_done(f"Session {session['id']} is {session['state']}.", session, as_json=as_json)


@app.command()
def checkpoint(
    session: SessionRef,
    name: Annotated[str, typer.Argument(help="How to call it.")],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Mark where a session is, to go back to. It may be running."""
    client = Client.open(url)
    session_id = find_session(client, session)
    made = client.post(f"/api/sessions/{session_id}/checkpoints", {"name": name})
    show_done(
        f"Checkpoint {made['name']} is at step {made['seq']}. Go back to it with "
        f"`agentos sessions restore {short(session_id)} {made['name']}`.",
        made,
        as_json=as_json,
    )


@app.command()
def checkpoints(session: SessionRef, url: Url = None, as_json: AsJson = False) -> None:
    """The checkpoints of a session, its own and yours."""
    client = Client.open(url)
    columns = (
        Column("Name", "name"),
        Column("Step", "seq"),
        Column("Files", "has_files"),
        Column("In force", "in_force"),
        Column("Made", "created_at"),
        Column("Id", "id"),
    )
    show_list(
        client.items(f"/api/sessions/{find_session(client, session)}/checkpoints"),
        columns,
        as_json=as_json,
        empty="No checkpoints yet. Make one with `agentos sessions checkpoint SESSION NAME`.",
    )


@app.command()
def restore(
    session: SessionRef,
    name: Annotated[str, typer.Argument(help="Name or id of the checkpoint.", metavar="NAME")],
    prompt: Prompt = None,
    model: Model = None,
    detach: Detach = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Go back to a checkpoint, files and conversation together, and run again from there."""
    client = Client.open(url)
    session_id = find_session(client, session)
    found = _checkpoint(client, session_id, name)
    after = watching.newest_event(client)
    before = client.get(f"/api/sessions/{session_id}")["steps"]
    done = client.post(
        f"/api/checkpoints/{segment(found['id'])}/restore", _given(prompt=prompt, model=model)
    )
    if not as_json:
        print(f"Back at step {done['to_seq']}. {_how_to_undo(session_id, done['undo_seq'])}")
    _go_on(client, done["session"], after, before, detach=detach, as_json=as_json)


@app.command()
def rollback(
    session: SessionRef,
    to: Annotated[int | None, typer.Option("--to", min=1, help="The last step that stays.")] = None,
    name: Annotated[
        str | None, typer.Option("--checkpoint", help="Or: name or id of a checkpoint.")
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Only say what would be undone.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Go back to a step, files and conversation together. It can be undone."""
    if (to is None) == (name is None):
        raise Invalid(
            "Say where to go back to: --to STEP or --checkpoint NAME.",
            hint="`agentos sessions steps SESSION` numbers the steps.",
        )
    client = Client.open(url)
    session_id = find_session(client, session)
    seq = to if to is not None else int(_checkpoint(client, session_id, name or "")["seq"])
    path = f"/api/sessions/{session_id}/rollback"
    if preview or not yes:
        found = client.get(path, to_seq=seq)
        if preview and as_json:
            print_json(found)
            return
        if not as_json:
            _show_preview(found)
    if preview:
        return
    if not yes:
        _confirm()
    done = client.post(path, {"to_seq": seq})
    show_done(
        f"Session {short(session_id)} is back at step {seq}. "
        f"{_how_to_undo(session_id, done['undo_seq'])}",
        done,
        as_json=as_json,
    )


def _how_to_undo(session_id: str, undo_seq: int) -> str:
    return f"To undo it: `agentos sessions rollback {short(session_id)} --to {undo_seq}`."


def _confirm() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Invalid("Going back has to be confirmed.", hint="Add --yes, or look with --preview.")
    if not typer.confirm("Go back?"):
        raise typer.Exit(1)


def _checkpoint(client: Client, session_id: str, name: str) -> Row:
    """The newest checkpoint of that name, or the one of that id."""
    found = client.items(f"/api/sessions/{session_id}/checkpoints")
    fitting = [row for row in found if name in (row["name"], row["id"])]
    if not fitting:
        names = ", ".join(dict.fromkeys(row["name"] for row in found)) or "none"
        raise NotFound(f"There is no checkpoint '{name}'.", hint=f"There are: {names}.")
    return max(fitting, key=lambda row: int(row["seq"]))


def _show_preview(found: Row) -> None:
    undone, more = found["undone"], found["more_undone"]
    print(f"Going back to step {found['to_seq']} undoes {counted(len(undone) + more, 'step')}:")
    _show_steps(undone, more)
    if found["restored"]:
        print("In force again:")
        _show_steps(found["restored"], found["more_restored"])
    if found["files"]:
        print("Files:")
        for each in found["files"]:
            print(f"  {each['kind']:<8} {flat(each['path'])}")
        if found["more_files"]:
            print(f"  and {found['more_files']} more")
    else:
        print("No file changes.")
    if found["effects"]:
        print("What stays, because it happened outside:")
        for each in found["effects"]:
            why = "it is not known whether it happened" if each["reason"] == "uncertain" else ""
            print(f"  {each['seq']:>4}  {flat(each['name'])}{f' ({why})' if why else ''}")
    told = [f"{dollars(found['cost_micros'])} stays spent"]
    if found["withdrawn_approvals"]:
        told.append(f"{counted(found['withdrawn_approvals'], 'approval')} withdrawn")
    if found["cancelled_sub_agents"]:
        told.append(f"{counted(found['cancelled_sub_agents'], 'sub-agent')} cancelled")
    print(f"{'; '.join(told)}.")


def _show_steps(steps: list[dict[str, Any]], more: int) -> None:
    for step in steps:
        print(
            f"  {step['seq']:>4}  {MARKS[step['status']]} {step['kind']:<11} {flat(step['name'])}"
        )
    if more:
        print(f"  and {more} more")


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}
