"""The process of Claude Code: lines of JSON in and out, and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from agentos.sidecar.providers.base import ProviderDied, ProviderMissing

_LONGEST_LINE = 64 * 1024 * 1024
_KEPT_LINES = 50
_SHOWN_LINES = 5
_LONGEST_SHOWN = 400
# What it does on SIGTERM takes a moment; what it does after that is not waited for.
_GRACE_SECONDS = 2.0
# Commands that its tools run are in process groups of their own, and know whose they are by this.
_MARK = "AGENTOS_AGENT_RUN"
_MOST_SWEEPS = 5


class Process:
    """One run of the program, in a process group of its own."""

    def __init__(self, process: asyncio.subprocess.Process, mark: str):
        self._process = process
        self._mark = f"{_MARK}={mark}".encode()
        self._errors: deque[str] = deque(maxlen=_KEPT_LINES)
        self._reading_errors = asyncio.create_task(self._read_errors())

    @classmethod
    async def start(
        cls, program: Path, arguments: Sequence[str], env: Mapping[str, str], directory: Path
    ) -> Process:
        """Raises ProviderMissing if the system cannot run it."""
        mark = uuid.uuid4().hex
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *arguments,
                cwd=directory,
                env={**env, _MARK: mark},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=_LONGEST_LINE,
                start_new_session=True,
            )
        except OSError as error:
            raise ProviderMissing(f"Claude Code cannot be started: {error}.") from error
        return cls(process, mark)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def send(self, line: Mapping[str, Any]) -> None:
        """Writes one line. To a process that has ended it is lost: reading tells of the end."""
        assert self._process.stdin is not None
        with suppress(ConnectionError):
            self._process.stdin.write(msgspec.json.encode(line) + b"\n")
            await self._process.stdin.drain()

    async def lines(self) -> AsyncIterator[dict[str, Any]]:
        """What it says, until it ends. What is not an object of JSON is passed over."""
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                # Longer than anything it has reason to say: nothing after it can be understood.
                return
            if not line:
                return
            try:
                said = msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue
            if isinstance(said, dict):
                yield said

    async def died(self) -> ProviderDied:
        """Why it ended, once nothing more is to be read from it. What it started ends as well."""
        self._kill_all()
        code = await self._process.wait()
        with suppress(TimeoutError):
            # A child that it left behind may hold the pipe open.
            async with asyncio.timeout(_GRACE_SECONDS):
                await asyncio.wait({self._reading_errors})
        return ProviderDied(f"Claude Code ended: {_how(code)}{self._last_words()}", code)

    async def stop(self) -> None:
        """Ends it and all that it started."""
        if self._process.returncode is None:
            self._signal_group(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_SECONDS):
                    await self._process.wait()
        self._kill_all()
        await self._process.wait()
        self._reading_errors.cancel()
        await asyncio.wait({self._reading_errors})

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _kill_all(self) -> None:
        self._signal_group(signal.SIGKILL)
        for _ in range(_MOST_SWEEPS):
            # Again, because one that is found may have started another meanwhile.
            if not (marked := _marked(self._mark)):
                return
            for pid in marked:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.readline():
            text = chunk.decode(errors="replace").strip()
            # Names of models that only our gateway knows are no trouble.
            if text and "unrecognized_model" not in text:
                self._errors.append(text[:_LONGEST_SHOWN])

    def _last_words(self) -> str:
        last = list(self._errors)[-_SHOWN_LINES:]
        return f": {' / '.join(last)}" if last else ""


def _marked(mark: bytes) -> list[int]:
    """Processes that were started with this in their environment; those that have ended have none."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"
