"""How long the command line keeps people waiting; the limit is the interpreter's own start."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from bench.installed import AGENTOS, installed
from bench.report import Benchmark, figure, ratio
from bench.stack import data_directory

ROUNDS = 10


def _run() -> None:
    with data_directory() as place, installed(place) as running:
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "agentos --help": [AGENTOS, "--help"],
            "agentos whoami --help": [AGENTOS, "whoami", "--help"],
            "agentos keys list": [AGENTOS, "keys", "list"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for round_number in range(ROUNDS + 1):
            for name, argv in commands.items():
                seconds = _time(argv, running.environment())
                if round_number:  # the first warms up
                    times[name].append(seconds)
    medians = {name: statistics.median(measured) * 1000 for name, measured in times.items()}
    for name, milliseconds in medians.items():
        figure(name, f"{milliseconds:.0f} ms, at worst {max(times[name]) * 1000:.0f} ms")
    ratio("cli_help_ms", medians["agentos --help"], "<500")


def _time(argv: list[str], env: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(argv, env={**os.environ, **env}, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


BENCHMARK = Benchmark("cli-help", "wall time of commands, medians of 10 in turn", _run)
