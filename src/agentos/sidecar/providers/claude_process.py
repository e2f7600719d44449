"""The process of Claude Code: lines of JSON in and out, and its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from agentos.sidecar.providers.agent_process import AgentProcess
from agentos.sidecar.providers.base import ProviderDied

# Names of models that only our gateway knows are no trouble.
_NOISE = "unrecognized_model"


class Process:
    """One run of the program."""

    def __init__(self, process: AgentProcess):
        self._process = process

    @classmethod
    async def start(
        cls,
        program: Path,
        arguments: Sequence[str],
        env: Mapping[str, str],
        directory: Path,
        printed: Callable[[str], None],
    ) -> Process:
        """Raises ProviderMissing if the system cannot run it."""
        command = [str(program), *arguments]
        return cls(
            await AgentProcess.start(
                command,
                cwd=directory,
                env=env,
                name="Claude Code",
                noise=_NOISE,
                printed=printed,
            )
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    async def send(self, line: Mapping[str, Any]) -> None:
        """Writes one line. To a process that has ended it is lost: reading tells of the end."""
        with suppress(ConnectionError):
            self._process.stdin.write(msgspec.json.encode(line) + b"\n")
            await self._process.stdin.drain()

    async def lines(self) -> AsyncIterator[dict[str, Any]]:
        """What it says, until it ends. What is not an object of JSON is passed over."""
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
        self._process.kill()
        return await self._process.ended()

    async def ended(self) -> ProviderDied:
        return await self._process.ended()

    async def stop(self) -> None:
        """Ends it and all that it started."""
        await self._process.stop()
