"""How long `agentos up` takes until it can serve: in an empty directory, and again."""

from __future__ import annotations

import statistics

from bench.installed import installed
from bench.report import Benchmark, figure, ratio
from bench.stack import data_directory

ROUNDS = 3


def _run() -> None:
    first: list[float] = []
    again: list[float] = []
    for _ in range(ROUNDS):
        with data_directory() as place:
            for times in (first, again):
                with installed(place) as running:
                    times.append(running.seconds_to_ready)
    figure("first start, empty data directory", f"{statistics.median(first):.2f} s")
    figure("second start, at worst", f"{max(again):.2f} s")
    ratio("startup_warm_seconds", statistics.median(again), "<5")


BENCHMARK = Benchmark("startup", "`agentos up` until /health/ready answers 200", _run)
