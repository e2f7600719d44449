"""Runs the benchmarks: `python -m bench` all of them, `python -m bench NAME…` some.

Each measures us and a peer, or the physical limit, side by side in one run, and prints lines
`ratio NAME VALUE aim AIM`.
"""

from __future__ import annotations

import importlib
import pkgutil
import signal
import sys
import time
from pathlib import Path

from bench.report import Benchmark


def benchmarks() -> dict[str, Benchmark]:
    found: dict[str, Benchmark] = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.ispkg or module.name == "__main__":
            continue
        loaded = importlib.import_module(f"bench.{module.name}")
        if isinstance(benchmark := getattr(loaded, "BENCHMARK", None), Benchmark):
            found[benchmark.name] = benchmark
    return found


def main() -> int:
    # So that `timeout` leaves no engines and no directories behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    known = benchmarks()
    names = sys.argv[1:] or list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"There is no benchmark {', '.join(unknown)}; there are: {', '.join(known)}")
        return 2
    for name in names:
        print(f"# {name}: {known[name].about}", flush=True)
        started = time.perf_counter()
        known[name].run()
        print(f"# {name} took {time.perf_counter() - started:.0f} s\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
