from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentos.cli.client import Client, Url, segment
from agentos.cli.output import (
    AsJson,
    Column,
    cell,
    print_json,
    print_table,
    printable,
    show_done,
    show_list,
)
from agentos.kernel.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

_POLL_SECONDS = 0.3
_RUNNING = ("CREATED", "RUNNING")
# Like a program that ran and was not content.
_NOT_COMPLETE = 1

Document = dict[str, Any]
File = Annotated[Path, typer.Argument(help="A chain in YAML or JSON; - reads from stdin.")]
ChainId = Annotated[str, typer.Argument(help="The id of the chain.", metavar="ID")]
Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", help="An input: NAME=text, or NAME:=JSON.", metavar="NAME=VALUE"),
]
Wait = Annotated[bool, typer.Option("--wait", help="Show its nodes until it has ended.")]


@app.command("run")
def run_chain(
    file: File,
    values: Inputs = None,
    wait: Wait = False,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Run a chain from a file."""
    document = _read(file)
    document["values"] = {**(document.get("values") or {}), **_values(values or [])}
    client = Client.open(url)
    chain = client.post("/api/chains", document)
    if wait:
        return _follow(client, chain["id"], as_json=as_json)
    show_done(
        f"The chain {chain['name']} runs. See it with `agentos chains show {chain['id']}`.",
        chain,
        as_json=as_json,
    )
    return 0


@app.command("check")
def check_chain(file: File, url: Url = None, as_json: AsJson = False) -> None:
    """Say whether a file is a valid chain, and in which order it would run."""
    checked = Client.open(url).post("/api/chains/check", _read(file))
    if as_json:
        print_json(checked)
        return
    print(f"The chain {printable(checked['name'])} is valid.")
    for number, layer in enumerate(checked["layers"], 1):
        print(f"  {number}. {', '.join(layer)}")
    if checked["missing_inputs"]:
        print(f"Give it with --input: {', '.join(checked['missing_inputs'])}.")


@app.command("list")
def list_chains(
    state: Annotated[str | None, typer.Option(help="Only in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """The chains of this tenant, newest first."""
    columns = (
        Column("Id", "id"),
        Column("Name", "name"),
        Column("State", "state"),
        Column("Nodes", lambda row: f"{row['nodes_ended']}/{row['nodes_total']}"),
        Column("Created", "created_at"),
        Column("By", "created_by"),
        Column("Error", "error"),
    )
    show_list(
        Client.open(url).items("/api/chains", limit=limit, state=state),
        columns,
        as_json=as_json,
        empty="No chains yet. Run one with `agentos chains run FILE`.",
    )


@app.command("show")
def show_chain(chain_id: ChainId, url: Url = None, as_json: AsJson = False) -> None:
    """One chain: its nodes, their sessions, and what it came to."""
    chain = Client.open(url).get(f"/api/chains/{segment(chain_id)}")
    if as_json:
        print_json(chain)
        return
    print(f"{printable(chain['name'])}  {chain['state']}  {chain['pct']:g} %")
    print_table(_TITLES, _rows(chain, items=True))
    _print_end(chain)


@app.command("cancel")
def cancel_chain(chain_id: ChainId, url: Url = None, as_json: AsJson = False) -> None:
    """End a chain and its sessions at once."""
    chain = Client.open(url).post(f"/api/chains/{segment(chain_id)}/cancel")
    show_done(f"The chain {chain['name']} is cancelled.", chain, as_json=as_json)


@app.command("retry")
def retry_chain(
    chain_id: ChainId,
    node: Annotated[
        str | None, typer.Option(help="This node and all after it; default: what has failed.")
    ] = None,
    wait: Wait = False,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Run failed nodes again, or a node and everything after it."""
    client = Client.open(url)
    chain = client.post(f"/api/chains/{segment(chain_id)}/retry", {"node": node})
    if wait:
        return _follow(client, chain["id"], as_json=as_json)
    show_done(f"The chain {chain['name']} runs again.", chain, as_json=as_json)
    return 0


def _read(file: Path) -> Document:
    # Imported here: only these commands need YAML.
    from agentos.execution.pulse.chains.reading import read_json, read_yaml

    text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    document = read_json(text) if file.suffix == ".json" else read_yaml(text)
    if not isinstance(document, dict):
        raise Invalid(f"{file} is not a chain.", hint="A chain has a name and nodes.")
    return document


def _values(given: list[str]) -> Document:
    """Inputs as they are written: NAME=text or NAME:=JSON."""
    values: Document = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals or not name.strip(":"):
            raise Invalid(f"'{each}' is not an input.", hint="Write NAME=text or NAME:=JSON.")
        if not name.endswith(":"):
            values[name] = text
            continue
        try:
            values[name[:-1]] = json.loads(text)
        except ValueError as error:
            raise Invalid(f"The input {name[:-1]} is not JSON: {error}.") from None
    return values


def _follow(client: Client, chain_id: str, *, as_json: bool) -> int:
    """Shows a chain until it has ended; the exit code says how."""
    path = f"/api/chains/{segment(chain_id)}"
    chain = client.get(path)
    with _view(quiet=as_json) as show:
        show(chain)
        while chain["state"] in _RUNNING:
            time.sleep(_POLL_SECONDS)
            chain = client.get(path)
            show(chain)
    if as_json:
        print_json(chain)
    else:
        _print_end(chain)
    return 0 if chain["state"] == "COMPLETE" else _NOT_COMPLETE


@contextmanager
def _view(*, quiet: bool) -> Iterator[Callable[[Document], None]]:
    """Something that shows a chain as it changes: a live table, or a line for each change."""
    if quiet:
        yield lambda _: None
    elif not sys.stdout.isatty():
        yield _Lines().show
    else:
        # Imported here: Rich costs 80 ms, and only a terminal needs it.
        from rich.live import Live

        with Live(auto_refresh=False) as live:
            yield lambda chain: live.update(_table(chain), refresh=True)


class _Lines:
    """A line for every node that changes its state."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}

    def show(self, chain: Document) -> None:
        for row in _rows(chain, items=False):
            shown = "  ".join(part for part in row[1:] if part != "-")
            if self._seen.get(row[0]) != shown and row[1] != "PENDING":
                self._seen[row[0]] = shown
                print(f"{row[0]}  {shown}", flush=True)


_TITLES = ("Node", "State", "Tries", "Items", "Session", "Error")


def _rows(chain: Document, *, items: bool) -> list[list[str]]:
    rows = []
    for node in chain["nodes"]:
        each = node["items"]
        done = "-" if each is None else f"{sum(i['state'] == 'COMPLETE' for i in each)}/{len(each)}"
        rows.append(_row(node["id"], node, done))
        if items:
            rows += [_row(f"{node['id']}[{item['item']}]", item, "-") for item in each or []]
    return rows


def _row(name: str, row: Document, items: str) -> list[str]:
    tries = str(row["tries"]) if row["tries"] > 1 else "-"
    return [name, row["state"], tries, items, cell(row["session_id"]), cell(row["error"])]


def _table(chain: Document) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in _TITLES:
        table.add_column(title, overflow="fold")
    for row in _rows(chain, items=False):
        # As text: what others have written is no markup.
        table.add_row(*(Text(part) for part in row))
    return table


def _print_end(chain: Document) -> None:
    if chain["state"] == "COMPLETE":
        output = chain["output"]
        text = output if isinstance(output, str) else json.dumps(output, indent=2)
        print(f"\n{printable(text, lines=True)}")
    elif chain["error"]:
        print(f"\n{chain['state']}: {printable(chain['error'], lines=True)}")
