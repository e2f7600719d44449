"""One engine as a supervised child process: started, watched, restarted, stopped."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

from agentos.kernel.engines.account import Account
from agentos.kernel.errors import SetupError

# A killed postmaster leaves shared memory and backends behind; it takes several attempts until
# they are gone. An engine that still exits after this long is broken.
_EXIT_PATIENCE = 15.0
# Replaying a long write-ahead log is progress, and giving up would make the next start replay it
# again. This only ends a start that nobody watches.
_READY_PATIENCE = 600.0
_READY_POLL = 0.05
_READY_PROBE_TIMEOUT = 5.0
_NOTICE_EVERY = 10.0
_BACKOFF_FIRST = 0.1
_BACKOFF_FACTOR = 1.6
_BACKOFF_MAX = 2.0
# An engine that lived this long was healthy: its next restart is immediate again.
_HEALTHY_AFTER = 10.0
_LOG_TAIL_LINES = 15
_LOG_MAX_BYTES = 10 * 1024 * 1024
_PASSED_ON = ("PATH", "TZ", "LD_LIBRARY_PATH")

_PR_SET_PDEATHSIG = 1
# Loaded here because nothing may be imported between fork and exec.
_libc = ctypes.CDLL(None, use_errno=True)


class EngineFailed(SetupError):
    """An embedded engine did not start."""

    code = "engine_failed"


def spawn(
    argv: list[str],
    *,
    account: Account | None,
    death_signal: signal.Signals,
    output: int,
    env: dict[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a child that cannot outlive us: it gets `death_signal` when the calling thread ends.

    Call it from the thread of the event loop, because the kernel ties the signal to the thread.
    Without `env` the child sees next to nothing of our environment, which may hold secrets.
    """
    us = os.getpid()

    def bind_to_parent() -> None:
        # Runs after the change of user, which would clear the setting.
        _libc.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != us:
            os._exit(1)

    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd="/",  # the account may not be able to enter ours
        env=_environment() if env is None else env,
        umask=0o077,
        start_new_session=True,  # Ctrl-C in the terminal reaches us alone, and we stop in order
        preexec_fn=bind_to_parent,  # noqa: PLW1509 -- calls only what was loaded before the fork
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )


async def wait_exit(process: subprocess.Popen[bytes]) -> int:
    """Wait for a child without blocking the loop; its exit status."""
    await wait_pid(process.pid)
    return process.wait()


async def wait_pid(pid: int) -> None:
    """Return when the process `pid`, ours or not, has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


class EngineProcess:
    """One supervised child. Once started it is restarted for ever, until `stop`.

    `ready` says whether the engine answers; `before_start` runs before every attempt;
    `stop_signal` asks for an orderly end, and also arrives when we are killed.
    """

    def __init__(
        self,
        *,
        name: str,
        argv: list[str],
        ready: Callable[[], Awaitable[bool]],
        log_path: Path,
        account: Account | None,
        stop_signal: signal.Signals,
        on_notice: Callable[[str], None],
        env: dict[str, str] | None = None,
        before_start: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.argv = argv
        self.log_path = log_path
        self.restarts = 0
        self._ready_probe = ready
        self._account = account
        self._stop_signal = stop_signal
        self._notice = on_notice
        self._env = env
        self._before_start = before_start
        self._child: subprocess.Popen[bytes] | None = None
        self._exit: asyncio.Task[int] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        """The pid of the running child, None while there is none."""
        if self._child is None or self._exit is None or self._exit.done():
            return None
        return self._child.pid

    async def start(self) -> None:
        """Start the engine and return once it answers; from then on it is kept running."""
        if self._watcher is not None:
            raise EngineFailed(
                f"{self.name} is already running.", hint="Stop it before starting it again."
            )
        try:
            await self._first_start()
        except BaseException:
            await self._end_child(timeout=_READY_PROBE_TIMEOUT)
            raise
        self._watcher = asyncio.create_task(self._watch(), name=f"watch {self.name}")

    async def wait_ready(self) -> None:
        """Return when the engine answers; at once unless it is being restarted."""
        await self._ready.wait()

    async def stop(self, timeout: float = 20.0) -> None:
        """End the engine in order, and by force after `timeout` seconds."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait({self._watcher})
            self._watcher = None
        self._ready.clear()
        await self._end_child(timeout)

    async def _first_start(self) -> None:
        clock = asyncio.get_running_loop().time
        give_up = clock() + _EXIT_PATIENCE
        for delay in _delays():
            status = await self._attempt(patience=_READY_PATIENCE)
            if status is None:
                return
            if clock() > give_up:
                raise self._failure(f"it ended with {_describe(status)}")
            await asyncio.sleep(delay)

    async def _attempt(self, patience: float | None) -> int | None:
        """Start the child once: None when it answers, its exit status when it ended first."""
        if self._before_start is not None:
            self._before_start()
        self._spawn()
        assert self._exit is not None
        clock = asyncio.get_running_loop().time
        began = clock()
        announced = began
        while not self._exit.done():
            if await self._answers():
                self._ready.set()
                return None
            await asyncio.wait({self._exit}, timeout=_READY_POLL)
            if patience is not None and clock() - began > patience:
                raise self._failure(f"it does not answer after {patience:.0f} s")
            if clock() - announced > _NOTICE_EVERY:
                announced = clock()
                self._notice(f"{self.name} is still starting; its log is {self.log_path}")
        return self._exit.result()

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(_READY_PROBE_TIMEOUT):
                return await self._ready_probe()
        except TimeoutError:
            return False

    def _spawn(self) -> None:
        try:
            output = self._open_log()
            try:
                self._child = spawn(
                    self.argv,
                    account=self._account,
                    death_signal=self._stop_signal,
                    output=output,
                    env=self._env,
                )
            finally:
                os.close(output)
        except (OSError, subprocess.SubprocessError) as error:
            raise EngineFailed(
                f"{self.name} cannot be run: {error}.",
                hint=f"Check that {self.argv[0]} and {self.log_path.parent} are there and usable; "
                "in a container, run as an ordinary user or keep the capability SETUID.",
            ) from error
        self._exit = asyncio.create_task(wait_exit(self._child), name=f"exit of {self.name}")

    def _open_log(self) -> int:
        self.log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if self.log_path.stat().st_size > _LOG_MAX_BYTES:
                self.log_path.replace(self.log_path.with_name(self.log_path.name + ".1"))
        output = os.open(self.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._log_start = os.fstat(output).st_size
        return output

    async def _watch(self) -> None:
        clock = asyncio.get_running_loop().time
        delays = _delays()
        while True:
            assert self._exit is not None
            ready_at = clock()
            status = await asyncio.shield(self._exit)
            self._ready.clear()
            self._notice(f"{self.name} ended unexpectedly ({_describe(status)}); restarting it")
            if clock() - ready_at > _HEALTHY_AFTER:
                delays = _delays()
            await self._restart(delays)

    async def _restart(self, delays: Iterator[float]) -> None:
        for delay in delays:
            if await self._restarted():
                break
            await asyncio.sleep(delay)
        self.restarts += 1
        self._notice(f"{self.name} is back")

    async def _restarted(self) -> bool:
        try:
            return await self._attempt(patience=None) is None
        except Exception as error:  # noqa: BLE001 -- a supervisor that stops trying helps nobody
            self._notice(f"{self.name} cannot be restarted yet: {error}")
            await self._end_child(timeout=_READY_PROBE_TIMEOUT)
            return False

    async def _end_child(self, timeout: float) -> None:
        if self._child is None or self._exit is None:
            return
        if not self._exit.done():
            self._child.send_signal(self._stop_signal)
            await asyncio.wait({self._exit}, timeout=timeout)
        if not self._exit.done():
            self._notice(f"{self.name} did not stop within {timeout:.0f} s and is killed")
            self._child.kill()
            await asyncio.wait({self._exit})

    def _failure(self, what: str) -> EngineFailed:
        tail = self._log_tail()
        told = f" The end of its log:\n{tail}" if tail else " It wrote nothing to its log."
        return EngineFailed(
            f"{self.name} did not start: {what}.{told}",
            hint=f"The whole log is {self.log_path}. Remove the cause it names and start again; "
            "`agentos doctor` checks for the usual ones.",
        )

    def _log_tail(self) -> str:
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            lines = log.read(_LOG_MAX_BYTES).decode(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_TAIL_LINES:])


def _delays() -> Iterator[float]:
    delay = _BACKOFF_FIRST
    while True:
        yield delay
        delay = min(delay * _BACKOFF_FACTOR, _BACKOFF_MAX)


def _describe(status: int) -> str:
    return f"exit status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"


def _environment() -> dict[str, str]:
    passed_on = {key: os.environ[key] for key in _PASSED_ON if key in os.environ}
    return {"LANG": "C.UTF-8", **passed_on}
