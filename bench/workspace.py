"""Checkpoints of a large workspace: the first one, and one after little has changed.

Beside them the physical limits: for the first, `tar` of the same directory into one file that is
synced; for the other, a bare look at each file (scandir and stat). Sizes of files are spread as in
source trees: median 2.5 kB, mean about 8 kB.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import statistics
import subprocess
import time
from pathlib import Path
from uuid import UUID

import asyncpg
import uvloop

from agentos.integrations.workspaces.workspace import Workspace
from agentos.integrations.workspaces.workspaces import Workspaces
from agentos.kernel.clock import SystemClock
from agentos.kernel.database import Database
from agentos.kernel.ids import TenantId, uuid7
from agentos.kernel.objects import ObjectStore
from bench.report import Benchmark, figure, ratio
from bench.stack import Stack, stack

FILES, DIRECTORIES, CHANGED, ROUNDS = 10_000, 400, 10, 7
MANY = 1 << 40


class _Bench:
    """One tenant with one workspace."""

    def __init__(self, db: Database, workspaces: Workspaces, workspace: Workspace):
        self.db = db
        self.workspaces = workspaces
        self.workspace = workspace
        self.times: dict[str, list[float]] = {}

    async def checkpoint(self, name: str, since: UUID | None) -> UUID:
        """A snapshot on record, as a session takes one."""
        started = time.perf_counter()
        snapshot = await self.workspaces.snapshot(self.workspace, since)
        async with self.db.transaction(tenant_id=self.workspace.tenant_id) as tx:
            await self.workspaces.record(tx, snapshot)
        self.note(name, started)
        return snapshot.id

    async def bring(self, name: str, snapshot_id: UUID | None) -> None:
        self.workspaces.begin_change(self.workspace)
        started = time.perf_counter()
        await self.workspaces.bring(self.workspace, snapshot_id)
        self.note(name, started)

    def note(self, name: str, started: float) -> None:
        self.times.setdefault(name, []).append(time.perf_counter() - started)


async def _run() -> None:
    async with stack() as running:
        db = await Database.connect(running.where.runtime, size=2, name="bench")
        store = ObjectStore.open(None, running.settings.data_dir)
        directory = running.settings.data_dir / "workspaces"
        workspaces = Workspaces(db, store, SystemClock(), directory, max_bytes=MANY, max_files=MANY)
        workspace = await workspaces.open(await _tenant(running), uuid7())
        _fill(workspace.root)
        bench = _Bench(db, workspaces, workspace)
        await _measure(bench, running.settings.data_dir)
        await db.close()
    _report({name: statistics.median(times) for name, times in bench.times.items()})


async def _measure(bench: _Bench, place: Path) -> None:
    root = bench.workspace.root
    latest = first = await bench.checkpoint("warm-up", None)
    for turn in range(ROUNDS):
        started = time.perf_counter()
        await asyncio.to_thread(_tar, root, place / "bench.tar")
        bench.note("tar", started)
        first = await bench.checkpoint("first", None)
        latest = first
        await asyncio.sleep(0.1)  # a checkpoint reads files again that were changed just before it
        _change(root, turn)
        started = time.perf_counter()
        _look(root)
        bench.note("look", started)
        latest = await bench.checkpoint("incremental", latest)
        await bench.checkpoint("unchanged", latest)
        await bench.bring("back", first)
    _tar(root, place / "bench.tar")
    for turn in range(ROUNDS):
        started = time.perf_counter()
        await asyncio.to_thread(_untar, place / "bench.tar", place / f"untarred-{turn}")
        bench.note("untar", started)
        # Out of the way, not removed: ext4 is slow to make files where many have just been removed.
        root.rename(place / f"before-{turn}")
        await bench.workspaces.open(bench.workspace.tenant_id, bench.workspace.id)
        await bench.bring("fresh", first)


def _report(seconds: dict[str, float]) -> None:
    for name, about in (
        ("tar", "tar and fsync"),
        ("first", "first checkpoint"),
        ("look", "scandir and stat of each file"),
        ("incremental", f"checkpoint with {CHANGED} of {FILES} files changed"),
        ("unchanged", "checkpoint with nothing changed"),
        ("back", f"rollback of {CHANGED} files"),
        ("untar", "tar -x into a new directory"),
        ("fresh", "restore into a new directory"),
    ):
        figure(about, f"{seconds[name] * 1000:.0f} ms")
    ratio("checkpoint_incremental_vs_first", seconds["incremental"] / seconds["first"], "≤0.1")
    ratio("checkpoint_first_vs_tar", seconds["first"] / seconds["tar"], "≤3")
    ratio("checkpoint_restore_vs_untar", seconds["fresh"] / seconds["untar"], "≤2")


async def _tenant(running: Stack) -> TenantId:
    tenant_id = TenantId(uuid7())
    connection = await asyncpg.connect(running.where.platform)
    await connection.execute(
        "insert into tenants (id, name, slug, plan) values ($1, 'Bench', 'bench', 'enterprise')",
        tenant_id,
    )
    await connection.close()
    return tenant_id


def _fill(root: Path) -> None:
    spread = random.Random(7)
    for number in range(FILES):
        place = root / f"d{number % DIRECTORIES % 20}" / f"e{number % DIRECTORIES}"
        place.mkdir(parents=True, exist_ok=True)
        size = min(1_000_000, int(spread.lognormvariate(math.log(2500), 1.5)))
        (place / f"module_{number}.py").write_bytes(os.urandom(size))
    os.sync()


def _change(root: Path, turn: int) -> None:
    for number in range(CHANGED):
        chosen = (turn * 997 + number * 991) % FILES
        place = root / f"d{chosen % DIRECTORIES % 20}" / f"e{chosen % DIRECTORIES}"
        (place / f"module_{chosen}.py").write_bytes(b"changed in turn %d\n" % turn * 100)


def _look(root: Path) -> None:
    pending = [str(root)]
    while pending:
        with os.scandir(pending.pop()) as listing:
            for item in listing:
                if item.is_dir(follow_symlinks=False):
                    pending.append(item.path)
                else:
                    item.stat(follow_symlinks=False)


def _tar(root: Path, target: Path) -> None:
    subprocess.run(["tar", "-cf", str(target), "-C", str(root), "."], check=True)
    handle = os.open(target, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def _untar(source: Path, target: Path) -> None:
    target.mkdir()
    subprocess.run(["tar", "-xf", str(source), "-C", str(target)], check=True)


BENCHMARK = Benchmark(
    "workspace", "checkpoints of 10,000 files, medians of 7", lambda: uvloop.run(_run())
)
