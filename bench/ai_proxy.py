"""Our AI proxy, LiteLLM's and nginx before the same upstream, which answers at once.

Ours authenticates, limits, routes, prices, reserves in a budget and books every call; LiteLLM has a
master key and counts; nginx only carries bytes, and direct is no proxy at all. Each server has one
core to itself, the load and the upstream share the other, PostgreSQL takes what is left. A stream
is measured twice: as fast as it goes, and with a chunk every 2 ms, as models write.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from bench import usage
from bench.model_gateway import ModelGateway, model_gateway
from bench.model_load import Done, Generator, Task, generator, request
from bench.peers import litellm_proxy, nginx_proxy
from bench.peers.model_upstream import MODEL, PACED_MODEL
from bench.percentiles import percentile
from bench.pinned import DRIVER_CORE, pinned
from bench.report import Benchmark, figure, ratio
from bench.stack import data_directory, free_port


@dataclass(frozen=True)
class Scenario:
    concurrency: int
    seconds: float
    rounds: int
    model: str = MODEL
    stream: bool = False


# Many short rounds, of which the calmer half counts: who shares a core waits for whole time slices.
ONE = Scenario(1, 0.5, 8)
FIFTY = Scenario(50, 0.7, 10)
FLOOD = Scenario(10, 0.6, 8, stream=True)
PACED = Scenario(10, 0.6, 8, PACED_MODEL, stream=True)
# LiteLLM is so far off that every second round will do.
LITELLM_EVERY = 2

# A server that takes less than this of its core has nothing left to do.
QUIET = 0.1
QUIET_SECONDS = 0.05
SETTLE_SECONDS = 5.0


@dataclass(frozen=True)
class Measured:
    done: Done
    # While there was load, and until all that it left to do was done.
    busy_cpu: float
    cpu: float
    database_cpu: float
    taken_by_others: float

    def per_second(self) -> float:
        return self.done.answered / self.done.seconds

    def chunks_per_second(self) -> float:
        return self.done.chunks / self.done.seconds

    def cpu_per_thousand(self) -> float:
        return self.cpu / self.done.answered * 1000

    def database_cpu_per_thousand(self) -> float:
        return self.database_cpu / self.done.answered * 1000

    def cpu_per_chunk(self) -> float:
        """In microseconds."""
        return self.cpu / self.done.chunks * 1e6

    def busy(self) -> float:
        """Percent of the server's core."""
        return self.busy_cpu / self.done.seconds * 100


class Machine:
    """What others take of the machine, from when this was made."""

    def __init__(self) -> None:
        self._before = self._now()

    def taken_by_others(self) -> float:
        """Percent."""
        whole, busy, ours = (now - b for now, b in zip(self._now(), self._before, strict=True))
        return max(0.0, busy - ours) / whole * 100

    def _now(self) -> tuple[float, float, float]:
        """Seconds of all cores; of these the busy ones; of these ours."""
        ticks = [int(count) for count in Path("/proc/stat").read_text().split()[1:9]]
        # User, nice, system and stolen time. Interrupts belong to whoever causes them: to us.
        busy = ticks[0] + ticks[1] + ticks[2] + ticks[7]
        per_second = os.sysconf("SC_CLK_TCK")
        return sum(ticks) / per_second, busy / per_second, _cpu(os.getpid())


@dataclass
class Contestant:
    pid: int
    port: int
    credential: str = "none"
    path: str = "/v1/chat/completions"
    # What its callers write before the name of a model.
    prefix: str = ""
    database_pid: int | None = None
    every: int = 1
    answered: int = 0
    measured: dict[Scenario, list[Measured]] = field(default_factory=dict)

    async def measure(self, load: Generator, scenario: Scenario) -> Measured:
        task = self._task(scenario)
        before, database_before = _cpu(self.pid), _cpu(self.database_pid)
        machine = Machine()
        done = await load.perform(task)
        others = machine.taken_by_others()
        busy_cpu = _cpu(self.pid) - before
        await self._quiet()
        self.answered += done.answered
        database_cpu = _cpu(self.database_pid) - database_before
        return Measured(done, busy_cpu, _cpu(self.pid) - before, database_cpu, others)

    async def _quiet(self) -> None:
        """What an answer leaves to be done is its cost too, and must not disturb who is next."""
        deadline = time.monotonic() + SETTLE_SECONDS
        spent, before = _cpu(self.pid), 0.0
        while spent - before > QUIET * QUIET_SECONDS and time.monotonic() < deadline:
            await asyncio.sleep(QUIET_SECONDS)
            spent, before = _cpu(self.pid), spent

    def _task(self, scenario: Scenario) -> Task:
        body = _body(self.prefix + scenario.model, scenario.stream)
        sent = request(self.path, self.credential, body)
        return Task(self.port, sent, scenario.concurrency, scenario.seconds)

    def calm(self, scenario: Scenario) -> list[Measured]:
        """The half of the rounds in which others disturbed least."""
        rounds = sorted(self.measured[scenario], key=lambda each: each.taken_by_others)
        return rounds[: -(-len(rounds) // 2)]

    def median(self, scenario: Scenario, what: Callable[[Measured], float]) -> float:
        return statistics.median(what(each) for each in self.calm(scenario))

    def whole(self, scenario: Scenario, part: float) -> float:
        """Milliseconds until an answer was complete."""
        return percentile([x for m in self.calm(scenario) for x in m.done.whole], part) / 1000

    def first(self, scenario: Scenario, part: float) -> float:
        """Milliseconds until the first chunk."""
        return percentile([x for m in self.calm(scenario) for x in m.done.first], part) / 1000


def _cpu(pid: int | None) -> float:
    return sum(each.cpu_seconds for each in usage.tree(pid).values()) if pid else 0.0


def _body(model: str, stream: bool) -> bytes:
    """A short prompt with a bound on the answer, as a careful caller sends."""
    asked = {
        "model": model,
        "messages": [
            {"role": "system", "content": "You answer in as few words as will do."},
            {"role": "user", "content": "Which words come after these? " + "word " * 30},
        ],
        "max_tokens": 128,
        "temperature": 0.2,
    }
    if stream:
        asked |= {"stream": True, "stream_options": {"include_usage": True}}
    return json.dumps(asked).encode()


async def _run() -> None:
    async with _contestants() as (contestants, gateway):
        async with generator(DRIVER_CORE) as load:
            for scenario in (ONE, FIFTY, FLOOD, PACED):
                await _rounds(list(contestants.values()), load, scenario)
        _describe_noise(list(contestants.values()))
        for name, each in contestants.items():
            _describe(name, each, contestants["direct"])
        _compare(contestants)
        await _account(gateway, contestants["ours"].answered)


async def _rounds(contestants: list[Contestant], load: Generator, scenario: Scenario) -> None:
    """Each in turn, beginning with another in each round."""
    for each in contestants:
        await each.measure(load, scenario)  # warms up
        each.measured[scenario] = []
    for number in range(scenario.rounds):
        first = number % len(contestants)
        for each in contestants[first:] + contestants[:first]:
            if number % each.every == 0:
                each.measured[scenario].append(await each.measure(load, scenario))


@asynccontextmanager
async def _contestants() -> AsyncIterator[tuple[dict[str, Contestant], ModelGateway]]:
    litellm_version, nginx_command = await asyncio.gather(
        asyncio.to_thread(litellm_proxy.installed), asyncio.to_thread(nginx_proxy.installed)
    )
    async with AsyncExitStack() as stack:
        place = stack.enter_context(data_directory())
        upstream = free_port()
        argv = [sys.executable, "-m", "bench.peers.model_upstream", str(upstream)]
        log = place / "upstream.log"
        pid = stack.enter_context(
            pinned(argv, core=DRIVER_CORE, port=upstream, log=log, env=os.environ)
        )
        contestants = {"direct": Contestant(pid, upstream)}
        if nginx_command is None:
            figure("nginx", "left out: it is not here and could not be installed")
        else:
            pid, port = stack.enter_context(nginx_proxy.nginx(nginx_command, upstream, place))
            contestants["nginx"] = Contestant(pid, port)
        if litellm_version is None:
            figure("litellm", "left out: it could not be installed")
        else:
            contestants["litellm"] = stack.enter_context(_litellm(litellm_version, upstream, place))
        gateway = await stack.enter_async_context(model_gateway(upstream))
        contestants["ours"] = Contestant(
            gateway.pid,
            gateway.port,
            gateway.credential,
            "/api/ai/openai/v1/chat/completions",
            "custom/",
            gateway.database_pid,
        )
        yield contestants, gateway


@contextmanager
def _litellm(version: str, upstream: int, place: Path) -> Iterator[Contestant]:
    started = time.perf_counter()
    with litellm_proxy.litellm(upstream, place) as (pid, port):
        figure(f"litellm {version}", f"ready after {time.perf_counter() - started:.0f} s")
        yield Contestant(pid, port, litellm_proxy.MASTER_KEY, every=LITELLM_EVERY)


def _describe_noise(contestants: list[Contestant]) -> None:
    every = [m for each in contestants for rounds in each.measured.values() for m in rounds]
    calm = [m for each in contestants for scenario in each.measured for m in each.calm(scenario)]
    average, worst = (
        f(measured.taken_by_others for measured in rounds)
        for f, rounds in ((statistics.mean, every), (max, calm))
    )
    figure(
        "taken by others",
        f"{average:.0f} % of the machine; at most {worst:.0f} % in the rounds that count",
    )


def _describe(name: str, each: Contestant, direct: Contestant) -> None:
    one, fifty = each.median(ONE, Measured.per_second), each.median(FIFTY, Measured.per_second)
    figure(f"{name}, requests", f"{one:,.0f}/s alone, {fifty:,.0f}/s at 50")
    flood = f"{each.median(FLOOD, Measured.chunks_per_second):,.0f} chunks/s"
    p50, p99 = each.first(PACED, 0.5), each.first(PACED, 0.99)
    figure(f"{name}, 10 streams", f"{flood}; first chunk p50 {p50:.2f} ms, p99 {p99:.2f} ms")
    if each is direct:
        p50, p99 = each.whole(ONE, 0.5), each.whole(ONE, 0.99)
        figure(f"{name}, latency alone", f"p50 {p50:.3f} ms, p99 {p99:.3f} ms")
        return
    p50, p99 = (each.whole(ONE, part) - direct.whole(ONE, part) for part in (0.5, 0.99))
    figure(f"{name}, added latency alone", f"p50 {p50:.3f} ms, p99 {p99:.3f} ms")
    figure(f"{name}, cost", _cost(each))


def _cost(each: Contestant) -> str:
    megabytes = sum(one.rss_mb for one in usage.tree(each.pid).values())
    said = (
        f"{each.median(FIFTY, Measured.cpu_per_thousand):.3f} CPU-s per 1,000 requests at 50 "
        f"({each.median(FIFTY, Measured.busy):.0f} % of its core), "
        f"{each.median(FLOOD, Measured.cpu_per_chunk):.1f} µs CPU per chunk "
        f"({each.median(PACED, Measured.cpu_per_chunk):.1f} paced), {megabytes:.0f} MB RSS"
    )
    if each.database_pid:
        database = each.median(FIFTY, Measured.database_cpu_per_thousand)
        said += f"; PostgreSQL another {database:.3f} CPU-s per 1,000"
    return said


def _compare(contestants: dict[str, Contestant]) -> None:
    ours, direct = contestants["ours"], contestants["direct"]
    if litellm := contestants.get("litellm"):
        rates = [each.median(FIFTY, Measured.per_second) for each in (ours, litellm)]
        ratio("ai_proxy_rps_vs_litellm", rates[0] / rates[1], "≥30")
        none = direct.whole(ONE, 0.5)
        added = (ours.whole(ONE, 0.5) - none) / (litellm.whole(ONE, 0.5) - none)
        ratio("ai_proxy_added_p50_vs_litellm", added, "≤0.05")
    if nginx := contestants.get("nginx"):
        for name, scenario, what, aim in (
            ("rps", FIFTY, Measured.per_second, "≥0.3"),
            ("cpu_per_chunk", FLOOD, Measured.cpu_per_chunk, "≤1.5"),
            ("cpu_per_paced_chunk", PACED, Measured.cpu_per_chunk, "≤1.5"),
        ):
            value = ours.median(scenario, what) / nginx.median(scenario, what)
            ratio(f"ai_proxy_{name}_vs_nginx", value, aim)
    # The process `agentos serve` alone, after all of the load.
    megabytes = sum(each.rss_mb for each in usage.tree(ours.pid).values())
    ratio("ai_proxy_rss_mb", megabytes, "≤150")


async def _account(gateway: ModelGateway, answered: int) -> None:
    """Fails the benchmark unless every answered call is booked, to the micro-dollar."""
    books = await gateway.books(answered)
    figure("ours, answered and booked", f"{answered:,} and {books}")
    if not books.balanced(answered):
        raise RuntimeError(f"{answered} calls were answered; the ledger says {books}")


BENCHMARK = Benchmark(
    "ai-proxy",
    "the AI proxy against LiteLLM and nginx, same upstream, server on one core",
    lambda: uvloop.run(_run()),
)
