"""The file tools: what a model is shown, and what it is told when it asks for the impossible."""

from __future__ import annotations

import os

import pytest
from tests.integrations.tools.conftest import Session


async def test_a_file_is_written_read_edited_and_deleted(session: Session) -> None:
    wrote = await session.call("write_file", path="src/a.py", content="one\ntwo\nthree\n")
    assert wrote.text == "Wrote src/a.py: 3 lines, 14 bytes."
    read = await session.call("read_file", path="src/a.py")
    assert read.text == "1\tone\n2\ttwo\n3\tthree"
    edited = await session.call("edit_file", path="src/a.py", old_text="two", new_text="2")
    assert edited.text == "Changed src/a.py at line 2."
    assert await session.context.workspace.read("src/a.py") == b"one\n2\nthree\n"
    deleted = await session.call("delete_file", path="src/a.py")
    assert deleted.text == "Deleted src/a.py."
    gone = await session.call("read_file", path="src/a.py")
    assert gone.failed
    assert "no such file" in gone.text


async def test_paths_as_seen_from_inside_a_sandbox(session: Session) -> None:
    await session.call("write_file", path="/workspace/a.txt", content="x")
    assert await session.context.workspace.read("a.txt") == b"x"
    assert (await session.call("read_file", path="/workspace/a.txt")).text == "1\tx"
    assert "a.txt" in (await session.call("list_files", path="/workspace")).text
    assert (await session.call("read_file", path="/workspaces/a.txt")).failed


@pytest.mark.parametrize(
    "path", ["../secret", "/etc/passwd", "a/../../b", "link/x", "a\0b", "x" * 300]
)
@pytest.mark.parametrize("tool", ["read_file", "delete_file", "write_file", "edit_file"])
async def test_nothing_outside_the_workspace(session: Session, tool: str, path: str) -> None:
    root = session.context.workspace.root
    (root.parent / "secret").write_text("secret")
    (root / "link").symlink_to("/etc")
    more = {
        "write_file": {"content": "x"},
        "edit_file": {"old_text": "secret", "new_text": "x"},
    }.get(tool, {})
    done = await session.call(tool, path=path, **more)
    assert done.failed
    assert "root:" not in done.text
    assert (root.parent / "secret").read_text() == "secret"


async def test_long_files_come_in_parts(session: Session) -> None:
    text = "".join(f"line {n}\n" for n in range(1, 5001))
    await session.context.workspace.write("long.txt", text.encode())
    first = await session.call("read_file", path="long.txt")
    assert first.text.splitlines()[0] == "1\tline 1"
    note = first.text.splitlines()[-1]
    assert note.startswith("[Lines 1 to ")
    assert len(first.text) < 25_000
    last = int(note.split()[3])
    assert note.endswith(f"of 5000. Go on with offset {last + 1}.]")
    assert first.text.splitlines()[-2] == f"{last}\tline {last}"
    some = await session.call("read_file", path="long.txt", offset=4999, limit=5)
    assert some.text == "4999\tline 4999\n5000\tline 5000"
    beyond = await session.call("read_file", path="long.txt", offset=5001)
    assert beyond.failed
    assert "5000 lines" in beyond.text


async def test_odd_files(session: Session) -> None:
    write = session.context.workspace.write
    await write("empty", b"")
    await write("binary", bytes(range(256)))
    await write("windows", b"a\r\nb\r\n")
    await write("one-line", b"x" * 100_000)
    await write("latin", "viele Grüße an alle".encode("latin-1"))
    await write("huge", b"x\n" * (9 * 2**20))
    assert (await session.call("read_file", path="empty")).text == "[empty is empty.]"
    binary = await session.call("read_file", path="binary")
    assert (binary.failed, binary.text) == (True, "binary is a binary file of 256 bytes, not text.")
    assert (await session.call("read_file", path="windows")).text == "1\ta\n2\tb"
    one = await session.call("read_file", path="one-line")
    assert len(one.text) < 3000
    assert one.text.endswith("[98000 more characters in this line]")
    assert (await session.call("read_file", path="latin")).text == "1\tviele Gr��e an alle"
    huge = await session.call("read_file", path="huge")
    assert huge.failed
    assert "16.0 MiB" in huge.text
    folder = await session.call("read_file", path=".")
    assert folder.failed


async def test_edits_that_are_refused(session: Session) -> None:
    await session.context.workspace.write("a", b"x = 1\ny = 1\n\tz\r\nend\r\n")

    async def edit(old: str, new: str = "new") -> str:
        done = await session.call("edit_file", path="a", old_text=old, new_text=new)
        assert done.failed
        return done.text

    assert "occurs 2 times in a, at the lines 1, 2" in await edit("= 1")
    assert "does not occur in a. Read the file" in await edit("nothing")
    assert "other spaces or line ends" in await edit("  x  = 1")
    assert "\\r\\n" in await edit("z\nend")
    assert "the same" in await edit("x", "x")
    await session.context.workspace.write("b", bytes(range(256)))
    done = await session.call("edit_file", path="b", old_text="A", new_text="B")
    assert "binary" in done.text
    missing = await session.call("edit_file", path="c", old_text="A", new_text="B")
    assert (missing.failed, missing.details["code"]) == (True, "file_missing")


async def test_every_occurrence(session: Session) -> None:
    await session.context.workspace.write("a", b"1 1\n1\n")
    done = await session.call("edit_file", path="a", old_text="1", new_text="11", replace_all=True)
    assert done.text == "Changed a at 3 places: lines 1, 1, 2."
    assert await session.context.workspace.read("a") == b"11 11\n11\n"


async def test_lists(session: Session) -> None:
    workspace = session.context.workspace
    assert (await session.call("list_files")).text == "[. is empty.]"
    await workspace.write("src/deep/a.py", b"x" * 2048)
    await workspace.write("b.txt", b"")
    (workspace.root / "link").symlink_to("b.txt")
    (workspace.root / os.fsdecode(b"odd\xff")).write_bytes(b"1")
    flat = await session.call("list_files")
    assert flat.text.splitlines() == [
        "b.txt  (0 bytes)",
        "link@",
        "odd\\udcff  (1 byte)",
        "src/",
    ]
    deep = await session.call("list_files", path="src", depth=3)
    assert deep.text.splitlines() == ["src/deep/", "src/deep/a.py  (2.0 KiB)"]
    assert (await session.call("list_files", path="missing")).failed


async def test_many_files_are_cut_off(session: Session) -> None:
    for n in range(1100):
        (session.context.workspace.root / f"{n:04}-{'x' * 40}").touch()
    done = await session.call("list_files")
    assert len(done.text) < 25_000
    assert "there are more" in done.text.splitlines()[-1]


async def test_searches(session: Session) -> None:
    write = session.context.workspace.write
    await write("a.py", b"def one():\n    return 1\n")
    await write("b/c.py", b"def two():\n    pass\n")
    await write("d.txt", b"def three\n")
    found = await session.call("search_files", pattern=r"def \w+\(", glob="*.py")
    assert sorted(found.text.splitlines()) == ["a.py:1: def one():", "b/c.py:1: def two():"]
    assert (await session.call("search_files", pattern="nothing")).text == "[Nothing matches.]"
    wrong = await session.call("search_files", pattern="(")
    assert wrong.failed
    assert "regular expression" in wrong.text
