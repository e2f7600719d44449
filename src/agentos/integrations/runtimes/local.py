"""Teams on this machine: sidecar and agent CLI together in one sandbox of bubblewrap.

Inside there is what a command in a sandbox has (see integrations/sandboxes), and four directories:
the workspace, the keeper's sockets, the agent CLIs and the sidecar. There is no network but the
place's own loopback. A place ends with the process that started it.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from uuid import UUID

from agentos.integrations.runtimes.base import (
    AGENTS_DIRECTORY,
    RUN_DIRECTORY,
    SIDECAR_DIRECTORY,
    Ended,
    Place,
    RuntimeMissing,
    StartFailed,
)
from agentos.integrations.runtimes.endings import Ending, Tail
from agentos.integrations.sandboxes.base import (
    UNLIMITED,
    Command,
    Inside,
    Limits,
    Mount,
    Outcome,
    Sandbox,
    SandboxMissing,
)
from agentos.integrations.sandboxes.bubblewrap import Bubblewrap
from agentos.integrations.sandboxes.choosing import why_not
from agentos.kernel.errors import AgentOSError

_MIB = 1024 * 1024
# Agent CLIs that are one file unpack parts of themselves there. It is part of the team's memory.
_TMP_BYTES = 512 * _MIB
_FILE_BYTES = 2048 * _MIB
# Enough to say why a sandbox could not be set up; the rest goes to the tail.
_OUTPUT_BYTES = 4096


class Local:
    """Runs teams in bubblewrap, and in nothing less."""

    def __init__(self, sandbox: Sandbox, mounts: tuple[Mount, ...] = ()) -> None:
        """`mounts` are what the sidecar's interpreter needs: see bundle.py."""
        self._sandbox = sandbox
        self._mounts = mounts
        self._places: dict[UUID, _Kept] = {}

    @property
    def name(self) -> str:
        return "local"

    async def check(self) -> None:
        self._bubblewrap()
        fault = await why_not(self._sandbox)
        if fault is not None:
            raise RuntimeMissing(fault.message, hint=fault.advice)

    async def start(self, place: Place) -> _Kept:
        bubblewrap = self._bubblewrap()
        if (earlier := self._places.pop(place.team_id, None)) is not None:
            await earlier.stop(0)
        kept = _Kept(bubblewrap, self._command(place))
        await kept.begun()
        self._places[place.team_id] = kept
        kept.running.add_done_callback(lambda _: self._forget(place.team_id, kept))
        return kept

    def _forget(self, team_id: UUID, kept: _Kept) -> None:
        if self._places.get(team_id) is kept:
            del self._places[team_id]

    async def sweep(self, kept: frozenset[UUID]) -> None:
        """Another process's places ended with it, but for their control groups."""
        for team_id in self._places.keys() - kept:
            await self._places.pop(team_id).stop(0)
        if isinstance(self._sandbox, Bubblewrap) and self._sandbox.cgroups is not None:
            await asyncio.to_thread(self._sandbox.cgroups.sweep)

    def _bubblewrap(self) -> Bubblewrap:
        if isinstance(self._sandbox, Bubblewrap):
            return self._sandbox
        raise RuntimeMissing(
            f"Teams on this machine need bubblewrap; its sandbox is: {self._sandbox.name}.",
            hint="Install bubblewrap (apt-get install bubblewrap), with AGENTOS_SANDBOX=auto.",
        )

    def _command(self, place: Place) -> Command:
        resources = place.resources
        return Command(
            tuple(place.argv),
            place.workspace,
            uid=place.uid,
            env=place.env,
            limits=Limits(
                seconds=UNLIMITED,
                cpu_seconds=UNLIMITED,
                cpu_percent=resources.cpu_percent,
                memory_bytes=resources.memory_bytes,
                memory_by_process=False,
                processes=resources.processes,
                file_bytes=_FILE_BYTES,
                output_bytes=_OUTPUT_BYTES,
                tmp_bytes=_TMP_BYTES,
            ),
            mounts=(
                # Sockets can be used there all the same. What the keeper writes, with rights that
                # the team has not, must not be led astray by links that the team made.
                Mount(place.run_directory, RUN_DIRECTORY),
                Mount(place.agents, AGENTS_DIRECTORY),
                Mount(place.sidecar, SIDECAR_DIRECTORY),
                *self._mounts,
            ),
        )


class _Kept:
    """A command that runs until it ends or is stopped."""

    def __init__(self, sandbox: Bubblewrap, command: Command) -> None:
        self._limit = command.limits.memory_bytes
        self._tail = Tail()
        self._inside: Inside | None = None
        self._begun = asyncio.Event()
        self._fault: AgentOSError | None = None
        self._stopped = False
        followed = replace(command, on_output=self._tail.add)
        self.running = asyncio.create_task(self._run(sandbox, followed))

    async def begun(self) -> None:
        """Waits until the command runs. Raises RuntimeMissing, StartFailed."""
        try:
            await self._begun.wait()
        except asyncio.CancelledError:
            await self.stop(0)
            raise
        if isinstance(self._fault, SandboxMissing):
            raise RuntimeMissing(self._fault.message, hint=self._fault.advice) from self._fault
        if self._fault is not None:
            raise StartFailed(self._fault.message, hint=self._fault.advice) from self._fault

    async def ended(self) -> Ended:
        return await asyncio.shield(self.running)

    async def stop(self, seconds: float) -> None:
        if self.running.done():
            return
        self._stopped = True
        if self._inside is not None and seconds > 0:
            self._inside.terminate()
            await asyncio.wait({self.running}, timeout=seconds)
        # The sandbox ends all of its processes before it lets itself be cancelled.
        self.running.cancel()
        await asyncio.wait({self.running})

    async def memory_bytes(self) -> int | None:
        return None if self._inside is None else await asyncio.to_thread(self._inside.memory_bytes)

    async def _run(self, sandbox: Bubblewrap, command: Command) -> Ended:
        outcome: Outcome | None = None
        try:
            with contextlib.suppress(asyncio.CancelledError):
                outcome = await sandbox.run(command, on_start=self._on_start)
        except AgentOSError as error:
            self._fault = error
            return Ended(None, error.message, self._tail.text())
        finally:
            self._inside = None
            self._begun.set()
        return self._ending(outcome).told(self._tail.text())

    def _on_start(self, inside: Inside) -> None:
        self._inside = inside
        self._begun.set()

    def _ending(self, outcome: Outcome | None) -> Ending:
        return Ending(
            exit_code=None if outcome is None else outcome.exit_code,
            memory_ran_out=outcome is not None and outcome.ending == "out_of_memory",
            memory_bytes=self._limit,
            stopped=self._stopped,
        )
