"""Compaction: a conversation that fills the context goes on from a summary."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pydantic_ai.messages import (
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from tests.execution.pulse.conftest import Lab, script

from agentos.execution.pulse import compaction, conversation, journal
from agentos.execution.pulse.journal import Step
from agentos.execution.pulse.model_calls import Asked, ask_model
from agentos.execution.pulse.schemas import StepKind
from agentos.integrations.models.native import AnswerBrokeOff

# Six turns with 6,000 letters each; the last of them says that the context is nearly full.
FILES = {f"{n}.txt": "\n".join([f"{n}" * 1000] * 6) for n in range(6)}
READS = [line for n in range(6) for line in (f'call read_file {{"path": "{n}.txt"}}', "then")]
TOO_LONG = "fail context_length This is more than the maximum context length."
FULL = [*READS[:-1], "usage 30000 10", "then", "say This is never reached."]
# After a compaction the demo model counts its turns anew; in each of them it is done.
DONE = script(*["say Done.", "then"] * 10)


@pytest.fixture
def summary(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the summariser says, which may be changed; the call itself is made."""
    said = [DONE]

    async def summarise(*args: Any, **options: Any) -> Asked:
        real = await ask_model(*args, **options)
        answer = ModelResponse([TextPart(said[0])], usage=real.answer.usage)
        return Asked(answer, real.booked, real.duration_ms)

    monkeypatch.setattr(compaction, "ask_model", summarise)
    return said


async def run(lab: Lab, *lines: str, **config: Any) -> dict[str, Any]:
    async with lab.engine():
        session_id = await lab.create(script(*lines), files=FILES, **config)
        return await lab.ended(session_id)


async def path_of(lab: Lab, session_id: str) -> list[Step]:
    async with lab.parts.db.transaction(tenant_id=lab.person.tenant_id) as tx:
        seq = await tx.value("select seq from sessions where id = $1", UUID(session_id))
        return await journal.read_path(tx, UUID(session_id), seq)


async def test_a_full_context_is_summed_up_and_the_last_turns_stay(
    lab: Lab, summary: list[str]
) -> None:
    price = {"provider": "demo", "model": "demo", "input": 1_000_000, "output": 1_000_000}
    assert (await lab.client.put("/api/models/prices", json=price)).status_code == 200
    read = await run(lab, *FULL)
    assert (read["state"], read["result"]["text"]) == ("COMPLETE", "Done."), read["error"]
    path = await path_of(lab, read["id"])
    (step,) = [s for s in path if s.kind == "compaction"]
    assert step.input_tokens > 0
    assert step.cost_micros == step.input_tokens + step.output_tokens
    assert step.call_id is not None
    assert read["cost_micros"] == sum(s.cost_micros or 0 for s in path)
    told = conversation.messages(path, "Be kind.")
    first = told[0].parts[0]
    assert isinstance(first, UserPromptPart)
    assert DONE in str(first.content)
    assert read["config"]["prompt"] in str(first.content), "the task is kept word for word"
    calls = [p.tool_call_id for m in told for p in m.parts if isinstance(p, ToolCallPart)]
    results = [p.tool_call_id for m in told for p in m.parts if isinstance(p, ToolReturnPart)]
    assert calls == results, "what is kept is whole"
    assert 1 <= len(calls) < 6
    assert "5" * 1000 in str(told[-2]), "and it is the newest"
    assert "0" * 1000 not in str(told)


async def test_a_call_that_is_too_long_is_made_again_after_a_summary(
    lab: Lab, summary: list[str]
) -> None:
    read = await run(lab, *READS[:2], TOO_LONG)
    assert (read["state"], read["result"]["text"]) == ("COMPLETE", "Done."), read["error"]
    assert (await lab.kinds(UUID(read["id"]))).count("compaction") == 1


async def test_what_stays_too_long_fails_and_does_not_go_on_for_ever(
    lab: Lab, summary: list[str]
) -> None:
    summary[0] = script(*[TOO_LONG, "then"] * 10)
    read = await run(lab, *READS, TOO_LONG)
    assert (read["state"], read["error_code"]) == ("FAILED", "context_full")
    # Once with the last turns kept, once with all of it summed up.
    assert (await lab.kinds(UUID(read["id"]))).count("compaction") == 2


async def test_with_nothing_to_sum_up_it_fails_at_once(lab: Lab) -> None:
    read = await run(lab, TOO_LONG)
    assert (read["state"], read["error_code"]) == ("FAILED", "context_full")
    assert "compaction" not in await lab.kinds(UUID(read["id"]))


async def test_no_summary_is_a_clear_error(lab: Lab, summary: list[str]) -> None:
    summary[0] = "  \n"
    read = await run(lab, *FULL)
    assert (read["state"], read["error_code"]) == ("FAILED", "context_full")
    assert "gave no summary" in read["error"]


async def test_what_would_not_make_room_is_not_summed_up(lab: Lab) -> None:
    read = await run(lab, READS[0], "usage 31000 10", "say Done.")
    assert read["state"] == "COMPLETE", read["error"]
    assert "compaction" not in await lab.kinds(UUID(read["id"]))


async def test_a_summariser_that_is_busy_is_asked_again_later(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def busy(*_: Any, **__: Any) -> Asked:
        raise AnswerBrokeOff

    monkeypatch.setattr(compaction, "ask_model", busy)
    async with lab.engine():
        session_id = await lab.create(script(*FULL), files=FILES)
        read = await lab.until(session_id, "PAUSED")
    assert read["waiting_for"] == "retry"


def step(seq: int, kind: StepKind, **fields: Any) -> Step:
    return Step(kind=kind, name=kind, at=datetime.now(UTC), seq=seq, **fields)


def test_a_second_compaction_takes_the_place_of_the_first() -> None:
    path = [
        step(1, "message"),
        step(2, "model"),
        step(3, "compaction", input={"kept_from": 2}),
        step(4, "model"),
        step(5, "checkpoint"),
        step(6, "tool"),
        step(7, "compaction", input={"kept_from": 4}),
        step(8, "model"),
    ]
    assert [s.seq for s in conversation.in_context(path[:2])] == [1, 2]
    assert [s.seq for s in conversation.in_context(path[:3])] == [3, 2]
    assert [s.seq for s in conversation.in_context(path[:6])] == [3, 2, 4, 6]
    assert [s.seq for s in conversation.in_context(path)] == [7, 4, 6, 8]
