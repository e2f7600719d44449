"""Going back: files and conversation return together, exactly, and the way back can be undone."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from typing import Any
from uuid import UUID

import httpx
import pytest
from pydantic_ai.messages import ModelMessage
from tests.execution.pulse.conftest import Lab, script

from agentos.execution.pulse import conversation, journal, repository
from agentos.execution.pulse.history.paths import boundaries, closing
from agentos.execution.pulse.history.previews import outside_effects
from agentos.execution.pulse.journal import Step
from agentos.kernel.ids import uuid7

Fingerprint = dict[bytes, tuple[int, bytes]]


def write(path: str, content: str) -> str:
    return f"call write_file {json.dumps({'path': path, 'content': content})}"


def run_python(code: str) -> str:
    return f"call python {json.dumps({'code': code})}"


def fingerprint(lab: Lab, session_id: UUID) -> Fingerprint:
    """Everything below the workspace: kind, mode and contents by its name in bytes."""
    root = os.fsencode(
        lab.parts.settings.workspaces_dir / str(lab.person.tenant_id) / str(session_id) / "files"
    )
    found: Fingerprint = {}
    for place, directories, names in os.walk(root):
        for name in [*directories, *names]:
            path = os.path.join(place, name)  # noqa: PTH118 - names are bytes
            look = os.lstat(path)
            if stat.S_ISLNK(look.st_mode):
                content = os.readlink(path)  # noqa: PTH115 - names are bytes
            elif stat.S_ISREG(look.st_mode):
                with open(path, "rb") as file:  # noqa: PTH123 - names are bytes
                    content = hashlib.sha256(file.read()).digest()
            else:
                content = b""
            found[path[len(root) :]] = (look.st_mode, content)
    return found


async def told(lab: Lab, session_id: UUID, seq: int) -> list[ModelMessage]:
    """What the model would be told at a step, with payloads in full."""
    async with lab.parts.db.transaction(tenant_id=lab.person.tenant_id) as tx:
        path = await journal.read_path(tx, session_id, seq)
    loaded = [await lab.parts.payloads.load(lab.person.tenant_id, step) for step in path]
    return conversation.messages(loaded, "")


async def tip(lab: Lab, session_id: UUID) -> int:
    return len(await lab.journal(session_id))


async def last_of(lab: Lab, session_id: UUID, kind: str) -> int:
    rows = await lab.journal(session_id)
    return int([row["seq"] for row in rows if row["kind"] == kind][-1])


async def go_on(lab: Lab, session_id: UUID) -> dict[str, Any]:
    """Makes the session look at its files, so that they are brought to what they shall be."""
    prompt = script("call list_files {}", "say Looked.")
    await lab.post(f"/api/sessions/{session_id}/continue", prompt=prompt)
    read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    return read


ODD = r"""
import os
os.makedirs('deep/er/est')
for n in range(%d):
    os.makedirs(f'many/{n %% 100}', exist_ok=True)
    open(f'many/{n %% 100}/{n}', 'w').write(str(n))
open(b'\xff\xfe not utf-8', 'wb').write(b'\x00\x01\xff')
open('new\nline', 'w').write('x')
open('ünïcödé ☃', 'w').write('snow')
open(' -rf * ', 'w').close()
open('run.sh', 'w').write('#!/bin/sh\n')
os.chmod('run.sh', 0o755)
open('secret', 'w').write('s')
os.chmod('secret', 0o400)
os.chmod('deep', 0o700)
os.symlink('../nowhere', 'deep/dangling')
os.symlink('run.sh', 'link')
os.symlink('many', 'to-directory')
os.mkdir('empty')
"""
CHANGES = r"""
import os, shutil
os.chmod('run.sh', 0o644)
open('run.sh', 'a').write('exit 1\n')
os.remove('link'); open('link', 'w').write('a file now')
os.remove('to-directory'); os.mkdir('to-directory')
os.rmdir('empty'); open('empty', 'w').write('')
shutil.rmtree('many/7')
os.remove(b'\xff\xfe not utf-8')
os.rename('new\nline', 'other\nline')
os.symlink('/etc/passwd', 'deep/er/outside')
os.chmod('secret', 0o600); open('secret', 'w').write('t')
"""


@pytest.mark.parametrize("files", [20, 10_000])
async def test_bytes_and_conversation_come_back_exactly(lab: Lab, files: int) -> None:
    async with lab.engine():
        session_id = await lab.create(script(run_python(ODD % files), "say Made."))
        assert (await lab.ended(session_id))["state"] == "COMPLETE"
        made, made_at = fingerprint(lab, session_id), await tip(lab, session_id)
        told_then = await told(lab, session_id, made_at)
        prompt = script(run_python(CHANGES), "say Changed.")
        await lab.post(f"/api/sessions/{session_id}/continue", prompt=prompt)
        assert (await lab.ended(session_id))["state"] == "COMPLETE"
        changed, told_later = fingerprint(lab, session_id), await told(lab, session_id, 10**6)
        assert len(made) > files
        assert changed != made

        back = await lab.post(f"/api/sessions/{session_id}/rollback", to_seq=made_at)
        assert back["session"]["state"] == "ROLLED_BACK"
        assert await told(lab, session_id, await tip(lab, session_id)) == told_then
        await go_on(lab, session_id)
        assert fingerprint(lab, session_id) == made

        undone = back["undo_seq"]
        await lab.post(f"/api/sessions/{session_id}/rollback", to_seq=undone)
        assert await told(lab, session_id, await tip(lab, session_id)) == told_later
        await go_on(lab, session_id)
        assert fingerprint(lab, session_id) == changed


async def test_back_to_before_any_file_there_are_none(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script(write("a", "1"), "say Done."))
        await lab.ended(session_id)
        back = await lab.post(f"/api/sessions/{session_id}/rollback", to_seq=1)
        row = await lab.superuser.fetchrow("select * from sessions where id = $1", session_id)
        assert row is not None
        assert (row["snapshot_id"], row["result"], row["finished_at"]) == (
            None,
            None,
            lab.clock.now(),
        )
        assert (back["to_seq"], back["session"]["state"]) == (1, "ROLLED_BACK")
        await go_on(lab, session_id)
        assert fingerprint(lab, session_id) == {}


async def test_a_preview_says_what_is_undone_and_changes_nothing(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script(write("a", "1"), "say One."))
        await lab.ended(session_id)
        first = await tip(lab, session_id)
        prompt = script(write("a", "123"), write("b", "2"), "say Two.")
        await lab.post(f"/api/sessions/{session_id}/continue", prompt=prompt)
        await lab.ended(session_id)
    before = await lab.read(session_id)
    where = f"/api/sessions/{session_id}/rollback"
    seen = (await lab.client.get(where, params={"to_seq": first})).json()
    assert await lab.read(session_id) == before
    assert [(f["path"], f["kind"], f["size_before"], f["size_after"]) for f in seen["files"]] == [
        ("a", "changed", 3, 1),
        ("b", "removed", 1, None),
    ]
    rows = await lab.journal(session_id)
    assert [step["seq"] for step in seen["undone"]] == [row["seq"] for row in rows[first:]]
    assert (seen["undone_messages"], seen["restored"], seen["effects"]) == (3, [], [])

    await lab.post(where, to_seq=first)
    undo = (await lab.client.get(where, params={"to_seq": len(rows)})).json()
    assert [step["seq"] for step in undo["restored"]] == [row["seq"] for row in rows[first:]]
    assert [(f["path"], f["kind"]) for f in undo["files"]] == [("a", "changed"), ("b", "added")]


async def test_cost_of_what_is_undone_stays_spent(lab: Lab) -> None:
    prices = {"provider": "demo", "model": "demo", "input": 10**6, "output": 10**6}
    assert (await lab.client.put("/api/models/prices", json=prices)).status_code == 200
    async with lab.engine():
        session_id = await lab.create(script("say Hi.", "usage 1000 500"))
        cost = (await lab.ended(session_id))["cost_micros"]
    assert cost == 1500
    where = f"/api/sessions/{session_id}/rollback"
    seen = (await lab.client.get(where, params={"to_seq": 1})).json()
    assert seen["cost_micros"] == cost
    await lab.post(where, to_seq=1)
    assert (await lab.read(session_id))["cost_micros"] == cost


async def test_effects_outside_are_named(lab: Lab) -> None:
    def used(name: str, status: Any = "done", **output: Any) -> Step:
        at = lab.clock.now()
        return Step(kind="tool", name=name, at=at, status=status, seq=7, parent=6, output=output)

    steps = [
        used("write_file", text="x"),
        used("http_send", text="x"),
        used("http_send", text="x", denied=True),
        used("mcp__mail__send", text="x"),
        used("shell", "uncertain", text="x"),
        used("shell", "failed", text="x", stopped=True),
    ]
    effects = outside_effects(steps, ["example.com"], "public")
    assert [(effect.name, effect.reason) for effect in effects] == [
        ("http_send", "outside"),
        ("mcp__mail__send", "outside"),
        ("shell", "uncertain"),
    ]


async def test_between_calls_and_results_is_refused_with_the_nearest_steps(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(
            script(write("a", "1"), write("b", "2"), write("c", "3"), "say Done.")
        )
        await lab.ended(session_id)
    rows = await lab.journal(session_id)
    asked = next(row["seq"] for row in rows if row["kind"] == "model")
    last = await last_of(lab, session_id, "tool")
    assert last == asked + 3
    where = f"/api/sessions/{session_id}/rollback"
    for seq in range(asked, last):
        refused = await lab.post(where, 409, to_seq=seq)
        assert (refused["code"], refused["nearest"]) == ("between_calls", [asked - 1, last])
        preview = await lab.client.get(where, params={"to_seq": seq})
        assert preview.json()["nearest"] == [asked - 1, last]
    assert (await lab.post(where, to_seq=last))["to_seq"] == last


async def test_a_running_session_has_to_be_paused_first(lab: Lab) -> None:
    queued = await lab.create(script(write("a", "1"), "wait 200", "say Done."))
    where = f"/api/sessions/{queued}/rollback"
    told = await lab.post(where, 409, to_seq=1)
    assert (told["code"], "Pause it first" in told["hint"]) == ("session_not_stopped", True)
    await lab.post(f"/api/sessions/{queued}/pause")
    back = await lab.post(where, to_seq=1)
    assert back["session"]["state"] == "ROLLED_BACK"
    created = await lab.create(run=False)
    assert (await lab.post(f"/api/sessions/{created}/rollback", 409, to_seq=1))["code"] == (
        "illegal_transition"
    )


async def test_one_that_waits_is_taken_out_of_the_queue_and_its_approvals_withdrawn(
    lab: Lab,
) -> None:
    async with lab.engine():
        session_id = await lab.create(script(write("a", "1"), 'call shell {"command": "true"}'))
        while await lab.kinds(session_id) == []:
            await lab.read(session_id)
        await lab.post(f"/api/sessions/{session_id}/pause")
        await lab.until(session_id, "PAUSED", "COMPLETE")
    # As if it waited for a person, who has just decided: woken, but not claimed.
    await lab.superuser.execute(
        """update sessions set state = 'PAUSED', waiting_for = 'approval', pause_requested = false,
               queued_at = now() where id = $1""",
        session_id,
    )
    approval_id = uuid7()
    await lab.superuser.execute(
        """insert into approvals (tenant_id, id, session_id, kind, key, subject, details,
               created_at, expires_at) values ($1, $2, $3, 'question', 'q', 's', '{}', $4::timestamptz, $4::timestamptz + interval '1 day')""",
        lab.person.tenant_id,
        approval_id,
        session_id,
        lab.clock.now(),
    )
    child_id = await lab.create(run=False)
    await lab.superuser.execute(
        "update sessions set parent_id = $1 where id = $2", session_id, child_id
    )
    where = f"/api/sessions/{session_id}/rollback"
    seen = (await lab.client.get(where, params={"to_seq": 1})).json()
    assert (seen["withdrawn_approvals"], seen["cancelled_sub_agents"]) == (1, 1)
    await lab.post(where, to_seq=1)
    read = await lab.read(session_id)
    assert (read["state"], read["queued"], read["waiting_for"]) == ("ROLLED_BACK", False, None)
    child = await lab.read(child_id)
    assert (child["state"], child["error_code"]) == ("FAILED", "cancelled")
    state = await lab.superuser.fetchval("select state from approvals where id = $1", approval_id)
    assert state == "withdrawn"


async def test_a_rollback_is_journaled_announced_and_audited(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script("say Hi."))
        await lab.ended(session_id)
    before = await tip(lab, session_id)
    await lab.post(f"/api/sessions/{session_id}/rollback", to_seq=2)
    rows = (await lab.journal(session_id))[before:]
    assert [(row["kind"], row["name"], row["parent"]) for row in rows] == [
        ("state", "ROLLBACK", before),
        ("rollback", "user", 2),
        ("state", "ROLLED_BACK", before + 2),
    ]
    events = await lab.superuser.fetch(
        """select type from outbox where data ->> 'session_id' = $1 union
           select type from events where data ->> 'session_id' = $1""",
        str(session_id),
    )
    assert {"session.rollback_started", "session.rolled_back"} <= {row["type"] for row in events}
    actions = await lab.superuser.fetch(
        "select action, after from audit_log where target_id = $1 order by id", str(session_id)
    )
    assert actions[-1]["action"] == "session.rolled_back"


async def test_what_cannot_be_gone_back_to(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(script("say Hi."))
        await lab.ended(session_id)
    where = f"/api/sessions/{session_id}/rollback"
    other = await lab.gateway.tenant()
    key = await lab.gateway.api_key(lab.person.tenant_id, frozenset())
    without = await lab.gateway.client(key)

    async def post(client: httpx.AsyncClient, **body: Any) -> tuple[int, str]:
        answer = await client.post(where, json=body)
        return answer.status_code, answer.json()["code"]

    assert await post(lab.client, to_seq=99) == (404, "step_not_found")
    assert await post(lab.client, checkpoint_id=str(uuid7())) == (404, "checkpoint_not_found")
    assert (await post(lab.client))[0] == 422
    assert (await post(lab.client, to_seq=1, checkpoint_id=str(uuid7())))[0] == 422
    assert await post(other.client, to_seq=1) == (404, "session_not_found")
    assert (await post(without, to_seq=1))[0] == 403
    seen = await other.client.get(where, params={"to_seq": 1})
    assert seen.json()["code"] == "session_not_found"


async def test_boundaries_and_closing(lab: Lab) -> None:
    now = lab.clock.now()
    session_id = await lab.create(run=False)
    async with lab.parts.db.transaction(tenant_id=lab.person.tenant_id) as tx:
        session = await repository.lock(tx, lab.person.tenant_id, session_id)
    assert session is not None
    session.doing = journal.doing("3.0", "one", "c0", "{}")

    def at(seq: int, kind: Any, **columns: Any) -> Step:
        return Step(kind=kind, name="x", at=now, seq=seq, parent=seq - 1, **columns)

    asked = {
        "kind": "response",
        "parts": [
            {"part_kind": "tool-call", "tool_name": "one", "args": "{}", "tool_call_id": "c0"},
            {"part_kind": "tool-call", "tool_name": "two", "args": "{}", "tool_call_id": "c1"},
        ],
        "timestamp": now.isoformat(),
    }
    path = [at(1, "message"), at(2, "state"), at(3, "model", output=asked), at(4, "state")]
    assert boundaries(path) == [1, 2]
    closed = closing(session, path, now)
    assert [(step.key, step.status) for step in closed.steps] == [
        ("3.0", "uncertain"),
        ("3.1", "failed"),
    ]
    assert [event.type for event in closed.events] == ["session.step_uncertain"]
    path.append(at(5, "tool", key="3.0"))
    assert boundaries(path) == [1, 2]
    # What was in doubt is in the journal by now.
    closed = closing(session, path, now)
    assert ([step.key for step in closed.steps], list(closed.events)) == (["3.1"], [])
    path.append(at(6, "tool", key="3.1"))
    assert boundaries(path) == [1, 2, 6]
    assert closing(session, path, now).steps == []
