"""Commands that run until somebody ends them: followed, asked to end, shown more than a workspace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.sandboxes.conftest import PYTHON, Box

from agentos.integrations.sandboxes.base import (
    UNLIMITED,
    Command,
    Inside,
    Limits,
    Mount,
    Outcome,
    SandboxMissing,
)
from agentos.integrations.sandboxes.bubblewrap import Bubblewrap
from agentos.integrations.sandboxes.cgroups import Cgroup, find_cgroups

MIB = 1024 * 1024
# What is written in the middle of other writing must not pass through a buffer.
UNTIL_TOLD = """
import os, signal
def leave(*_):
    os.write(1, b"told\\n")
    os._exit(5)
signal.signal(signal.SIGTERM, leave)
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""


@pytest.fixture
def bubblewrap(box: Box) -> Bubblewrap:
    if not isinstance(box.sandbox, Bubblewrap):
        pytest.skip("only bubblewrap keeps commands")
    return box.sandbox


def _command(box: Box, *argv: str, **more: Any) -> Command:
    limits = Limits(seconds=UNLIMITED, cpu_seconds=UNLIMITED)
    return replace(Command(argv, box.workspace, uid=box.uid, limits=limits), **more)


async def test_output_is_told_as_it_comes(box: Box) -> None:
    """The command waits for a file that is made once its output was heard."""
    heard = bytearray()

    def hear(chunk: bytes) -> None:
        heard.extend(chunk)
        if b"begun" in heard:
            (box.workspace / "heard").touch()

    program = "echo begun; until [ -e heard ]; do sleep 0.01; done; echo over"
    limits = Limits(seconds=60, output_bytes=3)
    command = _command(box, "/bin/sh", "-c", program, limits=limits, on_output=hear)
    outcome = await box.sandbox.run(command)
    assert outcome.exit_code == 0
    assert heard == b"begun\nover\n"
    assert (outcome.output, outcome.dropped_bytes) == (b"beg", 8)


async def test_without_an_end(box: Box) -> None:
    program = "import resource; print(resource.getrlimit(resource.RLIMIT_CPU))"
    outcome = await box.sandbox.run(_command(box, PYTHON, "-c", program))
    assert outcome.output == b"(-1, -1)\n"


async def test_asked_to_end(box: Box, bubblewrap: Bubblewrap) -> None:
    outcome = await _kept(bubblewrap, _command(box, PYTHON, "-c", UNTIL_TOLD), _terminate)
    assert outcome.exit_code == 5
    assert outcome.output == b"ready\ntold\n"


async def test_orphans_are_not_taken_for_the_command(box: Box, bubblewrap: Bubblewrap) -> None:
    """They are children of the first process, too."""
    born = "import os, time\nif (child := os.fork()) == 0:\n    os.fork() or time.sleep(600)\n    os._exit(0)\n"
    program = f"{born}os.waitpid(child, 0)\n{UNTIL_TOLD}"
    outcome = await _kept(bubblewrap, _command(box, PYTHON, "-c", program), _terminate)
    assert outcome.exit_code == 5
    assert outcome.output.count(b"told") == 1


async def test_memory_is_told(box: Box, bubblewrap: Bubblewrap) -> None:
    for cgroups in (bubblewrap.cgroups, None):
        told: list[int | None] = []

        def ask(inside: Inside, told: list[int | None] = told) -> None:
            told.append(inside.memory_bytes())
            inside.terminate()

        program = f"held = bytearray(b'x' * (64 << 20))\n{UNTIL_TOLD}"
        await _kept(Bubblewrap(cgroups), _command(box, PYTHON, "-c", program), ask)
        (used,) = told
        assert used is not None
        assert 64 * MIB < used < 128 * MIB


async def _kept(sandbox: Bubblewrap, command: Command, then: Callable[[Inside], None]) -> Outcome:
    """Run it, and do this once it has begun and said that it is ready."""
    begun: asyncio.Future[Inside] = asyncio.get_running_loop().create_future()
    ready = asyncio.Event()

    def hear(chunk: bytes) -> None:
        if b"ready" in chunk:
            ready.set()

    heard = replace(command, on_output=hear)
    running = asyncio.create_task(sandbox.run(heard, on_start=begun.set_result))
    async with asyncio.timeout(60):
        inside = await begun
        await ready.wait()
        then(inside)
        return await running


def _terminate(inside: Inside) -> None:
    inside.terminate()


async def test_more_to_see(box: Box, bubblewrap: Bubblewrap, place: Path) -> None:
    for name in ("read", "write"):
        (place / name).mkdir()
        (place / name).chmod(0o777)
        (place / name / "file").write_text(name)
    mounts = (Mount(place / "read", "/opt/read"), Mount(place / "write", "/mnt/w", writable=True))
    program = "cat /opt/read/file /mnt/w/file; echo x > /opt/read/new; echo x > /mnt/w/new"
    await bubblewrap.run(_command(box, "/bin/sh", "-c", program, mounts=mounts))
    assert not (place / "read" / "new").exists()
    assert (place / "write" / "new").exists()


async def test_landlock_has_no_way_to_show_more(box: Box, place: Path) -> None:
    if box.sandbox.name != "landlock":
        pytest.skip("bubblewrap has")
    command = _command(box, "/bin/true", mounts=(Mount(place, "/opt/read"),))
    with pytest.raises(SandboxMissing) as caught:
        await box.sandbox.run(command)
    assert caught.value.advice == "Install bubblewrap: apt-get install bubblewrap"


async def test_a_larger_directory_for_temporary_files(box: Box, bubblewrap: Bubblewrap) -> None:
    program = "import os; s = os.statvfs('/tmp'); print(s.f_blocks * s.f_frsize)"
    limits = Limits(tmp_bytes=96 * MIB)
    outcome = await bubblewrap.run(_command(box, PYTHON, "-c", program, limits=limits))
    assert int(outcome.output) == 96 * MIB


async def test_a_process_may_ask_for_more_than_it_uses(box: Box, bubblewrap: Bubblewrap) -> None:
    if bubblewrap.cgroups is None:
        pytest.skip("needs control groups")
    program = "import mmap; mmap.mmap(-1, 512 << 20, flags=mmap.MAP_PRIVATE); print('fine')"
    for by_process, expected in ((False, b"fine\n"), (True, b"")):
        limits = Limits(memory_bytes=128 * MIB, memory_by_process=by_process)
        outcome = await bubblewrap.run(_command(box, PYTHON, "-c", program, limits=limits))
        assert outcome.output.startswith(expected)
        assert (outcome.exit_code == 0) is not by_process


def test_a_share_of_the_processor() -> None:
    cgroups = find_cgroups()
    if cgroups is None:
        pytest.skip("needs control groups")
    with ExitStack() as files:
        group = cgroups.create(files, Limits(cpu_percent=150), spare_processes=0)
        assert _quota(group) in ("150000", "150000 100000")


def _quota(group: Cgroup) -> str | None:
    for place in group.places:
        for name in ("cpu.cfs_quota_us", "cpu.max"):
            if (place / name).exists():
                return (place / name).read_text().strip()
    return None
