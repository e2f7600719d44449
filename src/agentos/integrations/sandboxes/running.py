"""A process that was started for a command: its output, its end, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from agentos.integrations.sandboxes.base import Limits
from agentos.kernel.errors import AgentOSError, Kind

_CHUNK = 64 * 1024
_PIPE_BYTES = 1024 * 1024
# A killed process is gone within milliseconds; one that hangs in the kernel must not hang us.
_DEATH_SECONDS = 10.0
_POLL_SECONDS = 0.005
_PAUSE_SECONDS = 0.005


class SandboxFailed(AgentOSError):
    """The sandbox could not be set up for this command, so it did not run."""

    code = "sandbox_failed"
    kind = Kind.SETUP
    hint = "Run `agentos doctor`."


class Tree(Protocol):
    """How one kind of sandbox ends what it has started."""

    def kill(self, pid: int) -> None:
        """End all processes under the started one, at once. It is asked again until that has ended."""
        ...

    def gone(self) -> bool:
        """Whether none is left."""
        ...


@dataclass(frozen=True)
class Ended:
    """How the started process ended, and what it said until then."""

    status: int
    timed_out: bool
    output: bytes
    dropped_bytes: int
    seconds: float


class Output:
    """The first bytes of what comes out of a pipe, and how many there were after them."""

    def __init__(
        self, fd: int, room: int, on_output: Callable[[bytes], None] | None = None
    ) -> None:
        self.kept = bytearray()
        self.dropped_bytes = 0
        self._fd = fd
        self._room = room
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Read along from now on."""
        self._pause = None
        self._loop.add_reader(self._fd, self._read_on)

    def finish(self) -> None:
        """Read what is left. Nobody writes any more."""
        self._loop.remove_reader(self._fd)
        if self._pause is not None:
            self._pause.cancel()
        while self._take():
            pass

    def _read_on(self) -> None:
        more = self._take()
        if not more or not self._room:
            self._loop.remove_reader(self._fd)
        if more and not self._room:
            # What is thrown away must not keep the worker busy: the writer waits, then goes on.
            self._pause = self._loop.call_later(_PAUSE_SECONDS, self.begin)

    def _take(self) -> bool:
        """One piece of what is there now; False if there is none."""
        try:
            chunk = os.read(self._fd, _CHUNK if self._room else _PIPE_BYTES)
        except BlockingIOError:
            return False
        if chunk and self._on_output is not None:
            self._on_output(chunk)
        kept = chunk[: self._room]
        self.kept += kept
        self._room -= len(kept)
        self.dropped_bytes += len(chunk) - len(kept)
        return bool(chunk)


async def run_to_end(
    argv: list[str],
    *,
    files: ExitStack,
    stdin: bytes,
    passed: tuple[int, ...],
    tree: Tree,
    limits: Limits,
    on_output: Callable[[bytes], None] | None = None,
) -> Ended:
    """Run the process until it ends by itself, its time is over, or this task is cancelled.

    In all three cases everything it started is gone before this returns.
    """
    started = time.monotonic()
    process, read_end = _start(argv, files, stdin, passed)
    pidfd = _pidfd(files, process)
    output = Output(read_end, limits.output_bytes, on_output)
    output.begin()
    timed_out = False
    try:
        async with asyncio.timeout(None if math.isinf(limits.seconds) else limits.seconds):
            await _readable(pidfd)
    except TimeoutError:
        timed_out = True
    finally:
        tree.kill(process.pid)
        await _undisturbed(_bury(process, pidfd, tree))
        output.finish()
    return Ended(
        status=process.returncode,
        timed_out=timed_out,
        output=bytes(output.kept),
        dropped_bytes=output.dropped_bytes,
        seconds=time.monotonic() - started,
    )


def _start(
    argv: list[str], files: ExitStack, stdin: bytes, passed: tuple[int, ...]
) -> tuple[subprocess.Popen[bytes], int]:
    """The process, with an empty environment, and where to read what it prints.

    Blocks for a millisecond, until the new program runs: Python uses vfork for these arguments.
    """
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    files.callback(os.close, read_end)
    os.set_blocking(read_end, False)
    try:
        with contextlib.suppress(OSError):  # a user's share of pipes may be used up
            fcntl.fcntl(read_end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        process = subprocess.Popen(
            argv,
            stdin=memory_file(files, "stdin", stdin) if stdin else subprocess.DEVNULL,
            stdout=write_end,
            stderr=write_end,
            pass_fds=passed,
            env={},
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxFailed(f"The sandbox could not be started: {error.strerror}.") from error
    finally:
        os.close(write_end)
    return process, read_end


def _pidfd(files: ExitStack, process: subprocess.Popen[bytes]) -> int:
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError as error:  # too many open files
        kill_group(process.pid)
        process.wait()
        raise SandboxFailed(f"The sandbox could not be watched: {error.strerror}.") from error
    files.callback(os.close, pidfd)
    return pidfd


async def _bury(process: subprocess.Popen[bytes], pidfd: int, tree: Tree) -> None:
    """Wait until the process and all it has started are gone."""
    try:
        async with asyncio.timeout(_DEATH_SECONDS):
            while not await _readable_within(_POLL_SECONDS, pidfd):
                tree.kill(process.pid)
            process.wait()
            while not tree.gone():  # noqa: ASYNC110 - control groups send no event
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise SandboxFailed(f"Process {process.pid} of a sandbox does not end.") from None


async def _undisturbed(work: Coroutine[Any, Any, None]) -> None:
    """Finish `work` even if this task is cancelled meanwhile, and only then be cancelled."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


async def _readable_within(seconds: float, fd: int) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await _readable(fd)
    except TimeoutError:
        return False
    return True


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(fd, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(fd)


def memory_file(files: ExitStack, name: str, data: bytes) -> int:
    """A file without a name that holds `data`, for one reader, and that nobody can change."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    files.callback(os.close, fd)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def kill_group(pid: int) -> None:
    """SIGKILL for the process group that `pid` leads, if there is any left of it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
