"""What a keeper has heard of its place, and when."""

from __future__ import annotations

import asyncio
from typing import Literal

from agentos.contracts.crew import Beat
from agentos.execution.crews.keeping.pace import Pace


class Watch:
    """Over one life of a place."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._clock = asyncio.get_running_loop().time
        self._started = self._heard_at = self._clock()
        self._looked_at = self._clock()
        self._answered_at: float | None = None
        self._said: Beat | None = None
        self._beaten = False
        self.degraded = False
        self.cleared = False

    def heard(self) -> None:
        """Whatever comes says that it lives."""
        self._heard_at = self._clock()

    def news(self, beat: Beat) -> bool:
        """Whether a beat says something that is not known yet."""
        self._beaten = True
        return self.degraded or self._said is None or _news(beat) != _news(self._said)

    def known(self, beat: Beat) -> None:
        """What a beat says is in the database."""
        self._said, self.degraded = beat, False

    def unknown(self) -> None:
        """What the database says of the place may be something else than it said."""
        self._said = None

    def deaf(self) -> None:
        """Nothing can be heard now: silence means nothing."""
        self._heard_at = self._clock()

    def looks(self) -> bool:
        """Whether it is time to look into the database."""
        now = self._clock()
        if now - self._looked_at < self._pace.look:
            return False
        self._looked_at = now
        return True

    def answered(self) -> None:
        self._answered_at = self._clock()

    def keeps_files(self) -> bool:
        """Whether it is time to keep the files that the last answers left; once for each rest."""
        at = self._answered_at
        if at is None or self._clock() - at < self._pace.keep_files:
            return False
        self._answered_at = None
        return True

    def silence(self) -> Literal["dead", "unborn", "long"] | None:
        """What the silence of a place means; None: nothing."""
        silent = self._clock() - self._heard_at
        if not self._beaten:
            return "unborn" if silent > self._pace.first_word else None
        if silent > self._pace.gone:
            return "dead"
        return "long" if silent > self._pace.silent else None

    def sound(self) -> bool:
        return self._beaten and self._clock() - self._started > self._pace.sound


def _news(beat: Beat) -> tuple[object, ...]:
    ready = beat.state in ("idle", "busy")
    return beat.boot, ready or beat.state, beat.version, beat.conversation, beat.mcp, beat.reason
