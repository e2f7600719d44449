"""Those who begin to watch amid an answer: what was said of it so far is said again for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from uuid import UUID

from agentos.execution.crews.native_again import tell_again
from agentos.execution.pulse.journal import Session
from agentos.execution.pulse.parts import PulseParts

# Several who come within so many seconds are told once.
_PAUSE_SECONDS = 0.25


class Joins:
    """One for each engine."""

    def __init__(self, parts: PulseParts, sessions: Callable[[], Collection[Session]]):
        """`sessions` says which are being worked on here."""
        self._parts = parts
        self._sessions = sessions
        # The session or team that is being told of, and whether somebody came too late for it.
        self._late: dict[UUID, bool] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def joined(self, thing_id: UUID) -> None:
        """Somebody watches this session or team from now on."""
        if thing_id in self._late:
            self._late[thing_id] = True
        elif self._parts.audience.sessions.of(thing_id) or self._of_team(thing_id):
            self._late[thing_id] = False
            task = asyncio.create_task(self._tell(thing_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def told(self, team_id: UUID) -> None:
        """A team's chat was told again: team workers that are speaking here begin anew."""
        for voice in self._parts.audience.chats.of(team_id):
            if voice.agent is not None and voice.has_spoken:
                await voice.again()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _of_team(self, team_id: UUID) -> list[Session]:
        return [session for session in self._sessions() if session.team_id == team_id]

    async def _tell(self, thing_id: UUID) -> None:
        try:
            while True:
                self._late[thing_id] = False
                await self._once(thing_id)
                if not self._late[thing_id]:
                    return
        finally:
            del self._late[thing_id]

    async def _once(self, thing_id: UUID) -> None:
        audience = self._parts.audience
        for voice in audience.sessions.of(thing_id):
            if voice.has_spoken:
                await voice.again()
        held = [voice for voice in audience.chats.of(thing_id) if voice.agent is not None]
        for worker in held:
            worker.hold()
        try:
            if sessions := self._of_team(thing_id):
                here = {session.id for session in sessions}
                await tell_again(self._parts, sessions[0].tenant_id, thing_id, here)
            await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            for worker in held:
                worker.go_on()
