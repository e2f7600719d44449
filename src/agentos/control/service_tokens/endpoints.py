from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Depends, Request

from agentos.control.service_tokens import service
from agentos.control.service_tokens.schemas import ServiceTokenCreate, ServiceTokenCreated
from agentos.tenancy.edge import CurrentWork
from agentos.tenancy.tokens import Tokens

router = APIRouter(prefix="/api/service-tokens", tags=["keys"])


async def _tokens(request: Request) -> Tokens:
    return cast(Tokens, request.app.state.tokens)


@router.post("", status_code=201)
async def issue_token(
    body: ServiceTokenCreate, work: CurrentWork, tokens: Annotated[Tokens, Depends(_tokens)]
) -> ServiceTokenCreated:
    """Issue a short-lived token for a worker or sidecar of this tenant."""
    return await service.issue_token(work, tokens, body)
