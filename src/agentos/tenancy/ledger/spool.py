"""The spool: what this process promised and booked, on disk before anybody is told.

A write() outlives `kill -9` of the process and an outage of Postgres. There is no fsync, so a power
cut may lose what the kernel had not written yet.

    <owner>.lock       locked by the living owner; whoever can lock it may recover the rest
    <owner>.<n>.spool  one JSON line a record
    <owner>.rejected   records that the database will never take
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Self
from uuid import UUID

import msgspec

from agentos.kernel.errors import Unavailable
from agentos.kernel.logs import get_logger
from agentos.tenancy.ledger.calls import FinishedCall, Spender

log = get_logger(__name__)

SEGMENT_BYTES = 8_000_000


class SpoolUnwritable(Unavailable):
    """The ledger's spool cannot be written, so no call is made."""

    code = "ledger_unavailable"
    hint = "Make room in the data directory; `agentos doctor` shows how much is left."


class Reserved(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="reserve"):
    call_id: UUID
    spender: Spender
    at: datetime
    period: date
    micros: int
    tokens: int
    # The units that came out of a hold: a sum of the constants below.
    covers: int


class Settled(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="settle"):
    call_id: UUID
    at: datetime
    call: FinishedCall


class Released(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="release"):
    call_id: UUID
    at: datetime
    reason: str


class EndedElsewhere(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="ended"):
    """The end of this call was committed in a transaction of its caller."""

    call_id: UUID


COVERS_TENANT, COVERS_TEAM, COVERS_SESSION, COVERS_TOKENS = 1, 2, 4, 8

Record = Reserved | Settled | Released | EndedElsewhere

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Record).decode


class Segment:
    """One file of a spool, and how much of it Postgres does not have yet."""

    def __init__(self, path: Path):
        self.path = path
        self.size = 0
        self.unposted = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self.descriptor = os.open(path, flags, 0o600)


class Spool:
    """The living owner's end of a spool."""

    def __init__(self, directory: Path, owner: UUID, segment_bytes: int = SEGMENT_BYTES):
        self._directory = directory
        self._owner = owner
        self._segment_bytes = segment_bytes
        self._number = 0
        self._torn = False
        # The lines of calls that have begun and not ended. A new segment starts with them, so
        # that an old one can go although a call that began in it goes on.
        self._open: dict[UUID, bytes] = {}
        self._old: set[Segment] = set()

    def open(self) -> None:
        """Makes the spool and locks it for as long as this process lives."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = _locked_file(self._directory, self._owner)
        self._segment = Segment(self._path(0))

    def begin(self, record: Reserved) -> Segment:
        """Writes that a call may begin, or raises SpoolUnwritable."""
        line = encode(record) + b"\n"
        try:
            segment = self._write(line)
        except OSError as error:
            raise SpoolUnwritable() from error
        self._open[record.call_id] = line
        segment.unposted += 1
        return segment

    def end(self, record: Settled | Released) -> Segment:
        """Writes how a call ended.

        On a full disk it is kept in memory alone until it is posted: the call has happened, and
        refusing to hear of it would help nobody.
        """
        self._open.pop(record.call_id, None)
        segment = self._write_if_possible(encode(record) + b"\n")
        segment.unposted += 1
        return segment

    def ended_elsewhere(self, call_id: UUID) -> None:
        self._open.pop(call_id, None)
        self._write_if_possible(encode(EndedElsewhere(call_id)) + b"\n")

    def posted(self, segment: Segment) -> None:
        """Notes that Postgres has one more record of a segment."""
        segment.unposted -= 1
        if segment.unposted:
            return
        if segment in self._old:
            self._old.remove(segment)
            _remove(segment)
        elif not self._open and segment.size:
            os.ftruncate(segment.descriptor, 0)
            segment.size = 0

    def reject(self, line: bytes) -> None:
        """Keeps a record that cannot be posted where a person can find it."""
        append_rejected(self._directory, self._owner, line)

    def close(self, *, remove: bool) -> None:
        """Lets go of the spool; removes it if everything in it is posted."""
        for segment in (*self._old, self._segment):
            if remove:
                _remove(segment)
            else:
                os.close(segment.descriptor)
        if remove:
            _lock_path(self._directory, self._owner).unlink(missing_ok=True)
        os.close(self._lock)

    def _write(self, line: bytes) -> Segment:
        if self._segment.size >= self._segment_bytes:
            self._rotate()
        segment = self._segment
        if self._torn:
            line = b"\n" + line
        self._torn = True
        written = os.write(segment.descriptor, line)
        while written < len(line):
            written += os.write(segment.descriptor, line[written:])
        self._torn = False
        segment.size += len(line)
        return segment

    def _write_if_possible(self, line: bytes) -> Segment:
        try:
            return self._write(line)
        except OSError as error:
            log.error("the ledger's spool cannot be written", error=repr(error))
            return self._segment

    def _rotate(self) -> None:
        fresh = Segment(self._path(self._number + 1))
        self._number += 1
        full, self._segment, self._torn = self._segment, fresh, False
        self._old.add(full)
        carried = b"".join(self._open.values())
        if carried:
            self._write(carried)
        if not full.unposted:
            self._old.remove(full)
            _remove(full)

    def _path(self, number: int) -> Path:
        return self._directory / f"{self._owner}.{number}.spool"


def append_rejected(directory: Path, owner: UUID, line: bytes) -> None:
    path = directory / f"{owner}.rejected"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line + b"\n")
    finally:
        os.close(descriptor)


class DeadSpool:
    """The spool of an owner that is gone, locked by whoever recovers it."""

    def __init__(self, directory: Path, owner: UUID, lock: int):
        self.directory = directory
        self.owner = owner
        self._lock = lock

    @classmethod
    def seize(cls, lock_path: Path) -> Self | None:
        """The spool behind a lock file, or None if its owner lives or another recovers it."""
        try:
            descriptor = os.open(lock_path, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it before us may have removed it by now.
            if os.fstat(descriptor).st_nlink == 0:
                raise BlockingIOError
        except BlockingIOError:
            os.close(descriptor)
            return None
        return cls(lock_path.parent, UUID(lock_path.stem), descriptor)

    def records(self) -> Iterator[Record]:
        """All records that were written whole, in order."""
        for path in self._segments():
            for line in path.read_bytes().split(b"\n"):
                if line:
                    try:
                        yield _decode(line)
                    except msgspec.DecodeError:
                        # The process died, or the disk filled up, in the middle of it.
                        log.warning("a torn line in a ledger spool was left out", spool=path.name)

    def remove(self) -> None:
        for path in self._segments():
            path.unlink()
        _lock_path(self.directory, self.owner).unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self._lock)

    def _segments(self) -> list[Path]:
        found = self.directory.glob(f"{self.owner}.*.spool")
        return sorted(found, key=lambda path: int(path.name.split(".")[1]))


def lock_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.lock"))


def _lock_path(directory: Path, owner: UUID) -> Path:
    return directory / f"{owner}.lock"


def _locked_file(directory: Path, owner: UUID) -> int:
    """Makes the lock file under another name, so that it is never seen unlocked."""
    making = directory / f"{owner}.making"
    descriptor = os.open(making, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    making.rename(_lock_path(directory, owner))
    return descriptor


def _remove(segment: Segment) -> None:
    os.close(segment.descriptor)
    with suppress(FileNotFoundError):
        segment.path.unlink()
