"""The timeline: every step of a session, with what went in and what came out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
from fastapi import Response

from agentos.execution.pulse.errors import StepNotFound
from agentos.execution.pulse.history import repository
from agentos.execution.pulse.history.errors import NoWholeOutput
from agentos.execution.pulse.history.paths import InForce
from agentos.execution.pulse.history.reading import Reader, in_force, tip_of
from agentos.execution.pulse.journal import Step
from agentos.execution.pulse.schemas import StepKind, StepRead
from agentos.kernel.objects import BlobMissing
from agentos.tenancy.pages import BadCursor, PageRequest, encode_cursor
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

# Characters of each input and output in a list. An excerpt in a row always fits.
_MOST_IN_LIST = 5_000
# Of one input or output when its step is read by itself.
_MOST_IN_STEP = 8 * 1024 * 1024


async def list_steps(
    work: Work, session_id: UUID, page: PageRequest, kind: StepKind | None
) -> Response:
    """The steps of a session in order, those that are not in force included."""
    work.require(Scope.SESSIONS_READ)
    tip = await tip_of(work.tx, work.tenant_id, session_id)
    path = await in_force(work.tx, work.tenant_id, session_id, tip)
    rows = await repository.timeline(
        work.tx,
        work.tenant_id,
        session_id,
        kind=kind,
        after=after_seq(page),
        most=_MOST_IN_LIST,
        limit=page.limit + 1,
    )
    shown = rows[: page.limit]
    more = encode_cursor(str(shown[-1]["seq"])) if len(rows) > page.limit else None
    body = {"items": [_item(row, path) for row in shown], "next_cursor": more}
    return Response(msgspec.json.encode(body), media_type="application/json")


def after_seq(page: PageRequest) -> int:
    """The step to go on after."""
    text = page.after
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 10 and text[0] != "0"):
        raise BadCursor()
    return int(text)


def _item(row: asyncpg.Record, path: InForce) -> dict[str, Any]:
    item = {name: row[name] for name in StepRead.model_fields if name in row.keys()}  # noqa: SIM118 - a record iterates over its values
    item["in_force"] = row["seq"] in path
    item["truncated"] = row["elsewhere"] or row["input_cut"] or row["output_cut"]
    for name in ("input", "output"):
        item[name] = _shown(row[name], row[f"{name}_bytes"], cut=row[f"{name}_cut"])
    return item


def _shown(text: str | None, size: int | None, *, cut: bool) -> Any:
    """JSON as it is; or its beginning, if there is more of it than a list shows."""
    if text is None:
        return None
    return {"excerpt": text, "bytes": size} if cut else msgspec.Raw(text.encode())


async def read_step(reader: Reader, session_id: UUID, seq: int) -> StepRead:
    """One step with all of its input and output, up to 8 MiB each."""
    async with reader.transaction() as tx:
        tip = await tip_of(tx, reader.tenant_id, session_id)
        path = await in_force(tx, reader.tenant_id, session_id, tip)
        step = await repository.step(tx, reader.tenant_id, session_id, seq)
    if step is None:
        raise StepNotFound()
    given, cut = await _whole(reader, step.input_object, step.input)
    answered, cut_too = await _whole(reader, step.output_object, step.output)
    return StepRead(
        seq=step.seq,
        parent=step.parent,
        in_force=seq in path,
        kind=step.kind,
        name=step.name,
        status=step.status,
        key=step.key,
        input=given,
        output=answered,
        truncated=cut or cut_too,
        has_files=step.snapshot_id is not None,
        input_tokens=step.input_tokens,
        output_tokens=step.output_tokens,
        cost_micros=step.cost_micros,
        duration_ms=step.duration_ms,
        at=step.at,
    )


async def whole_output(reader: Reader, session_id: UUID, seq: int) -> AsyncIterator[bytes]:
    """All that a tool has put out, where the model was shown only its ends."""
    async with reader.transaction() as tx:
        await tip_of(tx, reader.tenant_id, session_id)
        step = await repository.step(tx, reader.tenant_id, session_id, seq)
    if step is None:
        raise StepNotFound()
    whole = whole_of(step)
    if whole is None:
        raise NoWholeOutput()
    try:
        return await reader.store.for_tenant(reader.tenant_id).get(str(whole))
    except BlobMissing as error:
        raise NoWholeOutput() from error


def whole_of(step: Step) -> UUID | None:
    """The object with all of a tool's output."""
    if step.kind != "tool" or not isinstance(step.output, dict) or not step.output.get("whole"):
        return None
    return UUID(step.output["whole"])


async def _whole(reader: Reader, object_id: UUID | None, in_row: Any) -> tuple[Any, bool]:
    """A value as it was, and whether it is too large for that."""
    if object_id is None:
        return in_row, False
    held, size = list[bytes](), 0
    async for chunk in await reader.store.for_tenant(reader.tenant_id).get(str(object_id)):
        size += len(chunk)
        if size > _MOST_IN_STEP:
            return in_row, True
        held.append(chunk)
    return msgspec.json.decode(b"".join(held)), False
