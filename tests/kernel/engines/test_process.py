from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvloop

from agentos.kernel.engines import account as account_module
from agentos.kernel.engines import process as process_module
from agentos.kernel.engines.account import (
    Account,
    DataDirectoryUnusable,
    can_reach,
    create_data_directory,
    engine_account,
)
from agentos.kernel.engines.process import EngineFailed, EngineProcess

Make = Callable[..., EngineProcess]

# Touches the ready file and stays; ends in order on SIGTERM.
GOOD = 'trap "exit 0" TERM; touch "$0"; while :; do sleep 0.05; done'

PARENT = """
import asyncio, signal, sys
from pathlib import Path
from agentos.kernel.engines.process import EngineProcess
async def main():
    async def ready(): return True
    engine = EngineProcess(name="engine", argv=["/bin/sleep", "60"], ready=ready,
        log_path=Path(sys.argv[1]), account=None, stop_signal=signal.SIGTERM, on_notice=print)
    await engine.start()
    print(engine.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


class Notices(list[str]):
    def __call__(self, text: str) -> None:
        self.append(text)


@pytest.fixture
def notices() -> Notices:
    return Notices()


@pytest.fixture
def make(tmp_path: Path, notices: Notices) -> Make:
    flag = tmp_path / "ready"

    def engine(script: str, **options: Any) -> EngineProcess:
        async def ready() -> bool:
            return flag.exists()

        settings: dict[str, Any] = {
            "name": "engine",
            "argv": ["/bin/sh", "-c", script, str(flag)],
            "ready": ready,
            "log_path": tmp_path / "logs" / "engine.log",
            "account": None,
            "stop_signal": signal.SIGTERM,
            "on_notice": notices,
            "env": None,
            "before_start": lambda: flag.unlink(missing_ok=True),
        }
        return EngineProcess(**(settings | options))

    return engine


async def test_starts_in_a_session_of_its_own_and_stops_in_order(
    make: Make, notices: Notices
) -> None:
    engine = make(GOOD)
    await engine.start()
    pid = engine.pid
    assert pid is not None
    assert os.getsid(pid) == pid
    await engine.wait_ready()

    await engine.stop(5)

    assert engine.pid is None
    assert not psutil.pid_exists(pid)
    assert notices == []


async def test_can_be_started_again_after_stop(make: Make) -> None:
    engine = make(GOOD)
    for _ in range(2):
        await engine.start()
        await engine.stop(5)
    assert engine.restarts == 0


async def test_starting_twice_is_refused(make: Make) -> None:
    engine = make(GOOD)
    await engine.start()
    with pytest.raises(EngineFailed, match="already running"):
        await engine.start()
    assert engine.pid is not None
    await engine.stop(5)


async def test_a_killed_engine_comes_back(make: Make, notices: Notices) -> None:
    engine = make(GOOD)
    await engine.start()
    for turn in (1, 2):
        old = engine.pid
        assert old is not None
        os.kill(old, signal.SIGKILL)
        await until(partial(restarted, engine, turn))
        await engine.wait_ready()
        assert engine.pid not in (None, old)
    await engine.stop(5)
    assert notices == 2 * [
        "engine ended unexpectedly (signal SIGKILL); restarting it",
        "engine is back",
    ]


async def test_start_retries_an_engine_that_needs_several_attempts(
    make: Make, tmp_path: Path
) -> None:
    tries = tmp_path / "tries"
    engine = make(f"echo x >> {tries}; [ $(wc -l < {tries}) -gt 3 ] || exit 1; {GOOD}")
    await engine.start()
    assert len(tries.read_text().split()) == 4
    await engine.stop(5)


async def test_a_broken_engine_is_reported_with_the_end_of_its_log(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process_module, "_EXIT_PATIENCE", 0.2)
    engine = make("echo the disk is on fire; exit 3")
    with pytest.raises(EngineFailed) as caught:
        await engine.start()
    assert "exit status 3" in caught.value.message
    assert "the disk is on fire" in caught.value.message
    assert caught.value.advice is not None
    assert str(tmp_path / "logs" / "engine.log") in caught.value.advice
    assert engine.pid is None


async def test_a_missing_binary_is_reported(make: Make) -> None:
    with pytest.raises(EngineFailed, match="No such file"):
        await make("", argv=["/nonexistent/engine"]).start()


async def test_an_engine_that_never_answers_is_ended(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "_READY_PATIENCE", 0.2)
    engine = make("exec sleep 60")
    with pytest.raises(EngineFailed, match="does not answer"):
        await engine.start()
    assert engine.pid is None


async def test_cancelling_the_start_leaves_no_child(make: Make) -> None:
    engine = make("exec sleep 60")
    starting = asyncio.create_task(engine.start())
    await until(lambda: engine.pid is not None)
    pid = engine.pid
    assert pid is not None
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not psutil.pid_exists(pid)


async def test_a_failing_restart_is_told_and_tried_again(make: Make, notices: Notices) -> None:
    failures = iter([OSError("disk full")])
    armed = False

    def before_start() -> None:
        if armed and (error := next(failures, None)):
            raise error

    engine = make(GOOD, before_start=before_start)
    await engine.start()
    armed = True
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGKILL)
    await until(lambda: engine.restarts == 1)
    await engine.stop(5)
    assert "engine cannot be restarted yet: disk full" in notices


async def test_a_stubborn_engine_is_killed(make: Make, notices: Notices) -> None:
    engine = make('trap "" TERM; touch "$0"; while :; do sleep 0.05; done')
    await engine.start()
    await engine.stop(0.2)
    assert engine.pid is None
    assert "is killed" in notices[-1]


async def test_our_environment_stays_with_us(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PROVIDER_KEY", "canary")
    engine = make(f"env; {GOOD}")
    await engine.start()
    await engine.stop(5)
    assert "canary" not in engine.log_path.read_text()


async def test_a_large_log_is_set_aside(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "_LOG_MAX_BYTES", 10)
    engine = make(f"echo a long enough line; {GOOD}")
    for _ in range(2):
        await engine.start()
        await engine.stop(5)
    assert engine.log_path.with_name("engine.log.1").exists()


def test_engines_end_when_we_are_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "log")], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        engine = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    psutil.wait_procs([engine], timeout=10)
    assert not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE


def test_works_on_uvloop(make: Make) -> None:
    async def live() -> None:
        engine = make(GOOD)
        await engine.start()
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        await until(lambda: engine.restarts == 1)
        await engine.stop(5)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(live())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes user")
async def test_root_runs_the_engine_as_the_account(make: Make, tmp_path: Path) -> None:
    account = engine_account()
    assert account is not None

    async def ready() -> bool:
        return True

    engine = make("", account=account, ready=ready, argv=["/bin/sleep", "60"])
    await engine.start()
    process = psutil.Process(engine.pid)
    assert process.uids().real == account.uid
    assert process.gids().real == account.gid
    assert supplementary_groups(process.pid) == []
    await engine.stop(5)


def test_an_ordinary_user_needs_no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert engine_account() is None


def test_nobody_is_used_where_accounts_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(account_module, "_ACCOUNT", "agentos-is-not-here")
    monkeypatch.setattr(account_module, "_USERADD", ("no-such-useradd",))
    found = engine_account()
    assert found is not None
    assert found.name == "nobody"


def test_reach_is_search_permission_all_the_way(tmp_path: Path) -> None:
    stranger = Account("stranger", 54321, 54321)
    inner = tmp_path / "closed" / "open"
    inner.mkdir(parents=True)
    inner.chmod(0o755)
    assert can_reach(Path("/usr/bin"), stranger)
    assert can_reach(inner, None)
    inner.parent.chmod(0o700)
    assert not can_reach(inner / "file", stranger)


def test_a_data_directory_out_of_reach_is_refused_not_opened(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(DataDirectoryUnusable) as caught:
        create_data_directory(closed / "data", Account("stranger", 54321, 54321))
    assert caught.value.advice is not None
    assert "chmod o+x" in caught.value.advice
    assert closed.stat().st_mode & 0o777 == 0o700


def restarted(engine: EngineProcess, times: int) -> bool:
    return engine.restarts == times


def supplementary_groups(pid: int) -> list[str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line for line in lines if line.startswith("Groups:")).split()[1:]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 -- what is watched belongs to another process
            await asyncio.sleep(0.01)
