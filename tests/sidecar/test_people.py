"""Asking a person, through somebody who may not be there."""

from __future__ import annotations

import asyncio

import pytest

from agentos.contracts.crew import (
    FromAgent,
    PermissionAnswer,
    PermissionAsked,
    PermissionWithdrawn,
)
from agentos.kernel.ids import uuid7
from agentos.sidecar.people import People
from agentos.sidecar.providers.base import Permission, Verdict

PERMISSION = Permission("p", "Write", {"content": "x" * 50_000, "odd": ["\udc80", 1]}, "worker")


class Told:
    """What was said to the keeper."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[FromAgent] = asyncio.Queue()

    def __call__(self, frame: FromAgent) -> None:
        self.frames.put_nowait(frame)

    async def next(self) -> FromAgent:
        async with asyncio.timeout(10):
            return await self.frames.get()


async def test_the_same_question_is_repeated_until_it_is_answered() -> None:
    told = Told()
    people = People(told, repeat=0.01)
    asking = asyncio.create_task(people.ask(uuid7(), PERMISSION))
    first, second, third = await told.next(), await told.next(), await told.next()
    assert first == second == third
    assert isinstance(first, PermissionAsked)
    assert first.agent == "worker"
    assert len(first.arguments["content"]) == 20_000
    assert first.arguments["odd"] == ["\ufffd", 1]
    people.answered(PermissionAnswer(request_id=first.request_id, allow=False, reason="no"))
    # Whatever comes later changes nothing.
    people.answered(PermissionAnswer(request_id=first.request_id, allow=True))
    assert await asking == Verdict(False, "no")
    people.answered(PermissionAnswer(request_id=first.request_id, allow=True))


async def test_no_word_is_a_no_and_the_question_is_withdrawn() -> None:
    told = Told()
    verdict = await People(told, patience=0.01).ask(uuid7(), PERMISSION)
    assert not verdict.allow
    assert verdict.reason == "Nobody has allowed it in time."
    asked, withdrawn = await told.next(), await told.next()
    assert isinstance(asked, PermissionAsked)
    assert withdrawn == PermissionWithdrawn(request_id=asked.request_id)


async def test_a_call_that_is_taken_back_is_withdrawn() -> None:
    told = Told()
    asking = asyncio.create_task(People(told).ask(uuid7(), PERMISSION))
    asked = await told.next()
    assert isinstance(asked, PermissionAsked)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await told.next() == PermissionWithdrawn(request_id=asked.request_id)


async def test_questions_asked_at_the_same_time_are_kept_apart() -> None:
    told = Told()
    people = People(told)
    one = asyncio.create_task(people.ask(uuid7(), PERMISSION))
    first = await told.next()
    two = asyncio.create_task(people.ask(uuid7(), PERMISSION))
    second = await told.next()
    assert isinstance(first, PermissionAsked)
    assert isinstance(second, PermissionAsked)
    people.answered(PermissionAnswer(request_id=second.request_id, allow=True))
    people.answered(PermissionAnswer(request_id=first.request_id, allow=False))
    assert [(await one).allow, (await two).allow] == [False, True]
