"""Workers in processes of their own, to be killed, stopped and woken."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
from tests.faults.test_up import SOURCES

from agentos.execution.pulse.dispatch import process_started

_SCRIPT = Path(__file__).with_name("worker.py")
_PATIENCE = 60


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Once something holds that other processes bring about."""
    async with asyncio.timeout(_PATIENCE):
        while not await holds():  # noqa: ASYNC110 - there is no event across processes
            await asyncio.sleep(0.01)


class Zygote:
    """A process with everything loaded, which becomes a worker in no time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(_SCRIPT)],
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._turn = threading.Lock()

    def order(self, **order: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._turn:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())

    def close(self) -> None:
        """Its workers end with it."""
        self._process.kill()
        self._process.communicate()


@dataclass
class Hand:
    """One worker."""

    zygote: Zygote
    pid: int
    log_file: Path
    code: int | None = None

    @property
    def log(self) -> str:
        return self.log_file.read_text() if self.log_file.exists() else ""

    @property
    def lives(self) -> bool:
        return process_started(self.pid) is not None

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def ended(self) -> int:
        """Its exit code, once it has ended; negative: the signal that it died of."""
        if self.code is None:
            # Not by waiting: the zygote would do nothing else meanwhile.
            await until(self._is_dead)
            self.code = await asyncio.to_thread(self.zygote.order, wait=self.pid)
        return self.code

    async def kill(self) -> None:
        self.send(signal.SIGKILL)
        await self.ended()

    async def stopped(self) -> None:
        """Once it is stopped by SIGSTOP."""

        async def is_stopped() -> bool:
            assert self.lives, self.log
            return _state(self.pid) == "T"

        await until(is_stopped)

    async def _is_dead(self) -> bool:
        return not self.lives


def _state(pid: int) -> str:
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


@dataclass
class Crew:
    """The workers of a test, on its database and its bus."""

    zygote: Zygote
    env: dict[str, str]
    logs: Path
    superuser: asyncpg.Connection[Any]
    hands: list[Hand] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def fork(self, *, capacity: int = 16, drain_seconds: float = 10, **fault: Any) -> Hand:
        log = self.logs / f"worker-{next(self._numbers)}.log"
        env = self.env | {
            "AGENTOS_WORKER_SESSIONS": str(capacity),
            "AGENTOS_DRAIN_SECONDS": str(drain_seconds),
        }
        hand = Hand(self.zygote, self.zygote.order(env=env, log=str(log), fault=fault), log)
        self.hands.append(hand)
        return hand

    async def start(self, **options: Any) -> Hand:
        """A worker that is at work."""
        hand = self.fork(**options)

        async def is_registered() -> bool:
            assert hand.lives, hand.log
            query = "select exists (select from workers where pid = $1)"
            return bool(await self.superuser.fetchval(query, hand.pid))

        await until(is_registered)
        return hand

    async def dismiss(self) -> None:
        """Stops all that live, in order."""
        living = [hand for hand in self.hands if hand.code is None and hand.lives]
        for hand in living:
            hand.send(signal.SIGCONT)
            hand.send(signal.SIGTERM)
        for hand in living:
            code = await hand.ended()
            assert code == 0, hand.log

    async def close(self) -> None:
        for hand in self.hands:
            if hand.code is None:
                if hand.lives:
                    hand.send(signal.SIGKILL)
                await hand.ended()
