"""Where OpenCode asks before each tool call: a plugin of it connects to this process.

OpenCode's own permissions are not enough: a command of redirections alone (`> file`) is run without
a question, whatever is configured, and who reads its password from the environment can answer the
questions in its stead. Its hook before tools is called for every tool, MCP's included.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from agentos.sidecar.json_reading import read_json
from agentos.sidecar.providers.agent_process import LINE_LIMIT
from agentos.sidecar.providers.base import Verdict
from agentos.sidecar.tasks import end

# What OpenCode loads. The address is read once and removed: OpenCode may call the plugin several
# times, and the commands that it runs inherit its environment.
PLUGIN = r"""
import net from "node:net"

const [port, token] = (process.env.AGENTOS_GATE ?? "").split(":")
delete process.env.AGENTOS_GATE

const waiting = new Map()
let gone = null
let last = 0
let rest = ""

const socket = net.connect(Number(port), "127.0.0.1")
socket.setEncoding("utf8")
socket.write(JSON.stringify({ token }) + "\n")
socket.on("data", (text) => {
  const lines = (rest + text).split("\n")
  rest = lines.pop()
  for (const line of lines) {
    const { id, allow, reason } = JSON.parse(line)
    waiting.get(id)?.({ allow, reason })
    waiting.delete(id)
  }
})
const close = () => {
  gone = "The permissions gate does not answer: no tool can be used."
  for (const answer of waiting.values()) answer({ allow: false, reason: gone })
  waiting.clear()
}
socket.on("error", close)
socket.on("close", close)

const ask = (call) =>
  new Promise((answer) => {
    if (gone) return answer({ allow: false, reason: gone })
    const id = ++last
    waiting.set(id, answer)
    socket.write(JSON.stringify({ id, ...call }) + "\n")
  })

export const Gate = async () => ({
  "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
    const { allow, reason } = await ask({ tool, session: sessionID, call: callID, args: args ?? {} })
    if (allow !== true) throw new Error(reason || "This tool call was not allowed.")
  },
})
"""


class Call(msgspec.Struct, frozen=True):
    """A tool call about to be made."""

    id: int
    tool: str
    session: str
    call: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Hello:
    token: str


Decide = Callable[[Call], Awaitable[Verdict]]


class Gate:
    """Listens for the plugin. Whatever goes wrong here, the tool call is not made."""

    def __init__(self, decide: Decide):
        self._decide = decide
        self._token = secrets.token_urlsafe(32)
        self._server: asyncio.Server | None = None
        self._deciding: set[asyncio.Task[None]] = set()
        self._connected = asyncio.Event()

    @property
    def address(self) -> str:
        """What the plugin is told by its environment."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"{port}:{self._token}"

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=LINE_LIMIT)

    async def connected(self) -> None:
        """Waits until the plugin is there: before that, tool calls would not be asked about."""
        await self._connected.wait()

    async def drop(self) -> None:
        """Ends all questions that wait for a decision: the calls are not made."""
        await end(*self._deciding)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self.drop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            hello = msgspec.json.decode(await reader.readline(), type=_Hello)
            if not secrets.compare_digest(hello.token.encode(), self._token.encode()):
                return
            self._connected.set()
            while line := await reader.readline():
                call = msgspec.convert(read_json(line), Call)
                task = asyncio.create_task(self._answer(call, writer))
                self._deciding.add(task)
                task.add_done_callback(self._deciding.discard)
        except (OSError, ValueError):
            # Not the plugin, or a call that cannot be read: the plugin refuses when it is cut off.
            return
        finally:
            writer.close()

    async def _answer(self, call: Call, writer: asyncio.StreamWriter) -> None:
        verdict = Verdict(False, "The question was ended before this call was allowed.")
        try:
            verdict = await self._decide(call)
        finally:
            answer = {"id": call.id, "allow": verdict.allow, "reason": verdict.reason}
            if not writer.is_closing():
                writer.write(msgspec.json.encode(answer) + b"\n")
