"""API keys: `sk_…`, shown once, stored as a digest, never wider than their maker."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from agentos.contracts.events import ApiKeyCreated as ApiKeyCreatedEvent
from agentos.contracts.events import ApiKeyRevoked
from agentos.control.api_keys import repository
from agentos.control.api_keys.schemas import ApiKeyCreate, ApiKeyCreated, ApiKeyRead
from agentos.kernel.errors import Invalid, NotFound
from agentos.kernel.ids import ApiKeyId, uuid7
from agentos.tenancy.opaque_tokens import OpaqueToken, new_token
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

PREFIX = "sk"
_LIMIT = "api_keys"


async def create_key(work: Work, body: ApiKeyCreate) -> ApiKeyCreated:
    work.require(Scope.KEYS_WRITE)
    scopes = frozenset(body.scopes) if body.scopes is not None else work.principal.scopes
    work.principal.require_all(scopes)
    if body.expires_at is not None and body.expires_at <= work.now():
        raise Invalid("expires_at is in the past.", hint="Choose a moment in the future, or none.")
    await work.hold(_LIMIT)
    await work.quota(_LIMIT, await repository.live(work.tx, work.tenant_id))
    token = new_token(PREFIX, work.tenant_id)
    return await store_key(work, body.name, scopes, body.expires_at, token)


async def store_key(
    work: Work, name: str, scopes: frozenset[Scope], expires_at: datetime | None, token: OpaqueToken
) -> ApiKeyCreated:
    """Stores a key that was made elsewhere; the caller has checked what it may do."""
    row = await repository.insert(
        work.tx,
        work.tenant_id,
        ApiKeyId(uuid7()),
        name=name,
        last_four=token.last_four,
        token_hash=token.digest,
        scopes=sorted(scopes),
        created_by=work.principal.name,
        expires_at=expires_at,
    )
    await work.record(
        "api_key.created",
        ApiKeyCreatedEvent(api_key_id=row["id"], name=name),
        target=("api_key", row["id"]),
        after={"name": name, "scopes": sorted(scopes), "expires_at": expires_at},
    )
    return ApiKeyCreated(**row, key=token.text)


async def list_keys(work: Work, page: PageRequest) -> RowPage[ApiKeyRead]:
    work.require(Scope.KEYS_READ)
    rows = await repository.keys(work.tx, work.tenant_id, page.after_id, page.limit + 1)
    return page.of(ApiKeyRead, rows)


async def revoke_key(work: Work, key_id: UUID) -> None:
    """Ends a key at once; the row stays, so that the audit log keeps its sense."""
    work.require(Scope.KEYS_WRITE)
    row = await repository.revoke(work.tx, work.tenant_id, key_id, work.now())
    if row is None:
        raise NotFound()
    await work.record(
        "api_key.revoked",
        ApiKeyRevoked(api_key_id=key_id),
        target=("api_key", key_id),
        before={"name": row["name"], "scopes": row["scopes"]},
    )
