"""Usage: what was used and what it costs, by day, model, provider, team or session."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from uuid import UUID

import asyncpg

from agentos.control.usage import repository
from agentos.control.usage.errors import BadRange, TooManyRows
from agentos.control.usage.schemas import (
    By,
    CallDetails,
    CallFilter,
    CallRead,
    LedgerEntryRead,
    Rated,
    UsageFilter,
    UsageQuery,
    UsageReport,
    UsageRow,
    UsageTotals,
)
from agentos.kernel.errors import NotFound
from agentos.tenancy.ledger import charges, meters
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

_MOST_DAYS = 366
_MOST_ROWS = 1_000
_MOST_EXPORTED = 50_000


def usage_query(
    today: date, first: date | None, last: date | None, by: By, wanted: UsageFilter
) -> UsageQuery:
    """The days asked for; by default this month's up to today."""
    last = last or today
    first = first or charges.first_of_month(last)
    if first > last:
        raise BadRange("`from` is after `to`.", hint="Give the earlier day as `from`.")
    if (last - first).days >= _MOST_DAYS:
        raise BadRange(hint="Ask for a shorter range, or for several one after the other.")
    return UsageQuery(first, last, by, wanted)


async def report(work: Work, query: UsageQuery) -> UsageReport:
    """What was used in these days. Prices that are not known are said to be unknown."""
    work.require(Scope.USAGE_READ)
    total, *rows = await repository.usage(work.tx, work.tenant_id, query, _MOST_ROWS + 1)
    totals = UsageTotals(**total)
    return UsageReport(
        first=query.first,
        last=query.last,
        by=query.by,
        rows=[UsageRow(**row) for row in rows[:_MOST_ROWS]],
        truncated=len(rows) > _MOST_ROWS,
        totals=totals,
        rated=None if query.wanted.restricts else await _rate(work, query, totals.rated_micros),
        unknown_prices=totals.unpriced_calls > 0,
    )


async def export(work: Work, query: UsageQuery) -> str:
    """The rows of a report as CSV, all of them."""
    work.require(Scope.USAGE_READ)
    _, *rows = await repository.usage(work.tx, work.tenant_id, query, _MOST_EXPORTED + 1)
    if len(rows) > _MOST_EXPORTED:
        raise TooManyRows()
    return _csv(query.by, rows)


async def list_calls(work: Work, wanted: CallFilter, page: PageRequest) -> RowPage[CallRead]:
    """Calls that have ended, newest first."""
    work.require(Scope.USAGE_READ)
    before = None if page.after is None else page.after_id
    rows = await repository.calls(work.tx, work.tenant_id, wanted, before, page.limit + 1)
    return page.of(CallRead, rows)


async def read_call(work: Work, call_id: UUID) -> CallDetails:
    """A call that has ended, with what the ledger says about it."""
    work.require(Scope.USAGE_READ)
    row = await repository.call(work.tx, work.tenant_id, call_id)
    if row is None:
        raise NotFound()
    chain = await repository.chain(work.tx, work.tenant_id, call_id)
    return CallDetails(**row, ledger=[LedgerEntryRead(**entry) for entry in chain])


async def _rate(work: Work, query: UsageQuery, tokens_micros: int | None) -> Rated:
    # From the first of the month on: earlier calls use up what the plan includes.
    rows = await meters.by_day(
        work.tx, work.tenant_id, charges.first_of_month(query.first), query.last
    )
    included = (await work.plan()).api_calls_per_month
    asked_for = [row for row in rows if row["day"] >= query.first]
    seconds = _sum(asked_for, "compute_seconds")
    stored = _by_month(asked_for, "storage_byte_hours")
    calls = _by_month(asked_for, "api_calls")
    earlier = _by_month([row for row in rows if row["day"] < query.first], "api_calls")
    over = charges.calls_over(
        ((earlier.get(month, 0), count) for month, count in calls.items()), included
    )
    compute, storage = charges.compute_micros(seconds), charges.storage_micros(stored)
    api_calls = charges.api_call_micros(over)
    return Rated(
        tokens_micros=tokens_micros,
        compute_seconds=seconds,
        compute_micros=compute,
        storage_byte_hours=sum(stored.values()),
        storage_micros=storage,
        api_calls=sum(calls.values()),
        api_calls_over_plan=over,
        api_calls_micros=api_calls,
        total_micros=(tokens_micros or 0) + compute + storage + api_calls,
    )


def _sum(rows: Sequence[asyncpg.Record], meter: meters.Meter) -> int:
    return sum(_by_month(rows, meter).values())


def _by_month(rows: Sequence[asyncpg.Record], meter: meters.Meter) -> dict[date, int]:
    sums: defaultdict[date, int] = defaultdict(int)
    for row in rows:
        if row["meter"] == meter:
            sums[charges.first_of_month(row["day"])] += row["quantity"]
    return sums


def _csv(by: By, rows: Sequence[asyncpg.Record]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    names = tuple(UsageTotals.model_fields)
    writer.writerow((by, *names))
    for row in rows:
        writer.writerow((_text_cell(row["key"]), *(_number_cell(row[name]) for name in names)))
    return text.getvalue()


def _text_cell(text: str | None) -> str:
    """A cell that a spreadsheet shows as text: it would run what begins like a formula."""
    if text is None:
        return ""
    starts_formula = text.lstrip()[:1] in tuple("=+-@") or text[:1] in tuple("\t\r\n")
    return f"'{text}" if starts_formula else text


def _number_cell(number: int | None) -> str:
    return "unknown" if number is None else str(number)
