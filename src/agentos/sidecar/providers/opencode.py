"""OpenCode, driven over the HTTP interface of `opencode serve`."""

from __future__ import annotations

import asyncio
import base64
import re
import secrets
import string
import time
from collections.abc import Coroutine
from typing import Any, TypeVar
from uuid import uuid4

from agentos.contracts.crew import McpStatus, TeamSpec
from agentos.sidecar.http import HttpClient, HttpFailed, HttpRefused
from agentos.sidecar.providers import opencode_setup as setup
from agentos.sidecar.providers.agent_process import AgentProcess
from agentos.sidecar.providers.base import (
    Listener,
    Permission,
    ProviderDied,
    ProviderError,
    ProviderMissing,
    Question,
    Reply,
    Surroundings,
    Verdict,
)
from agentos.sidecar.providers.opencode_gate import PLUGIN, Call, Gate
from agentos.sidecar.providers.opencode_turn import Turn, final
from agentos.sidecar.tasks import end

_LISTENING = re.compile(rb"listening on http://[^:]+:(\d+)")
# Others make the server fail.
_SESSION = re.compile(r"ses_\w+")
# It starts in seconds; a loaded machine may take much longer.
_START_SECONDS = 120.0
_RECONNECT_SECONDS = 0.2
# The end of a turn is within its last messages, also after a compaction in its midst.
_LAST_MESSAGES = 20
# How often the end of a turn is asked for.
_AGAIN_SECONDS = 1.0
# How long a process that does not answer may take to be gone.
_LAST_SECONDS = 3.0
_NOBODY = "Nobody is here to answer. Decide yourself, and say what you assumed."
_LETTERS = string.ascii_letters + string.digits

_T = TypeVar("_T")


class OpenCode:
    """One OpenCode server with one conversation."""

    def __init__(self, spec: TeamSpec, surroundings: Surroundings, conversation: str | None):
        self._spec = spec
        self._surroundings = surroundings
        self._conversation = conversation
        self._version = ""
        self._mcp: tuple[McpStatus, ...] = ()
        self._gate = Gate(self._decide)
        self._process: AgentProcess | None = None
        self._client = HttpClient(0)
        self._draining: asyncio.Task[None] | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._turn: Turn | None = None

    @property
    def conversation(self) -> str | None:
        return self._conversation

    @property
    def version(self) -> str:
        return self._version

    @property
    def mcp(self) -> tuple[McpStatus, ...]:
        return self._mcp

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> None:
        program = setup.program(self._surroundings.agents)
        await self._gate.open()
        config = setup.config(
            self._spec,
            self._surroundings,
            permission="allow",
            plugins=(setup.plugin_file(self._surroundings),),
        )
        setup.write(self._surroundings, config, PLUGIN)
        password = secrets.token_urlsafe(32)
        env = setup.environment(self._surroundings) | {
            "OPENCODE_SERVER_PASSWORD": password,
            "AGENTOS_GATE": self._gate.address,
        }
        self._process = await AgentProcess.start(
            [str(program), "serve", "--hostname", "127.0.0.1", "--port", "0"],
            cwd=self._surroundings.workspace,
            env=env,
            name="OpenCode",
            printed=self._surroundings.printed,
        )
        await self._unless_dead(self._begin(password))

    async def _begin(self, password: str) -> None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                port = await self._listening()
                credentials = base64.b64encode(f"opencode:{password}".encode()).decode()
                self._client = HttpClient(port, headers={"Authorization": f"Basic {credentials}"})
                self._version = (await self._client.get("/global/health")).get("version", "")
                self._conversation = await self._session()
                await self._look_at_mcp()
                await self._gate.connected()
                hearing = asyncio.Event()
                self._hearing = asyncio.create_task(self._hear(hearing))
                await hearing.wait()
        except TimeoutError as error:
            raise ProviderDied("OpenCode did not get ready in time.") from error
        except HttpRefused as error:
            raise ProviderMissing(
                f"OpenCode does not work with its configuration: {error}"
            ) from error

    async def _listening(self) -> int:
        """The port that it listens on, once it does: what is asked before is never answered."""
        assert self._process is not None
        async for line in self._process.stdout:
            if found := _LISTENING.search(line):
                self._draining = asyncio.create_task(_drain(self._process.stdout))
                return int(found[1])
        # It has ended, which is noticed elsewhere.
        return await asyncio.Future()

    async def _session(self) -> str:
        """The conversation to go on with, or a new one if it is gone."""
        if self._conversation is not None and _SESSION.fullmatch(self._conversation):
            try:
                found = await self._client.get(f"/session/{self._conversation}")
                return str(found["id"])
            except HttpRefused as error:
                if error.status >= 500:
                    raise
        # With a title of its own, the model is not asked for one.
        made = await self._client.post("/session", {"title": "AgentOS"})
        return str(made["id"])

    async def ask(self, question: Question, listener: Listener) -> Reply:
        assert self._conversation is not None
        turn = self._turn = Turn(self._conversation, message_id(), listener)
        try:
            return await self._unless_dead(self._answered(turn, question))
        except HttpRefused as error:
            raise ProviderError(f"OpenCode refused the question: {error}") from error
        finally:
            self._turn = None
            await self._gate.drop()

    async def _answered(self, turn: Turn, question: Question) -> Reply:
        body = {"messageID": turn.message, "parts": [{"type": "text", "text": question.text}]}
        await self._client.post(f"/session/{turn.session}/prompt_async", body)
        while (ended := await self._ended(turn)) is None:
            await self._looked(turn)
        await self._look_at_mcp()
        return ended

    async def _looked(self, turn: Turn) -> None:
        """Waits until it is worth looking again. Who wants it to end says so again and again: what
        is said before OpenCode has begun is lost."""
        ending = turn.interrupted or turn.gave_up
        try:
            async with asyncio.timeout(_AGAIN_SECONDS if ending else None):
                await turn.look.wait()
        except TimeoutError:
            await self._abort(turn)
        turn.look.clear()
        if turn.gave_up and not ending:
            await self._abort(turn)

    async def _ended(self, turn: Turn) -> Reply | None:
        """How the turn ended, by what the server has on record; None if it goes on."""
        messages = await self._client.get(f"/session/{turn.session}/message?limit={_LAST_MESSAGES}")
        after = [m for m in messages if m["info"]["id"] > turn.message]
        answers = [m for m in after if m["info"]["role"] == "assistant"]
        if answers and final(answers[-1]["info"]):
            return turn.reply(answers[-1])
        if not turn.began or not await self._idle(turn):
            return None
        return turn.reply(answers[-1] if answers else None)

    async def _idle(self, turn: Turn) -> bool:
        """Whether the server is not at work on the session. Idle sessions are not listed."""
        states = await self._client.get("/session/status")
        return bool(states.get(turn.session, {"type": "idle"})["type"] == "idle")

    async def interrupt(self) -> None:
        if (turn := self._turn) is None:
            return
        turn.interrupted = True
        try:
            await self._gate.drop()
            await self._abort(turn)
        except (HttpFailed, HttpRefused):
            # It is dead or dying, which ends the question as well.
            return
        finally:
            turn.look.set()

    async def _abort(self, turn: Turn) -> None:
        await self._client.post(f"/session/{turn.session}/abort")

    async def ended(self) -> ProviderDied:
        assert self._process is not None, "start comes first"
        return await self._process.ended()

    async def stop(self) -> None:
        if self._process is not None:
            await self._process.stop()
        tasks = (self._draining, self._hearing)
        await end(*(task for task in tasks if task is not None))
        await self._gate.close()

    async def _unless_dead(self, work: Coroutine[Any, Any, _T]) -> _T:
        """What the work comes to. Raises ProviderDied if the process ends before that."""
        assert self._process is not None
        # The ear runs for ever; if it breaks, nothing would be heard.
        beside = [self._hearing] if self._hearing is not None else []
        try:
            return await self._process.unless_ended(work, *beside)
        except HttpFailed as error:
            died = await self._process.ended_within(_LAST_SECONDS)
            gone = ProviderDied(f"OpenCode does not answer any more: {error}")
            raise (died or gone) from error

    async def _hear(self, hearing: asyncio.Event) -> None:
        """Hears all events, and connects again when they break off. Nothing is repeated by the
        server, so that after each break the record has to be looked at."""
        while True:
            try:
                async for event in self._client.events("/event"):
                    hearing.set()
                    await self._heard(event)
            except (HttpFailed, HttpRefused):
                await asyncio.sleep(_RECONNECT_SECONDS)
            if self._turn is not None:
                self._turn.look.set()

    async def _heard(self, event: Any) -> None:
        turn = self._turn
        try:
            kind, properties = event["type"], event["properties"]
            if turn is not None:
                turn.hear(kind, properties)
            if kind == "permission.asked":
                # The gate has let the call through; this is a rule of some worker's own file.
                await self._client.post(f"/permission/{properties['id']}/reply", {"reply": "once"})
            elif kind == "question.asked":
                answers = [[_NOBODY] for _ in properties["questions"]]
                await self._client.post(f"/question/{properties['id']}/reply", {"answers": answers})
        except (KeyError, TypeError, AttributeError, HttpRefused):
            # Another version's event, or a question that was withdrawn.
            return

    async def _decide(self, call: Call) -> Verdict:
        turn = self._turn
        if turn is None:
            return Verdict(False, "No question is being answered.")
        try:
            if not turn.knows(call.session):
                turn.meet(await self._client.get(f"/session/{call.session}"))
        except (HttpFailed, HttpRefused) as error:
            return Verdict(False, f"It is not known who makes this call: {error}")
        if not turn.knows(call.session):
            return Verdict(False, "This call belongs to no question.")
        permission = Permission(uuid4().hex, call.tool, call.args, turn.agent(call.session))
        verdict = await turn.listener.may(permission)
        if not verdict.allow:
            turn.denied.add(call.call)
        return verdict

    async def _look_at_mcp(self) -> None:
        found = await self._client.get("/mcp")
        self._mcp = tuple(
            McpStatus(name, str(state.get("status", "")), str(state.get("error", "")))
            for name, state in found.items()
        )


def make_opencode(spec: TeamSpec, surroundings: Surroundings, conversation: str | None) -> OpenCode:
    return OpenCode(spec, surroundings, conversation)


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(65536):
        pass


def message_id() -> str:
    """A new id as OpenCode makes them: in order of time, by which it sorts messages."""
    moment = int(time.time() * 1000) * 0x1000 & 0xFFFF_FFFF_FFFF
    return f"msg_{moment:012x}" + "".join(secrets.choice(_LETTERS) for _ in range(14))
