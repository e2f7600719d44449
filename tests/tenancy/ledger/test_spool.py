"""The spool holds what Postgres does not have yet, and no more."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from tests.tenancy.ledger.conftest import finished

from agentos.kernel.ids import TenantId, uuid7
from agentos.tenancy.ledger.calls import Spender
from agentos.tenancy.ledger.spool import (
    DeadSpool,
    EndedElsewhere,
    Record,
    Released,
    Reserved,
    Settled,
    Spool,
    SpoolUnwritable,
)

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def reserved(call_id: UUID | None = None) -> Reserved:
    spender = Spender(TenantId(uuid7()), session_id=uuid7())
    return Reserved(call_id or uuid7(), spender, NOW, NOW.date(), 100, 5, 1)


@pytest.fixture
def owner() -> UUID:
    return uuid7()


def opened(directory: Path, owner: UUID, segment_bytes: int = 8_000_000) -> Spool:
    spool = Spool(directory, owner, segment_bytes)
    spool.open()
    return spool


def read(directory: Path, owner: UUID) -> list[Record]:
    dead = DeadSpool.seize(directory / f"{owner}.lock")
    assert dead is not None
    records = list(dead.records())
    dead.close()
    return records


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.spool"))


def test_what_was_written_is_read_again(tmp_path: Path, owner: UUID) -> None:
    spool = opened(tmp_path, owner)
    first, second, third = reserved(), reserved(), reserved()
    for record in (first, second, third):
        spool.begin(record)
    settled = Settled(first.call_id, NOW, finished(None, at=NOW, principal_id="a\nb"))
    released = Released(second.call_id, NOW, "no answer")
    spool.end(settled)
    spool.end(released)
    spool.ended_elsewhere(third.call_id)
    spool.close(remove=False)
    ends = [settled, released, EndedElsewhere(third.call_id)]
    assert read(tmp_path, owner) == [first, second, third, *ends]


def test_nobody_else_can_read_it_or_take_it_while_the_owner_lives(
    tmp_path: Path, owner: UUID
) -> None:
    directory = tmp_path / "ledger"
    spool = opened(directory, owner)
    spool.begin(reserved())
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}
    lock = directory / f"{owner}.lock"
    assert DeadSpool.seize(lock) is None
    spool.close(remove=False)
    dead = DeadSpool.seize(lock)
    assert dead is not None
    assert DeadSpool.seize(lock) is None
    dead.remove()
    dead.close()
    assert list(directory.iterdir()) == []
    assert DeadSpool.seize(lock) is None


def test_a_full_segment_goes_once_it_is_posted_although_a_call_goes_on(
    tmp_path: Path, owner: UUID
) -> None:
    spool = opened(tmp_path, owner, segment_bytes=2_000)
    long = reserved()
    segments = [spool.begin(long)]
    while len(set(segments)) < 3:
        call = reserved()
        segments += [spool.begin(call), spool.end(Released(call.call_id, NOW, "x"))]
    assert len(files(tmp_path)) == 3
    for segment in segments:
        spool.posted(segment)
    assert files(tmp_path) == [f"{owner}.2.spool"]
    spool.end(Released(long.call_id, NOW, "at last"))
    spool.close(remove=False)
    records = read(tmp_path, owner)
    assert records[0] == long
    assert records[-1] == Released(long.call_id, NOW, "at last")


def test_an_idle_spool_is_empty(tmp_path: Path, owner: UUID) -> None:
    spool = opened(tmp_path, owner)
    call = reserved()
    begun = spool.begin(call)
    spool.posted(begun)
    path = tmp_path / f"{owner}.0.spool"
    assert path.stat().st_size > 0
    spool.posted(spool.end(Released(call.call_id, NOW, "x")))
    assert path.stat().st_size == 0
    after = reserved()
    spool.begin(after)
    spool.close(remove=False)
    assert read(tmp_path, owner) == [after]


def test_a_torn_line_is_left_out(tmp_path: Path, owner: UUID) -> None:
    spool = opened(tmp_path, owner)
    whole = reserved()
    spool.begin(whole)
    spool.begin(reserved())
    spool.close(remove=False)
    path = tmp_path / f"{owner}.0.spool"
    os.truncate(path, path.stat().st_size - 7)
    assert read(tmp_path, owner) == [whole]


def test_a_full_disk_stops_new_calls_and_spoils_no_other_line(
    tmp_path: Path, owner: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = opened(tmp_path, owner)
    before = reserved()
    spool.begin(before)
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) > 20:
            return write(descriptor, data[:20])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", lambda descriptor, data: full(descriptor, data[:21]))
    with pytest.raises(SpoolUnwritable):
        spool.begin(reserved())
    # It happened, so it is taken note of, if only in memory.
    spool.end(Released(before.call_id, NOW, "x"))
    monkeypatch.undo()
    after = reserved()
    spool.begin(after)
    spool.close(remove=False)
    assert read(tmp_path, owner) == [before, after]
