"""What metered usage is charged at: pure arithmetic in whole numbers, rounded up once, at the end."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterable, Mapping
from datetime import date
from fractions import Fraction
from math import ceil

from agentos.tenancy.ledger.rating import (
    API_CALL_MICROS,
    COMPUTE_MICROS_PER_MINUTE,
    STORAGE_MICROS_PER_GB_MONTH,
)

_BYTES_A_GB = 1_000_000_000


def first_of_month(day: date) -> date:
    """The first day of the month a day is in."""
    return day.replace(day=1)


def hours_in(month: date) -> int:
    """The hours of a calendar month, UTC."""
    return monthrange(month.year, month.month)[1] * 24


def compute_micros(seconds: int) -> int:
    return -(-seconds * COMPUTE_MICROS_PER_MINUTE // 60)


def storage_micros(byte_hours: Mapping[date, int]) -> int:
    """The charge for byte-hours by month: a month has its own number of hours."""
    exact = sum(
        (
            Fraction(stored * STORAGE_MICROS_PER_GB_MONTH, _BYTES_A_GB * hours_in(month))
            for month, stored in byte_hours.items()
        ),
        Fraction(),
    )
    return ceil(exact)


def calls_over(months: Iterable[tuple[int, int]], included: int | None) -> int:
    """How many API calls are beyond those a plan includes each month; None includes all.

    A month is (calls before the first day asked for, calls from then on). Only the second count,
    but the first use up what is included: so the days of a month add up to the month.
    """
    if included is None:
        return 0
    return sum(
        max(0, earlier + calls - included) - max(0, earlier - included) for earlier, calls in months
    )


def api_call_micros(calls_over_plan: int) -> int:
    return calls_over_plan * API_CALL_MICROS
