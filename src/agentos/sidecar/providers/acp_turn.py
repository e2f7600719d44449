"""One question to an ACP agent: its updates, and the permissions it asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import msgspec

from agentos.contracts.crew import Deed
from agentos.sidecar.providers.base import Listener, Permission, Verdict
from agentos.sidecar.tasks import end
from agentos.sidecar.texts import clean, shortened

_LONGEST_SUMMARY = 300
_STATES: Mapping[str, Literal["done", "failed"]] = {"completed": "done", "failed": "failed"}
_UNASKED = Verdict(allow=False)


@dataclass
class ToolCall:
    """What is known of a tool call. The protocol has no names of tools: the kind stands for it,
    or the first title where the kind says nothing."""

    id: str
    title: str = ""
    kind: str = ""
    given: dict[str, Any] = field(default_factory=dict)
    status: str = ""
    paths: set[str] = field(default_factory=set)

    @property
    def tool(self) -> str:
        return self.kind if self.kind not in ("", "other") else self.title or "other"

    def learn(self, update: Mapping[str, Any]) -> None:
        self.title = self.title or clean(str(update.get("title") or ""))
        if self.kind in ("", "other"):
            self.kind = str(update.get("kind") or self.kind)
        self.status = str(update.get("status") or self.status)
        given = update.get("rawInput")
        if isinstance(given, dict):
            # What comes last counts: a question is about what it says itself.
            self.given = self.given | given
        places = [*(update.get("locations") or ()), *(update.get("content") or ())]
        self.paths |= {place["path"] for place in places if isinstance(place.get("path"), str)}


class Turn:
    """Follows one question."""

    def __init__(self, listener: Listener):
        # Set when the answer is not wanted any more.
        self.interrupted = asyncio.Event()
        # Why calls were not made, since the agent last said something.
        self.untold: list[str] = []
        self._listener = listener
        self._calls: dict[str, ToolCall] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._deeds: dict[str, Deed] = {}
        self._texts: list[str] = [""]
        self._asking: set[asyncio.Task[Verdict]] = set()

    @property
    def text(self) -> str:
        """What the agent said after its last tool call, or before if nothing."""
        return next((text for text in reversed(self._texts) if text), "")

    def hear(self, update: Mapping[str, Any]) -> None:
        """Takes in one update. Unknown ones change nothing."""
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            self._words(update.get("content") or {})
        elif kind in ("tool_call", "tool_call_update"):
            self._learn(update)

    async def may(self, update: Mapping[str, Any]) -> Verdict:
        """Whether a tool call may be made. One call is asked about once, even if the agent has
        several questions about it."""
        call = self._learn(update)
        if call.id not in self._verdicts:
            self._verdicts[call.id] = await self._ask(call.tool, call.given)
            self._tell(call)
        return self._verdicts[call.id]

    async def may_touch(self, tool: str, path: Path, arguments: Mapping[str, Any]) -> Verdict:
        """Whether a file may be read or written for the agent: it may if that is part of a call
        that was allowed."""
        for number, call in self._calls.items():
            verdict = self._verdicts.get(number, _UNASKED)
            if verdict.allow and call.kind == tool and str(path) in call.paths:
                return verdict
        return await self._ask(tool, arguments)

    async def withdraw(self) -> None:
        """Ends all questions that wait for a decision."""
        await end(*self._asking)

    async def _ask(self, tool: str, arguments: Mapping[str, Any]) -> Verdict:
        permission = Permission(uuid4().hex, tool, arguments, None)
        task = asyncio.ensure_future(self._listener.may(permission))
        self._asking.add(task)
        try:
            verdict = await task
        finally:
            self._asking.discard(task)
        if not verdict.allow:
            self.untold.append(f"{tool}: {verdict.reason or 'it is not allowed here'}")
        return verdict

    def _words(self, content: Mapping[str, Any]) -> None:
        text = clean(str(content.get("text") or "")) if content.get("type") == "text" else ""
        if not text:
            return
        before = any(self._texts[:-1]) and not self._texts[-1]
        self._texts[-1] += text
        self.untold.clear()
        self._listener.words(f"\n\n{text}" if before else text)

    def _learn(self, update: Mapping[str, Any]) -> ToolCall:
        number = str(update["toolCallId"])
        if number not in self._calls and self._texts[-1]:
            self._texts.append("")
        call = self._calls.setdefault(number, ToolCall(number))
        call.learn(update)
        self._tell(call)
        return call

    def _tell(self, call: ToolCall) -> None:
        verdict = self._verdicts.get(call.id)
        denied = verdict is not None and not verdict.allow
        given = msgspec.json.encode(call.given).decode() if call.given else call.title
        deed = Deed(
            id=call.id,
            tool=call.tool,
            summary=shortened(clean(given), _LONGEST_SUMMARY),
            state="denied" if denied else _STATES.get(call.status, "running"),
        )
        if self._deeds.get(call.id) != deed:
            self._deeds[call.id] = deed
            self._listener.did(deed)
