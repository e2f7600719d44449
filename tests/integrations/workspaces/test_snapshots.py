"""Snapshots store what is new and nothing else, and nobody sees half of one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.integrations.workspaces.conftest import Tenant, contents

from agentos.integrations.objects import service as objects
from agentos.integrations.workspaces.errors import (
    FileMissing,
    NotAFile,
    SnapshotExpired,
    SnapshotLost,
    SnapshotMissing,
    WorkspaceFull,
)
from agentos.integrations.workspaces.index import load_index
from agentos.integrations.workspaces.packing import Packer
from agentos.integrations.workspaces.packs import Packs
from agentos.integrations.workspaces.workspace import Workspace
from agentos.integrations.workspaces.workspaces import Change, Workspaces
from agentos.kernel.database import Database
from agentos.kernel.errors import Kind
from agentos.kernel.ids import uuid7
from agentos.kernel.objects import ObjectStore, ObjectStoreUnavailable
from agentos.tenancy.plans import PlanLimitReached


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def stored(blobs: Path, tenant: Tenant, pack: object) -> bytes:
    return (blobs / str(tenant.id) / str(pack)).read_bytes()


async def test_a_later_snapshot_stores_only_what_has_changed(tenant: Tenant, blobs: Path) -> None:
    workspace = await tenant.open()
    kept = os.urandom(100_000)
    (workspace.root / "kept").write_bytes(kept)
    for number in range(500):
        (workspace.root / f"small-{number}").write_bytes(os.urandom(20))
    first = await tenant.taken(workspace)
    (workspace.root / "small-7").write_bytes(b"changed contents")
    (workspace.root / "new").write_bytes(b"new contents")
    (workspace.root / "small-8").unlink()
    (workspace.root / "small-9").chmod(0o755)
    second = await tenant.taken(workspace, first.id)
    (blob,) = second.added
    written = stored(blobs, tenant, blob)
    assert b"changed contents" in written
    assert b"new contents" in written
    assert kept[:20] not in written
    assert second.added[blob] == len(written) < 400
    assert set(second.packs) == {*first.packs, blob}


async def test_equal_contents_are_stored_once(tenant: Tenant) -> None:
    workspace = await tenant.open()
    small, large = os.urandom(50_000), os.urandom(6_000_000)
    for number in range(5):
        (workspace.root / f"small-{number}").write_bytes(small)
        (workspace.root / f"large-{number}").write_bytes(large)
    first = await tenant.taken(workspace)
    assert 6_050_000 < sum(first.added.values()) < 6_060_000
    (workspace.root / "small-0").rename(workspace.root / "moved")
    (workspace.root / "large-0").rename(workspace.root / "moved large")
    second = await tenant.taken(workspace, first.id)
    assert sum(second.added.values()) < 1000
    before = contents(workspace.root)
    await tenant.workspaces.bring(workspace, None)
    await tenant.workspaces.bring(workspace, second.id)
    assert contents(workspace.root) == before


async def test_nothing_changed_is_the_snapshot_before(tenant: Tenant) -> None:
    workspace = await tenant.open()
    (workspace.root / "file").write_bytes(b"1")
    first = await tenant.taken(workspace)
    os.utime(workspace.root / "file", ns=(5, 5))
    again = await tenant.taken(workspace, first.id)
    assert (again.id, again.new, again.files, again.size) == (first.id, False, 1, 1)
    assert await tenant.discarded() == set()


async def test_a_rewrite_that_keeps_size_and_time_is_noticed(tenant: Tenant) -> None:
    workspace = await tenant.open()
    place = workspace.root / "file"
    place.write_bytes(b"before")
    os.utime(place, ns=(10**18, 10**18))
    since = (await tenant.taken(workspace)).id
    for turn in range(50):
        # At once after the snapshot: also within one tick of the kernel's clock.
        with place.open("r+b") as file:
            file.write(b"%06d" % turn)
        os.utime(place, ns=(10**18, 10**18))
        snapshot = await tenant.taken(workspace, since)
        assert snapshot.new
        since = snapshot.id
        assert await tenant.workspaces.read_at(tenant.id, since, "file") == b"%06d" % turn


async def test_only_files_that_look_different_are_read(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    pieces = Packer.pieces

    def noted(self: Packer, files: Mapping[str, Iterable[str]]) -> Iterator[bytes]:
        read.extend(files[""])
        return pieces(self, files)

    monkeypatch.setattr(Packer, "pieces", noted)
    workspace = await tenant.open()
    for name in "abc":
        (workspace.root / name).write_bytes(b"1")
    since = (await tenant.taken(workspace)).id
    assert sorted(read) == ["a", "b", "c"]
    # What was written within the last tick of the kernel's clock is read once more.
    while None in load_index(workspace.places).listings[""].files.values():
        assert not (await tenant.taken(workspace, since)).new
    read.clear()
    assert not (await tenant.taken(workspace, since)).new
    assert read == []
    (workspace.root / "b").write_bytes(b"2")
    assert (await tenant.taken(workspace, since)).new
    assert read == ["b"]


async def _settle(tenant: Tenant, workspace: Workspace) -> UUID:
    """A snapshot after which nothing has to be read or listed again unless it changes."""
    await asyncio.sleep(0.05)  # longer than a tick of the kernel's clock
    return (await tenant.taken(workspace)).id


def _listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories that are listed from here on."""
    listed: list[str] = []
    scandir = os.scandir

    def noted(handle: int) -> object:
        listed.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        return scandir(handle)

    monkeypatch.setattr("agentos.integrations.workspaces.scanning.os.scandir", noted)
    return listed


async def test_only_directories_that_look_different_are_listed(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = await tenant.open()
    for path in ("a/file", "b/file", "b/c/file", "b/c/other"):
        await workspace.write(path, b"1")
    os.mkfifo(workspace.root / "a/pipe")
    since = await _settle(tenant, workspace)
    listed = _listed(monkeypatch)
    unchanged = await tenant.taken(workspace, since)
    assert (unchanged.new, unchanged.skipped, listed) == (False, ("a/pipe",), [])
    (workspace.root / "b/c/file").write_bytes(b"2")
    since = (await tenant.taken(workspace, since)).id
    assert listed == []
    assert await tenant.workspaces.read_at(tenant.id, since, "b/c/file") == b"2"
    (workspace.root / "b/c/other").unlink()
    assert (await tenant.taken(workspace, since)).files == 3
    assert listed == ["c"]


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "d/new").write_bytes(b"2"),
        lambda root: (root / "d/new").mkdir(),
        lambda root: (root / "d/file").unlink(),
        lambda root: (root / "d/file").rename(root / "d/renamed"),
        lambda root: (root / "e/file").replace(root / "d/file"),
        lambda root: (root / "d").rename(root / "e/d"),
        lambda root: (root / "d/file").chmod(0o711),
        lambda root: (root / "d").chmod(0o711),
        lambda root: ((root / "d/file").unlink(), (root / "d/file").mkdir()),
        lambda root: ((root / "d/link").unlink(), (root / "d/link").symlink_to("elsewhere")),
        lambda root: ((root / "d").rename(root / "x"), (root / "e").rename(root / "d")),
    ],
)
async def test_whatever_changes_in_a_directory_is_found_and_undone(
    tenant: Tenant, change: Callable[[Path], object]
) -> None:
    workspace = await tenant.open()
    await workspace.write("d/file", b"1")
    await workspace.write("e/file", b"2")
    (workspace.root / "d/link").symlink_to("file")
    before = contents(workspace.root)
    since = await _settle(tenant, workspace)
    change(workspace.root)
    after = contents(workspace.root)
    changed = await tenant.taken(workspace, since)
    assert changed.new
    for snapshot_id, expected in ((since, before), (changed.id, after), (since, before)):
        tenant.workspaces.begin_change(workspace)
        await tenant.workspaces.bring(workspace, snapshot_id)
        assert contents(workspace.root) == expected
        assert not (await tenant.taken(workspace, snapshot_id)).new


async def test_diff_between_any_two(tenant: Tenant) -> None:
    workspace = await tenant.open()
    for name in ("same", "changed", "removed", "mode"):
        (workspace.root / name).write_bytes(b"1")
    (workspace.root / "link").symlink_to("same")
    first = await tenant.taken(workspace)
    (workspace.root / "changed").write_bytes(b"12345")
    (workspace.root / "removed").unlink()
    (workspace.root / "mode").chmod(0o700)
    (workspace.root / "added").mkdir()
    (workspace.root / "added" / os.fsdecode(b"\xff")).write_bytes(b"123")
    (workspace.root / "link").unlink()
    (workspace.root / "link").symlink_to("mode")
    second = await tenant.taken(workspace, first.id)
    diff = tenant.workspaces.diff
    assert await diff(tenant.id, first.id, second.id) == [
        Change("added", "added", 0, 0),
        Change("added/\udcff", "added", 0, 3),
        Change("changed", "changed", 1, 5),
        Change("link", "changed", 0, 0),
        Change("mode", "changed", 1, 1),
        Change("removed", "removed", 1, 0),
    ]
    back = {change.path: change.kind for change in await diff(tenant.id, second.id, first.id)}
    assert back["removed"] == "added"
    assert back["added"] == "removed"
    assert await diff(tenant.id, first.id, first.id) == []
    assert len(await diff(tenant.id, None, first.id)) == 5
    assert {c.kind for c in await diff(tenant.id, second.id, None)} == {"removed"}


async def test_bring_touches_only_what_differs(tenant: Tenant) -> None:
    workspace = await tenant.open()
    for number in range(20):
        (workspace.root / f"f{number}").write_bytes(b"%d" % number)
    before = contents(workspace.root)
    snapshot = await tenant.taken(workspace)
    inodes = {place.name: place.stat().st_ino for place in workspace.root.iterdir()}
    tenant.workspaces.begin_change(workspace)
    (workspace.root / "f3").write_bytes(b"other")
    (workspace.root / "f4").chmod(0o600)
    (workspace.root / "f5").unlink()
    (workspace.root / "f5").mkdir()
    (workspace.root / "f5/inside").write_bytes(b"1")
    (workspace.root / "f6").unlink()
    (workspace.root / "f6").symlink_to("/etc/passwd")
    os.mkfifo(workspace.root / "pipe")
    await tenant.workspaces.bring(workspace, snapshot.id)
    assert contents(workspace.root) == before
    now = {place.name: place.stat().st_ino for place in workspace.root.iterdir()}
    assert {name for name in now if now[name] != inodes[name]} <= {"f3", "f5", "f6"}


async def test_bring_believes_the_marker_until_a_change_begins(tenant: Tenant) -> None:
    workspace = await tenant.open()
    await workspace.write("file", b"1")
    snapshot = await tenant.taken(workspace)
    tenant.workspaces.settled(workspace, snapshot.id)
    (workspace.root / "behind our back").write_bytes(b"2")
    await tenant.workspaces.bring(workspace, snapshot.id)
    assert (workspace.root / "behind our back").exists()
    tenant.workspaces.begin_change(workspace)
    await tenant.workspaces.bring(workspace, snapshot.id)
    assert set(contents(workspace.root)) == {b"file"}
    await workspace.write("file", b"2")
    await tenant.workspaces.bring(workspace, snapshot.id)
    assert await workspace.read("file") == b"1"
    await workspace.remove("file")
    await tenant.workspaces.bring(workspace, snapshot.id)
    assert await workspace.read("file") == b"1"


async def test_a_snapshot_of_another_tenant_is_missing(
    new_tenant: Callable[[], Awaitable[Tenant]],
) -> None:
    one, other = await new_tenant(), await new_tenant()
    mine, theirs = await one.open(), await other.open()
    await theirs.write("secret", b"1")
    snapshot = await other.taken(theirs)
    for missing in (snapshot.id, uuid7()):
        with pytest.raises(SnapshotMissing):
            await one.workspaces.bring(mine, missing)
        with pytest.raises(SnapshotMissing):
            await one.workspaces.read_at(one.id, missing, "secret")
        with pytest.raises(SnapshotMissing):
            await one.workspaces.diff(one.id, None, missing)
        with pytest.raises(SnapshotMissing):
            await one.workspaces.snapshot(mine, missing)
    if os.geteuid() == 0:
        assert mine.uid != theirs.uid


async def test_read_at_says_what_is_wrong(tenant: Tenant) -> None:
    workspace = await tenant.open()
    await workspace.write("d/file", b"1")
    await workspace.write("d/empty", b"")
    snapshot = await tenant.taken(workspace)
    assert await tenant.workspaces.read_at(tenant.id, snapshot.id, "./d//file") == b"1"
    assert await tenant.workspaces.read_at(tenant.id, snapshot.id, "d/empty") == b""
    with pytest.raises(FileMissing):
        await tenant.workspaces.read_at(tenant.id, snapshot.id, "other")
    with pytest.raises(NotAFile):
        await tenant.workspaces.read_at(tenant.id, snapshot.id, "d")


async def test_what_was_never_recorded_is_left_to_the_sweeper(
    tenant: Tenant, platform_db: Database, tmp_path: Path, blobs: Path
) -> None:
    workspace = await tenant.open()
    (workspace.root / "large").write_bytes(os.urandom(9_000_000))
    lost = await tenant.workspaces.snapshot(workspace, None)
    assert len(lost.added) == 2
    assert await tenant.discarded() == set(lost.added)
    assert await tenant.packs() == {}
    with pytest.raises(SnapshotMissing):
        await tenant.workspaces.bring(workspace, lost.id)
    kept = await tenant.taken(workspace)
    assert await tenant.discarded() == set(lost.added)
    await objects.sweep(platform_db, ObjectStore.open(None, tmp_path), timedelta(0))
    assert {path.name for path in (blobs / str(tenant.id)).iterdir()} == {
        str(p) for p in kept.packs
    }
    with pytest.raises(SnapshotExpired):
        async with tenant.db.transaction(tenant_id=tenant.id) as tx:
            await tenant.workspaces.record(tx, lost)


async def test_a_store_that_fails_leaves_listed_blobs_and_a_usable_workspace(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = await tenant.open()
    await workspace.write("file", b"1")
    first = await tenant.taken(workspace)
    await workspace.write("file", b"2")

    async def fail(*_: object) -> None:
        raise ObjectStoreUnavailable()

    with monkeypatch.context() as patched:
        patched.setattr(Packs, "write_whole", fail)
        with pytest.raises(ObjectStoreUnavailable):
            await tenant.workspaces.snapshot(workspace, first.id)
    assert len(await tenant.discarded()) == 1
    second = await tenant.taken(workspace, first.id)
    assert await tenant.workspaces.read_at(tenant.id, second.id, "file") == b"2"


async def test_recording_twice_counts_once(tenant: Tenant) -> None:
    workspace = await tenant.open()
    await workspace.write("file", b"1" * 1000)
    snapshot = await tenant.taken(workspace)
    async with tenant.db.transaction(tenant_id=tenant.id) as tx:
        await tenant.workspaces.record(tx, snapshot)
    assert await tenant.used() == sum(snapshot.added.values()) > 1000
    assert await tenant.packs() == snapshot.added


async def test_the_plan_limits_what_snapshots_store(
    tenant: Tenant, superuser: asyncpg.Connection[Any]
) -> None:
    await superuser.execute(
        """update tenants set limits = '{"storage_bytes": 7000000}'::jsonb where id = $1""",
        tenant.id,
    )
    workspace = await tenant.open()
    (workspace.root / "a").write_bytes(os.urandom(1_000_000))
    first = await tenant.taken(workspace)
    for size in (2_000_000, 4_000_000, 12_000_000):
        (workspace.root / "b").write_bytes(os.urandom(size))
        if size == 2_000_000:
            since = (await tenant.taken(workspace, first.id)).id
        else:
            with pytest.raises(PlanLimitReached):
                await tenant.workspaces.snapshot(workspace, since)


async def test_damaged_and_missing_packs_are_named(tenant: Tenant, blobs: Path) -> None:
    workspace = await tenant.open()
    (workspace.root / "file").write_bytes(os.urandom(5_000_000))
    (workspace.root / "other").write_bytes(os.urandom(1000))
    snapshot = await tenant.taken(workspace)
    assert snapshot.manifest is not None
    (pack,) = set(snapshot.packs) - {snapshot.manifest.blob}
    place = blobs / str(tenant.id) / str(pack)
    whole = place.read_bytes()
    for damaged in (whole[:-1], b"x" + whole[1:], whole[:-1] + b"x"):
        place.write_bytes(damaged)
        await tenant.workspaces.bring(workspace, None)
        with pytest.raises(SnapshotLost):
            await tenant.workspaces.bring(workspace, snapshot.id)
    place.write_bytes(whole)
    await tenant.workspaces.bring(workspace, snapshot.id)
    manifest = blobs / str(tenant.id) / str(snapshot.manifest.blob)
    manifest.write_bytes(b"y" + manifest.read_bytes()[1:])
    with pytest.raises(SnapshotLost):
        await tenant.workspaces.diff(tenant.id, None, snapshot.id)
    manifest.unlink()
    with pytest.raises(SnapshotLost):
        await tenant.workspaces.diff(tenant.id, None, snapshot.id)


async def test_a_workspace_beyond_its_quota_is_refused(
    tenant: Tenant, new_workspaces: Callable[..., Workspaces]
) -> None:
    small = new_workspaces(max_bytes=10_000, max_files=10)
    workspace = await small.open(tenant.id, uuid7())
    with (workspace.root / "sparse").open("wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(WorkspaceFull) as caught:
        await small.snapshot(workspace, None)
    assert caught.value.kind == Kind.TOO_LARGE
    assert caught.value.advice
    (workspace.root / "sparse").unlink()
    for number in range(11):
        (workspace.root / f"d{number}").mkdir()
    with pytest.raises(WorkspaceFull):
        await small.snapshot(workspace, None)
    (workspace.root / "d0").rmdir()
    assert (await small.snapshot(workspace, None)).new


async def test_directories_nested_too_deeply_are_refused(tenant: Tenant) -> None:
    workspace = await tenant.open()
    handle = os.open(workspace.root, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("n" * 200, dir_fd=handle)
        below = os.open("n" * 200, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(handle)
    with pytest.raises(WorkspaceFull):
        await tenant.workspaces.snapshot(workspace, None)


async def test_snapshots_at_once_do_not_disturb_each_other(tenant: Tenant) -> None:
    workspace = await tenant.open()
    for number in range(50):
        await workspace.write(f"f{number}", b"%d" % number)
    snapshots = await asyncio.gather(*(tenant.taken(workspace) for _ in range(5)))
    before = contents(workspace.root)
    for snapshot in snapshots:
        tenant.workspaces.begin_change(workspace)
        await tenant.workspaces.bring(workspace, snapshot.id)
        assert contents(workspace.root) == before


async def test_a_cancelled_snapshot_leaves_nothing_open(tenant: Tenant) -> None:
    workspace = await tenant.open()
    for number in range(300):
        (workspace.root / f"f{number}").write_bytes(os.urandom(50_000))
    handles = _open_files()
    for turns in range(1, 12):
        task = asyncio.ensure_future(tenant.workspaces.snapshot(workspace, None))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert _open_files() <= handles + 8  # connections to the database
    assert (await tenant.taken(workspace)).files == 300


async def test_a_long_session_does_not_need_a_pack_for_each_step(tenant: Tenant) -> None:
    workspace = await tenant.open()
    (workspace.root / "large").write_bytes(os.urandom(100_000))
    since, most = (await tenant.taken(workspace)).id, 0
    for step in range(150):
        (workspace.root / f"f{step}").write_bytes(b"step %d" % step)
        snapshot = await tenant.taken(workspace, since)
        assert sum(snapshot.added.values()) < 20_000, "large contents are not stored again"
        since, most = snapshot.id, max(most, len(snapshot.packs))
    assert 60 < most < 70
    before = contents(workspace.root)
    await tenant.workspaces.bring(workspace, None)
    await tenant.workspaces.bring(workspace, since)
    assert contents(workspace.root) == before
    assert await tenant.workspaces.read_at(tenant.id, since, "f3") == b"step 3"
