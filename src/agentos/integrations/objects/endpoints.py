from __future__ import annotations

from typing import Annotated, Any, cast
from urllib.parse import quote

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from agentos.integrations.objects import service
from agentos.integrations.objects.schemas import ObjectRead, StorageUsage
from agentos.kernel.database import Database
from agentos.kernel.objects import ObjectStore
from agentos.tenancy.edge import CurrentUnit, CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of
from agentos.tenancy.principals import Principal
from agentos.tenancy.tokens import Unauthenticated

router = APIRouter(tags=["objects"])

# What a tenant uploads is foreign: no browser may run, render or guess at it in our origin.
_INERT = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "private, no-cache",
}
_BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}


async def _principal(request: Request) -> Principal:
    principal = cast(Principal | None, request.state.principal)
    if principal is None:
        raise Unauthenticated()
    return principal


async def _store(request: Request) -> ObjectStore:
    return cast(ObjectStore, request.app.state.objects)


async def _database(request: Request) -> Database:
    return cast(Database, request.app.state.parts.db)


async def _uploads(request: Request) -> service.Uploads:
    state = request.app.state
    return service.Uploads(state.parts.db, state.objects, state.settings.max_object_bytes)


# Not CurrentWork: where bytes flow, no transaction may wait for them.
Caller = Annotated[Principal, Depends(_principal)]


@router.put(
    "/api/objects/{key:path}",
    status_code=201,
    responses={200: {"model": ObjectRead, "description": "Replaced what was under the key."}},
    openapi_extra={"requestBody": {"content": {"application/octet-stream": _BINARY}}},
)
async def put_object(
    key: str,
    request: Request,
    response: Response,
    principal: Caller,
    unit: CurrentUnit,
    uploads: Annotated[service.Uploads, Depends(_uploads)],
    content_type: Annotated[str | None, Header()] = None,
) -> ObjectRead:
    """Store the request body under a key, in place of what was there."""
    declared = request.headers.get("content-length", "")
    incoming = service.Incoming(
        key, content_type, int(declared) if declared.isdigit() else None, request.stream()
    )
    stored, created = await service.put_object(uploads, principal, incoming, unit.work)
    response.status_code = 201 if created else 200
    response.headers["etag"] = f'"{stored.sha256}"'
    return stored


@router.get(
    "/api/objects/{key:path}",
    response_class=StreamingResponse,
    responses={
        200: {"description": "The bytes.", "content": {"application/octet-stream": _BINARY}},
        304: {"description": "The ETag in If-None-Match is still right."},
    },
)
async def get_object(
    key: str,
    principal: Caller,
    database: Annotated[Database, Depends(_database)],
    store: Annotated[ObjectStore, Depends(_store)],
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """The bytes under a key."""
    found = await service.find_object(database, principal, key)
    headers = {"etag": f'"{found.sha256}"', **_INERT}
    if if_none_match is not None and _matches(if_none_match, headers["etag"]):
        return Response(status_code=304, headers=headers)
    return StreamingResponse(
        await service.read_object(store, principal, found),
        headers={
            **headers,
            # Here and not as media_type, which would add a charset to text.
            "content-type": found.content_type,
            "content-length": str(found.size),
            "content-disposition": _attachment(found.key),
        },
    )


@router.delete("/api/objects/{key:path}", status_code=204)
async def delete_object(key: str, work: CurrentWork) -> None:
    """Delete what is under a key."""
    await service.delete_object(work, key)


@router.get("/api/objects", response_model=Page[ObjectRead], openapi_extra=PAGED)
async def list_objects(
    work: CurrentWork,
    request: Request,
    prefix: Annotated[
        str, Query(max_length=512, description="Only keys that begin with this.")
    ] = "",
) -> Response:
    """The objects of this tenant in the order of their keys."""
    return (await service.list_objects(work, prefix, page_of(request))).response()


@router.get("/api/usage/storage")
async def storage_usage(work: CurrentWork) -> StorageUsage:
    """How much this tenant stores, and how much it may."""
    return await service.storage_usage(work)


def _matches(header: str, etag: str) -> bool:
    known = {tag.strip().removeprefix("W/") for tag in header.split(",")}
    return "*" in known or etag in known


def _attachment(key: str) -> str:
    name = key.rpartition("/")[2]
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"
