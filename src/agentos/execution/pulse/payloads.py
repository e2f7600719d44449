"""What is too large for a row of the journal lies in the object store, and the row says where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from agentos.execution.pulse.journal import Step, decoded, encoded
from agentos.kernel.database import Database, Transaction
from agentos.kernel.ids import TenantId, uuid7
from agentos.kernel.objects import ObjectStore

MOST_IN_ROW = 32 * 1024
_EXCERPT = 2_000


class Payloads:
    def __init__(self, db: Database, store: ObjectStore):
        self._db = db
        self._store = store

    async def offload(self, tenant_id: TenantId, step: Step) -> Step:
        """The step as its row shall hold it."""
        row = step
        if (text := encoded(step.input)) is not None and len(text) > MOST_IN_ROW:
            row = replace(
                row, input=_excerpt(text), input_object=await self.keep(tenant_id, text.encode())
            )
        if (text := encoded(step.output)) is not None and len(text) > MOST_IN_ROW:
            row = replace(
                row,
                output={**_excerpt(text), **_pointer(step)},
                output_object=await self.keep(tenant_id, text.encode()),
            )
        return row

    async def load(self, tenant_id: TenantId, step: Step) -> Step:
        """The step as it happened."""
        if step.input_object is not None:
            step = replace(step, input=decoded(await self.text(tenant_id, step.input_object)))
        if step.output_object is not None:
            step = replace(step, output=decoded(await self.text(tenant_id, step.output_object)))
        return step

    async def keep(self, tenant_id: TenantId, data: bytes) -> UUID:
        """Keeps bytes. They go the way of all discarded objects unless `claim` is told of them."""
        object_id = uuid7()
        async with self._db.transaction(tenant_id=tenant_id) as tx:
            await tx.execute(
                "insert into discarded_objects (tenant_id, id) values ($1, $2)",
                tenant_id,
                object_id,
            )
        await self._store.for_tenant(tenant_id).put(str(object_id), data)
        return object_id

    async def text(self, tenant_id: TenantId, object_id: UUID) -> str:
        return (await self.data(tenant_id, object_id)).decode()

    async def data(self, tenant_id: TenantId, object_id: UUID) -> bytes:
        chunks = [c async for c in await self._store.for_tenant(tenant_id).get(str(object_id))]
        return b"".join(chunks)


async def claim(tx: Transaction, tenant_id: TenantId, rows: Sequence[Step]) -> None:
    """Takes what these rows name off the list of discarded objects."""
    if ids := objects_of(rows):
        await tx.execute(
            "delete from discarded_objects where tenant_id = $1 and id = any($2)", tenant_id, ids
        )


def objects_of(rows: Sequence[Step]) -> list[UUID]:
    """The objects that these rows name."""
    ids = [i for row in rows for i in (row.input_object, row.output_object) if i is not None]
    return ids + [
        UUID(row.output["whole"])
        for row in rows
        if row.kind == "tool" and isinstance(row.output, dict) and row.output.get("whole")
    ]


def _excerpt(text: str) -> dict[str, Any]:
    return {"excerpt": text[:_EXCERPT], "bytes": len(text)}


def _pointer(step: Step) -> dict[str, Any]:
    """Where all of a tool's output lies: the row has to name it, however large its text is."""
    whole = step.output.get("whole") if step.kind == "tool" else None
    return {} if whole is None else {"whole": whole}
