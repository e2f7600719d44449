"""Watching a session until it ends: its events ring, its journal says what happened."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol, Self

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
_SLICE_SECONDS = 0.2


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
        self.deaf = False
        # Listening ends with the process: reading from a socket cannot be called off.
        threading.Thread(target=self._listen, daemon=True).start()

    def wait(self, interrupts: Interrupts) -> None:
        """Until it rings, or it is time to look anyway, or somebody presses Ctrl-C."""
        patience = _LOOK_SECONDS if self.deaf else _LOOK_ANYWAY_SECONDS
        until = time.monotonic() + patience
        while not self._rung.wait(_SLICE_SECONDS):
            if interrupts.unsaid or time.monotonic() > until:
                break
        self._rung.clear()

    def _listen(self) -> None:
        try:
            for event in follow(self._client, EVENTS, self._after):
                if is_about(event, self._session_id):
                    self._rung.set()
        except GatewayError:
            self.deaf = True
            self._rung.set()


def watch(
    client: Client,
    session_id: str,
    bell: Bell,
    view: View,
    interrupts: Interrupts,
    *,
    seen: int = 0,
) -> Row:
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
                waiting = client.items("/api/approvals", session_id=session_id)
                with interrupts.at_once():
                    view.approvals(waiting)
        except GatewayError as error:
            if error.kind is not Kind.TRANSIENT:
                raise
            # A bell that hears has said so itself.
            if bell.deaf:
                note(f"{error.message} Trying again.")
        bell.wait(interrupts)
        interrupts.say()


class Interrupts:
    """What Ctrl-C does while a session is watched: the session goes on, and that is said.

    A `patient` one goes on watching, too, until the second. Nothing is printed while a signal is
    handled: it may have come in the middle of printing.
    """

    def __init__(self, session_id: str, *, patient: bool):
        self._name = short(session_id)
        self._patient = patient
        self._count = 0
        self.unsaid = False

    @contextmanager
    def handled(self) -> Iterator[Self]:
        before = signal.signal(signal.SIGINT, self._interrupted)
        try:
            yield self
        except KeyboardInterrupt:
            self.unsaid = self.unsaid or self._count == 1
            self.say(leaving=True)
            raise
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """For as long as a question is asked: there is nothing to go on with."""
        patient, self._patient = self._patient, False
        try:
            yield
        finally:
            self._patient = patient

    def say(self, *, leaving: bool = False) -> None:
        """Says what was not said yet."""
        if self.unsaid:
            self.unsaid = False
            again = "" if leaving else " Ctrl-C again stops watching."
            note(
                "\nThe session goes on in the background. Watch it with `agentos sessions watch "
                f"{self._name}`, end it with `agentos sessions cancel {self._name}`.{again}"
            )

    def _interrupted(self, _number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count > 1 or not self._patient:
            raise KeyboardInterrupt
        self.unsaid = True
