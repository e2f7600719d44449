"""Peer: the same list in a bare Starlette handler. No authentication, limits, ids, logs or metrics."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

QUERY = """select id, name, last_four, scopes, created_by, created_at, expires_at, last_used_at, revoked_at
           from api_keys where tenant_id = $1 order by id limit $2"""

encode = msgspec.json.Encoder().encode


async def keys(request: Request) -> Response:
    pool: asyncpg.Pool[Any] = request.app.state.pool
    tenant = os.environ["TENANT"]
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("select set_config('app.tenant_id', $1, true)", tenant)
        rows = await connection.fetch(QUERY, tenant, 51)
    body = encode({"items": [dict(row) for row in rows[:50]], "next_cursor": str(rows[49]["id"])})
    return Response(body, media_type="application/json")


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with asyncpg.create_pool(os.environ["DSN"], min_size=4, max_size=16) as pool:
        app.state.pool = pool
        yield


app = Starlette(routes=[Route("/api/keys", keys)], lifespan=lifespan)

if __name__ == "__main__":
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
    )
