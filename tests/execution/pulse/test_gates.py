"""Gates: what each kind finds, and what a session makes of it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.execution.pulse.conftest import HELD_COMMAND, Lab, script

from agentos.execution.pulse import model_calls
from agentos.execution.pulse.finishing import rollback_target
from agentos.execution.pulse.gates import rubrics
from agentos.execution.pulse.gates.commands import usual_tests
from agentos.execution.pulse.gates.texts import end_of
from agentos.execution.pulse.journal import Step
from agentos.execution.pulse.model_calls import Asked
from agentos.execution.pulse.schemas import StepKind
from agentos.integrations.models.native import AnswerBrokeOff
from agentos.integrations.workspaces.workspaces import Workspaces
from agentos.kernel.ids import uuid7

WRITE = 'call write_file {"path": "a.txt", "content": "one\\ntwo words\\n"}'


async def run(lab: Lab, *lines: str, gates: list[dict[str, Any]], **config: Any) -> dict[str, Any]:
    """A session with these gates, when it has ended."""
    async with lab.engine():
        session_id = await lab.create(script(*lines), gates=gates, **config)
        return await lab.ended(session_id)


async def verdicts(lab: Lab, read: dict[str, Any]) -> list[tuple[str, str, Any]]:
    rows = await lab.journal(UUID(read["id"]))
    return [(r["name"], r["status"], r["output"]) for r in rows if r["kind"] == "gate"]


async def events(lab: Lab, read: dict[str, Any]) -> list[str]:
    rows = await lab.superuser.fetch(
        """select type from (select id, type, data from outbox
               union all select id, type, data from events) e
           where data ->> 'session_id' = $1 order by id""",
        read["id"],
    )
    return [row["type"] for row in rows]


def gate(kind: str, name: str = "check", **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name, **fields}


# Files


@pytest.mark.parametrize(
    ("fields", "passes"),
    [
        ({"path": "a.txt"}, True),
        ({"path": "b.txt"}, False),
        ({"path": "a.txt", "matches": r"^two\s\w+$"}, True),
        ({"path": "a.txt", "matches": "three"}, False),
        ({"path": "a.txt", "absent": True}, False),
        ({"path": "a.txt/b", "absent": True}, True),
    ],
)
async def test_a_file_is_there_or_not_or_matches(
    lab: Lab, fields: dict[str, Any], passes: bool
) -> None:
    read = await run(lab, WRITE, "say Done.", gates=[gate("file", **fields)])
    assert read["state"] == ("COMPLETE" if passes else "FAILED"), read["error"]
    if not passes:
        assert read["error_code"] == "gate_failed"
        assert read["error"].startswith(f"The gate check did not pass: {fields['path']}") or (
            "No line of a.txt" in read["error"]
        )


# Commands


async def test_a_command_passes_by_its_exit_code_and_leaves_nothing_behind(lab: Lab) -> None:
    gates = [
        gate("command", "one", command="grep -q one a.txt && touch left.txt && echo x >> a.txt"),
        gate("command", "two", command="test ! -e left.txt; exit $((3 + $?))", exit_code=3),
        gate("file", "three", path="left.txt", absent=True),
        gate("file", "four", path="a.txt", matches="^x$", on_fail="fail"),
    ]
    read = await run(lab, WRITE, "say Done.", gates=gates)
    assert [(n, s) for n, s, _ in await verdicts(lab, read)] == [
        ("one", "done"),
        ("two", "done"),
        ("three", "done"),
        ("four", "failed"),
    ]


async def test_what_a_failing_command_printed_is_told_with_its_end(lab: Lab) -> None:
    command = "for i in $(seq 3000); do echo line $i; done; printf 'a\\0b'; exit 7"
    read = await run(lab, "say Done.", gates=[gate("command", command=command)])
    assert read["state"] == "FAILED"
    assert "exit code 7 instead of 0" in read["error"]
    assert "line 3000\na\ufffdb" in read["error"]
    assert "line 1\n" not in read["error"]


async def test_a_command_that_takes_too_long_fails(lab: Lab) -> None:
    read = await run(lab, "say Done.", gates=[gate("command", command="sleep 60", seconds=1)])
    assert "took longer than 1 seconds" in read["error"]


async def test_tests_are_found_and_run(lab: Lab) -> None:
    wrong = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): self.assertEqual(1, 2)\n"
    files = {"tests/test_it.py": wrong}
    prompt = [
        "say Done.",
        "then",
        'call edit_file {"path": "tests/test_it.py", "old_text": "1, 2", "new_text": "1, 1"}',
        "say Mended.",
    ]
    gates = [gate("tests", on_fail="retry", retries=1)]
    read = await run(lab, *prompt, gates=gates, files=files)
    found = await verdicts(lab, read)
    assert [status for _, status, _ in found] == ["failed", "done"], read["error"]
    assert "1 != 2" in found[0][2]


async def test_no_tests_are_no_success(lab: Lab) -> None:
    read = await run(lab, WRITE, "say Done.", gates=[gate("tests")])
    assert "There are no tests" in read["error"]


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"Makefile": "all:\n\ntest: all\n\tpytest"}, "make test"),
        ({"package.json": '{"scripts": {"test": "jest"}}'}, "npm test --silent"),
        ({"Cargo.toml": ""}, "cargo test"),
        ({"go.mod": ""}, "go test ./..."),
        ({"package.json": "[]", "Makefile": "tests:"}, None),
    ],
)
async def test_what_the_usual_tests_are(
    lab: Lab, files: dict[str, str], wanted: str | None
) -> None:
    workspaces: Workspaces = lab.parts.workspaces
    workspace = await workspaces.open(lab.person.tenant_id, uuid7())
    for path, text in files.items():
        await workspace.write(path, text.encode())
    assert await usual_tests(workspace) == wanted


# The output


async def test_the_answer_as_json_satisfies_a_schema_or_not(lab: Lab) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    prompt = ["say No JSON at all.", "then", 'say {"n": "x"}', "then", 'say {"n": 4}']
    gates = [gate("schema", json_schema=schema, on_fail="retry", retries=2)]
    read = await run(lab, *prompt, gates=gates)
    assert read["state"] == "COMPLETE", read["error"]
    found = [output for _, _, output in await verdicts(lab, read)]
    assert "is not JSON" in found[0]
    assert "is not of type" in found[1]


# Limits


async def test_cost_is_what_the_ledger_says(lab: Lab) -> None:
    await _price(lab)
    lines = ["say Done.", "usage 1000 1000"]
    read = await run(lab, *lines, gates=[gate("cost", most_micros=20_000)])
    assert (read["state"], read["cost_micros"]) == ("COMPLETE", 20_000), read["error"]
    read = await run(lab, *lines, gates=[gate("cost", most_micros=19_999)])
    assert read["state"] == "FAILED"
    assert "It cost $0.02; it may cost $0.019999." in read["error"]


async def test_running_time_has_a_ceiling(lab: Lab) -> None:
    read = await run(lab, "wait 30", "say Done.", gates=[gate("time", most_seconds=0.001)])
    assert "it may run for 0.001" in read["error"]
    read = await run(lab, "say Done.", gates=[gate("time", most_seconds=60)])
    assert read["state"] == "COMPLETE"


# Rubrics


def rubric(*votes: str, **fields: Any) -> dict[str, Any]:
    """A gate whose judge, the demo model, votes the same each time."""
    return gate("rubric", rubric=script(*votes), **fields)


async def test_a_rubric_passes_by_votes_that_are_booked_with_the_gate(lab: Lab) -> None:
    await _price(lab)
    yes = 'call give_verdict {"passed": true, "reason": "It is fine."}'
    read = await run(lab, "say Done.", "usage 0 0", gates=[rubric(yes, "usage 1000 0", votes=3)])
    assert read["state"] == "COMPLETE", read["error"]
    row = next(r for r in await lab.journal(UUID(read["id"])) if r["kind"] == "gate")
    # Two of three decide it: the third is not asked for.
    assert row["output"].count("It is fine.") == 2
    assert (row["input_tokens"], row["cost_micros"]) == (2000, 20_000)
    assert read["cost_micros"] == 20_000


async def test_a_rubric_fails_with_the_reasons_of_the_votes(lab: Lab) -> None:
    no = 'call give_verdict {"passed": false, "reason": "A haiku has three lines."}'
    read = await run(lab, "say Done.", gates=[rubric(no, votes=1)])
    assert read["state"] == "FAILED"
    assert "- A haiku has three lines." in read["error"]


async def test_a_judge_that_talks_nonsense_votes_against(lab: Lab) -> None:
    read = await run(lab, "say Done.", gates=[rubric("say Yes, very nice!", votes=1)])
    assert "no verdict that could be understood" in read["error"]


async def test_a_judge_that_is_busy_is_asked_again_later(lab: Lab) -> None:
    async with lab.engine():
        session_id = await lab.create(
            script("say Done."), gates=[rubric("fail overload Busy.", votes=1)]
        )
        read = await lab.until(session_id, "PAUSED")
    assert read["waiting_for"] == "retry"


async def test_a_vote_that_was_given_is_paid_for_when_the_next_one_fails(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _price(lab)
    yes = 'call give_verdict {"passed": true, "reason": "Fine."}'
    real, calls = model_calls.ask_model, 0

    async def second_fails(*args: Any, **options: Any) -> Asked:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise AnswerBrokeOff
        return await real(*args, **options)

    monkeypatch.setattr(rubrics, "ask_model", second_fails)
    async with lab.engine():
        session_id = await lab.create(
            script("say Done.", "usage 0 0"), gates=[rubric(yes, "usage 1000 0", votes=3)]
        )
        await lab.until(session_id, "PAUSED")
        lab.clock.advance(timedelta(seconds=2))
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    await lab.parts.router.escrow.flush()
    # One before it failed, and two that decided it.
    assert (await lab.read(session_id))["cost_micros"] == 30_000


# Approvals


async def _decide(lab: Lab, session_id: UUID, decision: str, **body: Any) -> dict[str, Any]:
    """Decides about what the session waits for; returns what that was."""
    await lab.until(session_id, "PAUSED")
    answer = await lab.client.get("/api/approvals", params={"session_id": str(session_id)})
    (waiting,) = answer.json()["items"]
    await lab.post(f"/api/approvals/{waiting['id']}/{decision}", **body)
    asked: dict[str, Any] = waiting
    return asked


async def test_a_person_approves_and_nothing_is_done_twice(lab: Lab) -> None:
    gates = [
        gate("command", "first", command="true"),
        gate("approval", "look", question="Is it good?"),
        gate("command", "last", command="true"),
    ]
    async with lab.engine():
        session_id = await lab.create(script(WRITE, "say Done."), gates=gates)
        asked = await _decide(lab, session_id, "approve")
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    assert (asked["kind"], asked["subject"]) == ("gate", "look")
    assert asked["details"] == {
        "question": "Is it good?",
        "result": "Done.",
        "files": ["added a.txt"],
    }
    kinds = await lab.kinds(session_id)
    assert kinds[kinds.index("PAUSED") - 3 :] == [
        "checkpoint", "GATE_CHECK", "gate", "PAUSED", "approval",
        "RUNNING", "CHECKPOINT", "GATE_CHECK", "gate", "gate", "COMPLETE",
    ]  # fmt: skip
    assert kinds.count("checkpoint") == 1


async def test_a_rejection_is_told_and_asked_about_again(lab: Lab) -> None:
    gates = [gate("approval", question="Good?", on_fail="retry", retries=1)]
    async with lab.engine():
        session_id = await lab.create(script("say One.", "then", "say Two."), gates=gates)
        await _decide(lab, session_id, "reject", reason="Too short.")
        async with asyncio.timeout(30):
            while (await lab.kinds(session_id)).count("PAUSED") < 2:  # noqa: ASYNC110 - the journal is asked
                await asyncio.sleep(0.02)
        await _decide(lab, session_id, "approve")
        read = await lab.ended(session_id)
    assert (read["state"], read["result"]["text"]) == ("COMPLETE", "Two.")
    rows = await lab.journal(session_id)
    told = next(r["output"] for r in rows if r["kind"] == "message" and r["name"] == "gate")
    assert "The gate check did not pass: Too short." in told
    keys = await lab.superuser.fetch("select key from approvals where session_id = $1", session_id)
    assert len({row["key"] for row in keys}) == 2


# What follows


async def test_retries_are_bounded(lab: Lab) -> None:
    gates = [gate("file", path="never.txt", on_fail="retry", retries=2)]
    read = await run(lab, "say One.", "then", "say Two.", "then", "say Three.", gates=gates)
    assert (read["state"], read["error_code"]) == ("FAILED", "gate_failed")
    assert [status for _, status, _ in await verdicts(lab, read)] == ["failed"] * 3
    assert read["turns"] == 3


async def test_a_gate_that_passed_is_checked_again_after_another_failed(lab: Lab) -> None:
    gates = [
        gate("file", "always", path="b.txt", absent=True),
        gate("file", "later", path="a.txt", on_fail="retry", retries=1),
    ]
    read = await run(lab, "say Too early.", "then", WRITE, "say Done.", gates=gates)
    assert [(n, s) for n, s, _ in await verdicts(lab, read)] == [
        ("always", "done"),
        ("later", "failed"),
        ("always", "done"),
        ("later", "done"),
    ]
    kinds = await lab.kinds(UUID(read["id"]))
    assert kinds.count("checkpoint") == 2, "another answer, another checkpoint"


async def test_a_rollback_takes_files_and_conversation_back(lab: Lab) -> None:
    gates = [gate("file", path="never.txt", on_fail="rollback")]
    read = await run(lab, WRITE, "say Done.", gates=gates, files={"given.txt": "Here before."})
    assert (read["state"], read["error_code"]) == ("ROLLED_BACK", "gate_failed")
    session_id = UUID(read["id"])
    rows = await lab.journal(session_id)
    names = await lab.kinds(session_id)
    assert names[-4:] == ["gate", "ROLLBACK", "rollback", "ROLLED_BACK"]
    start = next(r for r in rows if r["kind"] == "checkpoint" and r["name"] == "start")
    back = next(r for r in rows if r["kind"] == "rollback")
    assert back["parent"] == start["seq"]
    present = await lab.superuser.fetchval(
        "select snapshot_id from sessions where id = $1", session_id
    )
    assert present == start["snapshot_id"]
    changed = await lab.parts.workspaces.diff(lab.person.tenant_id, None, present)
    assert [change.path for change in changed] == ["given.txt"]
    assert [e for e in await events(lab, read) if "roll" in e] == [
        "session.rollback_started",
        "session.rolled_back",
    ]


async def test_a_rollback_without_files_goes_to_the_first_step(lab: Lab) -> None:
    gates = [gate("file", path="never.txt", on_fail="rollback")]
    read = await run(lab, WRITE, "say Done.", gates=gates)
    rows = await lab.journal(UUID(read["id"]))
    assert next(r for r in rows if r["kind"] == "rollback")["parent"] == 1
    present = await lab.superuser.fetchval(
        "select snapshot_id from sessions where id = $1", UUID(read["id"])
    )
    assert present is None


async def test_events_tell_of_each_gate(lab: Lab) -> None:
    gates = [gate("file", "one", path="a.txt"), gate("file", "two", path="b.txt")]
    read = await run(lab, WRITE, "say Done.", gates=gates)
    told = [event for event in await events(lab, read) if event.startswith("session.gate")]
    assert told == ["session.gate.started", "session.gate.passed", "session.gate.failed"]


async def test_a_lost_worker_repeats_only_the_gate_it_was_at(lab: Lab) -> None:
    gates = [
        gate("command", "one", command="true"),
        gate("command", "two", command="touch here; test $(ls | wc -l) = 2 && sleep 2"),
    ]
    async with lab.engine(drain_seconds=0):
        session_id = await lab.create(script(WRITE, "say Done."), gates=gates)
        async with asyncio.timeout(30):
            while "gate" not in await lab.kinds(session_id):  # noqa: ASYNC110 - the journal is asked
                await asyncio.sleep(0.02)
    async with lab.engine():
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    assert [name for name, _, _ in await verdicts(lab, read)] == ["one", "two"]


async def test_a_pause_is_seen_between_two_gates(lab: Lab) -> None:
    gates = [
        gate("command", "one", command=HELD_COMMAND),
        gate("command", "two", command="true"),
    ]
    async with lab.engine():
        session_id = await lab.create(script("say Done."), gates=gates)
        held = await lab.held(session_id)
        await lab.post(f"/api/sessions/{session_id}/pause")
        held.unlink()
        read = await lab.until(session_id, "PAUSED", "COMPLETE")
        assert (await lab.kinds(session_id))[-2:] == ["gate", "PAUSED"]
        await lab.post(f"/api/sessions/{session_id}/resume")
        read = await lab.ended(session_id)
    assert read["state"] == "COMPLETE", read["error"]
    assert [name for name, _, _ in await verdicts(lab, read)] == ["one", "two"]


def step(seq: int, kind: StepKind, name: str) -> Step:
    return Step(kind=kind, name=name, at=datetime.now(UTC), seq=seq)


def test_where_failed_work_is_rolled_back_to() -> None:
    told = step(1, "message", "user")
    start = step(2, "checkpoint", "start")
    ends = [step(seq, "checkpoint", "end") for seq in (4, 8, 12)]
    again = step(5, "message", "gate")
    more = step(9, "message", "user")
    own = step(10, "checkpoint", "before the risky part")
    assert rollback_target([told, ends[0]]) == told
    assert rollback_target([told, start, ends[0]]) == start
    assert rollback_target([told, start, ends[0], again, ends[1]]) == start
    assert rollback_target([told, start, ends[1], more, ends[2]]) == ends[1], "asked for anew"
    assert rollback_target([told, start, ends[1], more, own, ends[2]]) == own


def test_the_end_of_a_long_output_is_kept() -> None:
    text = end_of(b"x" * 5000 + b"\nthe end\n", 10)
    assert text.endswith("xx\nthe end")
    assert text.startswith("[4998 characters before")


async def _price(lab: Lab) -> None:
    """Ten micro-dollars a token."""
    answer = await lab.client.put(
        "/api/models/prices",
        json={
            "provider": "demo",
            "model": "demo",
            "input": 10_000_000,
            "output": 10_000_000,
        },
    )
    assert answer.status_code in (200, 201), answer.text
