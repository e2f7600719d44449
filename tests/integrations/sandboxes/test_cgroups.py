"""Control groups of version 2, on a copy of what the kernel shows: this machine may have version 1."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from agentos.integrations.sandboxes.base import Limits
from agentos.integrations.sandboxes.cgroups import Cgroup, entering, find_cgroups

LIMITS = Limits(memory_bytes=1000, processes=7)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A process in the group /system.slice/agentos.service of version 2, mounted at …/mount."""
    proc, mount = tmp_path / "proc", tmp_path / "mount"
    home = mount / "system.slice/agentos.service"
    (home / "agentos-sandboxes").mkdir(parents=True)
    for place in (home, home / "agentos-sandboxes"):
        (place / "cgroup.subtree_control").write_text("cpu memory pids\n")
    proc.mkdir()
    (proc / "cgroup").write_text("0::/system.slice/agentos.service\n")
    (proc / "mountinfo").write_text(
        f"30 23 0:26 / {mount} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
        "31 23 0:27 / /proc rw - proc proc rw\n"
    )
    return proc


def test_no_controllers_no_groups(proc: Path, tmp_path: Path) -> None:
    assert find_cgroups(tmp_path / "nowhere") is None
    (proc / "mountinfo").write_text("31 23 0:27 / /proc rw - proc proc rw\n")
    assert find_cgroups(proc) is None


def test_version_2(proc: Path, tmp_path: Path) -> None:
    found = find_cgroups(proc)
    assert found is not None
    place = tmp_path / "mount/system.slice/agentos.service/agentos-sandboxes"
    assert [base.place for base in found.bases] == [place]
    with ExitStack() as files:
        group = found.create(files, LIMITS, spare_processes=2)
        made = group.places[0]
        assert made.parent == place
        assert made.is_dir()
    assert not made.exists()


def test_the_limits_are_written(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_cgroups(proc)
    assert found is not None
    mkdir = Path.mkdir

    def kernel(
        self: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False
    ) -> None:
        """A new group has its files from the start."""
        mkdir(self, mode, parents, exist_ok)
        for name in ("memory.max", "memory.swap.max", "pids.max", "cgroup.procs"):
            (self / name).touch()

    monkeypatch.setattr(Path, "mkdir", kernel)
    group = found.create(ExitStack(), LIMITS, spare_processes=2)
    written = {file.name: file.read_text() for file in group.places[0].iterdir()}
    assert written == {
        "memory.max": "1000",
        "memory.swap.max": "0",
        "pids.max": "9",
        "cgroup.procs": "",
    }
    assert f"echo 0 >{group.places[0]}/cgroup.procs && exec" in entering(group)[2]
    assert entering(None) == []


@pytest.mark.parametrize(
    ("name", "text", "ran_out"),
    [
        ("memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\noom_group_kill 0\n", True),
        ("memory.events", "low 0\nhigh 0\nmax 3\noom 0\noom_kill 0\noom_group_kill 0\n", False),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", True),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", False),
    ],
)
def test_memory_that_ran_out(tmp_path: Path, name: str, text: str, ran_out: bool) -> None:
    (tmp_path / name).write_text(text)
    assert Cgroup((tmp_path,)).memory_ran_out() is ran_out
