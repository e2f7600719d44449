from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from agentos.cli.client import Client, Url
from agentos.cli.output import (
    AsJson,
    Column,
    Row,
    cell,
    counted,
    note,
    print_json,
    print_table,
    show_list,
    size,
)
from agentos.kernel.errors import Invalid

app = typer.Typer(rich_markup_mode=None, invoke_without_command=True)

First = Annotated[str | None, typer.Option("--from", help="First day (UTC), such as 2026-11-01.")]
Last = Annotated[str | None, typer.Option("--to", help="Last day, included. Default: today.")]
By = Annotated[str, typer.Option(help="A row for each day, model, provider, team or session.")]
Team = Annotated[str | None, typer.Option(help="Only of this team, by id.")]
Session = Annotated[str | None, typer.Option(help="Only of this session, by id.")]
Provider = Annotated[str | None, typer.Option(help="Only through this provider.")]
Model = Annotated[str | None, typer.Option(help="Only of this model.")]

_ALL = {"by": "day"}  # what is asked for if nothing is said
_NO_CALLS = "No model calls yet. Try: agentos models list"
_NO_MATCH = "No calls match. Choose other days, or leave out a filter."
_BAR = 16  # characters; what an 80-column terminal has left beside the numbers
_EIGHTHS = " ▏▎▍▌▋▊▉"


@app.callback()
def usage(
    context: typer.Context,
    first: First = None,
    last: Last = None,
    by: By = "day",
    team: Team = None,
    session: Session = None,
    provider: Provider = None,
    model: Model = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """What was used and what it costs. Default: this month, by day."""
    query = _query(first, last, by, team, session, provider, model)
    if context.invoked_subcommand is not None:
        if as_json or url or query != _ALL:
            raise Invalid(
                f"Options come after `{context.invoked_subcommand}`.",
                hint=f"See `agentos usage {context.invoked_subcommand} --help`.",
            )
        return
    report = Client.open(url).get("/api/usage", **query)
    if as_json:
        print_json(report)
    else:
        _show(report, empty=_NO_CALLS if query == _ALL else _NO_MATCH)


@app.command()
def calls(
    session: Session = None,
    team: Team = None,
    provider: Provider = None,
    model: Model = None,
    outcome: Annotated[
        str | None, typer.Option(help="Only answered, cancelled or failed ones.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many calls.")] = 50,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """The model calls that have ended, newest first."""
    wanted = {"session_id": session, "team_id": team, "provider": provider}
    wanted |= {"model": model, "outcome": outcome}
    columns = (
        Column("At", "at"),
        Column("Model", lambda row: f"{row['provider']}/{row['model']}"),
        Column("Outcome", _outcome),
        Column("In", "input_tokens"),
        Column("Out", "output_tokens"),
        Column("Cost", lambda row: dollars(row["cost_micros"])),
        Column("Took", lambda row: f"{row['duration_ms']} ms"),
        Column("Id", "id"),
    )
    restricted = any(value is not None for value in wanted.values())
    show_list(
        Client.open(url).items("/api/usage/calls", limit=limit, **wanted),
        columns,
        as_json=as_json,
        empty=_NO_MATCH if restricted else _NO_CALLS,
    )


@app.command()
def export(
    first: First = None,
    last: Last = None,
    by: By = "day",
    team: Team = None,
    session: Session = None,
    provider: Provider = None,
    model: Model = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; default: stdout.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """The same report as a CSV file."""
    query = _query(first, last, by, team, session, provider, model)
    client = Client.open(url)
    if output is None:
        client.save("/api/usage/export.csv", sys.stdout.buffer, **query)
        return
    with output.open("wb") as file:
        client.save("/api/usage/export.csv", file, **query)
    if as_json:
        print_json({"file": str(output), "bytes": output.stat().st_size})
    else:
        note(f"Wrote {output}.")


def dollars(micros: int | None, *, at_least: bool = False) -> str:
    """Money to the last millionth; `at_least`: some of it is not known."""
    if micros is None:
        return "unknown"
    whole, part = divmod(micros, 1_000_000)
    decimals = f"{part:06d}".rstrip("0").ljust(2, "0")
    return f"{'≥ ' if at_least else ''}${whole:,}.{decimals}"


def _query(
    first: str | None,
    last: str | None,
    by: str,
    team: str | None,
    session: str | None,
    provider: str | None,
    model: str | None,
) -> dict[str, str]:
    given = {"from": first, "to": last, "by": by, "team_id": team, "session_id": session}
    given |= {"provider": provider, "model": model}
    return {name: value for name, value in given.items() if value is not None}


def _outcome(call: Row) -> str:
    return f"{call['outcome']}: {call['error_class']}" if call["error_class"] else call["outcome"]


def _show(report: Row, *, empty: str) -> None:
    """A table with a bar for each row, then the sums and the bill."""
    rows = _every_day(report["rows"]) if report["by"] == "day" else report["rows"]
    if rows:
        _show_rows(report["by"], rows)
    else:
        print(empty)
    if report["truncated"]:
        print("\nThere are more; `agentos usage export` has them all.")
    totals, rated = report["totals"], report["rated"]
    if rows:
        at_least = totals["unpriced_calls"] > 0
        tokens = totals["input_tokens"] + totals["output_tokens"]
        cost = dollars(totals["cost_micros"], at_least=at_least)
        print(f"\n{counted(totals['calls'], 'call')}, {tokens:,} tokens, {cost} at the providers")
        if at_least:
            print(
                f"The price of {counted(totals['unpriced_calls'], 'call')} is unknown. "
                "Set it with `agentos models price set`."
            )
    if rated is not None:
        _show_bill(rated, at_least=report["unknown_prices"])


def _show_rows(by: str, rows: Sequence[Row]) -> None:
    titles = [by.title(), "Calls", "Failed", "In", "Out", "Cost"]
    lines = [
        [
            cell(row["key"] or "none"),
            f"{row['calls']:,}",
            f"{row['failed_calls']:,}",
            f"{row['input_tokens']:,}",
            f"{row['output_tokens']:,}",
            dollars(row["cost_micros"], at_least=row["unpriced_calls"] > 0),
        ]
        for row in rows
    ]
    if sys.stdout.isatty():
        titles.append("")
        for line, bar in zip(lines, _bars(rows), strict=True):
            line.append(bar)
    print_table(titles, lines)


def _show_bill(rated: Row, *, at_least: bool) -> None:
    lines = [
        ["Tokens", "", dollars(rated["tokens_micros"], at_least=at_least)],
        ["Compute", f"{rated['compute_seconds']:,} s", dollars(rated["compute_micros"])],
        ["Storage", f"{size(rated['storage_byte_hours'])}·h", dollars(rated["storage_micros"])],
        [
            "API calls",
            f"{rated['api_calls']:,}, {rated['api_calls_over_plan']:,} over the plan",
            dollars(rated["api_calls_micros"]),
        ],
        ["Total", "", dollars(rated["total_micros"], at_least=at_least)],
    ]
    print()
    print_table(["Charged", "For", "Amount"], lines)


def _every_day(rows: Sequence[Row]) -> list[Row]:
    """The rows with the days between them on which nothing was called."""
    from datetime import date, timedelta

    if not rows:
        return []
    by_day = {row["key"]: row for row in rows}
    first, last = (date.fromisoformat(rows[i]["key"]) for i in (0, -1))
    nothing: dict[str, Any] = dict.fromkeys(rows[0], 0)
    days = (str(first + timedelta(days=n)) for n in range((last - first).days + 1))
    return [by_day.get(day, nothing | {"key": day}) for day in days]


def _bars(rows: Sequence[Row]) -> list[str]:
    """A bar for each row: by cost, or by tokens if none of it has a known cost."""
    amounts = [row["cost_micros"] or 0 for row in rows]
    if not any(amounts):
        amounts = [row["input_tokens"] + row["output_tokens"] for row in rows]
    most = max(amounts) or 1
    return [_bar(amount * _BAR * 8 // most) for amount in amounts]


def _bar(eighths: int) -> str:
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()
