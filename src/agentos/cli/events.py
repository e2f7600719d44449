from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from agentos.cli.client import Client, Url
from agentos.cli.failures import GatewayError
from agentos.cli.output import AsJson, Column, cell, note, print_json_line, printable, show_list
from agentos.kernel.errors import Kind

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

Types = Annotated[
    str | None,
    typer.Option(help="Only these, separated by commas; a trailing .* means all of a kind."),
]

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 5.0
_PAGE = 200


@app.command("list")
def list_events(
    types: Types = None,
    after: Annotated[int, typer.Option(min=0, help="Only events after this number.")] = 0,
    limit: Annotated[int, typer.Option(min=1, help="At most so many events.")] = 50,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """The history of this tenant's events, oldest first."""
    client = Client.open(url)
    found: list[dict[str, Any]] = []
    while len(found) < limit:
        size = min(_PAGE, limit - len(found))
        page = client.get("/api/events", after=after, types=types, limit=size)
        found += page["items"]
        after = page["next_after"]
        if len(page["items"]) < size:
            break
    columns = (
        Column("Seq", "seq"),
        Column("At", "at"),
        Column("Type", "type"),
        Column("Facts", lambda row: _facts(row["data"])),
    )
    show_list(
        found,
        columns,
        as_json=as_json,
        empty="No such events. `agentos events tail` shows them as they happen.",
    )


@app.command()
def tail(
    types: Types = None,
    after: Annotated[
        int | None,
        typer.Option(min=0, help="Begin after this number; default: with what happens now."),
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Events as they happen, one a line, until Ctrl-C. A lost connection is resumed."""
    for event in follow(Client.open(url), types, after):
        if as_json:
            print_json_line(event)
        else:
            facts = _facts(event["data"])
            print(
                f"{event['seq']:>6}  {cell(event['at'])}  {printable(event['type']):<24}  {facts}",
                flush=True,
            )


def follow(client: Client, types: str | None, after: int | None) -> Iterator[dict[str, Any]]:
    """Every event after `after`, in order, each once, across lost connections."""
    wait = _FIRST_WAIT
    connected = False
    while True:
        headers = {"Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        try:
            with client.listen("/api/events/stream", headers, types=types) as response:
                connected, wait = True, _FIRST_WAIT
                for event in parse(response):
                    match event:
                        case {"type": "stream.live", "after": int(position)}:
                            after = max(position, after or 0)
                        case {"type": "history.truncated", "oldest": oldest}:
                            note(f"Older events are gone; going on with {oldest}.")
                        case {"type": "stream.dropped"}:
                            break
                        case {"seq": int(seq)} if after is None or seq > after:
                            after = seq
                            yield event
        except (OSError, http.client.HTTPException):
            pass
        except GatewayError as error:
            # Only what may pass by itself, and only once it has worked, is worth waiting for.
            if not connected or error.kind is not Kind.TRANSIENT:
                raise
        note(f"Connection lost; resuming in {wait:g} s.")
        time.sleep(wait)
        wait = min(wait * 2, _LONGEST_WAIT)


def parse(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The documents in a stream of server-sent events."""
    data: list[str] = []
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            document = json.loads("\n".join(data))
            data = []
            if isinstance(document, dict):
                yield document


def _facts(data: dict[str, Any]) -> str:
    return " ".join(f"{printable(name)}={cell(value)}" for name, value in data.items())
