"""One question to Claude Code: what its lines mean until the answer is there.

The lines of a turn are those of the leader and of the workers it called, which carry
`parent_tool_use_id`. Words come twice: as they are said (`stream_event`), and whole (`assistant`).
The whole ones are the truth: words that none of them confirms were said by a model call that broke
and was made anew.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from agentos.contracts.crew import Deed
from agentos.sidecar.providers.base import Listener, Reply

_LONGEST_SUMMARY = 200
# What tells most about a tool call, in this order.
_TELLING = (
    "command",
    "file_path",
    "notebook_path",
    "path",
    "url",
    "query",
    "skill",
    "description",
    "pattern",
    "prompt",
)
_WORKER_TOOLS = ("Agent", "Task")


@dataclass(frozen=True, slots=True)
class _Said:
    text: str
    agent: str | None
    # The model's message that it is a part of.
    message: str


class Turn:
    """Hears the lines of one question, and knows its reply when it has come."""

    def __init__(self, question_id: str, listener: Listener):
        self.listener = listener
        self.reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        # Nothing can be interrupted before it has begun: the program would ignore it.
        self.begun = asyncio.Event()
        self.interrupted = False
        self.denied: set[str] = set()
        self._question_id = question_id
        self._said: list[_Said] = []
        # What the leader says just now, not yet confirmed.
        self._saying = ""
        self._message = ""
        self._deeds: dict[str, Deed] = {}
        self._workers: dict[str, str] = {}

    def take(self, line: dict[str, Any]) -> None:
        """One line of the program; kinds that are not known say nothing to us."""
        kind = line.get("type")
        if kind == "result":
            self._take_result(line)
        elif kind == "system" and line.get("subtype") == "init":
            self.begun.set()
        elif kind == "stream_event" and line.get("parent_tool_use_id") is None:
            self._take_event(_object(line.get("event")), line)
        elif kind == "assistant":
            self._take_assistant(_object(line.get("message")), self._agent(line))
        elif kind == "user":
            self._take_results(_object(line.get("message")), self._agent(line))

    def _agent(self, line: dict[str, Any]) -> str | None:
        parent = line.get("parent_tool_use_id")
        if parent is None:
            return None
        return str(line.get("subagent_type") or self._workers.get(str(parent), "worker"))

    # Words

    def _take_event(self, event: dict[str, Any], line: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "message_start":
            self._void()
            self._message = str(_object(event.get("message")).get("id"))
        elif kind == "content_block_delta":
            delta = _object(event.get("delta"))
            if delta.get("type") == "text_delta" and (text := str(delta.get("text", ""))):
                self._hear(text, None, begins=not self._saying)
                self._saying += text
        elif kind == "message_stop" and (gone := _object(line.get("abandoned_blocks"))):
            self._void(str(gone.get("api_message_id")))

    def _take_assistant(self, message: dict[str, Any], agent: str | None) -> None:
        if message.get("model") == "<synthetic>":
            # An error in the guise of an answer; it comes again as the result.
            return
        for part in _parts(message):
            if part.get("type") == "text":
                self._confirm(str(part.get("text", "")), agent, str(message.get("id")))
            elif part.get("type") == "tool_use":
                self._call(part, agent)

    def _confirm(self, text: str, agent: str | None, message: str) -> None:
        if not text:
            return
        if agent is None and self._saying == text:
            self._saying = ""
        else:
            if agent is None:
                self._void()
            self._hear(text, agent, begins=True)
        self._said.append(_Said(text, agent, message))

    def _void(self, message: str | None = None) -> None:
        """Takes back what was not confirmed, and what was said in a message that was given up."""
        kept = [said for said in self._said if said.message != message]
        if not self._saying and len(kept) == len(self._said):
            return
        self._saying, self._said = "", []
        self.listener.again()
        for said in kept:
            self._hear(said.text, said.agent, begins=True)
            self._said.append(said)

    def _hear(self, text: str, agent: str | None, *, begins: bool) -> None:
        apart = begins and any(said.agent == agent for said in self._said)
        self.listener.words(f"\n\n{text}" if apart else text, agent)

    # Deeds

    def _call(self, part: dict[str, Any], agent: str | None) -> None:
        given = _object(part.get("input"))
        deed_id, tool = str(part.get("id")), str(part.get("name"))
        if tool in _WORKER_TOOLS:
            self._workers[deed_id] = str(given.get("subagent_type") or "worker")
        self._report(Deed(deed_id, tool, summary(tool, given), "running", agent))

    def _take_results(self, message: dict[str, Any], agent: str | None) -> None:
        for part in _parts(message):
            if part.get("type") != "tool_result":
                continue
            deed_id = str(part.get("tool_use_id"))
            known = self._deeds.get(deed_id) or Deed(deed_id, "tool", agent=agent)
            self._report(msgspec.structs.replace(known, state=self._outcome(deed_id, part)))

    def _outcome(self, deed_id: str, part: dict[str, Any]) -> Literal["done", "failed", "denied"]:
        if deed_id in self.denied:
            return "denied"
        return "failed" if part.get("is_error") is True else "done"

    def _report(self, deed: Deed) -> None:
        self._deeds[deed.id] = deed
        self.listener.did(deed)

    # The end

    def _take_result(self, line: dict[str, Any]) -> None:
        # Others are reports on background work, which come unasked.
        asked = line.get("user_message_uuids")
        mine = isinstance(asked, list) and self._question_id in asked
        if mine and not line.get("origin") and not self.reply.done():
            self.reply.set_result(self._reply(line))

    def _reply(self, line: dict[str, Any]) -> Reply:
        text = str(line.get("result") or "")
        # The subtype of an API failure is `success`.
        if line.get("is_error") is not True:
            return Reply("answered", text)
        if self.interrupted:
            return Reply("cancelled", self._words())
        errors = line.get("errors")
        reason = text or "; ".join(map(str, errors if isinstance(errors, list) else []))
        of_model = line.get("terminal_reason") == "api_error" or "api_error_status" in line
        code = "model_error" if of_model else "agent_error"
        return Reply("failed", "", reason or "Claude Code gave up on the message.", code)

    def _words(self) -> str:
        texts = [said.text for said in self._said if said.agent is None]
        return "\n\n".join([*texts, *([self._saying] if self._saying else [])])


def summary(tool: str, given: dict[str, Any]) -> str:
    """What a tool was given, in one short line."""
    told = next((given[key] for key in _TELLING if isinstance(given.get(key), str)), None)
    if told is None:
        told = msgspec.json.encode(given).decode() if given else ""
    if tool in _WORKER_TOOLS and given.get("subagent_type"):
        told = f"{given['subagent_type']}: {told}"
    line = " ".join(told.split())
    return line if len(line) <= _LONGEST_SUMMARY else line[: _LONGEST_SUMMARY - 1] + "…"


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
