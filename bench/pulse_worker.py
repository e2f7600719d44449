"""What a worker process costs: memory after 1,000 sessions, and CPU when there is nothing to do."""

from __future__ import annotations

import asyncio
import time

import uvloop

from bench import usage
from bench.pulse_processes import (
    AGENTOS_WORKER,
    command,
    cpu,
    load_of_machine,
    worker_environment,
)
from bench.pulse_queue import TENANTS, log_file, queue
from bench.report import Benchmark, figure, ratio

SESSIONS = 1_000
SETTLE_SECONDS = 5.0
IDLE_SECONDS = 15.0


async def _run() -> None:
    figure("machine", load_of_machine())
    async with queue() as queues:
        tenants = await queues.tenants(TENANTS)
        log = log_file(queues.running, "worker")
        env = worker_environment(queues.running)
        with command(AGENTOS_WORKER, env, out=log, log=log) as worker:
            await queues.until(queues.workers, 1)
            await asyncio.sleep(SETTLE_SECONDS)
            figure("memory before any session", f"{_memory(worker.pid):.0f} MB RSS")
            await queues.fill(tenants, SESSIONS)
            await queues.until(queues.completed, SESSIONS, seconds=150)
            await queues.require_success()
            await asyncio.sleep(SETTLE_SECONDS)
            memory = _memory(worker.pid)
            figure(f"memory after {SESSIONS:,} sessions", f"{memory:.0f} MB RSS")
            idle = await _idle(worker.pid, queues.postmaster())
    ratio("pulse_worker_rss_mb", memory, "≤150")
    ratio("pulse_worker_idle_cpu_percent", idle, "<1")


def _memory(pid: int) -> float:
    return sum(each.rss_mb for each in usage.tree(pid).values())


async def _idle(worker: int, postmaster: int) -> float:
    before, began = [cpu(worker), cpu(postmaster)], time.perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    seconds = time.perf_counter() - began
    own, database = (
        (now - then) / seconds * 100
        for now, then in zip([cpu(worker), cpu(postmaster)], before, strict=True)
    )
    figure("idle CPU", f"worker {own:.2f} %, its PostgreSQL {database:.2f} % of a core")
    return own


BENCHMARK = Benchmark(
    "pulse-worker",
    "memory of a worker after 1,000 sessions, and its CPU when idle",
    lambda: uvloop.run(_run()),
)
