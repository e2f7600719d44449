"""What a sidecar must not forget, on disk: answers, what it has asked, and the conversation.

    answers/<message>.json   not yet known to be in the database; sent again until it is
    stored/<message>.json    the last few that are: a late copy of their message is answered by them
    asked/<message>          how often the agent was asked; it may have begun with the work
    conversation             what the conversation is resumed by

A file is whole or not there: written beside and renamed. All of it lies in the team's own workspace,
where the agent can break it: what cannot be read counts as missing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from pathlib import Path
from uuid import UUID

import msgspec

from agentos.contracts.crew import Answer

_KEPT_STORED = 20
_MOST_ANSWER_BYTES = 48 * 1024 * 1024
_MOST_NOTE_BYTES = 4096

_log = logging.getLogger(__name__)


class Answers:
    """Answers by message. A disk that is full loses none while the process lives."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._unwritten: dict[UUID, Answer] = {}
        self._waiting: dict[UUID, None] = dict.fromkeys(self._ids("answers"))

    @property
    def waiting(self) -> tuple[UUID, ...]:
        """Messages whose answers are not yet known to be in the database, oldest first."""
        return tuple(self._waiting)

    def put(self, answer: Answer) -> None:
        """Kept until `stored` is called, also over a restart."""
        message_id = answer.message_id
        data = msgspec.json.encode(answer)
        try:
            _write(self._path("answers", message_id), data)
        except OSError as error:
            _log.warning("the answer to %s is kept in memory only: %s", message_id, error.strerror)
            self._unwritten[message_id] = answer
        self._waiting[message_id] = None

    def get(self, message_id: UUID) -> Answer | None:
        """The answer to a message, whether or not it is in the database already."""
        if message_id in self._unwritten:
            return self._unwritten[message_id]
        for kind in ("answers", "stored"):
            answer = _decoded(_read(self._path(kind, message_id), _MOST_ANSWER_BYTES))
            if answer is not None and answer.message_id == message_id:
                return answer
        # Broken from within the workspace: it cannot be sent, so it must not be waited for.
        self._waiting.pop(message_id, None)
        return None

    def stored(self, message_id: UUID) -> None:
        """The answer is in the database: it is not sent again by itself."""
        self._waiting.pop(message_id, None)
        self._unwritten.pop(message_id, None)
        kept = self._path("stored", message_id)
        with contextlib.suppress(OSError):
            (self._state / "asked" / str(message_id)).unlink(missing_ok=True)
            kept.parent.mkdir(parents=True, exist_ok=True)
            self._path("answers", message_id).replace(kept)
            for old in self._ids("stored")[:-_KEPT_STORED]:
                self._path("stored", old).unlink(missing_ok=True)

    def count_asked(self, message_id: UUID) -> int:
        """How often the agent has been asked this, with the time that comes now."""
        count = self.asked(message_id) + 1
        try:
            _write(self._state / "asked" / str(message_id), str(count).encode())
        except OSError as error:
            _log.warning("cannot note that %s is asked: %s", message_id, error.strerror)
        return count

    def asked(self, message_id: UUID) -> int:
        """How often the agent has been asked this, by earlier starts of the sidecar too."""
        note = _read(self._state / "asked" / str(message_id), _MOST_NOTE_BYTES)
        return int(note) if note is not None and note.isdigit() and len(note) < 10 else 0

    def conversation(self) -> str | None:
        """What the conversation is resumed by; "" if there is none, None if nothing is known."""
        note = _read(self._state / "conversation", _MOST_NOTE_BYTES)
        return None if note is None else note.decode("utf-8", "replace").strip()

    def keep_conversation(self, conversation: str) -> None:
        if conversation != self.conversation():
            try:
                _write(self._state / "conversation", conversation.encode("utf-8", "replace"))
            except OSError as error:
                _log.warning("cannot note the conversation: %s", error.strerror)

    def _path(self, kind: str, message_id: UUID) -> Path:
        return self._state / kind / f"{message_id}.json"

    def _ids(self, kind: str) -> list[UUID]:
        """Of the files there are, the oldest first."""
        found: list[tuple[int, UUID]] = []
        with contextlib.suppress(OSError):
            for path in (self._state / kind).glob("*.json"):
                with contextlib.suppress(OSError, ValueError):
                    found.append((path.lstat().st_mtime_ns, UUID(path.stem)))
        return [message_id for _, message_id in sorted(found)]


def _decoded(data: bytes | None) -> Answer | None:
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=Answer)
    except msgspec.DecodeError:
        return None


def _read(path: Path, most: int) -> bytes | None:
    try:
        # Not through a link, and not from a pipe that would never end.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        with open(handle, "rb", closefd=False) as file:
            data = file.read(most + 1)
    except OSError:
        return None
    finally:
        os.close(handle)
    return data if len(data) <= most else None


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, whatever becomes of the process.

    Not flushed to disk, which takes longer than the rest of an answer's way: after a power cut the
    agent's own transcript is as likely to be gone, and the message is asked again with a note.
    """
    # On the event loop on purpose: nothing else happens between an answer and its storing, and a
    # thread would let a second write overtake the first.
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.unlink(missing_ok=True)
    try:
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
