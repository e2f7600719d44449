"""Hearing a team while it answers, and what Ctrl-C does meanwhile."""

from __future__ import annotations

import http.client
import queue
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol, Self

from agentos.cli.client import Client
from agentos.cli.events import parse
from agentos.cli.failures import GatewayError
from agentos.cli.output import Row, note
from agentos.kernel.errors import Kind

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 5.0
_SLICE_SECONDS = 0.2
# When nothing was heard for so long, it is time to ask: an event may be lost, a person be needed.
_QUIET_SECONDS = 2.0
_DEAF_SECONDS = 1.0
_LISTEN_SECONDS = 10.0

Document = dict[str, Any]


class Ear:
    """Hears what a team says and does, across lost connections."""

    def __init__(self, client: Client, team_id: str):
        self._client = client
        self._path = f"/api/teams/{team_id}/chat"
        self._heard: queue.SimpleQueue[Document] = queue.SimpleQueue()
        self._ready = threading.Event()
        self.deaf = False
        # Listening ends with the process: reading from a socket cannot be called off.
        threading.Thread(target=self._listen, daemon=True).start()

    def wait_until_ready(self) -> None:
        """From now on nothing is missed, unless it cannot hear at all."""
        self._ready.wait(_LISTEN_SECONDS)

    def next(self) -> Document | None:
        """What was heard next; None if nothing was for a moment."""
        try:
            return self._heard.get(timeout=_SLICE_SECONDS)
        except queue.Empty:
            return None

    def forget(self) -> None:
        """Drops what was heard so far."""
        while not self._heard.empty():
            self._heard.get_nowait()

    def _listen(self) -> None:
        wait = _FIRST_WAIT
        while True:
            try:
                with self._client.listen(self._path, {"Accept": "text/event-stream"}) as response:
                    for document in parse(response):
                        wait = _FIRST_WAIT
                        self._ready.set()
                        self._heard.put(document)
            except (OSError, http.client.HTTPException):
                pass
            except GatewayError as error:
                if error.kind is not Kind.TRANSIENT:
                    self.deaf = True
                    self._ready.set()
                    return
            time.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)


class View(Protocol):
    """What shows an answer to somebody."""

    def hear(self, document: Row, /) -> None:
        """A piece of the answer, a deed, or a change of the message."""

    def waits(self, message: Row, /) -> None:
        """This is how the message is; nothing was heard for a while."""

    def approvals(self, waiting: list[Document], /) -> None:
        """These wait for a person."""

    def ended(self, message: Row, /) -> None:
        """The message has come to its end."""


class Stopping:
    """What Ctrl-C does while a team answers: once it stops the answer, twice it leaves."""

    def __init__(self) -> None:
        self._count = 0
        self._at_once = False
        self.asked = False

    @contextmanager
    def handled(self) -> Iterator[Self]:
        before = signal.signal(signal.SIGINT, self._interrupted)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """For as long as a question is asked: there is nothing else to stop."""
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def wanted(self) -> bool:
        """Whether the answer is to be stopped; said once."""
        if self._count == 0 or self.asked:
            return False
        self.asked = True
        return True

    def _interrupted(self, _number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count > 1 or self._at_once:
            raise KeyboardInterrupt


def attend(
    client: Client, team: Row, message: Document, ear: Ear, view: View, stopping: Stopping
) -> Document:
    """Shows a message until it has ended, and returns it as it is then."""
    path = f"/api/teams/{team['id']}/messages/{message['id']}"
    look_at = 0.0
    while message["finished_at"] is None:
        if stopping.wanted():
            _cancel(client, path)
        document = ear.next()
        if document is not None and _about(document) == message["id"]:
            view.hear(document)
            look_at = time.monotonic() + _QUIET_SECONDS
            if document["type"] != "message.finished":
                continue
        elif time.monotonic() < look_at:
            continue
        try:
            message = client.get(path)
            if message["finished_at"] is None:
                view.waits(message)
                waiting = _approvals(client, team)
                with stopping.at_once():
                    view.approvals(waiting)
        except GatewayError as error:
            if error.kind is not Kind.TRANSIENT:
                raise
            note(f"{error.message} Trying again.")
        look_at = time.monotonic() + (_DEAF_SECONDS if ear.deaf else _QUIET_SECONDS)
    view.ended(message)
    return message


def _cancel(client: Client, path: str) -> None:
    note("\nStopping the answer. Ctrl-C again leaves.")
    try:
        client.post(f"{path}/cancel")
    except GatewayError as error:
        # It was faster.
        if error.kind is not Kind.CONFLICT:
            raise


def _about(document: Row) -> str | None:
    """The message that something is about."""
    about = document.get("data", document).get("message_id")
    return None if about is None else str(about)


def _approvals(client: Client, team: Row) -> list[Document]:
    """What waits for a person in this team; nothing, if this credential may not see it."""
    try:
        waiting = client.items("/api/approvals")
        if not waiting:
            return []
        sessions = _sessions(client, team)
    except GatewayError as error:
        if error.kind is not Kind.FORBIDDEN:
            raise
        return []
    return [
        each
        for each in waiting
        if each.get("team_id") == team["id"] or each.get("session_id") in sessions
    ]


def _sessions(client: Client, team: Row) -> set[str]:
    """The conversation of a native team, and what its workers are at."""
    session_id = team["session_id"] or client.get(f"/api/teams/{team['id']}")["session_id"]
    if session_id is None:
        return set()
    workers = client.items("/api/sessions", parent_id=session_id, state="PAUSED")
    return {session_id, *(row["id"] for row in workers)}
