from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from agentos.cli.client import Client, Url
from agentos.cli.keys import moment
from agentos.cli.output import AsJson, Column, Row, cell, note, print_json, show_list

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

Action = Annotated[str | None, typer.Option(help="Only this action, such as secret.stored.")]
Actor = Annotated[str | None, typer.Option(help="Only by this user or key, by id.")]
TargetKind = Annotated[str | None, typer.Option(help="Only to this kind of thing, such as secret.")]
Target = Annotated[str | None, typer.Option(help="Only to the thing with this id.")]
RequestId = Annotated[str | None, typer.Option(help="Only what this request did.")]
Since = Annotated[str | None, typer.Option(help="From then on: 12h, 7d, or a date.")]
Until = Annotated[str | None, typer.Option(help="Before then: 12h, 7d, or a date.")]


@app.command("list")
def list_entries(
    action: Action = None,
    actor: Actor = None,
    target_kind: TargetKind = None,
    target: Target = None,
    request_id: RequestId = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many entries.")] = 50,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """What was changed in this tenant and by whom, newest first."""
    wanted = _filter(action, actor, target_kind, target, request_id, since, until)
    columns = (
        Column("At", "at"),
        Column("Who", "actor_name"),
        Column("Action", "action"),
        Column("Target", lambda row: f"{row['target_kind']} {row['target_id']}"),
        Column("Change", _change),
    )
    show_list(
        Client.open(url).items("/api/audit", limit=limit, **wanted),
        columns,
        as_json=as_json,
        empty="No entries match. Leave out a filter to see more.",
    )


@app.command()
def export(
    action: Action = None,
    actor: Actor = None,
    target_kind: TargetKind = None,
    target: Target = None,
    request_id: RequestId = None,
    since: Since = None,
    until: Until = None,
    form: Annotated[str, typer.Option("--format", help="ndjson or csv.")] = "ndjson",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; default: stdout.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """All matching entries as one file."""
    wanted = _filter(action, actor, target_kind, target, request_id, since, until)
    client = Client.open(url)
    if output is None:
        client.save("/api/audit/export", sys.stdout.buffer, **wanted, format=form)
        return
    with output.open("wb") as file:
        client.save("/api/audit/export", file, **wanted, format=form)
    if as_json:
        print_json({"file": str(output), "bytes": output.stat().st_size})
    else:
        note(f"Wrote {output}.")


def _filter(
    action: str | None,
    actor: str | None,
    target_kind: str | None,
    target: str | None,
    request_id: str | None,
    since: str | None,
    until: str | None,
) -> dict[str, str | None]:
    return {
        "action": action,
        "actor_id": actor,
        "target_kind": target_kind,
        "target_id": target,
        "request_id": request_id,
        "since": since and moment(since, ahead=False),
        "until": until and moment(until, ahead=False),
    }


def _change(row: Row) -> str | None:
    """The fields that differ, as `name: old → new`."""
    before, after = row["before"] or {}, row["after"] or {}
    parts = []
    for name in {**before, **after}:
        old, new = cell(before.get(name)), cell(after.get(name))
        if old != new:
            parts.append(f"{name}: {new}" if name not in before else f"{name}: {old} → {new}")
    return ", ".join(parts) or None
