"""Workers that die where they are told to. Run as a script by processes.py.

All modules are loaded once; every worker is a fork of that, so that starting one takes no time.
Orders come as lines of JSON: fork a worker, or wait for the end of one.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import itertools
import json
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

from agentos.cli import runner
from agentos.execution.pulse import dispatch, engine, finishing, journal, model_calls, model_steps
from agentos.execution.pulse.gates import checks
from agentos.execution.pulse.journal import Fenced
from agentos.execution.pulse.run import Run
from agentos.integrations.models.prices import Catalogue
from agentos.integrations.tools.base import ToolContext
from agentos.integrations.tools.toolbox import Toolbox
from agentos.kernel import database
from agentos.kernel.database import Database
from agentos.tenancy.plans import PLANS

_PR_SET_PDEATHSIG = 1
COMMITTED = "a change was committed"
REFUSED = "a stale write was refused"


@dataclass(frozen=True)
class Fault:
    """How a worker differs from a real one."""

    # before, amid, after: the nth commit. model, tool, gate: inside the nth such call.
    # count: it tells of every commit. freeze, freeze_amid: it stops at the nth commit,
    # freeze_claim, freeze_reap: when it dispatches.
    moment: str = "never"
    nth: int = 1
    # Otherwise it leaves the sessions of the dead to others.
    reaps: bool = True
    dead_seconds: float = dispatch.DEAD_SECONDS
    self_fence_seconds: float = dispatch.SELF_FENCE_SECONDS
    beat_seconds: float = engine._BEAT_SECONDS
    most_idle_seconds: int = database._MOST_IDLE_SECONDS
    # A file with the number of seconds by which its clock is off.
    clock: str | None = None


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it is dead")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def arm(fault: Fault) -> None:
    _put(dispatch, "DEAD_SECONDS", fault.dead_seconds)
    _put(dispatch, "SELF_FENCE_SECONDS", fault.self_fence_seconds)
    _put(engine, "_BEAT_SECONDS", fault.beat_seconds)
    _put(engine, "_TICK_SECONDS", min(fault.beat_seconds, engine._TICK_SECONDS))
    _put(database, "_MOST_IDLE_SECONDS", fault.most_idle_seconds)
    if not fault.reaps:
        _put(dispatch, "reap", _reaps_nothing)
    if fault.clock is not None:
        _put(runner, "SystemClock", functools.partial(SkewedClock, Path(fault.clock)))
    arms = {
        "before": _die_around_commit,
        "after": _die_around_commit,
        "amid": _die_amid_commit,
        "count": _count_commits,
        "freeze": _freeze_before_commit,
        "freeze_amid": _freeze_amid_commit,
        "freeze_claim": _freeze_in_claim,
        "freeze_reap": _freeze_in_reap,
        "model": _die_in_model_call,
        "tool": _die_in_tool,
        "gate": _die_in_gate,
    }
    if fault.moment != "never":
        arms[fault.moment](fault)


def _put(place: Any, name: str, value: Any) -> None:
    patch.object(place, name, value).start()


async def _reaps_nothing(*_: Any) -> int:
    return 0


class SkewedClock:
    """A clock that is off by what a file says."""

    def __init__(self, offset: Path):
        self._offset = offset

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=float(self._offset.read_text()))


def _die_around_commit(fault: Fault) -> None:
    real, count = Run._write, itertools.count(1)

    async def write(self: Run, *args: Any) -> Any:
        mine = next(count) == fault.nth
        if mine and fault.moment == "before":
            die()
        committed = await real(self, *args)
        if mine:
            die()
        return committed

    _put(Run, "_write", write)


def _count_commits(_: Fault) -> None:
    real = Run._write

    async def write(self: Run, *args: Any) -> Any:
        committed = await real(self, *args)
        _say(COMMITTED)
        return committed

    _put(Run, "_write", write)


def _amid_commit(fault: Fault, act: Callable[[], None]) -> None:
    """Acts when the database has done all of the nth commit but the commit itself."""
    commit, fetch, count = journal.commit, Database.fetch, itertools.count(1)

    async def committing(*args: Any) -> Any:
        committed = await commit(*args)
        if next(count) == fault.nth:
            act()
        return committed

    async def fetching(self: Database, query: str, *args: Any) -> Any:
        if query != journal.COMMIT or next(count) != fault.nth:
            return await fetch(self, query, *args)
        async with self.transaction() as tx:
            rows = await tx.fetch(query, *args)
            act()
        return rows

    _put(journal, "commit", committing)
    _put(Database, "fetch", fetching)


def _die_amid_commit(fault: Fault) -> None:
    _amid_commit(fault, die)


def _freeze_before_commit(fault: Fault) -> None:
    real, count = Run._write, itertools.count(1)
    real_beat = dispatch.beat
    free = asyncio.Event()
    free.set()

    async def write(self: Run, *args: Any) -> Any:
        if next(count) != fault.nth:
            return await real(self, *args)
        free.clear()
        os.kill(os.getpid(), signal.SIGSTOP)
        try:
            return await real(self, *args)
        except Fenced:
            _say(REFUSED)
            raise
        finally:
            free.set()

    async def beat(*args: Any, **options: Any) -> Any:
        # Otherwise it might hear that it was taken for dead before it writes.
        await free.wait()
        return await real_beat(*args, **options)

    _put(Run, "_write", write)
    _put(dispatch, "beat", beat)


def _freeze_amid_commit(fault: Fault) -> None:
    _amid_commit(fault, lambda: os.kill(os.getpid(), signal.SIGSTOP))


def _freeze_in_claim(fault: Fault) -> None:
    count = itertools.count(1)

    class Plans(dict[str, Any]):
        """Asked for in the middle of a claim, when the queue is locked."""

        def items(self) -> Any:
            if next(count) == fault.nth:
                os.kill(os.getpid(), signal.SIGSTOP)
            return super().items()

    _put(dispatch, "PLANS", Plans(PLANS))


def _freeze_in_reap(fault: Fault) -> None:
    real, count = dispatch._dead, itertools.count(1)

    async def dead(*args: Any) -> Any:
        if next(count) == fault.nth:
            os.kill(os.getpid(), signal.SIGSTOP)
        return await real(*args)

    _put(dispatch, "_dead", dead)


def _die_in_model_call(fault: Fault) -> None:
    real, count = model_calls.ask_model, itertools.count(1)

    async def ask_model(run: Run, *args: Any) -> Any:
        if next(count) != fault.nth:
            return await real(run, *args)
        escrow = run.parts.router.escrow
        return await _die_once(real(run, *args), lambda: bool(escrow._open))

    _put(model_steps, "ask_model", ask_model)


def _die_in_tool(fault: Fault) -> None:
    real, count = Toolbox.call, itertools.count(1)

    async def call(self: Toolbox, name: str, arguments: Any, context: ToolContext) -> Any:
        if next(count) != fault.nth:
            return await real(self, name, arguments, context)
        seen = _received if name == "http_send" else _written
        return await _die_once(real(self, name, arguments, context), lambda: seen(context))

    _put(Toolbox, "call", call)


def _die_in_gate(fault: Fault) -> None:
    real, count = checks.check_gate, itertools.count(1)

    async def check_gate(run: Run, gate: Any) -> Any:
        if next(count) != fault.nth:
            return await real(run, gate)
        ticks = itertools.count()
        return await _die_once(real(run, gate), lambda: next(ticks) > 10)

    _put(finishing, "check_gate", check_gate)


async def _die_once(call: Awaitable[Any], condition: Callable[[], bool]) -> NoReturn:
    """Dies in the middle of a call, when its effect is there and its answer is not."""
    task = asyncio.ensure_future(call)
    while not condition() and not task.done():  # noqa: ASYNC110 - nothing tells of the effect
        await asyncio.sleep(0.002)
    die()


def _written(context: ToolContext) -> bool:
    notes = context.workspace.root / "notes"
    return notes.exists() and "one" in notes.read_text()


def _received(context: ToolContext) -> bool:
    receipts = Path(os.environ["RECEIPTS"])
    return receipts.exists() and context.idempotency_key in receipts.read_text()


def _work(order: dict[str, Any]) -> NoReturn:
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        log = os.open(order["log"], os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.clear()
        os.environ.update(order["env"])
        arm(Fault(**order["fault"]))
        runner.worker()
        code = 0
    except BaseException:  # noqa: BLE001 - a process edge
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def main() -> None:
    # Takes half a second, and every worker would do it.
    asyncio.run(Catalogue().load())
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            _, status = os.waitpid(order["wait"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if answer == 0:
                _work(order)
        _say(str(answer))


if __name__ == "__main__":
    main()
