"""Probes: alive means the process answers; ready means it can serve."""

from __future__ import annotations

import asyncio
from typing import cast

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from agentos.gateway.parts import Parts
from agentos.kernel import metrics
from agentos.kernel.errors import AgentOSError
from agentos.tenancy.edge import PUBLIC

router = APIRouter(tags=["health"])

_PATIENCE = 2.0  # seconds; a probe that hangs longer than this is a failing one


class Liveness(BaseModel):
    status: str


class Readiness(BaseModel):
    status: str
    database: str
    bus: str


@router.get("/health/live", openapi_extra=PUBLIC)
async def live() -> Liveness:
    """Whether the process answers."""
    return Liveness(status="alive")


@router.get(
    "/health/ready",
    openapi_extra=PUBLIC,
    responses={503: {"model": Readiness, "description": "A part is not answering."}},
)
async def ready(request: Request, response: Response) -> Readiness:
    """Whether the process can serve: the database answers, the bus is connected."""
    parts = cast(Parts, request.app.state.parts)
    database = "ok" if await _database_answers(parts) else "not answering"
    bus = "ok" if parts.bus.is_connected else "not connected"
    is_ready = database == bus == "ok"
    response.status_code = 200 if is_ready else 503
    return Readiness(status="ready" if is_ready else "not ready", database=database, bus=bus)


async def _database_answers(parts: Parts) -> bool:
    try:
        async with asyncio.timeout(_PATIENCE), parts.db.connection() as connection:
            await connection.fetchval("select 1")
    except (AgentOSError, TimeoutError, OSError):
        return False
    return True


@router.get("/metrics", include_in_schema=False)
async def read_metrics(request: Request) -> Response:
    """Prometheus metrics."""
    parts = cast(Parts, request.app.state.parts)
    token = parts.settings.metrics_token
    wanted = None if token is None else f"Bearer {token.get_secret_value()}"
    if wanted is not None and request.headers.get("authorization") != wanted:
        return Response("metrics need AGENTOS_METRICS_TOKEN as a bearer token\n", 401)
    metrics.database_pool_connections.labels("idle").set(parts.db.idle)
    metrics.database_pool_connections.labels("busy").set(parts.db.size - parts.db.idle)
    return Response(metrics.render(), media_type=metrics.CONTENT_TYPE)
