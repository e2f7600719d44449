"""What a sandbox adds to the start of a process, beside the same process started plainly.

The same command, in turn, each started and awaited by the same loop as the worker's: plainly, in
bubblewrap as a tenant's account with its limits, and under Landlock. The command is Python with
nothing to do, which is what the `python` tool starts; `true` shows the bare cost.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from pathlib import Path

import uvloop

from agentos.integrations.sandboxes.base import Command, Sandbox
from agentos.integrations.sandboxes.choosing import choose_sandbox
from bench.percentiles import p50_and_p99, percentile
from bench.report import Benchmark, figure, ratio

ROUNDS = 60
TENANT = 700_001
PYTHON = shutil.which("python3", path="/usr/local/bin:/usr/bin") or "/usr/bin/python3"
COMMANDS = {"python": (PYTHON, "-c", "pass"), "true": ("/usr/bin/true",)}


async def _run() -> None:
    workspace = Path(tempfile.mkdtemp(prefix="agentos-bench-"))
    try:
        await _compare(workspace)
    finally:
        shutil.rmtree(workspace)


async def _compare(workspace: Path) -> None:
    uid = None
    if os.geteuid() == 0:
        uid = TENANT
        os.chown(workspace, uid, uid)
    contestants: dict[str, Sandbox | None] = {
        "plain": None,
        "bubblewrap": await choose_sandbox("bubblewrap"),
        "landlock": await choose_sandbox("landlock"),
    }
    medians: dict[tuple[str, str], float] = {}
    for name, argv in COMMANDS.items():
        command = Command(argv, workspace, uid=uid)
        times: dict[str, list[float]] = {each: [] for each in contestants}
        for round_number in range(ROUNDS + 1):
            for each, sandbox in contestants.items():
                seconds = await _time(sandbox, command)
                if round_number:  # the first warms up
                    times[each].append(seconds)
        for each, measured in times.items():
            figure(f"{name}, {each}", p50_and_p99(measured))
            medians[name, each] = percentile(measured, 0.5)
    plain = medians["python", "plain"]
    figure(
        "bubblewrap adds",
        f"{(medians['true', 'bubblewrap'] - medians['true', 'plain']) * 1000:.1f} ms",
    )
    ratio("sandbox_start_vs_plain", medians["python", "bubblewrap"] / plain, "≤2.5")
    figure("the same under Landlock", f"{medians['python', 'landlock'] / plain:.2f}")


async def _time(sandbox: Sandbox | None, command: Command) -> float:
    started = time.perf_counter()
    if sandbox is not None:
        outcome = await sandbox.run(command)
        assert outcome.exit_code == 0
    else:
        process = await asyncio.create_subprocess_exec(
            *command.argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        await process.communicate()
        assert process.returncode == 0
    return time.perf_counter() - started


BENCHMARK = Benchmark(
    "sandbox", "start of a command, plain and isolated", lambda: uvloop.run(_run())
)
