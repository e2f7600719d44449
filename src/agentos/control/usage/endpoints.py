from __future__ import annotations

from datetime import date
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response

from agentos.control.usage import service
from agentos.control.usage.schemas import (
    By,
    CallDetails,
    CallFilter,
    CallRead,
    Outcome,
    UsageFilter,
    UsageQuery,
    UsageReport,
)
from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of

router = APIRouter(prefix="/api/usage", tags=["usage"])

# Control characters are in no name, and PostgreSQL refuses a NUL in any text.
_Exact = Query(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f]+$")


async def _query(
    work: CurrentWork,
    first: Annotated[
        date | None,
        Query(alias="from", description="First day, UTC. Default: the first of the month."),
    ] = None,
    last: Annotated[
        date | None, Query(alias="to", description="Last day, included. Default: today.")
    ] = None,
    by: Annotated[By, Query(description="What a row is about.")] = "day",
    team_id: UUID | None = None,
    session_id: UUID | None = None,
    model: Annotated[str | None, _Exact] = None,
    provider: Annotated[str | None, _Exact] = None,
) -> UsageQuery:
    wanted = UsageFilter(team_id, session_id, model, provider)
    return service.usage_query(work.now().date(), first, last, by, wanted)


async def _call_filter(
    session_id: UUID | None = None,
    team_id: UUID | None = None,
    provider: Annotated[str | None, _Exact] = None,
    model: Annotated[str | None, _Exact] = None,
    outcome: Outcome | None = None,
) -> CallFilter:
    return CallFilter(session_id, team_id, provider, model, outcome)


AskedFor = Annotated[UsageQuery, Depends(_query)]
WantedCalls = Annotated[CallFilter, Depends(_call_filter)]


@router.get("")
async def report_usage(work: CurrentWork, query: AskedFor) -> UsageReport:
    """What was used and what it costs, by day, model, provider, team or session."""
    return await service.report(work, query)


@router.get(
    "/export.csv",
    response_class=Response,
    responses={200: {"description": "One row a line.", "content": {"text/csv": {}}}},
)
async def export_usage(work: CurrentWork, query: AskedFor) -> Response:
    """The rows of the same report as a CSV file."""
    name = f"usage-{query.first}-{query.last}-by-{query.by}.csv"
    return Response(
        await service.export(work, query),
        media_type="text/csv; charset=utf-8",
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )


@router.get("/calls", response_model=Page[CallRead], openapi_extra=PAGED)
async def list_calls(work: CurrentWork, wanted: WantedCalls, request: Request) -> Response:
    """The model calls that have ended, newest first."""
    return (await service.list_calls(work, wanted, page_of(request))).response()


@router.get("/calls/{call_id}")
async def read_call(call_id: UUID, work: CurrentWork) -> CallDetails:
    """One model call, with its chain in the ledger."""
    return await service.read_call(work, call_id)
