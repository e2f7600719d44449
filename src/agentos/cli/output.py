"""What commands print: JSON for programs, tables and sentences for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]

Row = Mapping[str, Any]


class Column(NamedTuple):
    title: str
    value: str | Callable[[Row], object]

    def of(self, row: Row) -> str:
        found = row.get(self.value) if isinstance(self.value, str) else self.value(row)
        return cell(found)


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_json_line(value: object) -> None:
    """One of many documents, each on a line of its own and visible at once."""
    print(json.dumps(value, ensure_ascii=False, separators=(",", ":")), flush=True)


def show_list(rows: Sequence[Row], columns: Sequence[Column], *, as_json: bool, empty: str) -> None:
    """A list; `empty` says what to do when there is nothing in it."""
    if as_json:
        print_json(rows)
    elif rows:
        print_table(
            [column.title for column in columns], [[c.of(r) for c in columns] for r in rows]
        )
    else:
        print(empty)


def show_one(row: Row, *, as_json: bool) -> None:
    """One thing, field by field."""
    if as_json:
        print_json(row)
        return
    width = max((len(name) for name in row), default=0)
    for name, value in row.items():
        print(f"{name.replace('_', ' '):<{width}}  {cell(value)}".rstrip())


def show_done(sentence: str, row: Row, *, as_json: bool) -> None:
    """What was done: a sentence, or the same facts as JSON."""
    if as_json:
        print_json(row)
    else:
        print(printable(sentence, lines=True))


def note(sentence: str) -> None:
    """Something to know that is not the result."""
    print(printable(sentence, lines=True), file=sys.stderr, flush=True)


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not sys.stdout.isatty():
        # In a pipe nothing is wrapped or coloured: what reads it is a program, or scrolls.
        _print_aligned([titles, *rows])
        return
    # Imported here: Rich costs 80 ms, and only a terminal needs it.
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in titles:
        # Folded, not cut: an id that lost its end is of no use.
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(markup=False, emoji=False, highlight=False).print(table)


def _print_aligned(lines: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        print("  ".join(padded).rstrip())


def cell(value: object) -> str:
    """A value as people read it."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case str():
            return printable(_local_time(value))
        case list() | tuple() if all(isinstance(item, str) for item in value):
            return printable(", ".join(value)) or "-"
        case dict() | list():
            return printable(json.dumps(value, ensure_ascii=False))
        case _:
            return printable(str(value))


def printable(text: str, *, lines: bool = False) -> str:
    """Text that does to a terminal nothing but appear: others may have chosen it."""
    return "".join(
        c if c.isprintable() or (lines and c == "\n") else repr(c)[1:-1].replace("\\\\", "\\")
        for c in text
    )


def counted(count: int, word: str) -> str:
    """A number with its noun: 1 key, 2 keys."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def size(count: int) -> str:
    """Bytes as people read them."""
    if count < 1000:
        return f"{count} B"
    amount = float(count)
    for unit in ("kB", "MB", "GB"):
        amount /= 1000
        if amount < 1000:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1000:.1f} TB"


def _local_time(text: str) -> str:
    # An API's timestamp and nothing shorter: 2030-05-01T10:00:00Z
    if len(text) < 20 or text[4:5] != "-" or text[10:11] != "T":
        return text
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"
