"""What watchers hear, and what somebody hears who comes later."""

from __future__ import annotations

import asyncio

import pytest

from agentos.contracts.crew import Activity, Chat, Chunk, Deed, encode
from agentos.gateway.events import chats
from agentos.kernel.ids import uuid7
from agentos.sidecar import voice as voices
from agentos.sidecar.voice import Voice

Said = list[tuple[str | None, str]]


class Watcher:
    """Puts together what it hears, as the dashboard does."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.said: Said = []
        self.deeds: dict[str, Deed] = {}

    def hear(self, frame: Chat) -> None:
        if isinstance(frame, Activity):
            self.deeds[frame.deed.id] = frame.deed
            return
        self.chunks.append(frame)
        if frame.reset:
            self.said = []
        if self.said and self.said[-1][0] == frame.agent:
            self.said[-1] = (frame.agent, self.said[-1][1] + frame.text)
        elif frame.text:
            self.said.append((frame.agent, frame.text))


class Stage:
    """A voice, and all who watch it."""

    def __init__(self) -> None:
        self.watchers: list[Watcher] = []
        self.frames: list[Chat] = []
        self.voice = Voice(uuid7(), self._show)

    def _show(self, frame: Chat) -> None:
        self.frames.append(frame)
        for watcher in self.watchers:
            watcher.hear(frame)

    def joined(self) -> Watcher:
        watcher = Watcher()
        self.watchers.append(watcher)
        return watcher


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def test_whoever_comes_later_hears_the_beginning(stage: Stage) -> None:
    first = stage.joined()
    for text, agent in (("I ask. ", None), ("On ", "helper"), ("it.", "helper"), ("Wait", None)):
        stage.voice.words(text, agent)
    stage.voice.did(Deed("1", "Bash", "ls", "running"))
    stage.voice.words(": ")
    late = stage.joined()
    stage.voice.repeat()
    stage.voice.words("seen.")
    stage.voice.did(Deed("1", "Bash", "ls", "done"))
    stage.voice.end()
    whole = [(None, "I ask. "), ("helper", "On it."), (None, "Wait: seen.")]
    assert late.said == first.said == whole
    assert list(late.deeds.values()) == list(stage.voice.deeds) == [Deed("1", "Bash", "ls")]
    assert [chunk.n for chunk in first.chunks] == list(range(1, len(first.chunks) + 1))
    assert [chunk.reset for chunk in late.chunks] == [True, False, False, False]


async def test_words_on_their_way_are_neither_lost_nor_doubled(stage: Stage) -> None:
    first = stage.joined()
    stage.voice.words("one ")
    # Not sent before the pause is over.
    stage.voice.words("two ")
    assert first.said == [(None, "one ")]
    late = stage.joined()
    stage.voice.repeat()
    assert late.said == first.said == [(None, "one two ")]
    stage.voice.words("three")
    stage.voice.repeat()
    stage.voice.repeat()
    stage.voice.end()
    assert late.said == first.said == [(None, "one two three")]


async def test_before_the_first_word_there_is_nothing_to_repeat(stage: Stage) -> None:
    stage.voice.repeat()
    assert stage.frames == []


@pytest.mark.parametrize("how", ["again", "void"])
async def test_what_is_void_is_not_repeated(stage: Stage, how: str) -> None:
    stage.voice.words("no")
    stage.voice.words("nsense")
    getattr(stage.voice, how)()
    late = stage.joined()
    stage.voice.repeat()
    # It knows that nothing is missing.
    assert [(chunk.text, chunk.reset) for chunk in late.chunks] == [("", True)]
    stage.voice.words("sense")
    stage.voice.repeat()
    stage.voice.end()
    assert late.said == [(None, "sense")]


async def test_what_is_repeated_comes_in_pieces_that_a_gateway_passes_on(stage: Stage) -> None:
    # What takes the most room in JSON.
    text = "\x01" * 25_000
    stage.voice.words(text)
    late = stage.joined()
    stage.voice.repeat()
    assert late.said == [(None, text)]
    for frame in stage.frames:
        (data,) = encode(frame)
        assert chats._piece(uuid7(), data) is not None


@pytest.mark.parametrize(
    ("count", "text", "agents"), [(300, "x" * 1000, [None]), (600, "x", [None, "helper"])]
)
async def test_an_answer_that_is_too_long_keeps_those_who_have_it_all(
    stage: Stage, count: int, text: str, agents: list[str | None]
) -> None:
    first = stage.joined()
    for n in range(count):
        stage.voice.words(text, agents[n % len(agents)])
        await asyncio.sleep(0)
    stage.voice.did(Deed("1", "Bash"))
    late = stage.joined()
    before = list(first.said)
    stage.voice.repeat()
    assert (first.said, late.said) == (before, [])
    assert list(late.deeds) == ["1"]
    assert not stage.voice._kept._spans, "nothing is kept for nobody"
    stage.voice.again()
    stage.voice.words("short")
    stage.voice.repeat()
    assert late.said == [(None, "short")]


async def test_of_many_deeds_the_last_are_repeated(stage: Stage) -> None:
    for n in range(voices._MOST_REPEATED_DEEDS + 5):
        stage.voice.did(Deed(str(n), "Bash"))
    late = stage.joined()
    stage.voice.repeat()
    assert len(late.deeds) == voices._MOST_REPEATED_DEEDS
    assert next(iter(late.deeds)) == "5"
