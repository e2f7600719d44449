"""The log of a team: what it lived through, and what its agent CLI printed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from agentos.cli.client import Client, Url
from agentos.cli.failures import GatewayError
from agentos.cli.named import TEAM, TeamRef, one_of, path_of
from agentos.cli.output import AsJson, Row, cell, note, print_json, print_json_line, printable
from agentos.kernel.errors import Kind

app = typer.Typer(rich_markup_mode=None)

_LEVELS = ("info", "warning", "error")
_LOOK_SECONDS = 1.0
_PAGE = 50


@app.command()
def logs(
    team: TeamRef,
    level: Annotated[
        str, typer.Option(help=f"Only lines of this level or worse: {', '.join(_LEVELS)}.")
    ] = "info",
    limit: Annotated[int, typer.Option(min=1, help="At most so many of the newest lines.")] = 50,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """What a team lived through and what its agent CLI printed, newest last."""
    client = Client.open(url)
    path = f"{path_of(client, TEAM, team)}/logs"
    one_of(level, _LEVELS, "level")
    lines = client.items(path, limit=limit, level=level)[::-1]
    if as_json and not follow:
        print_json(lines)
        return
    if not lines and not follow:
        print("Nothing is known of it.")
    for line in lines:
        _print(line, as_json=as_json)
    if follow:
        for new in new_lines(client, path, level, lines[-1]["id"] if lines else ""):
            _print(new, as_json=as_json)


def new_lines(client: Client, path: str, level: str, last: str) -> Iterator[Row]:
    """The lines after the one with this id, oldest first, as they come. A lost connection is mended."""
    while True:
        time.sleep(_LOOK_SECONDS)
        try:
            found = list(_after(client, path, level, last))
        except GatewayError as error:
            if error.kind is not Kind.TRANSIENT:
                raise
            note(error.message)
            continue
        for line in reversed(found):
            last = line["id"]
            yield line


def _after(client: Client, path: str, level: str, last: str) -> Iterator[Row]:
    """What is newer than a line, newest first."""
    cursor: str | None = None
    while True:
        page = client.get(path, level=level, limit=_PAGE, cursor=cursor)
        for line in page["items"]:
            if line["id"] <= last:
                return
            yield line
        cursor = page["next_cursor"]
        if cursor is None:
            return


def _print(line: Row, *, as_json: bool) -> None:
    if as_json:
        print_json_line(line)
        return
    text = printable(line["text"], lines=True).replace("\n", "\n    ")
    print(f"{cell(line['at'])}  {line['level']:<7}  {line['source']:<5}  {text}", flush=True)
