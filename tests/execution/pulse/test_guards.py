"""Guards: what ends a session that does not end by itself."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.execution.pulse.conftest import Lab, script

from agentos.execution.pulse.guards import repeats_itself
from agentos.execution.pulse.journal import Step
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.schemas import Guards

READ = 'call read_file {"path": "a.txt"}'
LIST = "call list_files {}"


async def run(lab: Lab, *lines: str, **guards: Any) -> dict[str, Any]:
    async with lab.engine():
        session_id = await lab.create(
            script(*lines), guards=guards, files={"a.txt": "Always the same."}
        )
        return await lab.ended(session_id)


async def test_turns_are_limited(lab: Lab) -> None:
    read = await run(lab, READ, "then", READ, "then", "say Done.", max_turns=2)
    assert (read["state"], read["error_code"], read["turns"]) == ("FAILED", "turn_limit", 2)


async def test_tokens_are_limited(lab: Lab) -> None:
    lines = [READ, "usage 900 100", "then", READ, "usage 900 100", "then", "say Done."]
    read = await run(lab, *lines, max_tokens=2000)
    assert (read["state"], read["error_code"]) == ("FAILED", "token_limit")
    assert "It used 2000 tokens" in read["error"]
    read = await run(lab, *lines, max_tokens=2001)
    assert read["state"] == "COMPLETE"


async def test_tokens_that_a_rollback_undid_count(lab: Lab) -> None:
    lines = [READ, "usage 900 100", "say Done."]
    async with lab.engine():
        session_id = await lab.create(
            script(*lines),
            guards={"max_tokens": 1000},
            files={"a.txt": "x"},
            run=False,
        )
        # It was at work before, and somebody took that back.
        await lab.superuser.execute(
            """insert into steps (tenant_id, session_id, seq, parent, kind, name, status,
                   input_tokens, fence, at)
               select tenant_id, id, 2, 1, 'model', 'demo', 'done', 1000, 0, now()
               from sessions where id = $1
               union all
               select tenant_id, id, 3, 1, 'rollback', 'user', 'done', 0, 0, now()
               from sessions where id = $1""",
            session_id,
        )
        await lab.superuser.execute("update sessions set seq = 3 where id = $1", session_id)
        await lab.post(f"/api/sessions/{session_id}/run")
        read = await lab.ended(session_id)
    assert read["error_code"] == "token_limit"


async def test_running_time_is_limited(lab: Lab) -> None:
    read = await run(lab, "wait 5000", "say Done.", max_seconds=1)
    assert (read["state"], read["error_code"]) == ("FAILED", "time_limit")
    assert "guards.max_seconds" in read["error"]


async def test_a_call_that_is_repeated_again_and_again_is_a_loop(lab: Lab) -> None:
    lines = [line for _ in range(6) for line in (READ, "then")]
    read = await run(lab, *lines, "say Done.", max_repeats=2)
    assert (read["state"], read["error_code"], read["turns"]) == ("FAILED", "loop_detected", 3)
    assert "it used read_file 3 times" in read["error"]


async def test_going_to_and_fro_is_a_loop(lab: Lab) -> None:
    lines = [line for _ in range(6) for line in (READ, "then", LIST, "then")]
    read = await run(lab, *lines, "say Done.", max_repeats=2)
    assert (read["error_code"], read["turns"]) == ("loop_detected", 5)


def used(name: str) -> Step:
    answer = {"text": f"answer of {name}", "failed": False}
    at = datetime.now(UTC)
    return Step(kind="tool", name=name, at=at, input={"arguments": {}}, output=answer)


@pytest.mark.parametrize(
    ("names", "loops"),
    [
        ("AAAA", True),
        ("AAA", False),
        ("ABABABA", True),
        ("ABCABCABCA", True),
        # Something new each time: it struggles, but it does not go in circles.
        ("AxAyAzA", False),
        ("xAAAyA", False),
        ("AAAAx", False),
        # What a person said may be a reason to do it once more.
        ("AAA!A", False),
        ("", False),
    ],
)
def test_what_is_a_loop(names: str, loops: bool) -> None:
    told = Step(kind="message", name="user", at=datetime.now(UTC), output={"text": "Again."})
    path = [told if name == "!" else used(name) for name in names]
    run = SimpleNamespace(path=path, config=SimpleNamespace(guards=Guards(max_repeats=3)))
    assert repeats_itself(cast(Run, run)) is loops
