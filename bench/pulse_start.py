"""How long a session waits for a worker that has room, and how soon a worker hears of what changed.

A start is timed by the one who queues the session: from before the insert until the claim of a
worker can be seen in the database, so both commits and the hint on the bus are part of it. With
1,000 saturated tenants each has as many sessions running as it may, and more in the queue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import uvloop

from agentos.execution.pulse.front import Hints
from agentos.kernel.bus import Bus
from agentos.kernel.installation import bus_authority
from bench.percentiles import p50_and_p99, percentile
from bench.pulse_interruptions import measure_cancel, measure_kill, measure_pause
from bench.pulse_processes import AGENTOS_WORKER, commands, cpu, load_of_machine, worker_environment
from bench.pulse_queue import Queue, log_file, queue, script
from bench.report import Benchmark, figure, ratio
from bench.stack import Stack

IDLE_STARTS = 150
WARM_UP = 10
SATURATED = 1_000
FRESH_STARTS = 150
# What the plan `free` lets run at once.
LIMIT = 2
LONG = script(*["wait 5000"] * 40, "say Done.")
PAUSE_SECONDS = 0.03
LOOK_SECONDS = 0.001
# Workers that take less than this of a core have nothing left to do.
CALM, CALM_SECONDS = 0.3, 40.0


async def _run() -> None:
    figure("machine", load_of_machine())
    async with queue() as queues, _hints(queues.running) as hints:
        idle = await _idle(queues, hints)
        figure("start, idle", p50_and_p99(idle))
    async with queue() as queues, _hints(queues.running) as hints:
        crowded = await _among_saturated(queues, hints)
        figure(f"start among {SATURATED:,} saturated tenants", p50_and_p99(crowded))
    async with queue() as queues:
        killed = await measure_kill(queues)
        figure("kill -9 to the next step", _spread(killed))
        paused = await measure_pause(queues)
        figure("pause requested to worker stopped, steps of 20 ms", _spread(paused))
        cancelled = await measure_cancel(queues)
        figure("cancel requested to tool gone", _spread(cancelled))
    figure("machine", load_of_machine())
    ratio("pulse_start_idle_p99_ms", percentile(idle, 0.99) * 1000, "≤50")
    ratio("pulse_start_saturated_p99_ms", percentile(crowded, 0.99) * 1000, "≤60")
    ratio("pulse_resume_after_kill_seconds", max(killed), "≤1.5")
    ratio("pulse_pause_ms", percentile(paused, 0.5) * 1000, "≤100")
    ratio("pulse_cancel_ms", percentile(cancelled, 0.5) * 1000, "≤100")


def _spread(seconds: list[float]) -> str:
    low, middle, high = min(seconds), percentile(seconds, 0.5), max(seconds)
    return f"p50 {middle * 1000:.0f} ms, {low * 1000:.0f} to {high * 1000:.0f}"


@asynccontextmanager
async def _hints(running: Stack) -> AsyncIterator[Hints]:
    credentials = bus_authority(running.secret_key).platform_credentials()
    bus = await Bus.connect(running.where.nats, credentials, name="bench")
    try:
        yield Hints(bus)
    finally:
        await bus.close()


async def _idle(queues: Queue, hints: Hints) -> list[float]:
    tenants = await queues.tenants(20)
    log = log_file(queues.running, "worker")
    env = worker_environment(queues.running)
    with commands([AGENTOS_WORKER], env, out=log, log=log):
        await queues.until(queues.workers, 1)
        seconds = []
        for n in range(WARM_UP + IDLE_STARTS):
            seconds.append(await _start(queues, hints, tenants[n % len(tenants)]))
            await queues.until(queues.completed, n + 1)
            await asyncio.sleep(PAUSE_SECONDS)
    await queues.require_success()
    return seconds[WARM_UP:]


async def _among_saturated(queues: Queue, hints: Hints) -> list[float]:
    saturated = await queues.tenants(SATURATED, "free")
    fresh = await queues.tenants(FRESH_STARTS, "free")
    await queues.fill(saturated, 2 * LIMIT * SATURATED, LONG)
    await queues.settle()
    log = log_file(queues.running, "worker")
    room = SATURATED * LIMIT // 2 + 100
    env = worker_environment(queues.running, sessions=room) | {"AGENTOS_DRAIN_SECONDS": "0"}
    with commands([AGENTOS_WORKER] * 2, env, out=log, log=log) as pids:
        began = time.monotonic()
        await queues.until(queues.running_now, SATURATED * LIMIT, seconds=120)
        await _calm(pids)
        figure("until all are saturated and calm", f"{time.monotonic() - began:.0f} s")
        seconds = []
        for tenant_id in fresh:
            seconds.append(await _start(queues, hints, tenant_id))
            await asyncio.sleep(PAUSE_SECONDS)
        figure(
            "of those still running, and waiting to ask their model again",
            f"{await queues.running_now():,}, {await queues.retrying():,}",
        )
    return seconds


async def _calm(pids: list[int]) -> None:
    """What has just been claimed asks its model first; a fresh session is not to wait for that."""
    spent, before = cpu(*pids), 0.0
    deadline = time.monotonic() + CALM_SECONDS
    while spent - before > CALM * 2 and time.monotonic() < deadline:
        await asyncio.sleep(2)
        spent, before = cpu(*pids), spent


async def _start(queues: Queue, hints: Hints, tenant_id: UUID) -> float:
    began = time.perf_counter()
    session_id = await queues.add(tenant_id)
    await hints.queued()
    while True:
        started = await queues.connection.fetchval(
            "select started_at is not null from sessions where tenant_id = $1 and id = $2",
            tenant_id,
            session_id,
        )
        if started:
            return time.perf_counter() - began
        await asyncio.sleep(LOOK_SECONDS)


BENCHMARK = Benchmark(
    "pulse-start",
    "queue to start, idle and in a crowd; kill -9, pause and cancel until they take effect",
    lambda: uvloop.run(_run()),
)
