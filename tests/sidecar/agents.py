"""Real agent CLIs for tests, a model endpoint for them, and somebody who listens."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
from aiohttp import web

from agentos.contracts.crew import Deed
from agentos.integrations.agents.installing import install
from agentos.integrations.models.demo_upstream import DemoUpstream
from agentos.integrations.models.providers.demo import SCHEME
from agentos.integrations.models.upstream import Upstream, UpstreamAnswer
from agentos.integrations.models.wires.base import WireName
from agentos.integrations.models.wires.registry import WIRES
from agentos.sidecar.providers.base import Permission, Verdict

# A CLI on a machine that has much else to do.
SECONDS = 60.0

_WIRES = {
    "/api/ai/anthropic/v1/messages": WireName.MESSAGES,
    "/api/ai/anthropic/v1/messages/count_tokens": WireName.COUNT_TOKENS,
    "/api/ai/openai/v1/chat/completions": WireName.CHAT,
    "/api/ai/openai/v1/responses": WireName.RESPONSES,
}
_DEMO = DemoUpstream(cast(Upstream, None))


def agents_directory() -> Path:
    """Where the CLIs are kept between test runs."""
    if os.geteuid() == 0:
        return Path("/var/cache/agentos-agents")
    return Path.home() / ".cache" / "agentos-agents"


def installed_agents(*names: str) -> Path:
    """The directory, with these CLIs in it: installed at the first call on this machine."""
    directory = agents_directory()
    asyncio.run(install(names, directory, lambda _: None))
    return directory


def script(*lines: str) -> str:
    """What the demo model shall do, as a message."""
    return "\n".join(["Please do this.", "```demo", *lines, "```"])


def call(tool: str, **arguments: Any) -> str:
    """A line of a script that uses a tool."""
    return f"call {tool} {msgspec.json.encode(arguments).decode()}"


@dataclass(frozen=True)
class Asked:
    """A model call as a CLI made it."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def model(self) -> str:
        return str(self.body.get("model"))

    @property
    def text(self) -> str:
        """All of it as JSON, with nothing escaped that need not be."""
        return msgspec.json.encode(self.body).decode()

    def __contains__(self, text: str) -> bool:
        return msgspec.json.encode(text).decode()[1:-1] in self.text


class ModelEndpoint:
    """The demo model behind the paths of our gateway, with no key.

    It knows the models `demo` and whatever begins with `vendor/`.
    """

    def __init__(self) -> None:
        self.calls: list[Asked] = []
        self.port = 0
        self._changed = asyncio.Condition()
        self._hold: bytes | None = None
        self._cutting = False
        self._released = asyncio.Event()

    @property
    def url(self) -> str:
        """What `Surroundings.model_url` is."""
        return f"http://127.0.0.1:{self.port}/api/ai"

    def hold_after(self, text: str) -> None:
        """A stream that has said this pauses there, until `release`."""
        self._hold = text.encode()
        self._released.clear()

    def release(self) -> None:
        self._hold = None
        self._released.set()

    def cut(self) -> None:
        """The stream that pauses breaks off instead of going on."""
        self._cutting = True
        self.release()

    def calls_with(self, text: str) -> list[Asked]:
        """The model calls that have this text anywhere."""
        return [asked for asked in self.calls if text in asked]

    async def wait_call_with(self, text: str) -> Asked:
        """Returns when a model call with this text has come."""
        async with asyncio.timeout(SECONDS), self._changed:
            await self._changed.wait_for(lambda: self.calls_with(text))
            return self.calls_with(text)[0]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ModelEndpoint]:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(
            app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None
        )
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = int(runner.addresses[0][1])
        try:
            yield self
        finally:
            self.release()
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        wire = _WIRES.get(request.path)
        if wire is None or request.method != "POST":
            return web.json_response({"error": {"message": "no such path"}}, status=404)
        asked = Asked(request.path, dict(request.headers), msgspec.json.decode(body))
        async with self._changed:
            self.calls.append(asked)
            self._changed.notify_all()
        if not (asked.model == "demo" or asked.model.startswith("vendor/")):
            why = f"There is no model {asked.model!r} here."
            error = WIRES[wire].error(404, "not_found", "not_found", why)
            return web.Response(status=404, body=error, content_type="application/json")
        async with _DEMO.send("POST", f"{SCHEME}{wire}", headers={}, body=body) as answer:
            return await self._pass_on(request, answer, stream=asked.body.get("stream") is True)

    async def _pass_on(
        self, request: web.Request, answer: UpstreamAnswer, *, stream: bool
    ) -> web.StreamResponse:
        kind = "text/event-stream" if stream and answer.status == 200 else "application/json"
        response = web.StreamResponse(status=answer.status, headers={"Content-Type": kind})
        await response.prepare(request)
        said = b""
        async for chunk in answer.chunks():
            await response.write(chunk)
            said += chunk
            if self._hold is not None and self._hold in said and stream:
                await self._released.wait()
                if self._cutting:
                    self._cutting = False
                    assert request.transport is not None
                    request.transport.abort()
                    break
        return response


class Heard:
    """A listener that keeps all that it hears, and answers what it was told to."""

    def __init__(self, verdict: Callable[[Permission], Awaitable[Verdict]] | None = None) -> None:
        self.pieces: list[tuple[str, str | None]] = []
        self.voided = 0
        self.deeds: list[Deed] = []
        self.asked: list[Permission] = []
        self.withdrawn: list[Permission] = []
        self.first_words = asyncio.Event()
        self.first_question = asyncio.Event()
        self._more_words = asyncio.Event()
        self._verdict = verdict

    def text(self, agent: str | None = None) -> str:
        """What an agent said, as far as it is not void."""
        return "".join(text for text, by in self.pieces if by == agent)

    def states(self, tool: str) -> list[str]:
        """What became of the calls of one tool, in the order that was told."""
        return [deed.state for deed in self.deeds if deed.tool == tool]

    async def hears(self, text: str) -> None:
        """Returns when the leader has said this."""
        async with asyncio.timeout(SECONDS):
            while text not in self.text():
                self._more_words.clear()
                await self._more_words.wait()

    def words(self, text: str, agent: str | None = None) -> None:
        self.pieces.append((text, agent))
        self.first_words.set()
        self._more_words.set()

    def again(self) -> None:
        self.pieces.clear()
        self.voided += 1

    def did(self, deed: Deed) -> None:
        self.deeds.append(deed)

    async def may(self, permission: Permission) -> Verdict:
        self.asked.append(permission)
        self.first_question.set()
        if self._verdict is None:
            return Verdict(allow=True)
        try:
            return await self._verdict(permission)
        except asyncio.CancelledError:
            self.withdrawn.append(permission)
            raise


def denying(*tools: str, reason: str = "Not in this team.") -> Heard:
    """A listener that lets all tools but these be used."""

    async def verdict(permission: Permission) -> Verdict:
        return Verdict(allow=permission.tool not in tools, reason=reason)

    return Heard(verdict)


def never_answering() -> Heard:
    """A listener that asks a person who does not come."""

    async def verdict(permission: Permission) -> Verdict:
        await asyncio.Event().wait()
        raise AssertionError

    return Heard(verdict)


async def eventually(true: Callable[[], bool]) -> None:
    """Waits for something outside of this process, which nothing here can be told of."""
    until = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < until, "it did not come true"
        await asyncio.sleep(0.05)
