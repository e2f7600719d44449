"""The sidecar's end of the bus: frames out in order, frames in as they come."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from agentos.contracts.crew import (
    BadFrame,
    Chat,
    FromAgent,
    Joiner,
    TeamSpec,
    ToAgent,
    chat_subject,
    encode,
    from_agent_subject,
    to_agent_subject,
)
from agentos.kernel.bus import Bus, Message
from agentos.kernel.errors import AgentOSError, Unavailable

# While the bus is away frames wait; what is sent again anyway may be lost beyond this.
_MOST_WAITING = 10_000

_log = logging.getLogger(__name__)


class Wire:
    """Sends without waiting: a slow bus must not hold up the agent. Nothing sent here is the only
    copy of anything."""

    def __init__(self, bus: Bus, spec: TeamSpec) -> None:
        self._bus = bus
        self._to_agent = to_agent_subject(spec.tenant_id, spec.team_id)
        self._from_agent = from_agent_subject(spec.tenant_id, spec.team_id)
        self._chat = chat_subject(spec.tenant_id, spec.team_id)
        self._frames: asyncio.Queue[tuple[str, ToAgent | FromAgent | Chat, str]] = asyncio.Queue(
            _MOST_WAITING
        )
        self._connected = asyncio.Event()
        if bus.is_connected:
            self._connected.set()

    @property
    def is_connected(self) -> bool:
        return self._bus.is_connected

    @property
    def is_quiet(self) -> bool:
        """Whether all was sent that had to be: then there is room to say things again."""
        return self._frames.empty() and self.is_connected

    def state(self, state: str) -> None:
        """Told by the bus: connected, disconnected or closed."""
        if state == "connected":
            self._connected.set()
        else:
            self._connected.clear()

    async def listen(self, heard: Callable[[ToAgent], None]) -> None:
        """Calls `heard` with every frame for the agent from now on."""
        joiner = Joiner()

        async def receive(message: Message) -> None:
            try:
                frame = joiner.to_agent(message.data)
            except BadFrame as error:
                _log.warning("not a frame for an agent: %s", error)
                return
            if frame is not None:
                heard(frame)

        await self._bus.subscribe(self._to_agent, receive)

    def tell(self, frame: FromAgent, frame_id: str = "") -> None:
        """To the keeper."""
        self._put(self._from_agent, frame, frame_id)

    def show(self, frame: Chat) -> None:
        """To whoever watches the chat."""
        self._put(self._chat, frame, "")

    def _put(self, subject: str, frame: FromAgent | Chat, frame_id: str) -> None:
        try:
            self._frames.put_nowait((subject, frame, frame_id))
        except asyncio.QueueFull:
            _log.warning("the bus is away for too long: a frame is dropped")

    async def run(self) -> None:
        """Sends what is told and shown, in order, until it is cancelled."""
        while True:
            subject, frame, frame_id = await self._frames.get()
            # Whoever tells of something is about to do it; the telling can wait for that.
            await asyncio.sleep(0)
            await self._connected.wait()
            try:
                for data in encode(frame, frame_id):
                    await self._bus.publish(subject, data)
            except Unavailable as error:
                _log.info("not sent: %s", error)
            except (AgentOSError, TypeError, ValueError) as error:
                # Nothing that an agent says may end the sidecar, not even what is no JSON.
                _log.warning("cannot be sent: %s", error)
            finally:
                self._frames.task_done()

    async def sent(self, seconds: float) -> None:
        """Returns when all was sent, or after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._frames.join()
                await self._bus.flush(seconds)
        except (TimeoutError, Unavailable):
            _log.info("the last frames may not have been sent")
