from __future__ import annotations

from datetime import date
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.tenancy.ledger.charges import (
    api_call_micros,
    calls_over,
    compute_micros,
    first_of_month,
    hours_in,
    storage_micros,
)

GB = 1_000_000_000
NOVEMBER, FEBRUARY, LEAP = date(2026, 11, 1), date(2027, 2, 1), date(2028, 2, 1)


@pytest.mark.parametrize(
    ("seconds", "micros"),
    [(0, 0), (60, 5_000), (3_600, 300_000), (1, 84), (12, 1_000), (13, 1_084)],
)
def test_compute_is_half_a_cent_a_minute(seconds: int, micros: int) -> None:
    assert compute_micros(seconds) == micros


@pytest.mark.parametrize(("month", "days"), [(NOVEMBER, 30), (FEBRUARY, 28), (LEAP, 29)])
def test_a_gigabyte_for_a_month_is_ten_cents_however_long_the_month(month: date, days: int) -> None:
    assert hours_in(month) == days * 24
    assert storage_micros({month: GB * days * 24}) == 100_000


def test_storage_is_rounded_up_once_over_all_months() -> None:
    # Half a micro-dollar in each month: one together, not one each.
    half = {NOVEMBER: GB * 720 // 200_000, FEBRUARY: GB * 672 // 200_000}
    assert [storage_micros({month: stored}) for month, stored in half.items()] == [1, 1]
    assert storage_micros(half) == 1
    assert storage_micros({}) == 0
    assert storage_micros({NOVEMBER: 1}) == 1


@given(st.integers(0, 10**18), st.integers(0, 10**18))
def test_storage_is_never_less_than_exact_and_less_than_one_more(first: int, second: int) -> None:
    exact = Fraction(first, GB * 720) * 100_000 + Fraction(second, GB * 696) * 100_000
    charged = storage_micros({NOVEMBER: first, LEAP: second})
    assert exact <= charged < exact + 1


@pytest.mark.parametrize(
    ("months", "included", "over"),
    [
        ([(0, 100)], 100, 0),
        ([(0, 101)], 100, 1),
        ([(60, 60)], 100, 20),
        ([(150, 60)], 100, 60),
        # What one month leaves over is of no use to the next.
        ([(0, 40), (0, 130)], 100, 30),
        ([(0, 10**9)], None, 0),
        ([(0, 7)], 0, 7),
        ([], 100, 0),
    ],
)
def test_calls_over_the_plan(
    months: list[tuple[int, int]], included: int | None, over: int
) -> None:
    assert calls_over(months, included) == over
    assert api_call_micros(over) == over * 1_000


@given(st.lists(st.integers(0, 1000), max_size=31), st.integers(0, 5000))
def test_the_days_of_a_month_add_up_to_the_month(days: list[int], included: int) -> None:
    one_by_one = sum(calls_over([(sum(days[:n]), calls)], included) for n, calls in enumerate(days))
    assert one_by_one == calls_over([(0, sum(days))], included)


def test_the_month_of_a_leap_day() -> None:
    assert first_of_month(date(2028, 2, 29)) == LEAP
