"""Objects: a key in the database, immutable bytes in the object store, and a count of both.

A blob is listed as discarded, and that is committed, before its first byte is written; the
transaction that gives it a row takes it off the list. So whatever breaks in between, every blob
is named either by a row or by the list that the sweeper works through.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from agentos.contracts.events import ObjectDeleted, ObjectStored
from agentos.integrations.objects import repository
from agentos.integrations.objects.errors import (
    BadContentType,
    ObjectLost,
    ObjectNotFound,
    ObjectTooLarge,
    UploadExpired,
)
from agentos.integrations.objects.schemas import ObjectRead, StorageUsage
from agentos.kernel.database import Database
from agentos.kernel.ids import ObjectId, TenantId, uuid7
from agentos.kernel.objects import (
    BadName,
    BlobMissing,
    ObjectStore,
    ObjectStoreUnavailable,
    checked_name,
)
from agentos.tenancy.pages import BadCursor, PageRequest, RowPage
from agentos.tenancy.plans import PlanLimitReached, plan_for
from agentos.tenancy.principals import Principal, Scope
from agentos.tenancy.work import Work

_log = logging.getLogger(__name__)

_LIMIT = "storage_bytes"
_ANY_TYPE = "application/octet-stream"
_MEDIA_TYPE = re.compile(r"[\w.+!#$&^-]+/[\w.+!#$&^-]+( *;[\x20-\x7e]*)?", re.ASCII)
_SWEEP_BATCH = 100
_SWEEP_AT_ONCE = 10
_SWEEP_FAILURES = (
    3  # a blob that cannot be removed holds up its batch only; this many mean an outage
)


@dataclass(frozen=True, slots=True)
class Uploads:
    """Where uploads go, and how large one may be."""

    database: Database
    store: ObjectStore
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Incoming:
    """A body that is still arriving."""

    key: str
    content_type: str | None
    declared_size: int | None
    chunks: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class Received:
    """A blob that is complete, but that no row names yet."""

    id: ObjectId
    key: str
    content_type: str
    size: int
    sha256: bytes


async def put_object(
    uploads: Uploads,
    principal: Principal,
    incoming: Incoming,
    open_work: Callable[[], Awaitable[Work]],
) -> tuple[ObjectRead, bool]:
    """Stores a body under its key, and says whether the key is new.

    The work is opened only when the bytes are here, so that a slow client holds no transaction.
    """
    principal.require(Scope.OBJECTS_WRITE)
    received = await _receive(uploads, principal, incoming)
    try:
        return await _store(await open_work(), received)
    except BaseException:
        # Not committed, for sure: whoever opened the work has seen no answer yet.
        with suppress(ObjectStoreUnavailable):
            await uploads.store.for_tenant(principal.tenant_id).delete(str(received.id))
        raise


async def find_object(database: Database, principal: Principal, key: str) -> ObjectRead:
    """What is stored under a key. Takes no work: its transaction would stay open for the blob."""
    principal.require(Scope.OBJECTS_READ)
    name = checked_name(key)
    async with database.transaction(tenant_id=principal.tenant_id, user_id=principal.user_id) as tx:
        row = await repository.find(tx, principal.tenant_id, name)
    if row is None:
        raise ObjectNotFound()
    return ObjectRead(**row)


async def read_object(
    store: ObjectStore, principal: Principal, found: ObjectRead
) -> AsyncIterator[bytes]:
    principal.require(Scope.OBJECTS_READ)
    try:
        return await store.for_tenant(principal.tenant_id).get(str(found.id))
    except BlobMissing as error:
        raise ObjectLost() from error


async def list_objects(work: Work, prefix: str, page: PageRequest) -> RowPage[ObjectRead]:
    work.require(Scope.OBJECTS_READ)
    start = _checked_prefix(prefix)
    rows = await repository.page(
        work.tx, work.tenant_id, start, _position(page.after), page.limit + 1
    )
    return page.of(ObjectRead, rows, key="key")


async def delete_object(work: Work, key: str) -> None:
    work.require(Scope.OBJECTS_WRITE)
    name = checked_name(key)
    # Before the object's row, as an upload does: in the other order the two would deadlock.
    await repository.hold_usage(work.tx, work.tenant_id)
    row = await repository.delete(work.tx, work.tenant_id, name)
    if row is None:
        raise ObjectNotFound()
    await repository.add_usage(work.tx, work.tenant_id, -row["size"], -1)
    await repository.discard(work.tx, work.tenant_id, row["id"])
    await work.record(
        "object.deleted",
        ObjectDeleted(object_id=row["id"], key=name),
        target=("object", row["id"]),
        before=_state(ObjectRead(**row)),
    )


async def storage_usage(work: Work) -> StorageUsage:
    work.require(Scope.OBJECTS_READ)
    used = await repository.usage(work.tx, work.tenant_id)
    plan = await work.plan()
    return StorageUsage(bytes=used.bytes, objects=used.objects, allowed=plan.storage_bytes)


async def sweep(platform_db: Database, store: ObjectStore, older_than: timedelta) -> int:
    """Removes the blobs that were discarded this long ago, and says how many.

    `older_than` must be longer than any upload or download takes: an upload that outlasts it fails,
    a download may break off. Safe to run twice, and beside another sweep.
    """
    removed, failures, after = 0, 0, UUID(int=0)
    while True:
        try:
            async with platform_db.transaction() as tx:
                if not await repository.begin_sweep(tx):
                    return removed
                batch = await repository.take_discarded(tx, older_than, after, _SWEEP_BATCH)
                if not batch:
                    return removed
                after = batch[-1][1]
                # Before the commit: a blob whose removal failed stays on the list.
                await _remove(store, batch)
        except ObjectStoreUnavailable:
            failures += 1
            _log.warning("Discarded objects could not be removed; they stay listed.")
            if failures == _SWEEP_FAILURES:
                raise
            continue
        removed += len(batch)


async def _receive(uploads: Uploads, principal: Principal, incoming: Incoming) -> Received:
    key, content_type = checked_name(incoming.key), _checked_type(incoming.content_type)
    object_id = ObjectId(uuid7())
    room = await _announce_blob(uploads.database, principal, key, object_id)
    counter = _Counter(uploads.max_bytes, room)
    counter.allow(incoming.declared_size or 0)
    await uploads.store.for_tenant(principal.tenant_id).put(
        str(object_id), counter.counting(incoming.chunks)
    )
    return Received(object_id, key, content_type, counter.size, counter.digest)


async def _announce_blob(
    database: Database, principal: Principal, key: str, object_id: ObjectId
) -> _Room:
    """Lists a blob as discarded before there is one, and says how large it may become."""
    tenant_id = principal.tenant_id
    async with database.transaction(tenant_id=tenant_id, user_id=principal.user_id) as tx:
        row = await repository.allowance(tx, tenant_id, key)
        await repository.discard(tx, tenant_id, object_id)
    plan = plan_for(row["plan"], row["limits"])
    return _Room(plan.name, plan.storage_bytes, row["used"], row["freed"])


async def _store(work: Work, received: Received) -> tuple[ObjectRead, bool]:
    work.require(Scope.OBJECTS_WRITE)
    tx, tenant_id = work.tx, work.tenant_id
    used = await repository.hold_usage(tx, tenant_id)
    if not await repository.adopt(tx, tenant_id, received.id):
        raise UploadExpired()
    replaced = await repository.find(tx, tenant_id, received.key)
    freed = replaced["size"] if replaced is not None else 0
    if received.size > freed:
        # Only what grows is refused: a tenant above its limit can still make things smaller.
        await work.quota(_LIMIT, used.bytes - freed, received.size)
    row = await repository.upsert(
        tx,
        tenant_id,
        received.id,
        key=received.key,
        size=received.size,
        content_type=received.content_type,
        sha256=received.sha256,
        now=work.now(),
    )
    await repository.add_usage(tx, tenant_id, received.size - freed, int(replaced is None))
    if replaced is not None:
        await repository.discard(tx, tenant_id, replaced["id"])
    stored = ObjectRead(**row)
    await work.record(
        "object.stored",
        ObjectStored(object_id=stored.id, key=stored.key, size=stored.size),
        target=("object", stored.id),
        before=_state(ObjectRead(**replaced)) if replaced is not None else None,
        after=_state(stored),
    )
    return stored, replaced is None


async def _remove(store: ObjectStore, batch: list[tuple[UUID, UUID]]) -> None:
    at_once = asyncio.Semaphore(_SWEEP_AT_ONCE)

    async def remove(tenant_id: UUID, object_id: UUID) -> None:
        async with at_once:
            await store.for_tenant(TenantId(tenant_id)).delete(str(object_id))

    results = await asyncio.gather(*(remove(*pair) for pair in batch), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


@dataclass(frozen=True, slots=True)
class _Room:
    """What the plan leaves for an upload as it begins. Only the final transaction is exact."""

    plan: str
    allowed: int | None
    used: int
    freed: int

    def check(self, size: int) -> None:
        if self.allowed is None or size <= max(self.freed, self.allowed - self.used + self.freed):
            return
        raise PlanLimitReached(
            f"The {self.plan} plan allows {self.allowed} storage bytes; {self.used} in use.",
            hint="Remove some, or move the tenant to a larger plan.",
            limit=_LIMIT,
            allowed=self.allowed,
            used=self.used,
        )


class _Counter:
    """Measures and hashes chunks as they pass, and stops them at the limit."""

    def __init__(self, max_bytes: int, room: _Room):
        self._max_bytes = max_bytes
        self._room = room
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def digest(self) -> bytes:
        return self._hash.digest()

    def allow(self, size: int) -> None:
        if size > self._max_bytes:
            raise ObjectTooLarge(
                f"An object has at most {self._max_bytes} bytes.", limit=self._max_bytes
            )
        self._room.check(size)

    async def counting(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            self.size += len(chunk)
            self.allow(self.size)
            self._hash.update(chunk)
            yield chunk


def _checked_type(content_type: str | None) -> str:
    if not content_type:
        return _ANY_TYPE
    if len(content_type) > 255 or not _MEDIA_TYPE.fullmatch(content_type):
        raise BadContentType()
    return content_type


def _checked_prefix(prefix: str) -> str:
    """The beginning of a key; unlike a key it may end in the middle of a path."""
    return checked_name(prefix + "_")[:-1] if prefix else ""


def _position(after: str | None) -> str:
    if after is None:
        return ""
    try:
        return checked_name(after)
    except BadName:
        raise BadCursor() from None


def _state(stored: ObjectRead) -> dict[str, object]:
    return stored.model_dump(include={"key", "size", "content_type", "sha256"})
