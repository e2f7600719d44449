"""Watching a session until it ends: its events ring, its journal says what happened."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

from agentos.cli.client import Client
from agentos.cli.events import follow, parse
from agentos.cli.failures import GatewayError
from agentos.cli.output import Row, note
from agentos.cli.session_ids import short
from agentos.kernel.errors import Kind

ENDED = frozenset({"COMPLETE", "FAILED", "ROLLED_BACK"})
EVENTS = "session.*,approval.*"

_LOOK_SECONDS = 1.0  # where events cannot be heard
# With events, only in case that one is lost: an expired approval, a gateway that was replaced.
_LOOK_ANYWAY_SECONDS = 5.0


class View(Protocol):
    """What shows a session to somebody."""

    def step(self, step: Row) -> None:
        """A step is in the journal."""

    def session(self, session: Row, /) -> None:
        """This is how the session is now."""

    def approvals(self, waiting: list[dict[str, Any]]) -> None:
        """These wait for a person."""


def newest_event(client: Client) -> int | None:
    """The number of the newest event; None if this credential may not listen."""
    try:
        with client.listen("/api/events/stream", {"Accept": "text/event-stream"}) as response:
            for event in parse(response):
                match event:
                    case {"type": "stream.live", "after": int(position)}:
                        return position
    except GatewayError as error:
        if error.kind is not Kind.FORBIDDEN:
            raise
    return None


def is_about(event: Row, session_id: str) -> bool:
    return bool(event["data"].get("session_id") == session_id)


class Bell:
    """Rings when something happens to a session. Where events cannot be heard, every second."""

    def __init__(self, client: Client, session_id: str, after: int | None):
        self._client = client
        self._session_id = session_id
        self._after = after
        self._rung = threading.Event()
        self._deaf = False
        # Listening ends with the process: reading from a socket cannot be called off.
        threading.Thread(target=self._listen, daemon=True).start()

    def wait(self) -> None:
        self._rung.wait(_LOOK_SECONDS if self._deaf else _LOOK_ANYWAY_SECONDS)
        self._rung.clear()

    def _listen(self) -> None:
        try:
            for event in follow(self._client, EVENTS, self._after):
                if is_about(event, self._session_id):
                    self._rung.set()
        except GatewayError:
            self._deaf = True
            self._rung.set()


def watch(client: Client, session_id: str, bell: Bell, view: View, *, seen: int = 0) -> Row:
    """Shows the steps after `seen` as they come, and returns the session when it has ended."""
    path = f"/api/sessions/{session_id}"
    while True:
        try:
            session: dict[str, Any] = client.get(path)
            view.session(session)
            while seen < session["steps"]:
                view.step(client.get(f"{path}/steps/{seen + 1}"))
                seen += 1
            if session["state"] in ENDED:
                return session
            if session["waiting_for"] == "approval":
                view.approvals(client.items("/api/approvals", session_id=session_id))
        except GatewayError as error:
            if error.kind is not Kind.TRANSIENT:
                raise
            note(f"{error.message} Trying again.")
        bell.wait()


@contextmanager
def leaving_politely(session_id: str) -> Iterator[None]:
    """Ctrl-C says that the session goes on; on a terminal, only the second one leaves."""
    patient = sys.stdout.isatty()
    told = False

    def interrupted(_number: int, _frame: FrameType | None) -> None:
        nonlocal told
        if not told:
            again = "\nCtrl-C again stops watching." if patient else ""
            note(
                "\nThe session goes on in the background. Watch it with `agentos sessions watch "
                f"{short(session_id)}`, end it with `agentos sessions cancel {short(session_id)}`."
                f"{again}"
            )
        if told or not patient:
            raise KeyboardInterrupt
        told = True

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
