from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from fastapi.routing import APIRoute
from starlette.types import Message

from agentos.execution.pulse.chains import service
from agentos.execution.pulse.chains.reading import as_json, read_json, read_yaml
from agentos.execution.pulse.chains.schemas import (
    ChainChecked,
    ChainCreate,
    ChainDetails,
    ChainRead,
    ChainRetry,
    ChainState,
)
from agentos.execution.pulse.front import CurrentPulse
from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of

_YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"})
_READERS = {"application/json": read_json, **dict.fromkeys(_YAML_TYPES, read_yaml)}


class _ChainRoute(APIRoute):
    """Takes a body in YAML as it does one in JSON, and loses nothing that is written twice."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def read_first(request: Request) -> Response:
            return await handle(await _as_json_request(request))

        return read_first


async def _as_json_request(request: Request) -> Request:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    read = _READERS.get(given)
    if read is None or request.method != "POST" or not (body := await request.body()):
        return request
    # Beside the loop: a large document takes a while.
    content = await asyncio.to_thread(lambda: as_json(read(body)))
    headers = [pair for pair in request.scope["headers"] if pair[0] not in _OF_THE_BODY]
    headers += [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(content)),
    ]

    async def receive() -> Message:
        return {"type": "http.request", "body": content, "more_body": False}

    return Request({**request.scope, "headers": headers}, receive)


_OF_THE_BODY = (b"content-type", b"content-length")
_OR_YAML: dict[str, Any] = {
    "requestBody": {"content": {"application/yaml": {"schema": {"type": "string"}}}}
}

router = APIRouter(prefix="/api/chains", tags=["chains"], route_class=_ChainRoute)


@router.post("", status_code=201, openapi_extra=_OR_YAML)
async def create_chain(body: ChainCreate, work: CurrentWork, pulse: CurrentPulse) -> ChainDetails:
    """Make a chain, from JSON or YAML, and run it. Follow it by its `chain.*` events."""
    return await service.create_chain(work, pulse, body)


@router.post("/check", openapi_extra=_OR_YAML)
async def check_chain(body: ChainCreate, work: CurrentWork, pulse: CurrentPulse) -> ChainChecked:
    """Say whether a chain is valid, and in which order its nodes would run. Makes nothing."""
    return await service.check_chain(work, pulse, body)


@router.get("", response_model=Page[ChainRead], openapi_extra=PAGED)
async def list_chains(
    work: CurrentWork,
    request: Request,
    state: Annotated[ChainState | None, Query(description="Only in this state.")] = None,
) -> Response:
    """The chains of this tenant, newest first."""
    page = await service.list_chains(work, page_of(request), state=state)
    return page.response()


@router.get("/{chain_id}")
async def read_chain(chain_id: UUID, work: CurrentWork) -> ChainDetails:
    """One chain: its nodes with their states, sessions and outputs, and what it came to."""
    return await service.read_chain(work, chain_id)


@router.post("/{chain_id}/run")
async def run_chain(chain_id: UUID, work: CurrentWork, pulse: CurrentPulse) -> ChainDetails:
    """Run a chain that was only created."""
    return await service.run_chain(work, pulse, chain_id)


@router.post("/{chain_id}/cancel")
async def cancel_chain(chain_id: UUID, work: CurrentWork, pulse: CurrentPulse) -> ChainDetails:
    """End a chain and its sessions at once."""
    return await service.cancel_chain(work, pulse, chain_id)


@router.post("/{chain_id}/retry")
async def retry_chain(
    chain_id: UUID, body: ChainRetry, work: CurrentWork, pulse: CurrentPulse
) -> ChainDetails:
    """Run a node and everything after it again, or all that has failed. Earlier outputs stay."""
    return await service.retry_chain(work, pulse, chain_id, body)
