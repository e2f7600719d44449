"""One question to OpenCode: what its events mean for whoever listens, and when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from agentos.contracts.crew import Deed
from agentos.sidecar.providers.base import Listener, Reply
from agentos.sidecar.texts import clean, shortened

_LONGEST_SUMMARY = 300
# OpenCode asks a failing model again and again, with growing pauses.
_MOST_RETRIES = 3
_ABORTED = "MessageAbortedError"
_OF_THE_MODEL = frozenset(
    {
        "APIError",
        "ContentFilterError",
        "ContextOverflowError",
        "MessageOutputLengthError",
        "ProviderAuthError",
        "ProviderModelNotFoundError",
    }
)
_NO_ANSWER = "OpenCode ended without an answer."
_STATES: Mapping[str, Literal["done", "failed"]] = {"completed": "done", "error": "failed"}


class Turn:
    """Follows one question through the events of the whole server.

    `look` is set when it may be over: what the server then says about the messages decides.
    """

    def __init__(self, session: str, message: str, listener: Listener):
        self.session = session
        self.message = message
        self.listener = listener
        self.look = asyncio.Event()
        # Set when the session cannot go on, and nothing in its messages will say so.
        self.error: Mapping[str, Any] = {}
        self.interrupted = False
        # The server has begun with it: being idle before that means nothing.
        self.began = False
        self._recorded = False
        # Too many retries: the reason for giving up.
        self.gave_up = ""
        self.denied: set[str] = set()
        self._workers: dict[str, str] = {}
        self._said_by: dict[str, str | None] = {}
        self._spoken: dict[str | None, str] = {}
        self._deeds: dict[str, Deed] = {}

    def agent(self, session: str) -> str | None:
        """The worker whose session it is; None: the leader's."""
        return self._workers.get(session)

    def knows(self, session: str) -> bool:
        return session == self.session or session in self._workers

    def hear(self, kind: str, properties: Mapping[str, Any]) -> None:
        """Takes in one event. Those of other sessions, and unknown ones, change nothing."""
        if kind in ("session.created", "session.updated"):
            self.meet(properties.get("info") or {})
        if self.knows(str(properties.get("sessionID", ""))) and kind in _HEARD:
            _HEARD[kind](self, properties)

    def meet(self, info: Mapping[str, Any]) -> None:
        """A session of a worker begins: a child of one that is known."""
        if self.knows(info.get("parentID") or "") and info.get("agent"):
            self._workers[info["id"]] = info["agent"]

    def reply(self, last: Mapping[str, Any] | None) -> Reply:
        """What the end of the turn means, given its last message."""
        info = last["info"] if last else {}
        text = _text(last) if last else ""
        error = info.get("error")
        if self.gave_up:
            return Reply("failed", text, self.gave_up, "model_error")
        if not error and final(info):
            return Reply("answered", text)
        if self.interrupted and (not error or error.get("name") == _ABORTED):
            return Reply("cancelled", text)
        error = error or self.error
        return Reply("failed", text, reason(error), _code(error))

    def _message(self, properties: Mapping[str, Any]) -> None:
        info = properties["info"]
        # What comes before this may still be about the question before.
        self._recorded = self._recorded or info["id"] == self.message
        if info.get("parentID") == self.message and final(info):
            self.look.set()

    def _part(self, properties: Mapping[str, Any]) -> None:
        part = properties["part"]
        if part["type"] == "text":
            self._said_by.setdefault(part["id"], self.agent(part["sessionID"]))
        elif part["type"] == "tool":
            self._tool(part)

    def _tool(self, part: Mapping[str, Any]) -> None:
        state = part["state"]
        if not state.get("input") and state["status"] == "pending":
            return
        given = msgspec.json.encode(state.get("input") or {}).decode()
        denied = part["callID"] in self.denied
        deed = Deed(
            id=part["id"],
            tool=part["tool"],
            summary=shortened(clean(given), _LONGEST_SUMMARY),
            state="denied" if denied else _STATES.get(state["status"], "running"),
            agent=self.agent(part["sessionID"]),
        )
        if self._deeds.get(deed.id) != deed:
            self._deeds[deed.id] = deed
            self.listener.did(deed)

    def _delta(self, properties: Mapping[str, Any]) -> None:
        part = properties["partID"]
        if properties.get("field") != "text" or part not in self._said_by:
            return
        agent = self._said_by[part]
        before = self._spoken.get(agent)
        self._spoken[agent] = part
        gap = "\n\n" if before not in (None, part) else ""
        self.listener.words(gap + clean(properties["delta"]), agent)

    def _status(self, properties: Mapping[str, Any]) -> None:
        status = properties["status"]
        if properties["sessionID"] == self.session and status["type"] == "busy":
            self.began = self.began or self._recorded
        if status["type"] == "retry":
            self._spoken.clear()
            self.listener.again()
            if status["attempt"] >= _MOST_RETRIES:
                self.gave_up = clean(str(status.get("message", "")))
                self.look.set()

    def _idle(self, properties: Mapping[str, Any]) -> None:
        if properties["sessionID"] == self.session:
            self.look.set()

    def _error(self, properties: Mapping[str, Any]) -> None:
        error = properties.get("error") or {}
        if properties["sessionID"] == self.session and error.get("name") != _ABORTED:
            # An unknown model: it ends without ever being busy.
            self.began = True
            self.error = error
            self.look.set()


_HEARD = {
    "message.updated": Turn._message,
    "message.part.updated": Turn._part,
    "message.part.delta": Turn._delta,
    "session.status": Turn._status,
    "session.idle": Turn._idle,
    "session.error": Turn._error,
}


def final(info: Mapping[str, Any]) -> bool:
    """Whether a message of the assistant is the last of its turn."""
    if info.get("error"):
        return True
    finished = info.get("finish") not in (None, "tool-calls", "unknown")
    return finished and "completed" in info.get("time", {}) and not info.get("summary")


def reason(error: Mapping[str, Any]) -> str:
    """What OpenCode says about a failure, in one text."""
    data = error.get("data") or {}
    return clean(str(data.get("message") or error.get("name") or _NO_ANSWER))


def _code(error: Mapping[str, Any]) -> str:
    return "model_error" if error.get("name") in _OF_THE_MODEL else "agent_error"


def _text(message: Mapping[str, Any]) -> str:
    parts = [part for part in message["parts"] if part["type"] == "text"]
    return clean("".join(part["text"] for part in parts if not part.get("synthetic")))
