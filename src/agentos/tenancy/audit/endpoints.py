from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import AwareDatetime

from agentos.kernel.database import Database
from agentos.tenancy.audit import service
from agentos.tenancy.audit.schemas import AuditFilter, AuditRead, ExportFormat
from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of

router = APIRouter(prefix="/api/audit", tags=["audit"])

_MEDIA_TYPES: dict[ExportFormat, str] = {
    "ndjson": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
}

# Control characters can be in no entry, and PostgreSQL refuses a NUL in any text.
_Exact = Query(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f]+$")


async def _filter(
    action: Annotated[str | None, _Exact] = None,
    actor_id: Annotated[str | None, _Exact] = None,
    target_kind: Annotated[str | None, _Exact] = None,
    target_id: Annotated[str | None, _Exact] = None,
    request_id: Annotated[str | None, _Exact] = None,
    since: Annotated[AwareDatetime | None, Query(description="At this moment or later.")] = None,
    until: Annotated[AwareDatetime | None, Query(description="Before this moment.")] = None,
) -> AuditFilter:
    return AuditFilter(
        action=action,
        actor_id=actor_id,
        target_kind=target_kind,
        target_id=target_id,
        request_id=request_id,
        since=since,
        until=until,
    )


async def _database(request: Request) -> Database:
    return cast(Database, request.app.state.parts.db)


Wanted = Annotated[AuditFilter, Depends(_filter)]
CurrentDatabase = Annotated[Database, Depends(_database)]


@router.get("", response_model=Page[AuditRead], openapi_extra=PAGED)
async def list_entries(work: CurrentWork, wanted: Wanted, request: Request) -> Response:
    """What was changed in this tenant and by whom, newest first."""
    return (await service.list_entries(work, wanted, page_of(request))).response()


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "One entry a line, newest first.",
            "content": {media_type: {} for media_type in ("application/x-ndjson", "text/csv")},
        }
    },
)
async def export_entries(
    work: CurrentWork,
    database: CurrentDatabase,
    wanted: Wanted,
    format: Annotated[ExportFormat, Query(description="One JSON document a line, or CSV.")],
) -> StreamingResponse:
    """All matching entries as one file."""
    pieces = service.export_entries(work, database, wanted, format)
    name = f"audit-{work.now():%Y%m%dT%H%M%SZ}.{format}"
    return StreamingResponse(
        pieces,
        media_type=_MEDIA_TYPES[format],
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )
