"""Reading the audit log. What writes it is `log.py`, through `Work.record`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Sequence
from uuid import UUID

from agentos.kernel.database import Database
from agentos.tenancy.audit import repository
from agentos.tenancy.audit.schemas import AuditFilter, AuditRead, ExportFormat
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

_BATCH = 500


async def list_entries(work: Work, wanted: AuditFilter, page: PageRequest) -> RowPage[AuditRead]:
    """Matching entries, newest first."""
    work.require(Scope.AUDIT_READ)
    before = None if page.after is None else page.after_id
    rows = await repository.entries(work.tx, work.tenant_id, wanted, before, page.limit + 1)
    return page.of(AuditRead, rows)


def export_entries(
    work: Work, db: Database, wanted: AuditFilter, form: ExportFormat
) -> AsyncIterator[bytes]:
    """All matching entries, newest first, in pieces.

    The pieces are read after the response has begun, when the transaction of `work` is over. So
    each is read in a short transaction of its own from `db`, which also means that a slow reader
    holds no connection and that what is in memory does not grow with the log.
    """
    work.require(Scope.AUDIT_READ)
    return _export(db, work.tenant_id, wanted, _FORMATS[form])


async def _export(
    db: Database, tenant_id: UUID, wanted: AuditFilter, write: Callable[..., str]
) -> AsyncIterator[bytes]:
    entries, before = await _batch(db, tenant_id, wanted, None)
    yield write(entries, first=True).encode()
    while len(entries) == _BATCH:
        entries, before = await _batch(db, tenant_id, wanted, before)
        yield write(entries, first=False).encode()


async def _batch(
    db: Database, tenant_id: UUID, wanted: AuditFilter, before: UUID | None
) -> tuple[list[AuditRead], UUID | None]:
    async with db.transaction(tenant_id=tenant_id) as tx:
        rows = await repository.entries(tx, tenant_id, wanted, before, _BATCH)
    return [AuditRead(**row) for row in rows], rows[-1]["id"] if rows else before


def _ndjson(entries: Sequence[AuditRead], *, first: bool) -> str:  # noqa: ARG001 - no header
    return "".join(entry.model_dump_json() + "\n" for entry in entries)


def _csv(entries: Sequence[AuditRead], *, first: bool) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    if first:
        writer.writerow(AuditRead.model_fields)
    for entry in entries:
        writer.writerow(_cell(value) for value in entry.model_dump(mode="json").values())
    return text.getvalue()


def _cell(value: object) -> str:
    """A cell that a spreadsheet shows as text: it would run what begins like a formula."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    starts_formula = text.lstrip()[:1] in tuple("=+-@") or text[:1] in tuple("\t\r\n")
    return f"'{text}" if starts_formula else text


_FORMATS: dict[ExportFormat, Callable[..., str]] = {"ndjson": _ndjson, "csv": _csv}
