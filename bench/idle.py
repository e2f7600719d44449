"""What an installation costs that nobody uses: the gateway, the worker and both engines."""

from __future__ import annotations

import time
from collections import Counter

from bench import usage
from bench.installed import installed
from bench.report import Benchmark, figure, ratio
from bench.stack import data_directory

SETTLE_SECONDS = 10.0
SECONDS = 20.0


def _run() -> None:
    with data_directory() as place, installed(place) as running:
        time.sleep(SETTLE_SECONDS)
        before = usage.tree(running.pid)
        started = time.perf_counter()
        time.sleep(SECONDS)
        after = usage.tree(running.pid)
        _report(before, after, time.perf_counter() - started)


def _report(before: dict[int, usage.Usage], after: dict[int, usage.Usage], seconds: float) -> None:
    percent: Counter[str] = Counter()
    megabytes: Counter[str] = Counter()
    for pid, now in after.items():
        earlier = before[pid].cpu_seconds if pid in before else 0.0
        percent[now.command] += (now.cpu_seconds - earlier) / seconds * 100  # type: ignore[assignment]
        megabytes[now.command] += now.pss_mb  # type: ignore[assignment]
    for command in megabytes:
        figure(command, f"{percent[command]:.2f} % of a core, {megabytes[command]:.0f} MB PSS")
    figure("memory as RSS", f"{sum(each.rss_mb for each in after.values()):.0f} MB")
    ratio("idle_cpu_percent", sum(percent.values()), "<1")
    ratio("idle_memory_mb", sum(megabytes.values()), "<400")


BENCHMARK = Benchmark("idle", "`agentos up` with nothing to do for 20 seconds", _run)
