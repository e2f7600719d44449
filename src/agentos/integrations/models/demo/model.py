"""The built-in model: always the same answer to the same conversation, with no key and no network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from hashlib import sha256

import msgspec

from agentos.integrations.models.conversation import (
    Answer,
    Broken,
    Conversation,
    Finish,
    Finished,
    OutputFormat,
    Started,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolDelta,
    ToolStarted,
    Usage,
)
from agentos.integrations.models.demo.drafts import (
    Call,
    Draft,
    Fail,
    Pause,
    Report,
    Say,
    Think,
    said,
)
from agentos.integrations.models.demo.embeddings import embed
from agentos.integrations.models.demo.instances import instance
from agentos.integrations.models.demo.json_text import is_json
from agentos.integrations.models.demo.replies import forced_tool, reply
from agentos.integrations.models.demo.script import minimal_arguments, scripted
from agentos.integrations.models.demo.tokens import count, count_tokens, pieces
from agentos.integrations.models.folding import fold

_UNLIMITED = 1 << 62
_LETTERS_OF_ARGUMENTS = 24


class DemoModel:
    """Answers by simple rules, or as a script in the prompt says."""

    def answer(self, conversation: Conversation) -> Iterator[StreamEvent | Pause]:
        """The answer, bit by bit. Ends with Finished, or with Broken if the script says so."""
        return _Speech(conversation).events()

    def whole(self, conversation: Conversation) -> Answer:
        """The same at once. Raises StreamBroken if the script says so."""
        return fold(e for e in self.answer(conversation) if not isinstance(e, Pause))

    async def play(self, conversation: Conversation) -> AsyncGenerator[StreamEvent]:
        """The answer, with the pauses that the script asks for."""
        for event in self.answer(conversation):
            if isinstance(event, Pause):
                await asyncio.sleep(event.milliseconds / 1000)
            else:
                yield event

    def count_tokens(self, conversation: Conversation) -> int:
        return count_tokens(conversation)

    def embed(self, texts: Sequence[str], dimensions: int | None = None) -> list[list[float]]:
        return embed(texts, dimensions)


def _draft(conversation: Conversation) -> Draft:
    """What to do in this turn, as the caller allows it."""
    script = scripted(conversation)
    draft = reply(conversation) if script is None else script
    done = any(isinstance(act, Call | Fail) for act in draft)
    if not done and (tool := forced_tool(conversation)):
        draft = [*draft, Call(tool.name, minimal_arguments(tool))]
    elif not done and conversation.output_format and not (script and is_json(said(script))):
        draft = _as_json(draft, conversation.output_format)
    return _stopped(draft, [stop for stop in conversation.stop if stop])


def _as_json(draft: Draft, wanted: OutputFormat) -> Draft:
    """The draft with JSON instead of its text."""
    made = {"answer": said(draft)} if wanted.schema is None else instance(wanted.schema)
    others = [act for act in draft if not isinstance(act, Say)]
    return [*others, Say.words(msgspec.json.encode(made).decode())]


def _stopped(draft: Draft, stops: Sequence[str]) -> Draft:
    """The draft up to the first stop sequence in its text."""
    text = said(draft)
    ends = [at for stop in stops if (at := text.find(stop)) >= 0]
    if not ends:
        return draft
    left = min(ends)
    kept: Draft = []
    for act in draft:
        if not isinstance(act, Say):
            kept.append(act)
        elif len(act.text) <= left:
            left -= len(act.text)
            kept.append(act)
        else:
            kept.append(Say((act.text[:left],)))
            break
    return kept


class _Speech:
    """Turns a draft into events, until the caller's limit is reached."""

    def __init__(self, conversation: Conversation):
        self._conversation = conversation
        # Whether it is streamed makes no difference to what is said.
        asked = repr(msgspec.structs.replace(conversation, stream=False))
        self._digest = sha256(asked.encode("utf-8", "backslashreplace")).hexdigest()
        self._draft = _draft(conversation)
        self._input = count_tokens(conversation)
        self._left = _UNLIMITED
        if conversation.max_tokens is not None:
            self._left = max(1, conversation.max_tokens)
        self._output = 0
        self._reasoning = 0
        self._index = -1
        self._in_text = False

    def events(self) -> Iterator[StreamEvent | Pause]:
        begun = False
        for act in self._draft:
            if isinstance(act, Pause):
                yield act
                continue
            if isinstance(act, Fail):
                yield Broken(act.error_class.value, act.message)
                return
            if not begun:
                begun = True
                yield self._started()
            fits = yield from self._perform(act)
            if not fits:
                yield Finished(Finish.LENGTH, self._usage())
                return
        if not begun:
            yield self._started()
        called = any(isinstance(act, Call) for act in self._draft)
        yield Finished(Finish.TOOL_USE if called else Finish.STOP, self._usage())

    def _perform(self, act: Say | Think | Call | Report) -> Generator[StreamEvent, None, bool]:
        """The events of one act; returns whether there was room for all of it."""
        match act:
            case Say():
                return (yield from self._say(act))
            case Think():
                return (yield from self._think(act))
            case Call():
                return (yield from self._call(act))
            case Report():
                return True

    def _say(self, act: Say) -> Generator[StreamEvent, None, bool]:
        for chunk in act.chunks:
            text = self._cut(chunk)
            if text:
                if not self._in_text:
                    self._next_part()
                    self._in_text = True
                yield TextDelta(self._index, text)
            if text != chunk:
                return False
        return True

    def _think(self, act: Think) -> Generator[StreamEvent, None, bool]:
        self._next_part()
        before = self._output
        fits = True
        for chunk in Say.words(act.text).chunks:
            text = self._cut(chunk)
            if text:
                yield ThinkingDelta(self._index, text)
            if text != chunk:
                fits = False
                break
        self._reasoning += self._output - before
        yield ThinkingDelta(self._index, "", self._id("sig"))
        return fits

    def _call(self, act: Call) -> Generator[StreamEvent, None, bool]:
        # Half a call is of no use to anybody, so it is made whole or not at all.
        size = count(act.name) + count(act.arguments)
        if size > self._left:
            return False
        self._left -= size
        self._output += size
        self._next_part()
        yield ToolStarted(self._index, self._id("call"), act.name)
        for start in range(0, len(act.arguments), _LETTERS_OF_ARGUMENTS):
            yield ToolDelta(self._index, act.arguments[start : start + _LETTERS_OF_ARGUMENTS])
        return True

    def _cut(self, chunk: str) -> str:
        """As much of the chunk as there is room for."""
        tokens = pieces(chunk)[: self._left]
        self._left -= len(tokens)
        self._output += len(tokens)
        return "".join(tokens)

    def _next_part(self) -> None:
        self._index += 1
        self._in_text = False

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{sha256(f'{self._digest}{self._index}'.encode()).hexdigest()[:24]}"

    def _started(self) -> Started:
        usage = self._reported() or Usage(input=self._input)
        usage = msgspec.structs.replace(usage, output=0)
        return Started(f"demo_{self._digest[:24]}", self._conversation.model, usage)

    def _usage(self) -> Usage:
        counted = Usage(self._input, max(1, self._output), reasoning=self._reasoning)
        return self._reported() or counted

    def _reported(self) -> Usage | None:
        """What the script wants to be reported."""
        return next((act.usage for act in self._draft if isinstance(act, Report)), None)
