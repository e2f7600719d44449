"""What an agent says and does while it answers, as whoever watches hears it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from uuid import UUID

import msgspec

from agentos.contracts.crew import Activity, Chat, Chunk, Deed
from agentos.sidecar.texts import clean, shortened

# Words that come close together go out together; the first ones at once.
_PAUSE = 0.05
# A gateway passes on pieces of up to 64 KB: so many characters fit, however they are written.
_MOST_CHARACTERS = 10_000
_MOST_SUMMARY = 500
_MOST_DEEDS = 1000
# What is repeated comes all at once, also to watchers on slow lines, who must not lose any of it.
# So many characters are at most 1 MB.
_MOST_KEPT = 250_000
_MOST_KEPT_SPANS = 500
_MOST_REPEATED_DEEDS = 200

# What one agent said without a break by others.
_Span = tuple[str | None, list[str]]
# Words of one frame, and who said them.
_Piece = tuple[str, str | None]


class Voice:
    """One message's words and deeds. Loses no word, whatever the pace."""

    def __init__(self, message_id: UUID, show: Callable[[Chat], None]) -> None:
        self._message_id = message_id
        self._show = show
        self._chunks = 0
        self._activities = 0
        # Words not yet sent, by who said them and in order.
        self._pending: list[_Span] = []
        self._kept = _Kept()
        self._timer: asyncio.TimerHandle | None = None
        self._deeds: dict[str, Deed] = {}

    @property
    def deeds(self) -> tuple[Deed, ...]:
        """The last of what was done, in the order in which it began."""
        return tuple(self._deeds.values())

    def words(self, text: str, agent: str | None = None) -> None:
        if not text:
            return
        _add(self._pending, text, agent)
        if self._timer is None:
            self._flush()
            self._timer = asyncio.get_running_loop().call_later(_PAUSE, self._pause_over)

    def again(self) -> None:
        """What was said so far is void. Watchers hear it if there was something."""
        self._forget()
        if self._chunks:
            self._say("", None, reset=True)

    def void(self) -> None:
        """As `again`, for words of an earlier process that this one knows nothing of."""
        self._forget()
        self._say("", None, reset=True)

    def repeat(self) -> None:
        """Shows again what was said and done so far, for somebody who has just begun to watch.

        Watchers who know it all know the same afterwards. Hence of an answer that has become too
        long no words are shown again: those who have them would lose some to the reset, and whoever
        is new hears the rest, and then gets the answer. Of many deeds the last are shown.
        """
        fresh = self._taken()
        if not self._kept.whole:
            self._say_all(fresh)
        elif self._chunks:
            # Without words it says that none are missing: what was said is void.
            (text, agent), *others = [*self._kept.pieces()] or [("", None)]
            self._say(text, agent, reset=True)
            self._say_all(others)
        for deed in self.deeds[-_MOST_REPEATED_DEEDS:]:
            self._tell(deed)

    def did(self, deed: Deed) -> None:
        deed = Deed(
            id=clean(deed.id),
            tool=clean(deed.tool),
            summary=shortened(clean(deed.summary), _MOST_SUMMARY),
            state=deed.state,
            agent=None if deed.agent is None else clean(deed.agent),
        )
        if self._deeds.get(deed.id) == deed:
            return
        self._deeds[deed.id] = deed
        if len(self._deeds) > _MOST_DEEDS:
            del self._deeds[next(iter(self._deeds))]
        # What was said before it was done is heard before it.
        self._flush()
        self._tell(deed)

    def end(self) -> None:
        """Says the last words; what still runs will not end any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._flush()
        for deed in self.deeds:
            if deed.state == "running":
                self.did(msgspec.structs.replace(deed, state="failed"))

    def _pause_over(self) -> None:
        self._timer = None
        if self._pending:
            self._flush()
            self._timer = asyncio.get_running_loop().call_later(_PAUSE, self._pause_over)

    def _flush(self) -> None:
        self._say_all(self._taken())

    def _taken(self) -> list[_Piece]:
        """What is to be said next; from here on it counts as said."""
        pending, self._pending = self._pending, []
        taken = list(_pieces(pending))
        for text, agent in taken:
            self._kept.add(text, agent)
        return taken

    def _say_all(self, pieces: Iterable[_Piece]) -> None:
        for text, agent in pieces:
            self._say(text, agent)

    def _forget(self) -> None:
        self._pending.clear()
        self._kept = _Kept()

    def _say(self, text: str, agent: str | None, *, reset: bool = False) -> None:
        self._chunks += 1
        self._show(
            Chunk(message_id=self._message_id, n=self._chunks, text=text, agent=agent, reset=reset)
        )

    def _tell(self, deed: Deed) -> None:
        self._activities += 1
        self._show(Activity(message_id=self._message_id, n=self._activities, deed=deed))


class _Kept:
    """The words that were said, until they are too many to be said again: then none of them."""

    def __init__(self) -> None:
        self.whole = True
        self._spans: list[_Span] = []
        self._characters = 0

    def add(self, text: str, agent: str | None) -> None:
        if not self.whole:
            return
        _add(self._spans, text, agent)
        self._characters += len(text)
        if self._characters > _MOST_KEPT or len(self._spans) > _MOST_KEPT_SPANS:
            self.whole = False
            self._spans.clear()

    def pieces(self) -> Iterator[_Piece]:
        return _pieces(self._spans)


def _add(spans: list[_Span], text: str, agent: str | None) -> None:
    if spans and spans[-1][0] == agent:
        spans[-1][1].append(text)
    else:
        spans.append((agent, [text]))


def _pieces(spans: list[_Span]) -> Iterator[_Piece]:
    """The words of spans, in pieces that the bus and the gateways carry."""
    for agent, texts in spans:
        text = clean("".join(texts))
        for at in range(0, len(text), _MOST_CHARACTERS):
            yield text[at : at + _MOST_CHARACTERS], agent
