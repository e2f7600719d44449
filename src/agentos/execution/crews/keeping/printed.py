"""What an agent CLI prints, on its way into the log of its team: beside the conversation, which
never waits for it, and not more than a sandbox may fill the database with."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import asyncpg

from agentos.execution.crews.keeping import claims
from agentos.execution.crews.keeping.claims import Claim, Lost
from agentos.execution.crews.logs import repository as logs
from agentos.execution.crews.logs.lines import MOST_RAW, left_out, printed
from agentos.execution.crews.parts import CrewParts
from agentos.kernel.errors import Unavailable
from agentos.kernel.logs import get_logger

log = get_logger(__name__)

# Written at one time, with how many seconds between two times.
_MOST_LINES = 200
_PAUSE = 1.0
# What the end of a team waits for at most.
_FAREWELL = 5.0


class Printed:
    """Lines of one team's agent that wait to be written. Of too many, the oldest are left out."""

    def __init__(self, parts: CrewParts, claim: Claim) -> None:
        self._parts = parts
        self._claim = claim
        # With room for one that says how many are left out.
        self._waiting: deque[str] = deque(maxlen=_MOST_LINES - 1)
        self._left_out = 0
        self._closing = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    def add(self, lines: Sequence[str]) -> None:
        """Has lines written soon, if that is possible."""
        if not lines:
            return
        self._left_out += max(0, len(self._waiting) + len(lines) - (_MOST_LINES - 1))
        self._waiting.extend(line[:MOST_RAW] for line in lines[-_MOST_LINES:])
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def close(self) -> None:
        """Writes what still waits."""
        self._closing.set()
        if self._writing is not None:
            await asyncio.wait({self._writing}, timeout=_FAREWELL)
            self._writing.cancel()

    async def _write(self) -> None:
        while self._waiting:
            await self._flush()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE):
                    await self._closing.wait()

    async def _flush(self) -> None:
        raw = [*left_out(self._left_out), *self._waiting]
        self._waiting.clear()
        self._left_out = 0
        # Beside the loop: what a sandbox says may take a while to read.
        lines = (await asyncio.to_thread(printed, raw))[-_MOST_LINES:]
        claim = self._claim
        try:
            async with self._parts.db.transaction(tenant_id=claim.tenant_id) as tx:
                await claims.hold(tx, claim)
                now = self._parts.clock.now()
                await logs.write(tx, claim.tenant_id, claim.team_id, now, *lines)
        except (Lost, Unavailable, asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            log.warning("a team's output is not kept", team=str(claim.team_id), error=repr(error))
