from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.conftest import TenantWork

from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database
from agentos.tenancy.audit import service
from agentos.tenancy.audit.schemas import AuditFilter, AuditRead, ExportFormat
from agentos.tenancy.pages import BadCursor, PageRequest
from agentos.tenancy.principals import Forbidden
from agentos.tenancy.work import Work

START = datetime(2030, 1, 1, tzinfo=UTC)
EVERYTHING = PageRequest(limit=200, after=None)


async def _write(work: Work, number: int) -> None:
    """Entry `number`: an hour after the one before, with actors, targets and requests mixed."""
    clock = MovableClock(START + timedelta(hours=number))
    principal = replace(work.principal, id=f"actor-{number % 3}")
    writing = replace(work, clock=clock, principal=principal, request_id=f"request-{number}")
    kind = "secret" if number % 2 else "key"
    await writing.record(
        f"{kind}.stored", target=(kind, f"{kind}-{number % 5}"), after={"number": number}
    )


@pytest.fixture
async def tenant(tenant_work: TenantWork) -> UUID:
    """A tenant with 30 entries, beside another one with some of its own."""
    async with tenant_work() as other:
        await _write(other, 1)
    async with tenant_work() as work:
        for number in range(30):
            await _write(work, number)
        return work.tenant_id


def _numbers(entries: list[AuditRead]) -> list[int]:
    return [entry.after["number"] for entry in entries if entry.after]


async def test_newest_first_and_only_ones_own(tenant_work: TenantWork, tenant: UUID) -> None:
    async with tenant_work(tenant=tenant) as work:
        page = await service.list_entries(work, AuditFilter(), EVERYTHING)

    assert _numbers(page.items) == list(reversed(range(30)))
    newest = page.items[0]
    assert (newest.action, newest.actor_kind, newest.actor_id) == (
        "secret.stored",
        "user",
        "actor-2",
    )
    assert (newest.target_kind, newest.target_id) == ("secret", "secret-4")
    assert (newest.at, newest.request_id) == (START + timedelta(hours=29), "request-29")


async def test_pages_are_complete_although_new_entries_arrive(
    tenant_work: TenantWork, tenant: UUID
) -> None:
    seen: list[AuditRead] = []
    after: str | None = None
    async with tenant_work(tenant=tenant) as work:
        for arriving in range(100, 200):
            page = await service.list_entries(
                work, AuditFilter(), PageRequest(limit=7, after=after)
            )
            seen += page.items
            if page.next_cursor is None:
                break
            after = str(page.items[-1].id)
            await _write(work, arriving)
    assert _numbers(seen) == list(reversed(range(30)))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AuditFilter(action="key.stored"), {n for n in range(30) if n % 2 == 0}),
        (AuditFilter(actor_id="actor-1"), {n for n in range(30) if n % 3 == 1}),
        (AuditFilter(target_kind="secret"), {n for n in range(30) if n % 2}),
        (AuditFilter(target_kind="secret", target_id="secret-1"), {1, 11, 21}),
        (AuditFilter(request_id="request-7"), {7}),
        (AuditFilter(since=START + timedelta(hours=27)), {27, 28, 29}),
        (AuditFilter(until=START + timedelta(hours=3)), {0, 1, 2}),
        (AuditFilter(action="key.stored", actor_id="actor-0"), {0, 6, 12, 18, 24}),
        (AuditFilter(action="' or true --"), set()),
    ],
    ids=["action", "actor", "kind", "target", "request", "since", "until", "two", "injection"],
)
async def test_filters(
    tenant_work: TenantWork, tenant: UUID, db: Database, wanted: AuditFilter, expected: set[int]
) -> None:
    async with tenant_work(tenant=tenant) as work:
        page = await service.list_entries(work, wanted, EVERYTHING)
        exported = await _export(work, db, wanted, "ndjson")

    assert _numbers(page.items) == sorted(expected, reverse=True)
    lines = [json.loads(line) for line in exported.splitlines()]
    assert [line["after"]["number"] for line in lines] == sorted(expected, reverse=True)


async def test_it_needs_the_scope(tenant_work: TenantWork, tenant: UUID, db: Database) -> None:
    async with tenant_work(tenant=tenant, role="member") as work:
        with pytest.raises(Forbidden):
            await service.list_entries(work, AuditFilter(), EVERYTHING)
        with pytest.raises(Forbidden):
            service.export_entries(work, db, AuditFilter(), "csv")


async def test_a_strange_cursor_is_refused(tenant_work: TenantWork, tenant: UUID) -> None:
    async with tenant_work(tenant=tenant) as work:
        with pytest.raises(BadCursor):
            await service.list_entries(work, AuditFilter(), PageRequest(limit=5, after="x"))


async def _export(work: Work, db: Database, wanted: AuditFilter, form: ExportFormat) -> str:
    pieces = [piece async for piece in service.export_entries(work, db, wanted, form)]
    return b"".join(pieces).decode()


class TestExport:
    @pytest.mark.parametrize("batch", [1, 7, 10, 30, 100])
    async def test_everything_once_in_bounded_pieces_after_the_request_is_over(
        self,
        tenant_work: TenantWork,
        tenant: UUID,
        db: Database,
        monkeypatch: pytest.MonkeyPatch,
        batch: int,
    ) -> None:
        monkeypatch.setattr(service, "_BATCH", batch)
        async with tenant_work(tenant=tenant) as work:
            export = service.export_entries(work, db, AuditFilter(), "ndjson")

        pieces = [piece async for piece in export]

        entries = [AuditRead.model_validate_json(line) for line in b"".join(pieces).splitlines()]
        assert _numbers(entries) == list(reversed(range(30)))
        assert max(piece.count(b"\n") for piece in pieces) <= batch

    async def test_csv_has_one_header_and_one_row_an_entry(
        self,
        tenant_work: TenantWork,
        tenant: UUID,
        db: Database,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(service, "_BATCH", 7)
        async with tenant_work(tenant=tenant) as work:
            text = await _export(work, db, AuditFilter(), "csv")

        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        assert list(rows[0]) == list(AuditRead.model_fields)
        assert [json.loads(row["after"])["number"] for row in rows] == list(reversed(range(30)))
        assert rows[0]["before"] == ""

    async def test_an_empty_log_is_an_empty_file(
        self, tenant_work: TenantWork, db: Database
    ) -> None:
        async with tenant_work() as work:
            assert await _export(work, db, AuditFilter(), "ndjson") == ""
            header = ",".join(AuditRead.model_fields)
            assert await _export(work, db, AuditFilter(), "csv") == header + "\r\n"

    @pytest.mark.parametrize(
        "name",
        [
            "=1+1",
            "+1",
            "-1",
            "@SUM(A1)",
            "\t=1",
            "\r=1",
            "\n=1",
            " =1",
            "=cmd|' /C calc'!A0\",\"",
        ],
    )
    async def test_csv_never_starts_a_formula(
        self, tenant_work: TenantWork, db: Database, name: str
    ) -> None:
        async with tenant_work() as work:
            tenant = work.tenant_id
            named = replace(work, principal=replace(work.principal, name=name))
            await named.record("thing.changed", target=("thing", "1"))
        async with tenant_work(tenant=tenant) as work:
            text = await _export(work, db, AuditFilter(), "csv")

        rows: list[Mapping[str, Any]] = list(csv.DictReader(io.StringIO(text, newline="")))
        assert rows[0]["actor_name"] == "'" + name
        assert rows[0]["action"] == "thing.changed"
