"""What a command may take: processes, memory, disk, time, output."""

from __future__ import annotations

import signal

import pytest
from tests.integrations.sandboxes.conftest import Box

MIB = 1024 * 1024

FORK_BOMB = """
import os, signal, sys
born = 0
while born < 500:
    try:
        child = os.fork()
    except OSError:
        break
    if child == 0:
        signal.pause()
    born += 1
print(born)
"""

# Each process stays under the limit; together they are far over it.
MEMORY_HOGS = """
import os, sys, time
for _ in range(6):
    if os.fork() == 0:
        data = bytearray(48 << 20)
        data[::4096] = b"x" * len(data[::4096])
        time.sleep(600)
for _ in range(6):
    _, status = os.wait()
    if os.WIFSIGNALED(status):
        sys.exit(1)
"""

FILL = """
import os, sys
written, chunk = 0, bytes(1 << 20)
try:
    with open(sys.argv[1], "wb", buffering=0) as file:
        while written < 200 << 20:
            written += file.write(chunk)
except OSError as error:
    print(error.strerror)
print(written >> 20)
"""


async def test_fork_bomb(any_box: Box) -> None:
    outcome = await any_box.python(FORK_BOMB, processes=20)
    assert outcome.ending == "exited"
    assert 5 <= int(outcome.output) <= 20


async def test_two_commands_do_not_share_their_processes(box: Box) -> None:
    """The account is the same for both; the kernel would count them together."""
    first = await box.python(FORK_BOMB, processes=12)
    second = await box.python(FORK_BOMB, processes=12)
    assert int(first.output) == int(second.output) >= 5


async def test_one_process_that_wants_too_much_memory(any_box: Box) -> None:
    outcome = await any_box.python("bytearray(600 << 20)", memory_bytes=256 * MIB)
    assert outcome.exit_code == 1
    assert b"MemoryError" in outcome.output


async def test_many_processes_that_want_too_much_memory(box: Box) -> None:
    if box.cgroups is None:
        pytest.skip("needs control groups")
    outcome = await box.python(MEMORY_HOGS, memory_bytes=96 * MIB)
    assert outcome.ending == "out_of_memory"


async def test_memory_within_the_limit(box: Box) -> None:
    outcome = await box.python("bytearray(60 << 20)", memory_bytes=256 * MIB)
    assert (outcome.ending, outcome.exit_code) == ("exited", 0)


async def test_file_in_the_workspace(any_box: Box) -> None:
    outcome = await any_box.python(FILL, "big", file_bytes=8 * MIB)
    assert outcome.output.split() == [b"File", b"too", b"large", b"8"]
    assert (any_box.workspace / "big").stat().st_size == 8 * MIB


@pytest.mark.parametrize(("path", "room"), [("/tmp/big", 64), ("/dev/shm/big", 16)])
async def test_memory_file_systems_are_small(box: Box, path: str, room: int) -> None:
    if box.sandbox.name != "bubblewrap":
        pytest.skip("only bubblewrap has file systems of its own")
    outcome = await box.python(FILL, path)
    assert outcome.output.splitlines()[0] == b"No space left on device"
    assert int(outcome.output.split()[-1]) <= room


@pytest.mark.parametrize("path", ["/big", "/dev/big", "/etc/big", "/run/big", "/proc/big"])
async def test_nothing_else_can_be_filled(any_box: Box, path: str) -> None:
    outcome = await any_box.python(FILL, path)
    assert int(outcome.output.split()[-1]) == 0


async def test_time_is_up(any_box: Box) -> None:
    outcome = await any_box("sh", "-c", "echo began; exec sleep 600", seconds=0.5)
    assert outcome.ending == "timed_out"
    assert outcome.exit_code is None
    assert outcome.output == b"began\n"
    assert outcome.seconds < 60


async def test_processor_time_is_up(box: Box) -> None:
    outcome = await box.python("while True: pass", cpu_seconds=1)
    assert outcome.ending == "timed_out"
    assert outcome.exit_code == 128 + signal.SIGXCPU


async def test_output_beyond_the_limit_is_counted(any_box: Box) -> None:
    program = "import sys; sys.stdout.buffer.write(b'a' * 3_000_000 + b'end')"
    outcome = await any_box.python(program, output_bytes=1000)
    assert outcome.output == b"a" * 1000
    assert outcome.dropped_bytes == 3_000_003 - 1000
    assert outcome.exit_code == 0


async def test_output_up_to_the_limit_is_whole(box: Box) -> None:
    program = "import sys; sys.stdout.buffer.write(b'a' * 2_000_000)"
    outcome = await box.python(program, output_bytes=2_000_000)
    assert outcome.output == b"a" * 2_000_000
    assert outcome.dropped_bytes == 0
