"""The model's words as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from uuid import UUID

from tests.execution.pulse.conftest import Lab, script
from tests.execution.pulse.holding import held_waits


async def heard(lab: Lab, session_id: UUID) -> AsyncIterator[dict[str, object]]:
    """What the stream says, to its end."""
    async with lab.client.stream("GET", f"/api/sessions/{session_id}/live") as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                yield json.loads(line[6:])


async def _all(pieces: AsyncIterator[dict[str, object]]) -> list[dict[str, object]]:
    return [piece async for piece in pieces]


async def test_words_are_passed_on_as_they_come(lab: Lab) -> None:
    session_id = await lab.create(
        script("wait 300", "repeat 5 tick", "wait 200", "repeat 5 tock"), run=False
    )
    async with lab.engine():
        listening = asyncio.create_task(_all(heard(lab, session_id)))
        async with asyncio.timeout(20):
            while not lab.parts.audience.watches(session_id):  # noqa: ASYNC110 - set by a message
                await asyncio.sleep(0.01)
            await lab.post(f"/api/sessions/{session_id}/run")
            read = await lab.ended(session_id)
            words = await listening
    said = "".join(str(piece["text"]) for piece in words[:-1])
    assert said == read["result"]["text"]
    assert "tick" in said
    assert "tock" in said
    assert len([piece for piece in words if piece.get("text")]) >= 2, "not all at once"
    assert words[-1] == {}, "the end is told"
    model = next(row for row in await lab.journal(session_id) if row["kind"] == "model")
    assert words[0]["seq"] == model["seq"]


def put_together(pieces: Iterable[dict[str, object]]) -> str:
    text = ""
    for piece in pieces:
        if piece:
            text = str(piece["text"]) if piece["reset"] else text + str(piece["text"])
    return text


async def test_who_begins_to_watch_amid_an_answer_hears_its_beginning(lab: Lab) -> None:
    session_id = await lab.create(script("repeat 5 tick", "wait 1", "repeat 5 tock"), run=False)
    with held_waits() as go:
        async with lab.engine(), asyncio.timeout(30):
            first = heard(lab, session_id)
            beginning = asyncio.ensure_future(anext(first))
            while not lab.parts.audience.watches(session_id):  # noqa: ASYNC110 - set by a message
                await asyncio.sleep(0.01)
            await lab.post(f"/api/sessions/{session_id}/run")
            early = [await beginning]
            assert "tick" in str(early[0]["text"])
            second = heard(lab, session_id)
            late = [await anext(second)]
            assert late[0]["reset"], "from the beginning"
            assert "tick" in str(late[0]["text"])
            go.set()
            late += [piece async for piece in second]
            early += [piece async for piece in first]
    answer = (await lab.read(session_id))["result"]["text"]
    assert put_together(late) == put_together(early) == answer
    assert "tock" in answer
    assert not late[0]["done"]
    assert [piece["done"] for piece in late if piece].count(True) == 1


async def test_nobody_watches_what_is_not_theirs(lab: Lab) -> None:
    session_id = await lab.create(run=False)
    lab.person = await lab.gateway.tenant()
    for wanted in (session_id, UUID(int=7)):
        answer = await lab.client.get(f"/api/sessions/{wanted}/live")
        assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")
