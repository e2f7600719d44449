"""What a snapshot holds is what comes back, byte for byte."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from tests.integrations.workspaces.conftest import Tenant, contents

from agentos.integrations.workspaces.workspace import Workspace
from agentos.integrations.workspaces.workspaces import Workspaces

ODD_NAMES = (
    b"plain.txt",
    b"not utf-8 \xff\xfe",
    b"two\nlines",
    b"-rf",
    b"--help",
    b" leading and trailing ",
    b"\x01\x7f",
    b"back\\slash",
    b"quo\"te'",
    b"*?[a]",
    "snowman ☃".encode(),
    "e\u0301 decomposed".encode(),
    b"...",
    b"..almost",
    b"#1",
    b"n" * 255,
)


def fill(root: Path) -> None:
    """One of everything that a snapshot has to bring back."""
    for number, name in enumerate(map(os.fsdecode, ODD_NAMES)):
        (root / name).write_bytes(b"%d" % number)
        (root / "d" / name).mkdir(parents=True)
        (root / "d" / name / name).write_bytes(b"%d below" % number)
    for mode in (0o000, 0o400, 0o644, 0o755, 0o777, 0o111):
        place = root / f"mode-{mode:o}"
        place.write_bytes(b"mode")
        place.chmod(mode)
        directory = root / f"directory-{mode:o}"
        directory.mkdir()
        (directory / "inside").write_bytes(b"inside")
        directory.chmod(mode)
    for number, target in enumerate(
        ("plain.txt", "/etc/passwd", "../../..", "nowhere", "\udcff", "d", "a//b/./c/")
    ):
        # As text: a path would lose doubled slashes.
        os.symlink(target, root / f"link-{number}")  # noqa: PTH211
    (root / "self").symlink_to("self")
    (root / "empty").write_bytes(b"")
    (root / "empty directory" / "in" / "another").mkdir(parents=True)
    (root / "one").write_bytes(b"linked twice")
    (root / "other").hardlink_to(root / "one")
    with (root / "sparse").open("wb") as sparse:
        sparse.truncate(5_000_000)
        sparse.seek(4_500_000)
        sparse.write(b"end")
    (root / "large").write_bytes(os.urandom(9_000_000))
    (root / "large again").write_bytes((root / "large").read_bytes())


async def test_everything_comes_back_on_another_machine(
    tenant: Tenant, new_workspaces: Callable[..., Workspaces]
) -> None:
    workspace = await tenant.open()
    fill(workspace.root)
    before = contents(workspace.root)
    snapshot = await tenant.taken(workspace)
    assert contents(workspace.root) == before
    elsewhere = new_workspaces("two")
    fresh = await elsewhere.open(tenant.id, workspace.id)
    await elsewhere.bring(fresh, snapshot.id)
    assert contents(fresh.root) == before
    assert snapshot.new
    assert snapshot.files == sum(kind == "file" for kind, _, _ in before.values())
    assert snapshot.size == sum(len(data) for kind, _, data in before.values() if kind == "file")
    again = await elsewhere.snapshot(fresh, snapshot.id)
    assert (again.id, again.new) == (snapshot.id, False)


async def test_files_of_a_tenant_belong_to_its_account(
    tenant: Tenant, new_workspaces: Callable[..., Workspaces]
) -> None:
    workspace = await tenant.open()
    await workspace.write("a/b/c", b"1")
    (workspace.root / "a/b/link").symlink_to("c")
    snapshot = await tenant.taken(workspace)
    elsewhere = new_workspaces("two")
    fresh = await elsewhere.open(tenant.id, workspace.id)
    await elsewhere.bring(fresh, snapshot.id)
    if os.geteuid() == 0:
        assert workspace.uid is not None
        assert 0x40000000 <= workspace.uid <= 0x7FFFFFFF
        assert fresh.uid == workspace.uid
    expected = os.geteuid() if workspace.uid is None else workspace.uid
    for root, paths in (
        (workspace.root, ("", "a", "a/b", "a/b/c")),
        (fresh.root, ("", "a", "a/b/c", "a/b/link")),
    ):
        assert {(root / path).lstat().st_uid for path in paths} == {expected}


async def test_pipes_and_sockets_are_named_and_left_out(tenant: Tenant) -> None:
    workspace = await tenant.open()
    os.mkfifo(workspace.root / "pipe")
    (workspace.root / "d").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        handle = os.open(workspace.root / "d", os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{handle}/socket")
        os.close(handle)
    (workspace.root / "file").write_bytes(b"1")
    snapshot = await tenant.taken(workspace)
    assert snapshot.skipped == ("d/socket", "pipe")
    await tenant.workspaces.bring(workspace, snapshot.id)
    assert set(contents(workspace.root)) == {b"d", b"file"}


@pytest.mark.parametrize("changes", [1, 40, 200])
async def test_any_of_many_snapshots_can_be_brought_back(tenant: Tenant, changes: int) -> None:
    """Also across keyframes: few changes and many between two snapshots."""
    workspace = await tenant.open()
    for number in range(300):
        await _write(workspace, f"d{number % 7}/f{number}", b"first %d" % number)
    states: list[tuple[UUID, dict[bytes, tuple[str, int, bytes]]]] = []
    since: UUID | None = None
    for turn in range(6):
        for number in range(changes):
            path = workspace.root / f"d{number % 7}/f{number}"
            if (turn + number) % 3 == 2:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(b"turn %d of %d" % (turn, number))
        since = (await tenant.taken(workspace, since)).id
        states.append((since, contents(workspace.root)))
    for snapshot_id, expected in (states[0], states[5], states[2], states[4], states[1], states[3]):
        tenant.workspaces.begin_change(workspace)
        await tenant.workspaces.bring(workspace, snapshot_id)
        assert contents(workspace.root) == expected


async def _write(workspace: Workspace, path: str, data: bytes) -> None:
    place = workspace.root / path
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(data)


async def test_ten_thousand_files_come_back(tenant: Tenant) -> None:
    workspace = await tenant.open()
    for number in range(100):
        (workspace.root / f"d{number}").mkdir()
        for other in range(100):
            (workspace.root / f"d{number}/f{other}").write_bytes(b"%d/%d" % (number, other))
    before = contents(workspace.root)
    snapshot = await tenant.taken(workspace)
    assert snapshot.files == 10_000
    assert len(snapshot.packs) == 1
    tenant.workspaces.begin_change(workspace)
    for number in range(0, 100, 3):
        for other in range(0, 100, 2):
            (workspace.root / f"d{number}/f{other}").unlink()
        (workspace.root / f"d{number}/f1").write_bytes(b"other")
        (workspace.root / f"d{number}/new").write_bytes(b"new")
    await tenant.workspaces.bring(workspace, snapshot.id)
    assert contents(workspace.root) == before


async def test_bring_to_nothing_empties_the_directory(tenant: Tenant) -> None:
    workspace = await tenant.open()
    fill(workspace.root)
    await tenant.workspaces.bring(workspace, None)
    assert contents(workspace.root) == {}
    empty = await tenant.taken(workspace)
    assert (empty.new, empty.files) == (True, 0)
    assert not (await tenant.workspaces.snapshot(workspace, empty.id)).new


async def test_a_directory_nested_beyond_any_path_can_be_emptied_and_discarded(
    tenant: Tenant,
) -> None:
    for remove in (True, False):
        workspace = await tenant.open()
        handle = os.open(workspace.root, os.O_RDONLY)
        for _ in range(3000):
            os.mkdir("nest", dir_fd=handle)
            below = os.open("nest", os.O_RDONLY, dir_fd=handle)
            os.close(handle)
            handle = below
        os.close(handle)
        if remove:
            await workspace.remove("nest")
            assert contents(workspace.root) == {}
        else:
            await tenant.workspaces.discard(tenant.id, workspace.id)
            assert not workspace.root.exists()
