"""Three durable steps, model, tool, model, through our whole engine and through others.

Ours journals each step with its cost and its events, under row-level security, in tenants with
limits, fenced and owned by a worker that others watch. DBOS records the steps of a workflow from
its queue: no tenants, no cost, no events, no recovery across processes. LangGraph keeps a
checkpoint per node: no queue, no owner, no recovery at all. Both use the same PostgreSQL server as
ours, each with up to 64 runs at once per worker. Temporal's dev server keeps its own SQLite.
All share the two cores; rounds alternate, medians count. `100` and `100,000` are how many sessions
wait in the queue all the while.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from uuid import UUID

import uvloop

from bench.peers.temporal_server import dev_server
from bench.pulse_peers import DBOS, LANGGRAPH, TEMPORAL, Peer
from bench.pulse_processes import (
    AGENTOS_WORKER,
    commands,
    cpu,
    load_of_machine,
    nats_cpu,
    worker_environment,
)
from bench.pulse_queue import TENANTS, Queue, database_url, log_file, queue
from bench.report import Benchmark, figure, ratio
from bench.stack import Stack

ROUNDS = 3
WARM_SECONDS, SECONDS = 1.5, 4.0
FEW, MANY = 100, 100_000
# Imports alone take many seconds while others use the cores.
BOOT_SECONDS = 90.0
# More than a peer can do in one measurement with two workers.
ENQUEUED = 900
TEMPORAL_ENQUEUED = 250
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Measured:
    per_second: float
    # Milliseconds of CPU per session.
    worker_ms: float
    engine_ms: float
    nats_ms: float


Count = Callable[[], Awaitable[int]]
Feed = Callable[[], Awaitable[None]]


@dataclass
class Contestant:
    """Something that works sessions off, started anew for each measurement."""

    argv: list[list[str]]
    env: dict[str, str]
    engine_pid: int
    place: Path
    # How many are done since the beginning; before each measurement; while it lasts.
    done: Count
    refill: Feed
    feed: Feed
    # Fails the benchmark if what was done was not done well.
    check: Feed
    measured: list[Measured] = field(default_factory=list)

    async def measure(self) -> Measured:
        await self.refill()
        before = await self.done()
        with commands(self.argv, self.env, out=self.place, log=self._log) as pids:
            deadline = time.monotonic() + BOOT_SECONDS
            while await self.done() == before:
                if time.monotonic() > deadline:
                    await self.check()
                    raise RuntimeError(f"{self.place.stem} did nothing: {self._said()}")
                await asyncio.sleep(POLL_SECONDS)
            await self._last(WARM_SECONDS)
            done, spent, began = await self.done(), self._spent(pids), time.perf_counter()
            await self._last(SECONDS)
            done = await self.done() - done
            seconds = time.perf_counter() - began
            workers, engine, nats = (
                (now - then) / done * 1000
                for now, then in zip(self._spent(pids), spent, strict=True)
            )
        await self.check()
        return Measured(done / seconds, workers, engine, nats)

    async def _last(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            await self.feed()
            await asyncio.sleep(POLL_SECONDS)

    def _spent(self, pids: list[int]) -> tuple[float, float, float]:
        return cpu(*pids), cpu(self.engine_pid), nats_cpu()

    @property
    def _log(self) -> Path:
        return self.place.with_suffix(".errors")

    def _said(self) -> str:
        return self._log.read_text()[-2000:]

    def median(self, what: Callable[[Measured], float]) -> float:
        return statistics.median(what(each) for each in self.measured)

    def per_second(self) -> float:
        return self.median(lambda each: each.per_second)

    def __str__(self) -> str:
        worker, engine, nats = (
            self.median(what)
            for what in (lambda m: m.worker_ms, lambda m: m.engine_ms, lambda m: m.nats_ms)
        )
        low, high = (f(m.per_second for m in self.measured) for f in (min, max))
        return (
            f"{self.per_second():.0f}/s ({low:.0f} to {high:.0f}); CPU ms each: worker "
            f"{worker:.1f}, database {engine:.1f}, NATS {nats:.2f}"
        )


async def _nothing() -> None:
    pass


async def _ours(each: Queue, depth: int, workers: int) -> Contestant:
    tenants = await each.tenants(TENANTS)
    await each.fill(tenants, depth)
    await each.settle()
    keep = _Keep(each, tenants, depth)
    return Contestant(
        argv=[list(AGENTOS_WORKER)] * workers,
        env=worker_environment(each.running),
        engine_pid=each.postmaster(),
        place=log_file(each.running, f"ours-{workers}"),
        done=each.completed,
        # Workers that were told to stop have gone on until their steps were done.
        refill=keep,
        feed=keep,
        check=each.require_success,
    )


@dataclass
class _Keep:
    """Fills a queue up again, and does not count a long one so often that it costs sessions."""

    queue: Queue
    tenants: list[UUID]
    depth: int
    counted_at: float = 0.0

    async def __call__(self) -> None:
        pause = 0.0 if self.depth == FEW else 1.0
        if time.monotonic() - self.counted_at < pause:
            return
        self.counted_at = time.monotonic()
        missing = self.depth - await self.queue.waiting()
        if missing > 0:
            await self.queue.fill(self.tenants, missing)


async def _peer(peer: Peer, queues: Queue, workers: int) -> Contestant:
    """DBOS or LangGraph in a database of its own on the same server."""
    env = {**os.environ, "DATABASE_URL": database_url(queues.running, peer.name)}
    if workers == 1:
        await queues.connection.execute(f"create database {peer.name}")
        await _run_script(peer.argv("prepare"), env)
    output = log_file(queues.running, f"{peer.name}-{workers}")
    output.touch()
    return Contestant(
        argv=[peer.argv("work", str(n)) for n in range(workers)],
        env=env,
        engine_pid=queues.postmaster(),
        place=output,
        done=partial(_bytes_of, output),
        refill=partial(_run_script, peer.argv("enqueue", str(ENQUEUED)), env)
        if peer is DBOS
        else _nothing,
        feed=_nothing,
        check=_nothing,
    )


async def _bytes_of(file: Path, each: int = 1) -> int:
    """How many are done, by what workers wrote for each."""
    return _size(file) // each


def _size(file: Path) -> int:
    return file.stat().st_size


async def _run_script(argv: list[str], env: dict[str, str]) -> None:
    done = await asyncio.to_thread(
        subprocess.run, argv, env=env, check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{argv} failed: {done.stderr[-2000:]}")


async def _run() -> None:
    figure("machine", load_of_machine())
    async with AsyncExitStack() as stack:
        few, many = [await stack.enter_async_context(queue()) for _ in range(2)]
        contestants = {
            f"ours, {FEW} queued, 1 worker": await _ours(few, FEW, 1),
            f"ours, {MANY:,} queued, 1 worker": await _ours(many, MANY, 1),
            f"ours, {FEW} queued, 2 workers": await _ours(few, FEW, 2),
        }
        for peer in (DBOS, LANGGRAPH):
            version = await asyncio.to_thread(peer.installed)
            if version is None:
                figure(peer.name, "left out: it could not be installed")
                continue
            figure(peer.name, f"version {version}")
            for workers in (1, 2):
                contestants[_name(peer, workers)] = await _peer(peer, few, workers)
        for number in range(ROUNDS):
            each_in_turn = list(contestants.values())
            first = number % len(each_in_turn)
            for each in each_in_turn[first:] + each_in_turn[:first]:
                each.measured.append(await each.measure())
        await _temporal(few.running, contestants)
    for name, each in contestants.items():
        figure(name, str(each))
    figure("machine", load_of_machine())
    _compare(contestants)


def _name(peer: Peer, workers: int) -> str:
    return f"{peer.name}, {workers} worker{'s' if workers > 1 else ''}"


async def _temporal(running: Stack, contestants: dict[str, Contestant]) -> None:
    """One measurement: it is far off, and each takes long."""
    version = await asyncio.to_thread(TEMPORAL.installed)
    if version is None:
        figure("temporal", "left out: its SDK or its dev server could not be installed")
        return
    place = running.settings.data_dir
    async with _temporal_contestant(place) as each:
        each.measured.append(await each.measure())
    figure("temporal", f"SDK {version}, dev server in one process with SQLite, not our database")
    contestants[_name(TEMPORAL, 1)] = each


@asynccontextmanager
async def _temporal_contestant(place: Path) -> AsyncIterator[Contestant]:
    with dev_server(TEMPORAL.place / "bin" / "temporal", place) as (pid, address):
        env = {**os.environ, "TEMPORAL_ADDRESS": address}
        output = place / "temporal.log"
        output.touch()
        yield Contestant(
            argv=[TEMPORAL.argv("work")],
            env=env,
            engine_pid=pid,
            place=output,
            done=partial(_bytes_of, output, 3),
            refill=partial(_run_script, TEMPORAL.argv("enqueue", str(TEMPORAL_ENQUEUED)), env),
            feed=_nothing,
            check=_nothing,
        )


def _compare(contestants: dict[str, Contestant]) -> None:
    rates = {name: each.per_second() for name, each in contestants.items()}
    few, many, two = (rates[name] for name in list(rates)[:3])
    ratio("pulse_sessions_per_second", few, "≥300")
    ratio("pulse_rps_100k_vs_100", many / few, "≥0.8")
    ratio("pulse_two_workers_vs_one", two / few, "≥1")
    for peer, aim in ((DBOS, "≥4"), (LANGGRAPH, "≥4"), (TEMPORAL, "≥4")):
        for workers, ours, name in ((1, few, ""), (2, two, "_2_workers")):
            if theirs := rates.get(_name(peer, workers)):
                ratio(f"pulse_sessions_vs_{peer.name}{name}", ours / theirs, aim)


BENCHMARK = Benchmark(
    "pulse-sessions",
    "three durable steps through our engine, DBOS, LangGraph and Temporal",
    lambda: uvloop.run(_run()),
)
