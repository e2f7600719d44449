"""A runtime that runs nothing, and a sidecar that says what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

from tests.execution.crews.kept_lab import Crew

from agentos.contracts.crew import (
    Beat,
    FromAgent,
    Joiner,
    ToAgent,
    encode,
    from_agent_subject,
    to_agent_subject,
)
from agentos.integrations.runtimes.base import Ended, Place, RuntimeMissing
from agentos.kernel.bus import Message

T = TypeVar("T", bound=ToAgent)
# Nothing here takes long.
PATIENCE = 20.0


@dataclass
class Running:
    """A place that ends when it is told to."""

    place: Place
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = "It was stopped."
    output: str = ""

    async def ended(self) -> Ended:
        await self.ending.wait()
        return Ended(1, self.reason, self.output)

    async def stop(self, seconds: float) -> None:
        self.ending.set()

    async def memory_bytes(self) -> int | None:
        return None

    def crash(self, reason: str) -> None:
        self.reason = reason
        self.ending.set()


@dataclass
class FakeRuntime:
    """Also stands for the runtimes of a machine."""

    started: list[Running] = field(default_factory=list)
    # What becomes of each start.
    on_start: Callable[[Running], None] = lambda _: None
    missing: str | None = None
    name: str = "local"
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def check(self) -> None:
        if self.missing is not None:
            raise RuntimeMissing(self.missing, hint="Install it.")

    async def start(self, place: Place) -> Running:
        running = Running(place)
        self.on_start(running)
        async with self._changed:
            self.started.append(running)
            self._changed.notify_all()
        return running

    async def sweep(self, kept: frozenset[UUID]) -> None:
        return None

    async def lives(self, count: int) -> Running:
        """The newest place, once so many were started."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: len(self.started) >= count)
            return self.started[-1]

    # As `Runtimes` ---------------------------------------------------------------------------

    async def bundle(self) -> Any:
        return Bundle(Path("/nowhere"), ("true",))

    async def get(self, name: str, kept: Callable[[], Awaitable[frozenset[UUID]]]) -> FakeRuntime:
        await self.check()
        return self

    async def close(self) -> None:
        return None


@dataclass(frozen=True)
class Bundle:
    path: Path
    argv: tuple[str, ...]


class FakeSidecar:
    """Says what it is told to, and keeps what it hears."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.boot = uuid4().hex
        self.heard: list[ToAgent] = []
        self._joiner = Joiner()
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[FakeSidecar]:
        bus = self.crew.lab.gateway.parts.bus
        subject = to_agent_subject(self.crew.person.tenant_id, self.crew.id)
        subscription = await bus.subscribe(subject, self._hear)
        try:
            yield self
        finally:
            await subscription.unsubscribe()

    async def _hear(self, message: Message) -> None:
        frame = self._joiner.to_agent(message.data)
        if frame is not None:
            async with self._changed:
                self.heard.append(frame)
                self._changed.notify_all()

    async def say(self, frame: FromAgent) -> None:
        bus = self.crew.lab.gateway.parts.bus
        for piece in encode(frame, uuid4().hex):
            await bus.publish(from_agent_subject(self.crew.person.tenant_id, self.crew.id), piece)

    async def beat(self, state: Any = "idle", version: int = 1, **more: Any) -> None:
        await self.say(Beat(boot=self.boot, state=state, version=version, **more))

    async def ready(self) -> None:
        """Beats until the team is known to be running: what is said before the keeper listens is lost."""
        async with asyncio.timeout(PATIENCE):
            while (await self.crew.read())["status"] != "running":
                await self.beat()
                await asyncio.sleep(0.05)

    def all(self, kind: type[T]) -> list[T]:
        return [frame for frame in self.heard if isinstance(frame, kind)]

    async def hears(self, kind: type[T], count: int = 1) -> T:
        """The newest frame of a kind, once there are so many."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: len(self.all(kind)) >= count)
            return self.all(kind)[-1]
