"""A tenant's view of the objects slice, each call in a transaction of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.conftest import TenantWork

from agentos.integrations.objects import service
from agentos.integrations.objects.schemas import ObjectRead, StorageUsage
from agentos.kernel.database import Database
from agentos.kernel.ids import TenantId
from agentos.kernel.objects import ObjectStore
from agentos.tenancy.principals import Principal
from agentos.tenancy.work import Work

MAX_BYTES = 100_000


async def in_pieces(data: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@dataclass
class Tenant:
    principal: Principal
    uploads: service.Uploads
    open: TenantWork
    superuser: asyncpg.Connection[Any]

    @property
    def id(self) -> TenantId:
        return self.principal.tenant_id

    def work(self) -> AbstractAsyncContextManager[Work]:
        return self.open(tenant=self.id)

    async def put(
        self,
        key: str,
        body: bytes | AsyncIterator[bytes],
        *,
        content_type: str | None = None,
        declared: int | None = None,
        before_commit: Callable[[], None] | None = None,
    ) -> tuple[ObjectRead, bool]:
        async with AsyncExitStack() as stack:

            async def open_work() -> Work:
                return await stack.enter_async_context(self.work())

            chunks = in_pieces(body) if isinstance(body, bytes) else body
            result = await service.put_object(
                self.uploads,
                self.principal,
                service.Incoming(key, content_type, declared, chunks),
                open_work,
            )
            if before_commit is not None:
                before_commit()
            return result

    async def get(self, key: str) -> bytes:
        found = await service.find_object(self.uploads.database, self.principal, key)
        stream = await service.read_object(self.uploads.store, self.principal, found)
        return b"".join([chunk async for chunk in stream])

    async def delete(self, key: str) -> None:
        async with self.work() as work:
            await service.delete_object(work, key)

    async def usage(self) -> StorageUsage:
        async with self.work() as work:
            return await service.storage_usage(work)

    async def limit(self, storage_bytes: int) -> None:
        await self.superuser.execute(
            "update tenants set limits = jsonb_build_object('storage_bytes', $2::bigint) where id = $1",
            self.id,
            storage_bytes,
        )

    async def stored(self) -> tuple[int, int]:
        """The truth that the counter has to match."""
        row = await self.superuser.fetchrow(
            "select coalesce(sum(size), 0)::bigint, count(*) from objects where tenant_id = $1",
            self.id,
        )
        assert row is not None
        return row[0], row[1]

    async def discarded(self) -> set[str]:
        rows = await self.superuser.fetch(
            "select id from discarded_objects where tenant_id = $1", self.id
        )
        return {str(row["id"]) for row in rows}

    async def named(self) -> set[str]:
        rows = await self.superuser.fetch("select id from objects where tenant_id = $1", self.id)
        return {str(row["id"]) for row in rows}


@pytest.fixture
def blobs(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
def uploads(db: Database, tmp_path: Path) -> service.Uploads:
    return service.Uploads(db, ObjectStore.open(None, tmp_path), MAX_BYTES)


@pytest.fixture
def new_tenant(
    uploads: service.Uploads, tenant_work: TenantWork, superuser: asyncpg.Connection[Any]
) -> Callable[[], Awaitable[Tenant]]:
    async def make() -> Tenant:
        async with tenant_work() as work:
            principal = work.principal
        return Tenant(principal, uploads, tenant_work, superuser)

    return make


@pytest.fixture
async def tenant(new_tenant: Callable[[], Awaitable[Tenant]]) -> Tenant:
    return await new_tenant()
