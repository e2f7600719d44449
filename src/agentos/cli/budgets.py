from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from agentos.cli.client import Client, Url, segment
from agentos.cli.output import AsJson, Column, Row, show_done, show_list
from agentos.cli.usage import dollars
from agentos.kernel.errors import Invalid, NotFound

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

_SCOPES = ("tenant", "team", "session")
_AMOUNT = re.compile(r"\$?([0-9]{1,9})(?:\.([0-9]{1,6}))?")

Scope = Annotated[str, typer.Argument(help="tenant, team or session.", metavar="SCOPE")]


@app.command("list")
def list_budgets(url: Url = None, as_json: AsJson = False) -> None:
    """The budgets of this tenant, and how far each is used up."""
    columns = (
        Column("Scope", "scope"),
        Column("Of", _subject),
        Column("Cap", lambda row: dollars(row["cap_micros"])),
        Column("Spent", lambda row: dollars(row["spent_micros"])),
        Column("Held", lambda row: dollars(row["held_micros"])),
        Column("Left", lambda row: dollars(row["remaining_micros"])),
        Column("Used", lambda row: f"{row['percent']} %"),
        Column("State", "state"),
        Column("Period", lambda row: (row["period"] or "in all")[:7]),
    )
    show_list(
        Client.open(url).items("/api/budgets"),
        columns,
        as_json=as_json,
        empty="No budgets yet. Cap what this tenant spends a month with "
        "`agentos budgets set tenant 25.00`.",
    )


@app.command("set")
def set_budget(
    scope: Scope,
    values: Annotated[
        list[str],
        typer.Argument(
            help="The id of the team or session, if it is one; then dollars, such as 25.00.",
            metavar="[ID] DOLLARS",
        ),
    ],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Set or change a hard cap: a month's for the tenant or a team, in all for a session."""
    *ids, amount = values
    body = _named(scope, ids) | {"cap_micros": micros(amount)}
    done = Client.open(url).put("/api/budgets", body)
    show_done(
        f"{_title(done)} may spend {dollars(done['cap_micros'])} {_span(done)}; "
        f"{dollars(done['spent_micros'])} is spent.",
        done,
        as_json=as_json,
    )


@app.command()
def remove(
    scope: Scope,
    subject: Annotated[
        str | None, typer.Argument(help="The id of the team or session, if it is one.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Remove a hard cap. What it had paused goes on."""
    named = _named(scope, [] if subject is None else [subject])
    client = Client.open(url)
    found = client.items("/api/budgets", limit=1, **named)
    if not found:
        raise NotFound(
            "There is no such budget.", hint="`agentos budgets list` shows those there are."
        )
    client.delete(f"/api/budgets/{segment(found[0]['id'])}")
    show_done(
        f"Budget removed. {_title(found[0])} may spend without a cap of its own.",
        {"removed": found[0]["id"]},
        as_json=as_json,
    )


def micros(text: str) -> int:
    """Dollars as whole millionths, exactly; what is finer than that is refused."""
    amount = _AMOUNT.fullmatch(text.strip())
    if amount is None:
        raise Invalid(
            f"'{text}' is not an amount of dollars.",
            hint="Write it like 25 or 0.50, with at most six decimals.",
        )
    whole, part = amount.groups()
    return int(whole) * 1_000_000 + int((part or "").ljust(6, "0"))


def _named(scope: str, ids: list[str]) -> dict[str, Any]:
    if scope not in _SCOPES:
        raise Invalid(f"There is no scope '{scope}'.", hint=f"There are: {', '.join(_SCOPES)}.")
    if len(ids) != (scope != "tenant"):
        raise Invalid(
            "A tenant's budget takes no id."
            if scope == "tenant"
            else f"Which {scope}? Give its id, and nothing else.",
            hint="See `agentos budgets set --help`.",
        )
    return {"scope": scope, **({"subject_id": ids[0]} if ids else {})}


def _subject(row: Row) -> str:
    return "this tenant" if row["scope"] == "tenant" else str(row["subject_id"])


def _title(row: Row) -> str:
    return "This tenant" if row["scope"] == "tenant" else f"The {row['scope']} {row['subject_id']}"


def _span(row: Row) -> str:
    return "in all" if row["period"] is None else "a month"
