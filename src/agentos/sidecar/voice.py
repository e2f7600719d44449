"""What an agent says and does while it answers, as whoever watches hears it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

import msgspec

from agentos.contracts.crew import Activity, Chat, Chunk, Deed
from agentos.sidecar.texts import clean, shortened

# Words that come close together go out together; the first ones at once.
_PAUSE = 0.05
# A chat frame goes over the bus in one piece: so many characters fit, however they are written.
_MOST_CHARACTERS = 100_000
_MOST_SUMMARY = 500
_MOST_DEEDS = 1000


class Voice:
    """One message's words and deeds. Loses no word, whatever the pace."""

    def __init__(self, message_id: UUID, show: Callable[[Chat], None]) -> None:
        self._message_id = message_id
        self._show = show
        self._chunks = 0
        self._activities = 0
        # Words not yet sent, by who said them and in order.
        self._pending: list[tuple[str | None, list[str]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._deeds: dict[str, Deed] = {}

    @property
    def deeds(self) -> tuple[Deed, ...]:
        """The last of what was done, in the order in which it began."""
        return tuple(self._deeds.values())

    def words(self, text: str, agent: str | None = None) -> None:
        if not text:
            return
        if self._pending and self._pending[-1][0] == agent:
            self._pending[-1][1].append(text)
        else:
            self._pending.append((agent, [text]))
        if self._timer is None:
            self._flush()
            self._timer = asyncio.get_running_loop().call_later(_PAUSE, self._pause_over)

    def again(self) -> None:
        """What was said so far is void. Watchers hear it if there was something."""
        self._pending.clear()
        if self._chunks:
            self._say("", None, reset=True)

    def void(self) -> None:
        """As `again`, for words of an earlier process that this one knows nothing of."""
        self._pending.clear()
        self._say("", None, reset=True)

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
        self._activities += 1
        self._show(Activity(message_id=self._message_id, n=self._activities, deed=deed))

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
        pending, self._pending = self._pending, []
        for agent, pieces in pending:
            text = clean("".join(pieces))
            for at in range(0, len(text), _MOST_CHARACTERS):
                self._say(text[at : at + _MOST_CHARACTERS], agent)

    def _say(self, text: str, agent: str | None, *, reset: bool = False) -> None:
        self._chunks += 1
        self._show(
            Chunk(message_id=self._message_id, n=self._chunks, text=text, agent=agent, reset=reset)
        )
