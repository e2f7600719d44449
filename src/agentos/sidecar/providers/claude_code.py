"""Claude Code, driven over its stdin and stdout. What is known of it was measured on 2.1.325.

One line goes in and its result comes out before the next: lines that are written meanwhile are
merged into the running turn. Each tool call, the workers' too, passes a hook that is registered at
the start, and waits there for the gate's verdict; without one the program does not make the call.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from typing import Any

from agentos.contracts.crew import McpStatus, TeamSpec
from agentos.sidecar.providers.base import (
    Listener,
    Permission,
    ProviderDied,
    ProviderMissing,
    Question,
    Reply,
    Surroundings,
    Verdict,
)
from agentos.sidecar.providers.claude_process import Process
from agentos.sidecar.providers.claude_setup import (
    arguments,
    config_directory,
    environment,
    program,
    transcript_exists,
)
from agentos.sidecar.providers.claude_turn import Turn
from agentos.sidecar.tasks import end

# On a machine that has much else to do.
_START_SECONDS = 120.0
_INTERRUPT_SECONDS = 30.0
_STOP_SECONDS = 5.0
# A server that takes longer joins when it is ready.
_MCP_SECONDS = 15.0
_MCP_PAUSE = 0.1
# Whoever is asked has so long; the program then refuses the call by itself.
_PERMISSION_SECONDS = 7 * 86_400
_HOOK = "agentos"
_LONGEST_ERROR = 300


class ClaudeCode:
    """A conversation with Claude Code."""

    def __init__(self, spec: TeamSpec, surroundings: Surroundings, conversation: str | None):
        self._spec = spec
        self._surroundings = surroundings
        self._conversation = conversation
        self._version = ""
        self._mcp: dict[str, McpStatus] = {}
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._death: ProviderDied | None = None
        self._turn: Turn | None = None
        self._requests = itertools.count(1)
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        # What the program waits for, by the id of its request.
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._allowed: set[str] = set()

    @property
    def conversation(self) -> str | None:
        return self._conversation

    @property
    def version(self) -> str:
        return self._version

    @property
    def mcp(self) -> tuple[McpStatus, ...]:
        return tuple(self._mcp.values())

    @property
    def pid(self) -> int | None:
        """The program's process."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        resume = transcript_exists(self._surroundings, self._conversation or "")
        conversation = self._conversation if resume else None
        self._conversation = conversation or str(uuid.uuid4())
        config_directory(self._surroundings).mkdir(parents=True, exist_ok=True)
        self._process = await Process.start(
            program(self._surroundings.agents),
            arguments(
                self._spec, self._surroundings, conversation=self._conversation, resume=resume
            ),
            environment(self._spec, self._surroundings),
            self._surroundings.workspace,
            self._surroundings.printed,
        )
        self._reading = asyncio.create_task(self._read(self._process))
        try:
            async with asyncio.timeout(_START_SECONDS):
                ready = await self._request({"subtype": "initialize", "hooks": _hooks()})
            self._version = str(ready.get("claude_code_version", ""))
            if ready.get("hooks_applied") is not True:
                raise ProviderMissing(
                    f"Claude Code {self._version} does not let its tool calls be checked. "
                    "`agentos agents install claude-code` installs a version that does."
                )
            if self._spec.mcp_servers:
                await self._connect_mcp()
        except TimeoutError:
            raise ProviderDied(
                f"Claude Code was not ready after {_START_SECONDS:.0f} seconds."
            ) from None

    async def _connect_mcp(self) -> None:
        """Waits until each server is connected or has failed: the first question may need them."""
        async with asyncio.timeout(_START_SECONDS):
            until = asyncio.get_running_loop().time() + _MCP_SECONDS
            while True:
                self._note_mcp(await self._request({"subtype": "mcp_status"}), "mcpServers")
                pending = any(server.status == "pending" for server in self._mcp.values())
                if not pending or asyncio.get_running_loop().time() > until:
                    return
                await asyncio.sleep(_MCP_PAUSE)

    async def ask(self, question: Question, listener: Listener) -> Reply:
        assert self._process is not None, "start comes first"
        if self._death is not None:
            raise self._death
        turn = self._turn = Turn(question.id, listener)
        try:
            await self._process.send(
                {
                    "type": "user",
                    "uuid": question.id,
                    "message": {"role": "user", "content": _plain(question.text)},
                }
            )
            return await turn.reply
        finally:
            self._turn = None
            await end(*self._asked.values())
            self._asked.clear()
            self._allowed.clear()

    async def interrupt(self) -> None:
        turn = self._turn
        if turn is None or turn.reply.done():
            return
        turn.interrupted = True
        begun = asyncio.create_task(turn.begun.wait())
        either: set[asyncio.Future[Any]] = {begun, turn.reply}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            begun.cancel()
        if turn.reply.done():
            return
        try:
            async with asyncio.timeout(_INTERRUPT_SECONDS):
                await self._request({"subtype": "interrupt"})
        except (TimeoutError, ProviderDied):
            # The one who waits for the answer sees that it does not come, or that all has ended.
            return

    async def ended(self) -> ProviderDied:
        assert self._process is not None, "start comes first"
        return await self._process.ended()

    async def stop(self) -> None:
        if self._process is None:
            return
        await self._process.stop()
        if self._reading is not None:
            # It tells whoever waits for an answer that there will be none.
            await asyncio.wait({self._reading}, timeout=_STOP_SECONDS)
            await end(self._reading)
        await end(*self._asked.values())

    # Lines

    async def _read(self, process: Process) -> None:
        death = ProviderDied("Claude Code is no longer listened to.")
        try:
            async for line in process.lines():
                await self._take(line)
            death = await process.died()
        finally:
            self._death = death
            waiting: list[asyncio.Future[Any]] = list(self._answers.values())
            if self._turn is not None:
                waiting.append(self._turn.reply)
            for future in waiting:
                if not future.done():
                    future.set_exception(death)

    async def _take(self, line: dict[str, Any]) -> None:
        kind = line.get("type")
        if kind == "control_request":
            await self._take_request(line)
        elif kind == "control_response":
            self._take_response(line)
        elif kind == "control_cancel_request":
            if withdrawn := self._asked.pop(str(line.get("request_id")), None):
                withdrawn.cancel()
        else:
            if kind == "system" and line.get("subtype") == "init":
                self._note_mcp(line, "mcp_servers")
            if self._turn is not None:
                self._turn.take(line)

    async def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        """Asks the program itself. Raises ProviderDied."""
        assert self._process is not None
        if self._death is not None:
            raise self._death
        request_id = f"agentos-{next(self._requests)}"
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[request_id] = answer
        try:
            await self._process.send(
                {"type": "control_request", "request_id": request_id, "request": request}
            )
            return await answer
        finally:
            del self._answers[request_id]

    def _take_response(self, line: dict[str, Any]) -> None:
        response = line.get("response")
        if not isinstance(response, dict):
            return
        waiting = self._answers.get(str(response.get("request_id")))
        if waiting is not None and not waiting.done():
            answer = response.get("response")
            waiting.set_result(answer if isinstance(answer, dict) else {})

    def _note_mcp(self, said: dict[str, Any], key: str) -> None:
        servers = said.get(key)
        for server in servers if isinstance(servers, list) else []:
            if not (isinstance(server, dict) and isinstance(server.get("name"), str)):
                continue
            name, status = server["name"], str(server.get("status", ""))
            error = str(server.get("error") or "")[:_LONGEST_ERROR]
            known = self._mcp.get(name)
            if known is None or error or known.status != status:
                self._mcp[name] = McpStatus(name, status, error)

    # Permissions

    async def _take_request(self, line: dict[str, Any]) -> None:
        request_id, request = str(line.get("request_id")), line.get("request")
        turn = self._turn
        if turn is None or not isinstance(request, dict):
            await self._refuse(request_id, "no message is being answered")
        elif request.get("subtype") in ("hook_callback", "can_use_tool"):
            task = asyncio.create_task(self._decide(turn, request_id, request))
            self._asked[request_id] = task
            task.add_done_callback(lambda task: self._decided(turn, request_id, task))
        else:
            await self._refuse(request_id, "not supported")

    def _decided(self, turn: Turn, request_id: str, task: asyncio.Task[None]) -> None:
        self._asked.pop(request_id, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and not turn.reply.done():
            # The program would wait for the verdict for days.
            turn.reply.set_exception(error)

    async def _decide(self, turn: Turn, request_id: str, request: dict[str, Any]) -> None:
        if request["subtype"] == "hook_callback":
            given = request.get("input")
            permission = _permission(given if isinstance(given, dict) else {}, "tool_input")
            verdict = await self._verdict(turn, permission)
            await self._respond(request_id, _hook_answer(verdict))
            return
        permission = _permission(request, "input")
        # It asks again about calls that it finds dangerous, whatever the hook has said.
        verdict = Verdict(allow=True)
        if permission.id not in self._allowed:
            verdict = await self._verdict(turn, permission)
        await self._respond(request_id, _prompt_answer(verdict, permission))

    async def _verdict(self, turn: Turn, permission: Permission) -> Verdict:
        verdict = await turn.listener.may(permission)
        if verdict.allow:
            self._allowed.add(permission.id)
        else:
            turn.denied.add(permission.id)
        return verdict

    async def _respond(self, request_id: str, answer: dict[str, Any]) -> None:
        await self._send_response(
            {"subtype": "success", "request_id": request_id, "response": answer}
        )

    async def _refuse(self, request_id: str, why: str) -> None:
        await self._send_response({"subtype": "error", "request_id": request_id, "error": why})

    async def _send_response(self, response: dict[str, Any]) -> None:
        assert self._process is not None
        await self._process.send({"type": "control_response", "response": response})


def make_claude_code(
    spec: TeamSpec, surroundings: Surroundings, conversation: str | None
) -> ClaudeCode:
    return ClaudeCode(spec, surroundings, conversation)


def _hooks() -> dict[str, Any]:
    every_call = {"matcher": "*", "hookCallbackIds": [_HOOK], "timeout": _PERMISSION_SECONDS}
    return {"PreToolUse": [every_call]}


def _plain(text: str) -> str:
    """A text that begins with a slash would be taken for a command, such as /clear."""
    return f" {text}" if text.startswith("/") else text


def _permission(said: dict[str, Any], arguments_key: str) -> Permission:
    given = said.get(arguments_key)
    agent = said.get("agent_type")
    return Permission(
        id=str(said.get("tool_use_id")),
        tool=str(said.get("tool_name")),
        arguments=given if isinstance(given, dict) else {},
        agent=str(agent) if agent else None,
    )


def _hook_answer(verdict: Verdict) -> dict[str, Any]:
    decision = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow" if verdict.allow else "deny",
        "permissionDecisionReason": verdict.reason or _unsaid(verdict),
    }
    return {"hookSpecificOutput": decision}


def _prompt_answer(verdict: Verdict, permission: Permission) -> dict[str, Any]:
    if verdict.allow:
        return {"behavior": "allow", "updatedInput": dict(permission.arguments)}
    return {"behavior": "deny", "message": verdict.reason or _unsaid(verdict)}


def _unsaid(verdict: Verdict) -> str:
    return "allowed" if verdict.allow else "The team's permissions do not allow it."
