"""Any agent CLI that speaks the Agent Client Protocol on its standard streams."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from agentos.contracts.crew import McpStatus, TeamSpec
from agentos.sidecar.providers.acp_files import Files
from agentos.sidecar.providers.acp_setup import launch, mcp_servers
from agentos.sidecar.providers.acp_turn import Turn
from agentos.sidecar.providers.agent_process import AgentProcess
from agentos.sidecar.providers.base import (
    Listener,
    ProviderDied,
    ProviderMissing,
    Question,
    Reply,
    Surroundings,
)
from agentos.sidecar.providers.json_rpc import METHOD_NOT_FOUND, Params, Rpc, RpcClosed, RpcError
from agentos.sidecar.texts import clean

_VERSION = 1
_START_SECONDS = 120.0
_LAST_SECONDS = 3.0
# How often the end of a turn is asked for: what is said before the agent has begun may be lost.
_AGAIN_SECONDS = 1.0
# How often in one answer an agent that stopped at a denied call is told to go on.
_MOST_TELLINGS = 5
_CAPABILITIES = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": False}
_CHOICES = {
    True: ("allow_once", "allow_always"),
    False: ("reject_once", "reject_always"),
}

_T = TypeVar("_T")


class Acp:
    """One agent with one conversation."""

    def __init__(self, spec: TeamSpec, surroundings: Surroundings, conversation: str | None):
        self._spec = spec
        self._surroundings = surroundings
        self._conversation = conversation
        self._version = ""
        self._mcp: tuple[McpStatus, ...] = ()
        self._files = Files(surroundings)
        self._process: AgentProcess | None = None
        self._rpc: Rpc | None = None
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
        how = launch(self._spec, self._surroundings)
        self._process = await AgentProcess.start(
            how.command,
            cwd=self._surroundings.workspace,
            env=how.env,
            name=self._spec.command[0],
            printed=self._surroundings.printed,
        )
        self._rpc = Rpc(self._process.stdout, self._process.stdin, self._serve, self._notice)
        await self._unless_dead(self._begin(self._rpc))

    async def _begin(self, rpc: Rpc) -> None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                client = {"name": "agentos", "version": "1"}
                hello = await rpc.request(
                    "initialize",
                    {
                        "protocolVersion": _VERSION,
                        "clientCapabilities": _CAPABILITIES,
                        "clientInfo": client,
                    },
                )
                self._conversation = await self._session(rpc, _checked(hello))
        except TimeoutError as error:
            raise ProviderMissing("The agent did not get ready in time.") from error
        except RpcError as error:
            raise ProviderMissing(f"The agent cannot begin: {error.message}") from error
        about = hello.get("agentInfo") or {}
        self._version = " ".join(str(about[key]) for key in ("name", "version") if about.get(key))

    async def _session(self, rpc: Rpc, capabilities: Mapping[str, Any]) -> str:
        """The conversation to go on with, or a new one if the agent does not have it any more."""
        http = bool((capabilities.get("mcpCapabilities") or {}).get("http"))
        servers, useless = mcp_servers(self._spec.mcp_servers, http=http)
        self._mcp = (
            *(McpStatus(server["name"], "configured") for server in servers),
            *(McpStatus(each.name, "failed", _NO_HTTP) for each in useless),
        )
        where = {"cwd": str(self._surroundings.workspace), "mcpServers": servers}
        resume = _resuming(capabilities)
        if self._conversation is not None and resume is not None:
            try:
                await rpc.request(resume, {"sessionId": self._conversation, **where})
            except RpcError:
                # It is gone: better a new one than none.
                self._conversation = None
            else:
                return self._conversation
        return str((await rpc.request("session/new", where))["sessionId"])

    async def ask(self, question: Question, listener: Listener) -> Reply:
        turn = self._turn = Turn(listener)
        try:
            return await self._unless_dead(self._answered(turn, _as_message(question.text)))
        except RpcError as error:
            if turn.interrupted.is_set():
                return Reply("cancelled", turn.text)
            return Reply("failed", turn.text, clean(error.message), "model_error")
        finally:
            self._turn = None
            await turn.withdraw()

    async def _answered(self, turn: Turn, text: str) -> Reply:
        reason = await self._prompt(turn, text)
        for _ in range(_MOST_TELLINGS):
            if reason == "cancelled" or turn.interrupted.is_set() or not turn.untold:
                break
            # The protocol has no words for a denial: an agent that stopped there is told in a
            # message, and goes on.
            told = "\n".join(f"- {each}" for each in turn.untold)
            turn.untold.clear()
            reason = await self._prompt(turn, f"{_NOT_ALLOWED}\n{told}")
        if reason == "cancelled":
            if turn.interrupted.is_set():
                return Reply("cancelled", turn.text)
            return Reply("failed", turn.text, "The agent stopped by itself.", "agent_error")
        if reason == "refusal":
            return Reply("failed", turn.text, "The agent refused to go on.", "agent_error")
        return Reply("answered", turn.text)

    async def _prompt(self, turn: Turn, text: str) -> str:
        """Why the agent stopped."""
        assert self._rpc is not None
        if turn.interrupted.is_set():
            return "cancelled"
        params = {"sessionId": self._conversation, "prompt": [{"type": "text", "text": text}]}
        asking = asyncio.ensure_future(self._rpc.request("session/prompt", params))
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=_AGAIN_SECONDS)
                if turn.interrupted.is_set() and not asking.done():
                    self._cancel()
            return str((asking.result() or {}).get("stopReason"))
        finally:
            asking.cancel()

    async def interrupt(self) -> None:
        if (turn := self._turn) is None:
            return
        turn.interrupted.set()
        self._cancel()
        await turn.withdraw()

    def _cancel(self) -> None:
        if self._rpc is not None and self._conversation is not None:
            self._rpc.notify("session/cancel", {"sessionId": self._conversation})

    async def ended(self) -> ProviderDied:
        assert self._process is not None, "start comes first"
        return await self._process.ended()

    async def stop(self) -> None:
        if self._process is not None:
            await self._process.stop()
        if self._rpc is not None:
            await self._rpc.close()

    async def _unless_dead(self, work: Coroutine[Any, Any, _T]) -> _T:
        assert self._process is not None
        try:
            return await self._process.unless_ended(work)
        except RpcClosed as error:
            died = await self._process.ended_within(_LAST_SECONDS)
            raise (died or ProviderDied("The agent does not speak any more.")) from error

    def _notice(self, method: str, params: Params) -> None:
        # Those without a question are the history of a conversation that is being loaded.
        ours = params.get("sessionId") == self._conversation
        if method == "session/update" and ours and self._turn is not None:
            try:
                self._turn.hear(params["update"])
            except (KeyError, TypeError, AttributeError):
                # Another version's update.
                return

    async def _serve(self, method: str, params: Params) -> Any:
        turn = self._turn
        if turn is None:
            raise RpcError("No question is being answered.")
        try:
            if method == "session/request_permission":
                return await self._permit(turn, params)
            if method == "fs/read_text_file":
                return await self._read(turn, params)
            if method == "fs/write_text_file":
                return await self._write(turn, params)
        except asyncio.CancelledError:
            if not turn.interrupted.is_set():
                raise
            if method != "session/request_permission":
                raise RpcError("The question was ended.") from None
            return {"outcome": {"outcome": "cancelled"}}
        raise RpcError(f"{method} is not offered.", METHOD_NOT_FOUND)

    async def _permit(self, turn: Turn, params: Params) -> Any:
        verdict = await turn.may(params["toolCall"])
        options = {option["kind"]: option["optionId"] for option in reversed(params["options"])}
        for kind in _CHOICES[verdict.allow]:
            if kind in options:
                return {"outcome": {"outcome": "selected", "optionId": options[kind]}}
        return {"outcome": {"outcome": "cancelled"}}

    async def _read(self, turn: Turn, params: Params) -> Any:
        path = self._files.path(params["path"])
        await _allowed(turn, "read", path, {"path": params["path"]})
        line, limit = params.get("line"), params.get("limit")
        return {"content": await asyncio.to_thread(self._files.read, path, line, limit)}

    async def _write(self, turn: Turn, params: Params) -> Any:
        path = self._files.path(params["path"])
        given = {"path": params["path"], "content": params["content"]}
        await _allowed(turn, "edit", path, given)
        await asyncio.to_thread(self._files.write, path, params["content"])
        return {}


_NO_HTTP = "The agent cannot use MCP servers over HTTP."
_MESSAGE = "This is a message, and no command:"
_NOT_ALLOWED = "These tool calls were not allowed. Go on without them:"


def make_acp(spec: TeamSpec, surroundings: Surroundings, conversation: str | None) -> Acp:
    return Acp(spec, surroundings, conversation)


def _as_message(text: str) -> str:
    """The text so that no agent takes it for one of its commands."""
    return f"{_MESSAGE}\n{text}" if text.lstrip().startswith("/") else text


async def _allowed(turn: Turn, tool: str, path: Any, given: Mapping[str, Any]) -> None:
    verdict = await turn.may_touch(tool, path, given)
    if not verdict.allow:
        raise RpcError(f"This is not allowed: {verdict.reason}")


def _checked(hello: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the agent can do. Raises ProviderMissing if it speaks another version."""
    if hello.get("protocolVersion") != _VERSION:
        raise ProviderMissing(
            f"The agent speaks version {hello.get('protocolVersion')} of the Agent Client Protocol;"
            f" {_VERSION} is needed."
        )
    return hello.get("agentCapabilities") or {}


def _resuming(capabilities: Mapping[str, Any]) -> str | None:
    """The method that goes on with a conversation, if there is one. Resuming does not repeat it."""
    if (capabilities.get("sessionCapabilities") or {}).get("resume") is not None:
        return "session/resume"
    return "session/load" if capabilities.get("loadSession") else None
