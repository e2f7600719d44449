"""The process of an agent CLI: a group of its own, whose last words are kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from agentos.sidecar.providers.base import ProviderDied, ProviderMissing, unheard
from agentos.sidecar.tasks import end

# Agents write whole files and tool results on one line.
LINE_LIMIT = 64 * 1024 * 1024
_LAST_LINES = 20
_LAST_LETTERS = 2000
# How long a process may take to end by itself when it is told to.
_GRACE = 3.0
# Marks all that a CLI starts: OpenCode gives each command a session of its own, which a signal to
# the group does not reach.
_MARK = "AGENTOS_AGENT_RUN"
_MOST_SWEEPS = 5

_T = TypeVar("_T")


class AgentProcess:
    """A running agent CLI. `stdout` is for whoever started it to read."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        name: str,
        mark: str,
        noise: str | None,
        printed: Callable[[str], None],
    ):
        self._process = process
        self._printed = printed
        self._noise = noise
        self._name = name
        self._mark = mark
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._listening = asyncio.create_task(self._listen())
        self._ended = asyncio.create_task(self._end())

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        name: str,
        noise: str | None = None,
        printed: Callable[[str], None] = unheard,
    ) -> AgentProcess:
        """Raises ProviderMissing if there is no such program. `printed` hears each line of its
        error stream; those with `noise` in them are passed over."""
        mark = uuid4().hex
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=cwd,
                env={**env, _MARK: mark},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LINE_LIMIT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ProviderMissing(f"{name} cannot be started ({command[0]}): {error}") from error
        return cls(process, name, mark, noise, printed)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdin(self) -> asyncio.StreamWriter:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> asyncio.StreamReader:
        assert self._process.stdout is not None
        return self._process.stdout

    async def unless_ended(self, work: Coroutine[Any, Any, _T], *beside: asyncio.Task[None]) -> _T:
        """What the work comes to. Raises ProviderDied if the process ends before that, and what
        breaks one of the tasks that run beside it."""
        task = asyncio.create_task(work)
        try:
            await asyncio.wait({task, self._ended, *beside}, return_when=asyncio.FIRST_COMPLETED)
            if self._ended.done():
                raise self._ended.result()
            for each in beside:
                if each.done():
                    each.result()
            return await task
        finally:
            await end(task)

    async def ended(self) -> ProviderDied:
        """How it ended, once it has. Cancelling it does no harm."""
        return await asyncio.shield(self._ended)

    async def ended_within(self, seconds: float) -> ProviderDied | None:
        """How it ended, if it does soon: a broken connection is noticed before that."""
        await asyncio.wait({self._ended}, timeout=seconds)
        return self._ended.result() if self._ended.done() else None

    async def _end(self) -> ProviderDied:
        code = await self._process.wait()
        # What it wrote last may still be on the way; a child can keep the stream open for ever.
        await asyncio.wait([self._listening], timeout=1.0)
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        return ProviderDied(f"{self._name} {how}.{self._last_words()}", code)

    def _last_words(self) -> str:
        words = "\n".join(self._last)[-_LAST_LETTERS:].strip()
        return f" It said last:\n{words}" if words else ""

    async def stop(self) -> None:
        """Ends the process and all that it started. Harmless if it has ended."""
        with contextlib.suppress(TimeoutError):
            self._signal_group(signal.SIGTERM)
            async with asyncio.timeout(_GRACE):
                await self._process.wait()
        self.kill()
        await self._process.wait()
        self.stdin.close()
        # Not cancelled: who waits for an answer is told that there is none.
        await asyncio.wait({self._ended})
        await end(self._listening)

    def kill(self) -> None:
        """Ends it and all that it started at once."""
        self._signal_group(signal.SIGKILL)
        for _ in range(_MOST_SWEEPS):
            # Again, because one that is found may have started another meanwhile.
            if not (marked := list(_marked(self._mark))):
                return
            for pid in marked:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        while True:
            try:
                line = await self._process.stderr.readline()
            except ValueError:
                # Longer than the limit: not worth keeping.
                continue
            if not line:
                return
            text = line.decode(errors="replace").rstrip()
            if self._noise is None or self._noise not in text:
                self._last.append(text)
                self._printed(text)


def _marked(mark: str) -> Iterator[int]:
    """The processes that were started with this mark in their environment."""
    wanted = f"{_MARK}={mark}".encode()
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        # Another's, or gone since.
        with contextlib.suppress(OSError):
            if wanted in (directory / "environ").read_bytes().split(b"\0"):
                yield int(directory.name)
