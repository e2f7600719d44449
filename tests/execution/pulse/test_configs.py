"""What is wrong with a configuration is said when the session is created; and its files."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from tests.execution.pulse.conftest import Lab, script

from agentos.execution.pulse import finishing, starting


def gate(kind: str, **fields: Any) -> dict[str, Any]:
    return {"gates": [{"kind": kind, "name": "check", **fields}]}


def server(**fields: Any) -> dict[str, Any]:
    return {"name": "web", "url": "https://mcp.example.com", **fields}


DEEP: dict[str, Any] = {}
for _ in range(30):
    DEEP = {"properties": {"x": DEEP}}


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"model": "nobody/nothing"}, "model_not_found", "nobody/nothing"),
    ({"tools": ["shell", "shel"]}, "unknown_tool", "Did you mean shell?"),
    ({"tools": ["final_answer"]}, "unknown_tool", "final_answer"),
    ({"output_schema": {"type": "text"}}, "bad_schema", "output_schema"),
    ({"output_schema": {"$ref": "https://example.com/s"}}, "bad_schema", "output_schema"),
    ({"output_schema": {"pattern": "(?=x)"}}, "bad_schema", "output_schema"),
    ({"output_schema": {"enum": ["x" * 300_000]}}, "bad_schema", "more than"),
    (gate("schema", json_schema={"type": 1}), "bad_schema", "The gate check"),
    (gate("file", path="../etc/passwd"), "bad_path", "The gate check"),
    (gate("file", path="."), "bad_path", "the workspace itself"),
    (gate("file", path="a", matches="("), "bad_pattern", "The gate check"),
    (
        gate("file", path="a", matches="(?i)" + "[ -\U0010ffff]" * 1900),
        "bad_pattern",
        "took too long",
    ),
    (gate("rubric", rubric="Nice?", model="nobody/x"), "model_not_found", "The gate check"),
    ({"files": {"/etc/passwd": "x"}}, "bad_path", "files"),
    ({"files": {"a": "x", "./a": "y"}}, "bad_session_config", "same path"),
    ({"files": {"a": "x", "a/b": "y"}}, "bad_session_config", "is a file itself"),
    ({"files": {f"{n}": "" for n in range(1001)}}, "bad_session_config", "1,000 files"),
    ({"allowed_hosts": ["http://example.com"]}, "bad_allowed_host", "http://example.com"),
    ({"allowed_hosts": ["169.254.169.254"]}, "bad_allowed_host", "169.254"),
    ({"mcp_servers": [server(), server()]}, "bad_session_config", "same name"),
    (
        {"mcp_servers": [server(headers={"X-Key": {"secret": "no-such"}})]},
        "secret_missing",
        "no-such",
    ),
    ({"prompt": "zero\0byte"}, "bad_session_config", "prompt contains a zero byte"),
    ({"output_schema": {"const": "\0"}}, "bad_session_config", "output_schema.const"),
    ({"files": {"a\0": "x"}}, "bad_session_config", "A name in files"),
    # By the schema of the request.
    ({"prompt": ""}, "invalid", "prompt"),
    ({"budget_micros": -1}, "invalid", "budget_micros"),
    ({"gates": [{"kind": "magic", "name": "x"}]}, "invalid", "magic"),
    (gate("cost", most_micros=1, on_fail="retry"), "invalid", "cannot be put right"),
    (gate("time", most_seconds=1, on_fail="retry"), "invalid", "cannot be put right"),
    (gate("file", path="a", matches="a", absent=True), "invalid", "cannot match"),
    (gate("rubric", rubric="x", votes=1, needed=2), "invalid", "more than votes"),
    ({"files": {"a": "x" * 1_000_001}}, "invalid", "1,000,000 characters"),
    ({"unheard_of": 1}, "invalid", "unheard_of"),
    (
        {"gates": [{"kind": "tests", "name": "x"}, {"kind": "tests", "name": "x"}]},
        "invalid",
        "same name",
    ),
]


async def test_what_is_wrong_is_refused(lab: Lab) -> None:
    for config, code, told in WRONG:
        body = {"prompt": "Hello", "model": "demo", **config}
        answer = await lab.client.post("/api/sessions", json=body)
        assert answer.status_code in (404, 422), (config, answer.text)
        assert answer.json()["code"] == code, (config, answer.text)
        assert told in answer.text, config
    assert await lab.superuser.fetchval("select count(*) from sessions") == 0


async def test_what_is_odd_but_right_is_taken(lab: Lab) -> None:
    stored = await lab.client.put("/api/vault/token", json={"value": "very secret"})
    assert stored.status_code in (200, 201), stored.text
    await lab.create(
        "Hello",
        tools=[],
        output_schema=DEEP,
        allowed_hosts=["*.example.com", "example.com:8443"],
        files={"a b/ü.txt": "", "x": "y"},
        mcp_servers=[server(headers={"Authorization": {"secret": "token"}})],
        gates=[{"kind": "file", "name": "set", "path": "a", "matches": " [[a] "}],
        run=False,
    )


async def test_the_files_are_there_before_the_first_step(lab: Lab) -> None:
    files = {"a.txt": "Hello", "deep/b.txt": "World"}
    async with lab.engine():
        prompt = script('call shell {"command": "cat a.txt deep/b.txt; rm a.txt"}', "result")
        read = await lab.ended(await lab.create(prompt, files=files))
    assert (read["state"], read["result"]["text"]) == ("COMPLETE", "HelloWorld"), read["error"]
    assert [(f["path"], f["kind"]) for f in read["result"]["files"]] == [("a.txt", "removed")]
    rows = await lab.journal(UUID(read["id"]))
    (start,) = [r for r in rows if r["kind"] == "checkpoint" and r["name"] == "start"]
    kept = await lab.superuser.fetch(
        "select seq, snapshot_id from checkpoints where session_id = $1 and name = 'start'",
        UUID(read["id"]),
    )
    assert [(r["seq"], r["snapshot_id"]) for r in kept] == [(start["seq"], start["snapshot_id"])]
    assert [r["kind"] for r in rows][:4] == ["message", "state", "state", "checkpoint"]


async def test_a_worker_lost_while_it_wrote_them_loses_and_doubles_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = asyncio.Event()
    real = finishing.checkpoint_of

    def stuck(*args: Any) -> Any:
        reached.set()
        raise asyncio.CancelledError

    monkeypatch.setattr(starting, "checkpoint_of", stuck)
    async with lab.engine(drain_seconds=0):
        session_id = await lab.create(
            script('call list_files {"path": "."}', "result"), files={"a.txt": "x"}
        )
        await asyncio.wait_for(reached.wait(), 30)
    monkeypatch.setattr(starting, "checkpoint_of", real)
    async with lab.engine():
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE"
    assert "a.txt" in read["result"]["text"]
    kinds = await lab.kinds(session_id)
    assert kinds.count("checkpoint") == 2, "the start, and the end"
