"""Files through the workspace: what tools see."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from tests.integrations.workspaces.conftest import Tenant

from agentos.integrations.workspaces.errors import (
    BadPath,
    BadPattern,
    FileMissing,
    FileRefused,
    NotADirectory,
    NotAFile,
    SearchTooSlow,
    WorkspaceFull,
)
from agentos.integrations.workspaces.search import search_files
from agentos.integrations.workspaces.searching import Match
from agentos.integrations.workspaces.workspace import Entry
from agentos.integrations.workspaces.workspaces import Workspaces
from agentos.kernel.ids import uuid7


async def test_write_makes_directories_and_read_gives_parts(tenant: Tenant) -> None:
    workspace = await tenant.open()
    await workspace.write("a/b/c.txt", b"0123456789")
    assert await workspace.read("a/b/c.txt") == b"0123456789"
    assert await workspace.read("a/b/c.txt", offset=3, limit=4) == b"3456"
    assert await workspace.read("a/b/c.txt", offset=8) == b"89"
    assert await workspace.read("a/b/c.txt", offset=99) == b""
    await workspace.write("a/b/c.txt", b"short")
    assert await workspace.read("./a//b/c.txt") == b"short"


async def test_writing_keeps_the_mode_and_follows_links_that_stay_inside(tenant: Tenant) -> None:
    workspace = await tenant.open()
    await workspace.write("bin/run", b"1")
    (workspace.root / "bin/run").chmod(0o755)
    (workspace.root / "link").symlink_to("bin/run")
    (workspace.root / "bin/up").symlink_to("../bin/run")
    await workspace.write("link", b"2")
    await workspace.write("bin/up", b"3")
    assert (workspace.root / "link").is_symlink()
    assert await workspace.read("bin/run") == b"3"
    assert (workspace.root / "bin/run").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "..", "../x", "a/../../x", "a\0b", "n" * 256, "a/" * 2500, "\ud800"]
)
async def test_what_is_no_path_beneath_the_root(tenant: Tenant, path: str) -> None:
    workspace = await tenant.open()
    for attempt in (workspace.read(path), workspace.write(path, b"1"), workspace.remove(path)):
        with pytest.raises(BadPath):
            await attempt
    with pytest.raises(BadPath):
        await workspace.entries(path)
    with pytest.raises(BadPath):
        await workspace.search("x", path=path)


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../../../etc/passwd", "/proc/self/root/etc/passwd"]
)
async def test_links_to_the_outside_are_refused(tenant: Tenant, target: str) -> None:
    workspace = await tenant.open()
    (workspace.root / "link").symlink_to(target)
    (workspace.root / "d").symlink_to(target.removesuffix("/passwd"))
    for path in ("link", "d/passwd"):
        with pytest.raises(BadPath):
            await workspace.read(path)
        with pytest.raises(BadPath):
            await workspace.write(path, b"1")
    with pytest.raises(BadPath):
        await workspace.entries("d")
    with pytest.raises(BadPath):
        await workspace.search("root", path="link")
    assert await workspace.search("root") == []


async def test_errors_say_what_is_there(tenant: Tenant) -> None:
    workspace = await tenant.open()
    await workspace.write("d/file", b"1")
    os.mkfifo(workspace.root / "pipe")
    (workspace.root / "dangling").symlink_to("nowhere/file")
    (workspace.root / "loop").symlink_to("loop")
    with pytest.raises(FileMissing):
        await workspace.read("missing")
    with pytest.raises(FileMissing):
        await workspace.read("missing/too")
    with pytest.raises(NotADirectory):
        await workspace.read("d/file/below")
    with pytest.raises(NotADirectory):
        await workspace.write("d/file/below", b"1")
    for path in ("d", "pipe", "."):
        with pytest.raises(NotAFile):
            await workspace.read(path)
        with pytest.raises(NotAFile):
            await workspace.write(path, b"1")
    with pytest.raises(FileMissing):
        await workspace.write("dangling", b"1")
    with pytest.raises(BadPath):
        await workspace.read("loop")
    with pytest.raises(FileMissing):
        await workspace.remove("missing")
    with pytest.raises(BadPath):
        await workspace.remove(".")
    with pytest.raises(NotADirectory):
        await workspace.entries("d/file")


async def test_entries_go_as_deep_as_asked(tenant: Tenant) -> None:
    workspace = await tenant.open()
    await workspace.write("a/b/c", b"123")
    (workspace.root / "link").symlink_to("a")
    os.mkfifo(workspace.root / "pipe")
    (workspace.root / "a/b/c").chmod(0o640)
    found = {entry.path: entry for entry in await workspace.entries(depth=9)}
    assert list(found) == ["a", "a/b", "a/b/c", "link", "pipe"]
    assert found["a/b/c"] == Entry("a/b/c", "file", 3, 0o640)
    assert [found[path].kind for path in ("a", "link", "pipe")] == ["directory", "symlink", "other"]
    assert [entry.path for entry in await workspace.entries()] == ["a", "link", "pipe"]
    assert [entry.path for entry in await workspace.entries("a", depth=2)] == ["a/b", "a/b/c"]
    assert [entry.path for entry in await workspace.entries("link")] == ["link/b"]
    assert len(await workspace.entries(depth=9, limit=2)) == 2
    assert await workspace.entries(depth=0) == []


async def test_the_quota_holds_for_writing(
    tenant: Tenant, new_workspaces: Callable[..., Workspaces]
) -> None:
    small = new_workspaces(max_bytes=1000, max_files=5)
    workspace = await small.open(tenant.id, uuid7())
    await workspace.write("a", b"1" * 600)
    with pytest.raises(WorkspaceFull):
        await workspace.write("b", b"1" * 401)
    with pytest.raises(FileMissing):
        await workspace.read("b")
    await workspace.write("a", b"1" * 1000)
    await workspace.write("a", b"1" * 100)
    with pytest.raises(WorkspaceFull):
        await workspace.write("1/2/3/4/5", b"")
    await workspace.write("1/2/3/4", b"")
    with pytest.raises(WorkspaceFull):
        await workspace.write("c", b"")


async def test_search_finds_lines(tenant: Tenant) -> None:
    workspace = await tenant.open()
    await workspace.write("src/a.py", b"import os\nprint('x')\r\n")
    await workspace.write("src/b.txt", b"import re\n")
    await workspace.write("binary", b"import\0")
    await workspace.write(os.fsdecode(b"odd \xff"), b"important\n")
    assert await workspace.search("^import") == [
        Match("odd \udcff", 1, "important"),
        Match("src/a.py", 1, "import os"),
        Match("src/b.txt", 1, "import re"),
    ]
    assert await workspace.search("print", glob="*.py") == [Match("src/a.py", 2, "print('x')")]
    assert await workspace.search("import", glob="src/*", limit=1) == [
        Match("src/a.py", 1, "import os")
    ]
    assert len(await workspace.search("import", path="src/b.txt")) == 1
    with pytest.raises(FileMissing):
        await workspace.search("x", path="missing")
    for pattern in ("(", "x" * 20_000, "(?P<a"):
        with pytest.raises(BadPattern):
            await workspace.search(pattern)


async def test_a_search_that_would_never_end_is_ended(tenant: Tenant) -> None:
    workspace = await tenant.open()
    await workspace.write("file", b"a" * 60 + b"\n")
    root = os.open(workspace.root, os.O_RDONLY)
    with pytest.raises(SearchTooSlow):
        await search_files(root, "(a+)+$b", b".", None, 10, seconds=1)
    os.close(root)


async def test_only_the_root_is_open_to_others(tenant: Tenant) -> None:
    workspace = await tenant.open()
    base = workspace.root.parent
    assert workspace.root.stat().st_mode & 0o777 == 0o700
    for place in (base, base.parent, base.parent.parent):
        assert place.stat().st_mode & 0o066 == 0
        assert place.stat().st_uid == os.geteuid()
    for place in (base / "staging", base / "trash"):
        assert place.stat().st_mode & 0o777 == 0o700
        assert place.stat().st_uid == os.geteuid()
    workspace.root.chmod(0o777)
    await tenant.open(workspace.id)
    assert workspace.root.stat().st_mode & 0o777 == 0o700


async def test_links_are_made_in_place_of_files_and_links(tenant: Tenant) -> None:
    workspace = await tenant.open()
    await workspace.link("a/b/link", "../../missing")
    assert await workspace.link_target("a/b/link") == "../../missing"
    await workspace.write("real", b"1")
    await workspace.link("a/b/link", "../../real")
    assert await workspace.read("a/b/link") == b"1"
    await workspace.write("a/file", b"2")
    await workspace.link("a/file", "b")
    assert (workspace.root / "a/file").lstat().st_uid == (workspace.root / "real").stat().st_uid
    with pytest.raises(NotAFile):
        await workspace.link("a/b", "x")
    assert sorted(item.name for item in (workspace.root / "a").iterdir()) == ["b", "file"]
    for path in ("a/b", "real", "."):
        with pytest.raises(NotAFile):
            await workspace.link_target(path)
    with pytest.raises(FileMissing):
        await workspace.link_target("missing")
    for target in ("", "a\0b", "\ud800", "x" * 5000):
        with pytest.raises(BadPath):
            await workspace.link("l", target)
    with pytest.raises(NotAFile):
        await workspace.link(".", "x")


async def test_what_is_moved_keeps_all_it_has(tenant: Tenant) -> None:
    workspace = await tenant.open()
    await workspace.write("d/inner/file", b"1")
    await workspace.link("link", "d")
    await workspace.write("there", b"2")
    await workspace.move("d", "new/place")
    assert await workspace.read("new/place/inner/file") == b"1"
    await workspace.move("link", "other")
    assert await workspace.link_target("other") == "d"
    for taken in ("there", "other"):
        with pytest.raises(FileRefused):
            await workspace.move("new", taken)
    with pytest.raises(FileMissing):
        await workspace.move("missing", "x")
    with pytest.raises(BadPath):
        await workspace.move("new", "new/into/itself")
    for path in (".", "../x", "/x"):
        with pytest.raises(BadPath):
            await workspace.move(path, "x")
        with pytest.raises(BadPath):
            await workspace.move("there", path)


@pytest.mark.parametrize("target", ["/etc", "../../../../etc", "/proc/self/root/etc"])
async def test_links_and_moves_do_not_leave_the_workspace(tenant: Tenant, target: str) -> None:
    workspace = await tenant.open()
    await workspace.write("file", b"1")
    (workspace.root / "d").symlink_to(target)
    with pytest.raises(BadPath):
        await workspace.link("d/agentos-test", "x")
    with pytest.raises(BadPath):
        await workspace.link_target("d/localtime")
    with pytest.raises(BadPath):
        await workspace.move("file", "d/agentos-test")
    with pytest.raises(BadPath):
        await workspace.move("d/passwd", "stolen")
    # A link itself may say anything; it is never followed out of here.
    await workspace.link("out", f"{target}/passwd")
    with pytest.raises(BadPath):
        await workspace.read("out")
