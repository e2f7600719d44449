"""The files of a session, as they were after any step."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from tests.execution.pulse.conftest import Lab, script
from tests.execution.pulse.test_rollback import run_python, write

from agentos.execution.pulse.history import files as files_service


async def tools(lab: Lab, session_id: UUID) -> list[int]:
    return [int(row["seq"]) for row in await lab.journal(session_id) if row["kind"] == "tool"]


async def files(lab: Lab, session_id: UUID, **query: Any) -> list[tuple[str, str]]:
    answer = await lab.client.get(f"/api/sessions/{session_id}/files", params=query)
    assert answer.status_code == 200, answer.text
    return [(file["path"], file["kind"]) for file in answer.json()["files"]]


async def made(lab: Lab, *lines: str, **config: Any) -> UUID:
    async with lab.engine():
        session_id = await lab.create(script(*lines, "say Done."), **config)
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    return session_id


async def test_changes_between_any_two_steps(lab: Lab) -> None:
    session_id = await made(
        lab, write("a", "1"), write("b", "1"), 'call delete_file {"path": "a"}', write("b", "two")
    )
    one, two, three, four = await tools(lab, session_id)
    assert await files(lab, session_id) == [("b", "added")]
    assert await files(lab, session_id, to_seq=two) == [("a", "added"), ("b", "added")]
    assert await files(lab, session_id, from_seq=one, to_seq=three) == [
        ("a", "removed"),
        ("b", "added"),
    ]
    assert await files(lab, session_id, from_seq=three, to_seq=four) == [("b", "changed")]
    assert await files(lab, session_id, from_seq=four, to_seq=one) == [
        ("a", "added"),
        ("b", "removed"),
    ]
    assert await files(lab, session_id, to_seq=1) == []


async def test_files_given_at_the_start_are_not_changes(lab: Lab) -> None:
    session_id = await made(lab, write("new", "1"), files={"given.txt": "given"})
    assert await files(lab, session_id) == [("new", "added")]
    assert await files(lab, session_id, from_seq=0) == [("given.txt", "added"), ("new", "added")]


async def test_contents_at_a_step_are_inert(lab: Lab) -> None:
    session_id = await made(lab, write("x.html", "<script>1</script>"), write("x.html", "2"))
    where = f"/api/sessions/{session_id}/files/content"
    first, _ = await tools(lab, session_id)
    then = await lab.client.get(where, params={"path": "x.html", "seq": first})
    now = await lab.client.get(where, params={"path": "x.html"})
    assert (then.content, now.content) == (b"<script>1</script>", b"2")
    assert then.headers["content-type"] == "application/octet-stream"
    assert then.headers["x-content-type-options"] == "nosniff"
    assert then.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert then.headers["content-disposition"] == "attachment; filename*=UTF-8''x.html"


async def test_odd_names_can_be_listed_and_read(lab: Lab) -> None:
    code = r"""
open(b'\xff"\r\nx: y', 'wb').write(b'\x00odd')
open('☃ &=%', 'w').write('snow')
"""
    session_id = await made(lab, run_python(code))
    answer = await lab.client.get(f"/api/sessions/{session_id}/files")
    listed = {file["path"]: file["encoded_path"] for file in answer.json()["files"]}
    assert set(listed) == {'\ufffd"\r\nx: y', "☃ &=%"}
    where = f"/api/sessions/{session_id}/files/content"
    for path, content in (('\ufffd"\r\nx: y', b"\x00odd"), ("☃ &=%", b"snow")):
        read = await lab.client.get(f"{where}?path={listed[path]}")
        assert read.content == content
        assert read.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
        assert "\n" not in read.headers["content-disposition"]


async def test_a_text_file_is_compared_line_by_line(lab: Lab) -> None:
    session_id = await made(
        lab, write("a", "one\ntwo\n"), write("a", "one\n2"), 'call delete_file {"path": "a"}'
    )
    first, second, third = await tools(lab, session_id)
    where = f"/api/sessions/{session_id}/files/diff"

    async def diff(**query: Any) -> str:
        answer = await lab.client.get(where, params={"path": "a", **query})
        assert answer.status_code == 200, answer.text
        text: str = answer.json()["diff"]
        return text

    assert await diff(from_seq=first, to_seq=second) == (
        "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\\ No newline at end of file\n"
    )
    assert (await diff(to_seq=first)).startswith("--- /dev/null\n+++ b/a\n")
    assert (await diff(from_seq=first, to_seq=third)).startswith("--- a/a\n+++ /dev/null\n")
    assert await diff(from_seq=first, to_seq=first) == ""


async def test_what_cannot_be_shown(lab: Lab, monkeypatch: Any) -> None:
    code = "import os; os.symlink('a', 'link'); os.mkdir('d'); open('b', 'wb').write(b'\\0')"
    session_id = await made(lab, write("a", "text"), run_python(code))
    where = f"/api/sessions/{session_id}/files"

    async def told(what: str, **query: Any) -> tuple[int, str]:
        answer = await lab.client.get(f"{where}/{what}", params=query)
        return answer.status_code, answer.json()["code"]

    assert await told("content", path="none") == (404, "file_missing")
    assert await told("content", path="link") == (422, "not_a_file")
    assert await told("content", path="d") == (422, "not_a_file")
    assert await told("content", path="../../x") == (422, "bad_path")
    assert await told("content", path="/etc/passwd") == (422, "bad_path")
    assert await told("content", path="a", seq=99) == (404, "step_not_found")
    assert await told("content", path="a", seq=1) == (404, "file_missing")
    assert await told("diff", path="none") == (404, "file_missing")
    assert await told("diff", path="b") == (422, "not_text")
    assert (await lab.client.get(where, params={"from_seq": 99})).status_code == 404
    monkeypatch.setattr(files_service, "_MOST_BYTES", 3)
    monkeypatch.setattr(files_service, "_MOST_DIFF_BYTES", 3)
    assert await told("content", path="a") == (413, "file_too_large")
    assert await told("diff", path="a") == (413, "file_too_large")
    other = await lab.gateway.tenant()
    for path in ("", "/content?path=a", "/diff?path=a"):
        answer = await other.client.get(where + path)
        assert answer.json()["code"] == "session_not_found"


async def test_after_a_rollback_now_is_what_is_in_force(lab: Lab) -> None:
    session_id = await made(lab, write("a", "1"), write("b", "2"))
    rows = await lab.journal(session_id)
    assert await files(lab, session_id) == [("a", "added"), ("b", "added")]
    await lab.post(f"/api/sessions/{session_id}/rollback", to_seq=1)
    assert await files(lab, session_id) == []
    assert json.loads(rows[-1]["input"])["from"] == "GATE_CHECK"
    assert await files(lab, session_id, to_seq=len(rows)) == [("a", "added"), ("b", "added")]
