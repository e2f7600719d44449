"""Tool calls that a person decides about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID, uuid4

from agentos.contracts.crew import (
    FromAgent,
    PermissionAnswer,
    PermissionAsked,
    PermissionWithdrawn,
)
from agentos.sidecar.providers.base import Permission, Verdict
from agentos.sidecar.texts import clean, tidy

# The question is repeated until it is answered: the keeper may not have been there.
_REPEAT = 5.0
_PATIENCE = 3600.0
# Of each text among the arguments: a person decides by its beginning.
_MOST_CHARACTERS = 20_000


class People:
    """Asks through the keeper and waits."""

    def __init__(
        self,
        tell: Callable[[FromAgent], None],
        *,
        repeat: float = _REPEAT,
        patience: float = _PATIENCE,
    ) -> None:
        self._tell = tell
        self._repeat = repeat
        self._patience = patience
        self._open: dict[str, asyncio.Future[Verdict]] = {}

    async def ask(self, message_id: UUID, permission: Permission) -> Verdict:
        """A person's word; no word in an hour is a no. Cancelled: the question is withdrawn."""
        request_id = uuid4().hex
        asked = PermissionAsked(
            request_id=request_id,
            message_id=message_id,
            tool=clean(permission.tool),
            arguments=tidy(permission.arguments, _MOST_CHARACTERS),
            agent=permission.agent,
        )
        answered: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._open[request_id] = answered
        try:
            async with asyncio.timeout(self._patience):
                return await self._answer(asked, answered)
        except TimeoutError:
            return Verdict(False, "Nobody has allowed it in time.")
        finally:
            del self._open[request_id]
            if not answered.done() or answered.cancelled():
                self._tell(PermissionWithdrawn(request_id=request_id))

    def answered(self, answer: PermissionAnswer) -> None:
        """What a person said; to a question that is no longer open it says nothing."""
        future = self._open.get(answer.request_id)
        if future is not None and not future.done():
            reason = answer.reason or ("" if answer.allow else "A person has refused it.")
            future.set_result(Verdict(answer.allow, reason))

    async def _answer(self, asked: PermissionAsked, answered: asyncio.Future[Verdict]) -> Verdict:
        while not answered.done():
            self._tell(asked)
            await asyncio.wait({answered}, timeout=self._repeat)
        return answered.result()
