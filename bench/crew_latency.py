"""What a team of Claude Code adds to Claude Code: from the message to the first model request, and
from the last model byte to the answer at the client. The same program, driven by hand over its
standard input, asks the same model server in the same run, in turns with ours."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import httpx
import uvloop

from agentos.integrations.agents.installing import install
from bench import usage
from bench.crew_model import ModelServer, model_server
from bench.installed import installed
from bench.percentiles import percentile
from bench.report import Benchmark, figure, ratio
from bench.stack import data_directory

TURNS = 80
WARM_UP = 5
_PROGRAM = "node_modules/@anthropic-ai/claude-code-linux-x64/claude"
_CACHE = Path("/var/cache" if os.geteuid() == 0 else Path.home() / ".cache") / "agentos-agents"


class Asker(Protocol):
    async def ask(self, text: str) -> tuple[float, float]:
        """When it was asked, and when the answer was there."""
        ...


@dataclass
class Times:
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)


class Bare:
    """The CLI, driven by hand."""

    def __init__(self, process: asyncio.subprocess.Process):
        self._process = process

    async def ask(self, text: str) -> tuple[float, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        message = {"role": "user", "content": text}
        line = json.dumps({"type": "user", "uuid": str(uuid4()), "message": message})
        began = time.perf_counter()
        self._process.stdin.write(line.encode() + b"\n")
        while True:
            line_back = await self._process.stdout.readline()
            if not line_back:
                raise RuntimeError("the CLI has ended")
            if json.loads(line_back)["type"] == "result":
                return began, time.perf_counter()


@asynccontextmanager
async def bare(server: ModelServer) -> AsyncIterator[Bare]:
    with tempfile.TemporaryDirectory() as place:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": place,
            "CLAUDE_CONFIG_DIR": f"{place}/config",
            "IS_SANDBOX": "1",
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "unused",
            "ANTHROPIC_MODEL": "bench",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        argv = [
            *(str(_CACHE / _PROGRAM), "-p", "--verbose", "--include-partial-messages"),
            *("--input-format", "stream-json", "--output-format", "stream-json"),
            *("--session-id", str(uuid4()), "--permission-mode", "bypassPermissions"),
        ]
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=place,
            env=env,
            limit=64 * 1024 * 1024,
        )
        try:
            yield Bare(process)
        finally:
            process.kill()
            await process.wait()


class Ours:
    """A team of the CLI, asked over the API; the answer is there when the chat's stream says so."""

    def __init__(self, client: httpx.AsyncClient, team_id: str):
        self._client = client
        self._path = f"/api/teams/{team_id}"
        self._ended: dict[str, asyncio.Future[float]] = {}

    async def listen(self, live: asyncio.Event) -> None:
        async with self._client.stream("GET", f"{self._path}/chat", timeout=None) as stream:
            live.set()
            event = ""
            async for line in stream.aiter_lines():
                if line.startswith("event: "):
                    event = line.removeprefix("event: ")
                elif line.startswith("data: ") and event == "message.finished":
                    self._finished(json.loads(line.removeprefix("data: ")))

    def _finished(self, event: dict[str, Any]) -> None:
        data = event.get("data", event)
        future = self._future(data["message_id"])
        if not future.done():
            future.set_result(time.perf_counter())

    def _future(self, message_id: str) -> asyncio.Future[float]:
        return self._ended.setdefault(message_id, asyncio.get_running_loop().create_future())

    async def ask(self, text: str) -> tuple[float, float]:
        began = time.perf_counter()
        answer = await self._client.post(f"{self._path}/messages", json={"text": text})
        answer.raise_for_status()
        async with asyncio.timeout(30):
            return began, await self._future(answer.json()["id"])


@asynccontextmanager
async def ours(client: httpx.AsyncClient, server: ModelServer) -> AsyncIterator[Ours]:
    await _post(
        client,
        "/api/models/providers",
        {"kind": "anthropic", "name": "bench", "base_url": server.url, "key": "unused-key"},
    )
    team = await _post(
        client,
        "/api/teams",
        {
            "name": "Bench",
            "provider": "claude-code",
            "model": "bench/bench",
            "leader": {"name": "leader"},
            "deploy": True,
        },
    )
    async with asyncio.timeout(120):
        while (await _get(client, f"/api/teams/{team['id']}"))["status"] != "running":  # noqa: ASYNC110 - the API is asked
            await asyncio.sleep(0.2)
    asking, live = Ours(client, team["id"]), asyncio.Event()
    listening = asyncio.create_task(asking.listen(live))
    try:
        await live.wait()
        yield asking
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def _post(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await client.post(path, json=body)
    assert answer.is_success, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def _get(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    answer = await client.get(path)
    answer.raise_for_status()
    read: dict[str, Any] = answer.json()
    return read


async def _turn(asker: Asker, server: ModelServer, mark: str, times: Times) -> None:
    server.marks.append(mark)
    began, ended = await asker.ask(f"Say done. {mark}")
    times.before.append((server.asked[mark] - began) * 1000)
    times.after.append((ended - server.answered[mark]) * 1000)


async def _run() -> None:
    await install(["claude-code"], _CACHE, lambda text: figure("installing", text))
    env = {"AGENTOS_AGENTS_DIR": str(_CACHE), "AGENTOS_MODEL_HOSTS": "any"}
    with data_directory() as place, installed(place, env) as running:
        headers = {"Authorization": f"Bearer {running.api_key}"}
        async with (
            httpx.AsyncClient(base_url=running.url, headers=headers, timeout=60) as client,
            model_server() as server,
            bare(server) as by_hand,
            ours(client, server) as team,
        ):
            measured = {"by hand": Times(), "team": Times()}
            for n in range(WARM_UP + TURNS):
                kept = measured if n >= WARM_UP else {"by hand": Times(), "team": Times()}
                await _turn(by_hand, server, f"mark-bare-{n}-", kept["by hand"])
                await _turn(team, server, f"mark-team-{n}-", kept["team"])
            _report(measured)
            _report_memory(running.pid)


def _report(measured: dict[str, Times]) -> None:
    for name, times in measured.items():
        for way, values in (("to the model", times.before), ("to the client", times.after)):
            p50, p99 = percentile(values, 0.5), percentile(values, 0.99)
            figure(f"{name}, {way}", f"p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    hand, team = measured["by hand"], measured["team"]
    before = percentile(team.before, 0.5) - percentile(hand.before, 0.5)
    after = percentile(team.after, 0.5) - percentile(hand.after, 0.5)
    ratio("crew_added_to_model_p50_ms", before, "≤15")
    ratio("crew_added_to_client_p50_ms", after, "≤15")


def _report_memory(installation: int) -> None:
    """What a team takes beyond its CLI: the sidecar and the sandbox around it."""
    found = usage.tree(installation)
    (outermost,) = [pid for pid, each in found.items() if _is_outermost(pid, each.command, found)]
    place = usage.tree(outermost).values()
    cli = sum(each.pss_mb for each in place if "claude" in each.command)
    beyond = sum(each.pss_mb for each in place) - cli
    assert cli > 50, [each.command for each in place]
    figure("the CLI itself", f"{cli:.0f} MB PSS")
    ratio("crew_cli_team_beyond_cli_mb", beyond, "≤40")


def _is_outermost(pid: int, command: str, found: dict[int, usage.Usage]) -> bool:
    """Whether it is the process of bubblewrap that all others of a sandbox are below."""
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return command.endswith("bwrap") and not found[parent].command.endswith("bwrap")


BENCHMARK = Benchmark(
    "crew-latency",
    "a team of Claude Code against Claude Code driven by hand, same model server",
    lambda: uvloop.run(_run()),
)
