"""Stand-ins around a sidecar: an agent that does as it is told, a keeper, and the bus between."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from agentos.contracts.crew import (
    AgentPermissions,
    AgentSpec,
    Answer,
    AnswerStored,
    Beat,
    Chat,
    FromAgent,
    Joiner,
    McpStatus,
    Started,
    TeamSpec,
    ToAgent,
    UserMessage,
    chat_subject,
    decode_chat,
    encode,
    from_agent_subject,
    to_agent_subject,
)
from agentos.kernel.bus import Bus, Message
from agentos.kernel.bus_credentials import BusAuthority, BusCredentials
from agentos.kernel.engines.account import engine_account
from agentos.kernel.engines.nats import EmbeddedNats
from agentos.kernel.ids import uuid7
from agentos.sidecar.agent import Patience
from agentos.sidecar.bridge import Bridge
from agentos.sidecar.providers.base import (
    Listener,
    ProviderDied,
    Question,
    Reply,
    Surroundings,
)
from agentos.sidecar.tasks import end
from agentos.sidecar.wire import Wire

AUTHORITY = BusAuthority(b"s" * 32)
# Crashes are followed by the next start at once: tests wait for events, not for pauses.
QUICK = Patience(first_pause=0.01, longest_pause=0.02, start=5, interrupt=0.2, stop=5)

Answering = Callable[["FakeAgent", Question, Listener], Awaitable[Reply]]
_T = TypeVar("_T")


async def echo(_agent: FakeAgent, question: Question, listener: Listener) -> Reply:
    """Says what it was asked."""
    listener.words(question.text)
    return Reply("answered", question.text)


class FakeAgents:
    """Makes agents, and remembers them and what they were asked."""

    def __init__(self, answering: Answering = echo) -> None:
        self.answering = answering
        self.made: list[FakeAgent] = []
        self.questions: list[Question] = []
        # What the next starts do: an error to raise, or None to succeed.
        self.starts: list[Exception | None] = []

    def __call__(
        self, spec: TeamSpec, surroundings: Surroundings, conversation: str | None
    ) -> FakeAgent:
        agent = FakeAgent(self, spec, surroundings, conversation)
        self.made.append(agent)
        return agent


class FakeAgent:
    """A provider without a process."""

    def __init__(
        self,
        agents: FakeAgents,
        spec: TeamSpec,
        surroundings: Surroundings,
        conversation: str | None,
    ) -> None:
        self.spec = spec
        self.surroundings = surroundings
        self.resumed = conversation
        self.interrupted = asyncio.Event()
        self.stopped = asyncio.Event()
        self._agents = agents
        self._dead: asyncio.Future[ProviderDied] = asyncio.get_running_loop().create_future()
        self.conversation: str | None = None
        self.version = "fake 1"
        self.mcp: tuple[McpStatus, ...] = ()

    async def start(self) -> None:
        error = self._agents.starts.pop(0) if self._agents.starts else None
        if error is not None:
            raise error
        self.conversation = self.resumed or f"talk-{len(self._agents.made)}"

    async def ask(self, question: Question, listener: Listener) -> Reply:
        self._agents.questions.append(question)
        self.interrupted.clear()
        return await self._agents.answering(self, question, listener)

    async def interrupt(self) -> None:
        self.interrupted.set()

    async def stop(self) -> None:
        self.stopped.set()

    async def ended(self) -> ProviderDied:
        return await asyncio.shield(self._dead)

    def die(self) -> None:
        """Its process ends between two questions."""
        self._dead.set_result(ProviderDied("it fell asleep for ever", 9))


def spec_of(
    tenant: UUID, team: UUID, *, version: int = 1, permissions: AgentPermissions | None = None
) -> TeamSpec:
    leader = AgentSpec("leader", leader=True, permissions=permissions or AgentPermissions())
    return TeamSpec(
        tenant_id=tenant,
        team_id=team,
        version=version,
        provider="claude-code",
        model="demo",
        agents=(leader,),
    )


def _data_directory() -> Path:
    path = Path(tempfile.mkdtemp(prefix="aos-", dir="/tmp"))
    # The account that runs the server has to enter it.
    path.chmod(0o711)
    return path


@asynccontextmanager
async def running_nats() -> AsyncIterator[EmbeddedNats]:
    """A server of the test's own, which it may stop and start."""
    path = _data_directory()
    nats = EmbeddedNats(path, AUTHORITY, account=engine_account(), on_notice=lambda _: None)
    try:
        await nats.start()
        yield nats
    finally:
        await nats.stop()
        shutil.rmtree(path, ignore_errors=True)


async def until(found: Callable[[], object], seconds: float = 20) -> None:
    """Returns when something outside of any event loop has come true."""
    async with asyncio.timeout(seconds):
        while not found():  # noqa: ASYNC110 - files tell nobody
            await asyncio.sleep(0.01)


class Keeper:
    """The other end: hears every frame, and stores answers if it is told to."""

    def __init__(self, bus: Bus, tenant: UUID, team: UUID) -> None:
        self._bus = bus
        self._tenant = tenant
        self._team = team
        self._news = asyncio.Condition()
        self._joiner = Joiner()
        self.stores = True
        self.heard: list[FromAgent] = []
        self.chat: list[Chat] = []

    @classmethod
    @asynccontextmanager
    async def at(cls, url: str, tenant: UUID, team: UUID) -> AsyncIterator[Keeper]:
        bus = await Bus.connect(url, AUTHORITY.platform_credentials(), name="keeper")
        keeper = cls(bus, tenant, team)
        await bus.subscribe(from_agent_subject(tenant, team), keeper._take)
        await bus.subscribe(chat_subject(tenant, team), keeper._watch)
        await bus.flush()
        try:
            yield keeper
        finally:
            await bus.close()

    async def _take(self, message: Message) -> None:
        frame = self._joiner.from_agent(message.data)
        if frame is None:
            return
        async with self._news:
            self.heard.append(frame)
            self._news.notify_all()
        if isinstance(frame, Answer) and self.stores:
            await self.send(AnswerStored(message_id=frame.message_id))

    async def _watch(self, message: Message) -> None:
        async with self._news:
            self.chat.append(decode_chat(message.data))
            self._news.notify_all()

    async def send(self, frame: ToAgent) -> None:
        for data in encode(frame, "k"):
            await self._bus.publish(to_agent_subject(self._tenant, self._team), data)

    async def ask(self, text: str, **more: Any) -> UUID:
        """Sends a message; its id."""
        message_id = more.pop("message_id", None) or uuid7()
        more.setdefault("attempt", 1)
        await self.send(UserMessage(message_id=message_id, text=text, author="Ada", **more))
        return UUID(str(message_id))

    async def until(self, found: Callable[[], _T | None], seconds: float = 20) -> _T:
        """What is found, as soon as a frame has made it so."""
        async with asyncio.timeout(seconds), self._news:
            while (it := found()) is None or it is False:
                await self._news.wait()
            return it

    async def first(self, kind: type[_T], **fields: Any) -> _T:
        """The first frame of a kind with these fields."""
        return await self.until(lambda: next(iter(self.all(kind, **fields)), None))

    def all(self, kind: type[_T], **fields: Any) -> list[_T]:
        return [
            frame
            for frame in [*self.heard, *self.chat]
            if isinstance(frame, kind)
            and all(getattr(frame, name) == value for name, value in fields.items())
        ]

    async def answer(self, message_id: UUID) -> Answer:
        return await self.first(Answer, message_id=message_id)

    async def idle(self, **fields: Any) -> Beat:
        return await self.first(Beat, state="idle", **fields)

    async def started(self, message_id: UUID) -> Started:
        return await self.first(Started, message_id=message_id)


@dataclass
class Lab:
    """One team: its workspace, its keeper and its sidecars."""

    url: str
    root: Path
    keeper: Keeper
    tenant: UUID
    team: UUID
    agents: FakeAgents = field(default_factory=FakeAgents)
    tokens: list[str] = field(default_factory=list)
    spec: TeamSpec = field(init=False)

    def __post_init__(self) -> None:
        self.spec = spec_of(self.tenant, self.team)

    @property
    def state(self) -> Path:
        return self.root / ".agentos"

    @asynccontextmanager
    async def sidecar(self) -> AsyncIterator[Bridge]:
        """A bridge at work. Leaving kills it, as kill -9 would: nothing is finished."""
        bus = await Bus.connect(
            self.url,
            lambda: credentials(self.tenant, self.team),
            name="sidecar",
            on_state=self._told,
        )
        self._wire = Wire(bus, self.spec)
        self._bridge = Bridge(
            self.spec,
            self.agents,
            Surroundings(self.root, self.state / "home", self.root, "http://127.0.0.1:1/api/ai"),
            self._wire,
            state=self.state,
            read_spec=lambda: self.spec,
            use_token=self.tokens.append,
            patience=QUICK,
        )
        running = asyncio.create_task(self._bridge.run())
        try:
            await self.keeper.first(Beat, boot=self._bridge._boot)
            yield self._bridge
            if running.done():
                running.result()
        finally:
            await end(running)
            await bus.close()
            del self._bridge

    def _told(self, state: str) -> None:
        if hasattr(self, "_bridge"):
            self._wire.state(state)
            if state == "connected":
                self._bridge.connected()


def credentials(tenant: UUID, team: UUID) -> BusCredentials:
    return AUTHORITY.team_credentials(str(tenant), str(team), timedelta(hours=1))


# In a process of its own ---------------------------------------------------------------------------


class Scripted:
    """A provider that does what the last line of a question says, and writes down what it is asked."""

    def __init__(
        self, _spec: TeamSpec, surroundings: Surroundings, conversation: str | None
    ) -> None:
        self._surroundings = surroundings
        self.conversation = conversation or "talk"
        self.version = "scripted"
        self.mcp: tuple[McpStatus, ...] = ()

    async def start(self) -> None:
        return

    async def ask(self, question: Question, listener: Listener) -> Reply:
        with (self._surroundings.workspace / "questions.log").open("a") as log:
            log.write(question.text.replace("\n", "|") + "\n")
        doing, _, what = question.text.splitlines()[-1].partition(" ")
        listener.words(what)
        if doing == "wait":
            await until((self._surroundings.workspace / what).exists, 60)
        if doing == "fetch":
            return Reply("answered", await self._fetched(what))
        if doing == "env":
            return Reply("answered", self._surroundings.env.get(what, ""))
        return Reply("answered", what)

    async def _fetched(self, path: str) -> str:
        port = self._surroundings.model_url.split(":")[2].split("/")[0]
        reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return answer.decode()

    async def interrupt(self) -> None:
        return

    async def ended(self) -> ProviderDied:
        """Never: it is in the sidecar's own process."""
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async def stop(self) -> None:
        return
