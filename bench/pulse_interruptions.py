"""What interrupts a session, until it has taken effect: a worker's death, a pause, a cancellation."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from uuid import UUID

from agentos.kernel.ids import TenantId, uuid7
from agentos.tenancy.opaque_tokens import new_token
from bench.pulse_processes import AGENTOS_WORKER, command, commands, worker_environment
from bench.pulse_queue import Queue, log_file, script, turns
from bench.stack import free_port, process

KILLS, PAUSES, CANCELS = 6, 20, 12
STEPS_FIRST = 2
LOOK_SECONDS = 0.002
TURNS = 45


async def measure_kill(queues: Queue) -> list[float]:
    """From killing the worker of a session to its next step, which another worker commits."""
    tenant_id = (await queues.tenants(1))[0]
    seconds = []
    with ExitStack() as workers:
        await _one_more_worker(queues, workers, of=1)
        for _ in range(KILLS):
            await _one_more_worker(queues, workers, of=2)
            session_id = await queues.add(tenant_id, turns(TURNS, 30))
            await _steps(queues, session_id, STEPS_FIRST)
            owner = await queues.connection.fetchrow(
                """select w.pid, s.fence from sessions s join workers w on w.id = s.owner
                   where s.id = $1""",
                session_id,
            )
            assert owner is not None, "it ended before its worker could be killed"
            os.kill(owner["pid"], signal.SIGKILL)
            began = time.perf_counter()
            await _steps(queues, session_id, 1, after_fence=owner["fence"])
            seconds.append(time.perf_counter() - began)
    return seconds


async def _one_more_worker(queues: Queue, workers: ExitStack, *, of: int) -> None:
    log = log_file(queues.running, "killed")
    env = worker_environment(queues.running) | {"AGENTOS_DRAIN_SECONDS": "0"}
    workers.enter_context(command(AGENTOS_WORKER, env, out=log, log=log))
    await queues.until(queues.workers, of)
    # Registered is not yet at work.
    await asyncio.sleep(0.5)


async def _steps(queues: Queue, session_id: UUID, least: int, *, after_fence: int = 0) -> None:
    """Waits until so many turns and tool calls of a session are journaled."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        count = await queues.connection.fetchval(
            """select count(*) from steps
               where tenant_id = (select tenant_id from sessions where id = $1)
                 and session_id = $1 and fence > $2 and kind in ('model', 'tool')""",
            session_id,
            after_fence,
        )
        if count >= least:
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise RuntimeError("the session does not go on")


async def measure_pause(queues: Queue) -> list[float]:
    """From asking the API for a pause to the session without a worker."""
    tenant_id, credential = await _tenant(queues)
    seconds = []
    with _api_and_worker(queues) as port:
        await queues.until(queues.workers, 1)
        for _ in range(PAUSES):
            session_id = await queues.add(tenant_id, turns(TURNS, 20))
            await _steps(queues, session_id, STEPS_FIRST)
            began = time.perf_counter()
            await asyncio.to_thread(_post, port, credential, f"/api/sessions/{session_id}/pause")
            await _until(partial(_is_paused, queues, session_id))
            seconds.append(time.perf_counter() - began)
    return seconds


async def _until(what: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if await what():
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise RuntimeError("it never took effect")


async def _is_paused(queues: Queue, session_id: UUID) -> bool:
    paused: bool = await queues.connection.fetchval(
        "select owner is null and state = 'PAUSED' from sessions where id = $1", session_id
    )
    return paused


async def measure_cancel(queues: Queue) -> list[float]:
    """From asking the API to cancel to the end of the tool's process."""
    tenant_id, credential = await _tenant(queues)
    seconds = []
    with _api_and_worker(queues) as port:
        await queues.until(queues.workers, 1)
        for n in range(CANCELS):
            sleep = f"sleep 4321.{os.getpid()}{n}"
            prompt = script(f'call shell {{"command": "{sleep}"}}', "say Done.")
            session_id = await queues.add(tenant_id, prompt, tool="shell")
            pids = await _appeared(sleep)
            began = time.perf_counter()
            await asyncio.to_thread(_post, port, credential, f"/api/sessions/{session_id}/cancel")
            await _until(partial(_are_gone, pids))
            seconds.append(time.perf_counter() - began)
    return seconds


async def _appeared(command_line: str) -> list[int]:
    wanted = command_line.replace(" ", "\0").encode()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if found := _processes(wanted):
            return found
        await asyncio.sleep(0.02)
    raise RuntimeError(f"`{command_line}` was never run")


def _processes(wanted: bytes) -> list[int]:
    return [int(p.parent.name) for p in Path("/proc").glob("[0-9]*/cmdline") if _is(p, wanted)]


async def _are_gone(pids: list[int]) -> bool:
    return not any(_lives(pid) for pid in pids)


def _is(cmdline: Path, wanted: bytes) -> bool:
    try:
        return cmdline.read_bytes().startswith(wanted)
    except OSError:
        return False


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@contextmanager
def _api_and_worker(queues: Queue) -> Iterator[int]:
    """The port of the API."""
    port, log = free_port(), log_file(queues.running, "controlled")
    env = worker_environment(queues.running) | {"AGENTOS_DRAIN_SECONDS": "0"}
    argv = ["-m", "agentos.cli.main", "serve", "--port", str(port)]
    with (
        process(argv, env, ready=f"http://127.0.0.1:{port}/health/live"),
        commands([AGENTOS_WORKER], env, out=log, log=log),
    ):
        yield port


async def _tenant(queues: Queue) -> tuple[UUID, str]:
    tenant_id = TenantId((await queues.tenants(1))[0])
    key = new_token("sk", tenant_id)
    await queues.connection.execute(
        """insert into api_keys (tenant_id, id, name, last_four, token_hash, scopes, created_by)
           values ($1, $2, 'bench', $3, $4, '{sessions:read,sessions:write}', 'bench')""",
        tenant_id,
        uuid7(),
        key.last_four,
        key.digest,
    )
    return tenant_id, key.text


def _post(port: int, credential: str, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", path, b"", {"Authorization": f"Bearer {credential}"})
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    if answer.status >= 300:
        raise RuntimeError(f"POST {path} answered {answer.status}: {said[:1000]!r}")
