"""How the words of one answer are said, and said again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import msgspec
import pytest
from tests.execution.pulse.test_live import put_together

from agentos.contracts.crew import Chunk, decode_chat
from agentos.execution.pulse import voices
from agentos.execution.pulse.joins import Joins
from agentos.execution.pulse.live import Audience
from agentos.execution.pulse.parts import PulseParts
from agentos.execution.pulse.voices import ChatVoice, Voice
from agentos.kernel.bus import Bus

SESSION, MESSAGE = UUID(int=1), UUID(int=2)


class Ear:
    """A bus that lets others go first each time."""

    is_connected = True

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    async def publish(self, subject: str, data: bytes) -> None:
        await asyncio.sleep(0)
        self.heard.append(data)

    @property
    def bus(self) -> Bus:
        return cast(Bus, self)

    def words(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(data) for data in self.heard]

    def chunks(self) -> list[Chunk]:
        chunks = [decode_chat(data) for data in self.heard]
        return [chunk for chunk in chunks if isinstance(chunk, Chunk)]


async def test_a_long_text_is_said_in_pieces_that_a_gateway_passes_on() -> None:
    ear = Ear()
    voice, text = Voice(ear.bus, SESSION, 7), "\x01" * 25_000
    await voice.say(text)
    assert max(map(len, ear.heard)) < 64 * 1024
    assert [piece["reset"] for piece in ear.words()] == [True, False, False]
    assert put_together(ear.words()) == text
    await voice.again()
    await voice.end()
    assert put_together(ear.words()) == text
    assert [piece["done"] for piece in ear.words()].count(True) == 1


async def test_words_that_come_while_it_is_said_again_come_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(voices, "_PIECE_SECONDS", 0.0)
    ear = Ear()
    voice, said = Voice(ear.bus, SESSION, 7), [f"{n} " * 1000 for n in range(100)]

    async def speak() -> None:
        for words in said:
            await voice.say(words)
        await voice.end()

    speaking = asyncio.create_task(speak())
    for _ in range(10):
        await asyncio.sleep(0)
        await voice.again()
    await speaking
    assert put_together(ear.words()) == "".join(said)
    assert sum(piece["reset"] for piece in ear.words()) > 1


async def test_a_team_worker_makes_nothing_void_and_is_silent_while_it_is_held() -> None:
    ear, audience = Ear(), Audience()
    voice = ChatVoice(ear.bus, audience, "chat", MESSAGE, "writer", goes_on=True)
    await voice.say("")
    assert ear.heard == []
    await voice.say("one ")
    voice.hold()
    await voice.say("two ")
    assert [chunk.text for chunk in ear.chunks()] == ["\n\none "]
    await voice.again()
    assert ear.chunks()[-1].text == "\n\none two "
    voice.hold()
    await voice.say("three")
    await voice.end()
    assert ear.chunks()[-1].text == "\n\none two three"
    assert {(chunk.agent, chunk.reset) for chunk in ear.chunks()} == {("writer", False)}
    assert [chunk.n for chunk in ear.chunks()] == [0, 1, 2]


async def test_those_who_come_together_are_told_once_and_the_last_one_too() -> None:
    ear, audience = Ear(), Audience()
    joins = Joins(cast(PulseParts, SimpleNamespace(audience=audience)), lambda: ())
    voice = Voice(ear.bus, SESSION, 7)
    joins.joined(SESSION)
    assert not joins._tasks, "nobody speaks"
    with audience.sessions.speaking(SESSION, voice):
        joins.joined(SESSION)
        await asyncio.gather(*joins._tasks)
        assert ear.heard == [], "nothing was said yet"
        await voice.say("Hello")
        for _ in range(5):
            joins.joined(SESSION)
        while len(ear.heard) < 2:  # noqa: ASYNC110 - one turn of the loop at a time
            await asyncio.sleep(0)
        for _ in range(5):
            joins.joined(SESSION)
        await asyncio.gather(*joins._tasks)
    told = ear.words()[1:]
    assert [(piece["text"], piece["reset"]) for piece in told] == [("Hello", True)] * 2
    assert not audience.sessions.of(SESSION)
    joins.joined(SESSION)
    await joins.close()
    assert len(ear.heard) == 3
