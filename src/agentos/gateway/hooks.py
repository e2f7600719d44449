"""Where webhooks are sent to."""

from __future__ import annotations

import asyncio
from typing import Annotated
from uuid import UUID

import msgspec
from fastapi import APIRouter, Query, Request, Response
from starlette.types import Receive, Scope, Send

from agentos.execution.pulse.front import CurrentPulse
from agentos.execution.runs import repository as runs
from agentos.execution.webhooks import service
from agentos.execution.webhooks.schemas import Fired
from agentos.kernel.database import Database
from agentos.kernel.ids import TenantId
from agentos.tenancy.edge import CurrentWork

router = APIRouter(prefix="/api/hooks", tags=["webhooks"])

MOST_WAIT = 60
_LOOK_SECONDS = 0.2
_HEADERS = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
_OPEN = ("queued", "running")


class _Waiting(Response):
    """Answers once the run has ended, or the time is up. What was sent is safe from its first byte."""

    media_type = "application/json"

    def __init__(self, db: Database, tenant_id: TenantId, run: Fired, seconds: int):
        super().__init__()
        self._db = db
        self._tenant_id = tenant_id
        self._run = run
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        # The edge commits with this; before, there is no run that could end.
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        run = await self._ended(self._run.run_id)
        body = msgspec.json.encode(run.model_dump(mode="json"))
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _ended(self, run_id: UUID) -> Fired:
        run, loop = self._run, asyncio.get_running_loop()
        until = loop.time() + self._seconds
        while run.state in _OPEN and loop.time() < until:
            await asyncio.sleep(_LOOK_SECONDS)
            async with self._db.transaction(tenant_id=self._tenant_id) as tx:
                row = await runs.find(tx, self._tenant_id, run_id)
            if row is None:
                break
            run = service.fired(row)
        return run


@router.post(
    "/{token}",
    status_code=202,
    response_model=Fired,
    responses={200: {"model": Fired, "description": "With `wait`: what came of it."}},
    openapi_extra={
        "requestBody": {
            "content": {
                "application/json": {"schema": {}},
                "text/plain": {"schema": {"type": "string"}},
            }
        }
    },
)
async def fire_webhook(
    token: str,  # noqa: ARG001 - the edge has let it in
    request: Request,
    work: CurrentWork,
    pulse: CurrentPulse,
    wait: Annotated[
        int, Query(ge=0, le=MOST_WAIT, description="Seconds to wait for what comes of it.")
    ] = 0,
) -> Response | Fired:
    """Fire a webhook with what you send: JSON, or plain text. 202: it is started, and not lost."""
    body = await request.body()
    fired = await service.fire(work, pulse, body, request.headers.get("content-type", ""))
    # A kept answer is committed when it is whole: what is waited for would never come.
    if wait == 0 or "idempotency-key" in request.headers:
        return fired
    return _Waiting(request.app.state.parts.db, work.tenant_id, fired, wait)
