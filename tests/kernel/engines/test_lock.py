from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentos.kernel.engines.lock import DataDirectoryInUse, DataDirectoryLock

HOLDER = """
import sys, time
from pathlib import Path
from agentos.kernel.engines.lock import DataDirectoryLock
with DataDirectoryLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_instance_is_refused_and_told_by_whom(tmp_path: Path) -> None:
    with DataDirectoryLock(tmp_path), pytest.raises(DataDirectoryInUse) as caught:
        DataDirectoryLock(tmp_path).acquire()

    assert str(os.getpid()) in caught.value.message
    assert caught.value.advice is not None
    assert f"kill {os.getpid()}" in caught.value.advice


def test_the_lock_can_be_taken_again_after_release(tmp_path: Path) -> None:
    for _ in range(2):
        with DataDirectoryLock(tmp_path) as lock:
            assert lock.path.read_text() == f"{os.getpid()}\n"


def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(DataDirectoryInUse, match=str(holder.pid)):
            DataDirectoryLock(tmp_path).acquire()
        holder.send_signal(signal.SIGKILL)

    with DataDirectoryLock(tmp_path):
        pass


def test_children_do_not_inherit_the_lock(tmp_path: Path) -> None:
    with DataDirectoryLock(tmp_path):
        child = subprocess.Popen(["sleep", "60"])
    try:
        with DataDirectoryLock(tmp_path):
            pass
    finally:
        child.kill()
        child.wait()
