"""A process that swaps directories for links to the outside while the host works on the files.

It runs as fast as it can beside us. Whatever it does, nothing outside is read or written.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest
from tests.integrations.workspaces.conftest import Tenant

from agentos.integrations.workspaces.errors import FileMissing
from agentos.integrations.workspaces.workspace import Workspace, checked_path
from agentos.kernel.errors import AgentOSError

SECRET = b"secret of another tenant"
ATTEMPTS = 30_000
# Where so many would take too long: whole snapshots and restores, and busy machines.
SECONDS, AT_MOST_SECONDS = 5.0, 15.0

# Exchanges a directory, and a file, with links that lead to the outside, in one step each.
_SWAPPER = """
import ctypes, os, sys
root, outside = sys.argv[1:]
os.chdir(root)
libc = ctypes.CDLL(None)
def link(target, name):
    try: os.symlink(target, name)
    except FileExistsError: pass
print("swapping", flush=True)
while True:
    try:
        link(outside, "other")
        link(outside + "/file", "otherfile")
        for one, two in ((b"dir", b"other"), (b"file", b"otherfile")):
            libc.renameat2(-100, one, -100, two, 2)
            libc.renameat2(-100, one, -100, two, 2)
    except OSError:
        pass
"""


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What must not be reached: readable and writable for everyone, so that only we stop it."""
    place = tmp_path / "outside"
    place.mkdir(mode=0o777)
    (place / "file").write_bytes(SECRET)
    return place


@contextmanager
def swapping(workspace: Workspace, outside: Path) -> Iterator[None]:
    argv = [sys.executable, "-I", "-c", _SWAPPER, str(workspace.root), str(outside)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"swapping\n"
        yield
        assert process.poll() is None, "the swapper has to run to the end"
    finally:
        process.kill()
        process.communicate()


def _attempts() -> Iterator[int]:
    end = time.monotonic() + AT_MOST_SECONDS
    for number in range(ATTEMPTS):
        if time.monotonic() > end:
            return
        yield number


def untouched(outside: Path) -> None:
    assert {place.name for place in outside.iterdir()} == {"file"}
    assert (outside / "file").read_bytes() == SECRET


async def test_no_read_leaves_the_workspace(tenant: Tenant, outside: Path) -> None:
    workspace = await tenant.open()
    await workspace.write("dir/file", b"mine")
    await workspace.write("file", b"mine")
    read = refused = 0
    with swapping(workspace, outside):
        for number in _attempts():
            try:
                # The blocking half: a thread for each attempt would only slow the race down.
                path = checked_path("dir/file" if number % 2 else "file")
                assert workspace._read(path, 0, None) == b"mine"
                read += 1
            except AgentOSError:
                refused += 1
    assert read > 0
    assert refused > 0, "the race was never met, so nothing was proven"


async def test_no_write_leaves_the_workspace(tenant: Tenant, outside: Path) -> None:
    workspace = await tenant.open()
    await workspace.write("dir/file", b"mine")
    await workspace.write("file", b"mine")
    written = refused = 0
    with swapping(workspace, outside):
        for number in _attempts():
            path = ("dir/file", "file", "dir/new/deep/file")[number % 3]
            try:
                workspace._write(checked_path(path), b"mine")
                if number % 3 == 2:
                    workspace._remove(checked_path("dir/new"))
                written += 1
            except AgentOSError:
                refused += 1
    untouched(outside)
    assert written > 0
    assert refused > 0, "the race was never met, so nothing was proven"


async def test_no_snapshot_holds_what_is_outside(tenant: Tenant, outside: Path) -> None:
    workspace = await tenant.open()
    await workspace.write("dir/file", b"mine")
    await workspace.write("file", b"mine")
    taken = await _for_a_while(
        lambda: _check_snapshot(tenant, workspace), swapping(workspace, outside)
    )
    assert taken > 20


async def test_no_restore_writes_outside(tenant: Tenant, outside: Path) -> None:
    workspace = await tenant.open()
    for number in range(10):
        await workspace.write(f"dir/f{number}", b"mine %d" % number)
        await workspace.write(f"dir/below/f{number}", b"mine %d" % number)
    await workspace.write("file", b"mine")
    full = await tenant.taken(workspace)

    async def there_and_back() -> None:
        for snapshot_id in (None, full.id):
            with suppress(AgentOSError):
                tenant.workspaces.begin_change(workspace)
                await tenant.workspaces.bring(workspace, snapshot_id)
        untouched(outside)

    brought = await _for_a_while(there_and_back, swapping(workspace, outside))
    assert brought > 20
    tenant.workspaces.begin_change(workspace)
    await tenant.workspaces.bring(workspace, full.id)
    assert await workspace.read("dir/below/f3") == b"mine 3"
    untouched(outside)


async def test_removing_never_follows_a_link(tenant: Tenant, outside: Path) -> None:
    workspace = await tenant.open()
    (workspace.root / "link").symlink_to(outside)
    (workspace.root / "dir").mkdir()
    (workspace.root / "dir/link").symlink_to(outside)
    with pytest.raises(AgentOSError):
        await workspace.remove("link/file")
    await workspace.remove("link")
    await workspace.remove("dir")
    with pytest.raises(FileMissing):
        await workspace.remove("dir")
    untouched(outside)


async def _check_snapshot(tenant: Tenant, workspace: Workspace) -> None:
    snapshot = await tenant.taken(workspace)
    for change in await tenant.workspaces.diff(tenant.id, None, snapshot.id):
        if change.size_after:
            data = await tenant.workspaces.read_at(tenant.id, snapshot.id, change.path)
            assert data != SECRET


async def _for_a_while(
    action: Callable[[], Awaitable[None]], race: AbstractContextManager[None]
) -> int:
    count, end = 0, time.monotonic() + SECONDS
    with race:
        while time.monotonic() < end:
            await action()
            count += 1
    return count
