"""`agentos sessions`: the files of a session, and what it costs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import typer

from agentos.cli.client import Client, Url
from agentos.cli.failures import GatewayError
from agentos.cli.output import (
    AsJson,
    Column,
    Row,
    counted,
    note,
    print_json,
    print_table,
    printable,
    show_done,
    show_list,
    size,
)
from agentos.cli.session_ids import SessionRef, find_session
from agentos.cli.usage import dollars
from agentos.kernel.errors import Conflict, Kind

app = typer.Typer(rich_markup_mode=None)

First = Annotated[
    int | None, typer.Option("--from", min=0, help="From after this step on. Default: the start.")
]
Last = Annotated[
    int | None, typer.Option("--to", min=0, help="Until after this step. Default: now.")
]


@app.command()
def files(
    session: SessionRef,
    first: First = None,
    last: Last = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """How the files of the workspace changed."""
    client = Client.open(url)
    found = _changes(client, find_session(client, session), first, last)
    if as_json:
        print_json(found)
        return
    columns = (
        Column("Change", "kind"),
        Column("Before", lambda row: _size(row["size_before"])),
        Column("After", lambda row: _size(row["size_after"])),
        Column("Path", "path"),
    )
    show_list(found["files"], columns, as_json=False, empty="No file was changed.")
    if found["more_files"]:
        note(f"And {found['more_files']} more.")


@app.command()
def diff(
    session: SessionRef,
    path: Annotated[str | None, typer.Argument(help="Only this file.", metavar="[PATH]")] = None,
    first: First = None,
    last: Last = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """How text files changed, as a unified diff."""
    client = Client.open(url)
    session_id = find_session(client, session)
    if path is not None:
        found = [_diff(client, session_id, quote(path, safe="/"), first, last)]
    else:
        changed = _changes(client, session_id, first, last)["files"]
        found = [
            each for row in changed if (each := _diff_or_why(client, session_id, row, first, last))
        ]
    if as_json:
        print_json(found)
    elif not any(each["diff"] for each in found):
        note("Nothing differs.")
    else:
        _print_diff("".join(each["diff"] for each in found))


def _diff(
    client: Client, session_id: str, encoded: str, first: int | None, last: int | None
) -> dict[str, Any]:
    query = f"path={encoded}&{urlencode(_between(first, last))}".rstrip("&")
    found: dict[str, Any] = client.get(f"/api/sessions/{session_id}/files/diff?{query}")
    return found


def _diff_or_why(
    client: Client, session_id: str, row: Row, first: int | None, last: int | None
) -> dict[str, Any] | None:
    """The diff of one file among many; what has none is named."""
    try:
        return _diff(client, session_id, row["encoded_path"], first, last)
    except GatewayError as error:
        if error.kind not in (Kind.INVALID, Kind.TOO_LARGE, Kind.CONFLICT, Kind.NOT_FOUND):
            raise
        note(f"{row['path']}: {error.message}")
        return None


def _print_diff(text: str) -> None:
    if not sys.stdout.isatty():
        # Exactly, tabs and all: it may be on its way to `patch`.
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        return
    from rich.console import Console
    from rich.text import Text

    styles = {"+": "green", "-": "red", "@": "cyan"}
    console = Console(markup=False, emoji=False, highlight=False)
    for line in printable(text.expandtabs(), lines=True).split("\n"):
        heading = line.startswith(("+++", "---"))
        console.print(Text(line, style="bold" if heading else styles.get(line[:1], "")))


@app.command("get-file")
def get_file(
    session: SessionRef,
    path: Annotated[str, typer.Argument(help="The file's path in the workspace.")],
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="File to write; default: the path's last part; `-`: stdout."
        ),
    ] = None,
    at: Annotated[
        int | None, typer.Option(min=1, help="As it was after this step. Default: now.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Download a file of a session's workspace."""
    client = Client.open(url)
    query = urlencode({"path": path, **({} if at is None else {"seq": at})})
    source = f"/api/sessions/{find_session(client, session)}/files/content?{query}"
    if output == "-":
        client.save(source, sys.stdout.buffer)
        return
    place = Path(output or path.rpartition("/")[2])
    if output is None and place.exists():
        raise Conflict(
            f"There is a file {place} here already.", hint=f"Replace it with `-o {place}`."
        )
    # Complete or not there at all: a download that broke off must not pass for the file.
    part = place.with_name(f"{place.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            client.save(source, file)
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)
    written = place.stat().st_size
    facts = {"path": path, "file": str(place), "bytes": written}
    show_done(f"Wrote {place} ({size(written)}).", facts, as_json=as_json)


@app.command()
def cost(session: SessionRef, url: Url = None, as_json: AsJson = False) -> None:
    """What a session costs: model calls, compute, sub-agents; and what is left of its budget."""
    client = Client.open(url)
    found = client.get(f"/api/sessions/{find_session(client, session)}/cost")
    if as_json:
        print_json(found)
        return
    if found["models"]:
        print_table(
            ["Model", "Calls", "Tokens in", "Tokens out", "Cost"],
            [_model_cells(row) for row in found["models"]],
        )
    own = found["own"]
    compute = own["compute"]
    print(f"Model calls   {_money(own, 'rated_micros')} for {own['tokens']:,} tokens")
    print(f"Compute       {dollars(compute['rated_micros'])} for {compute['seconds']} s")
    if found["sub_agents"]["sessions"]:
        many = counted(found["sub_agents"]["sessions"], "session")
        print(f"Sub-agents    {_money(found['sub_agents'], 'total_micros')} for {many}")
    if found["steps"]["undone_micros"]:
        print(f"Undone        {dollars(found['steps']['undone_micros'])} of it was rolled back")
    print(f"Total         {dollars(found['total_micros'])}")
    if budget := found["budget"]:
        left = dollars(budget["left_micros"])
        print(f"Budget        {left} left of {dollars(budget['cap_micros'])}")


def _model_cells(row: Row) -> list[str]:
    return [
        printable(f"{row['provider']}/{row['model']}"),
        str(row["calls"]),
        f"{row['input_tokens']:,}",
        f"{row['output_tokens']:,}",
        dollars(row["rated_micros"]),
    ]


def _money(total: Row, field: str) -> str:
    return dollars(total[field], at_least=bool(total["unpriced_calls"]))


def _changes(
    client: Client, session_id: str, first: int | None, last: int | None
) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/api/sessions/{session_id}/files", **_between(first, last))
    return found


def _between(first: int | None, last: int | None) -> dict[str, int]:
    given = {"from_seq": first, "to_seq": last}
    return {name: value for name, value in given.items() if value is not None}


def _size(count: int | None) -> str:
    return "-" if count is None else size(count)
