"""What deployed native teams cost that nobody talks to, and how chunks of an answer spread."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import uvloop

from agentos.contracts.crew import Chunk, chat_subject, encode
from agentos.kernel.bus import Bus
from agentos.kernel.installation import addresses, bus_authority
from agentos.kernel.secret_key import load_secret_key
from agentos.kernel.settings import Settings
from bench import usage
from bench.installed import Installed, installed
from bench.percentiles import percentile
from bench.report import Benchmark, figure, ratio
from bench.stack import data_directory

TEAMS = 100
SETTLE_SECONDS = 5.0
IDLE_SECONDS = 15.0
WATCHERS = 100
CHUNKS = 200
PER_SECOND = 50


async def _run() -> None:
    with data_directory() as place, installed(place) as running:
        headers = {"Authorization": f"Bearer {running.api_key}"}
        async with httpx.AsyncClient(base_url=running.url, headers=headers, timeout=60) as client:
            # What the first team loads is not what each takes.
            first = await _team(client, 0)
            await asyncio.sleep(SETTLE_SECONDS)
            before = _memory(running)
            for n in range(1, TEAMS + 1):
                await _team(client, n)
            await asyncio.sleep(SETTLE_SECONDS)
            _report_idle(running, before, await _idle(running))
            await _fan_out(client, first, place)


async def _team(client: httpx.AsyncClient, n: int) -> dict[str, Any]:
    body = {
        "name": f"Team {n}",
        "model": "demo",
        "leader": {"name": "leader", "instructions": "Lead."},
        "workers": [{"name": "worker", "instructions": "Work."}],
        "deploy": True,
    }
    answer = await client.post("/api/teams", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def _memory(running: Installed) -> float:
    return sum(each.pss_mb for each in usage.tree(running.pid).values())


async def _idle(running: Installed) -> float:
    before, began = usage.tree(running.pid), time.perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    after, seconds = usage.tree(running.pid), time.perf_counter() - began
    used = sum(
        each.cpu_seconds - (before[pid].cpu_seconds if pid in before else 0)
        for pid, each in after.items()
    )
    return used / seconds * 100


def _report_idle(running: Installed, before: float, percent: float) -> None:
    after = _memory(running)
    figure(f"{TEAMS} deployed native teams", f"{after - before:.1f} MB PSS more, engines included")
    figure("idle CPU with them", f"{percent:.2f} % of a core, engines included")
    ratio("crew_idle_native_team_mb", max(0.0, after - before) / TEAMS, "≤1")


async def _fan_out(client: httpx.AsyncClient, team: dict[str, Any], place: Path) -> None:
    """Chunks as a sidecar would say them, on the real bus, to watchers of the chat's stream."""
    settings = Settings(data_dir=place)
    me = (await client.get("/api/auth/me")).json()
    subject = chat_subject(UUID(me["tenant_id"]), UUID(team["id"]))
    async with _bus(settings) as bus, _watching(client, team["id"]) as late:
        message_id = uuid4()
        for n in range(1, CHUNKS + 1):
            text = f"@{time.perf_counter_ns()}"
            for piece in encode(Chunk(message_id=message_id, n=n, text=text)):
                await bus.publish(subject, piece)
            await asyncio.sleep(1 / PER_SECOND)
        await asyncio.sleep(1)
    expected = WATCHERS * CHUNKS
    figure("deliveries", f"{len(late)} of {expected}")
    figure("chunk to client", f"p50 {percentile(late, 0.5):.1f} ms")
    ratio("crew_chat_fanout_p99_ms", percentile(late, 0.99), "≤50")


@asynccontextmanager
async def _bus(settings: Settings) -> AsyncIterator[Bus]:
    key = load_secret_key(settings)
    credentials = bus_authority(key).platform_credentials()
    bus = await Bus.connect(addresses(settings, key).nats, credentials, name="bench")
    try:
        yield bus
    finally:
        await bus.close()


@asynccontextmanager
async def _watching(client: httpx.AsyncClient, team_id: str) -> AsyncIterator[list[float]]:
    late: list[float] = []
    live = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(_watch(client, team_id, late, live)) for _ in range(WATCHERS)]
    for _ in tasks:
        await live.acquire()
    try:
        yield late
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _watch(
    client: httpx.AsyncClient, team_id: str, late: list[float], live: asyncio.Semaphore
) -> None:
    limits = httpx.Limits(max_connections=None)
    async with (
        httpx.AsyncClient(base_url=client.base_url, headers=client.headers, limits=limits) as own,
        own.stream("GET", f"/api/teams/{team_id}/chat", timeout=None) as stream,
    ):
        event = ""
        async for line in stream.aiter_lines():
            if line.startswith("event: "):
                event = line.removeprefix("event: ")
                if event == "snapshot":
                    live.release()
            elif line.startswith("data: ") and event == "chunk":
                sent = int(json.loads(line.removeprefix("data: "))["text"].removeprefix("@"))
                late.append((time.perf_counter_ns() - sent) / 1e6)


BENCHMARK = Benchmark(
    "crew-native",
    f"{TEAMS} deployed native teams, and chunks of an answer to {WATCHERS} watchers",
    lambda: uvloop.run(_run()),
)
