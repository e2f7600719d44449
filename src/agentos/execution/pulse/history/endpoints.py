from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qsl, quote
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from agentos.execution.pulse.front import CurrentPulse
from agentos.execution.pulse.history import (
    checkpoints as checkpoint_service,
)
from agentos.execution.pulse.history import (
    continuing,
    costs,
    files,
    forks,
    previews,
    rollbacks,
    timeline,
)
from agentos.execution.pulse.history.reading import CurrentReader
from agentos.execution.pulse.history.schemas import (
    MOST_SEQ,
    CheckpointCreate,
    CheckpointRead,
    CheckpointRestore,
    FileChanges,
    FileDiff,
    RollbackCreate,
    RollbackPreview,
    RolledBack,
    SessionContinue,
    SessionCost,
    SessionFork,
)
from agentos.execution.pulse.schemas import SessionDetails, StepKind, StepRead
from agentos.tenancy.edge import CurrentUnit, CurrentWork
from agentos.tenancy.pages import PAGED, Page, page_of

router = APIRouter(prefix="/api/sessions", tags=["sessions"])
checkpoints = APIRouter(prefix="/api/checkpoints", tags=["sessions"])

# What agents write is foreign: no browser may run, render or guess at it in our origin.
_INERT = {
    "content-type": "application/octet-stream",
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "private, no-cache",
}
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The bytes.", "content": {"application/octet-stream": {}}}
}

Seq = Annotated[int, Path(ge=1, le=MOST_SEQ)]
SeqQuery = Annotated[
    int | None, Query(ge=1, le=MOST_SEQ, description="After this step. Default: now.")
]
FromSeq = Annotated[
    int | None,
    Query(ge=0, le=MOST_SEQ, description="From after this step on. Default: the start."),
]
ToSeq = Annotated[
    int | None, Query(ge=0, le=MOST_SEQ, description="Until after this step. Default: now.")
]
# As many as a workspace takes; all of them, percent-encoded, still fit a request line.
FilePath = Annotated[
    str, Query(min_length=1, max_length=4_000, description="Relative to the workspace.")
]


@router.get("/{session_id}/steps", response_model=Page[StepRead], openapi_extra=PAGED)
async def list_steps(
    session_id: UUID,
    work: CurrentWork,
    request: Request,
    kind: Annotated[StepKind | None, Query(description="Only of this kind.")] = None,
) -> Response:
    """The timeline of a session: all steps in order, also those that a rollback has undone."""
    return await timeline.list_steps(work, session_id, page_of(request), kind)


@router.get("/{session_id}/steps/{seq}")
async def read_step(session_id: UUID, seq: Seq, reader: CurrentReader) -> StepRead:
    """One step, with all of its input and output."""
    return await timeline.read_step(reader, session_id, seq)


@router.get("/{session_id}/steps/{seq}/whole", response_class=StreamingResponse, responses=_BYTES)
async def read_whole_output(session_id: UUID, seq: Seq, reader: CurrentReader) -> Response:
    """All that a tool has put out, if the step shows only the beginning and the end of it."""
    stream = await timeline.whole_output(reader, session_id, seq)
    return StreamingResponse(stream, headers={**_INERT, **_attachment(f"step-{seq}-output")})


@router.post("/{session_id}/continue")
async def continue_session(
    session_id: UUID, body: SessionContinue, work: CurrentWork, pulse: CurrentPulse
) -> SessionDetails:
    """Give a session that has ended more to do. Its guards count anew; its budget does not."""
    return await continuing.continue_session(work, pulse, session_id, body)


@router.post("/{session_id}/checkpoints", status_code=201)
async def create_checkpoint(
    session_id: UUID, body: CheckpointCreate, work: CurrentWork
) -> CheckpointRead:
    """Mark where a session is, to go back to. It may be running."""
    return await checkpoint_service.create_checkpoint(work, session_id, body)


@router.get("/{session_id}/checkpoints", openapi_extra=PAGED)
async def list_checkpoints(
    session_id: UUID, work: CurrentWork, request: Request
) -> Page[CheckpointRead]:
    """The checkpoints of a session, its own and yours."""
    return await checkpoint_service.list_checkpoints(work, session_id, page_of(request))


@checkpoints.post("/{checkpoint_id}/restore")
async def restore_checkpoint(
    checkpoint_id: UUID, body: CheckpointRestore, work: CurrentWork, pulse: CurrentPulse
) -> RolledBack:
    """Go back to a checkpoint, files and conversation together, and run again from there."""
    return await rollbacks.restore_checkpoint(work, pulse, checkpoint_id, body)


@router.get("/{session_id}/rollback")
async def preview_rollback(
    session_id: UUID,
    reader: CurrentReader,
    to_seq: Annotated[int, Query(ge=1, le=MOST_SEQ, description="The last step that stays.")],
) -> RollbackPreview:
    """What going back to a step would undo, and what it could not. Changes nothing."""
    return await previews.preview_rollback(reader, session_id, to_seq)


@router.post("/{session_id}/rollback")
async def roll_back(
    session_id: UUID, body: RollbackCreate, work: CurrentWork, pulse: CurrentPulse
) -> RolledBack:
    """Go back to a step, files and conversation together. Going back to `undo_seq` undoes it."""
    return await rollbacks.roll_back(work, pulse, session_id, body)


@router.post("/{session_id}/fork", status_code=201)
async def fork_session(
    session_id: UUID, body: SessionFork, reader: CurrentReader, unit: CurrentUnit
) -> SessionDetails:
    """Make a new session out of this one, up to a step, with another prompt or model."""
    return await forks.fork_session(reader, unit.work, session_id, body)


@router.get("/{session_id}/files")
async def list_changed_files(
    session_id: UUID, reader: CurrentReader, from_seq: FromSeq = None, to_seq: ToSeq = None
) -> FileChanges:
    """How the files of the workspace changed between two steps."""
    return await files.changed_files(reader, session_id, from_seq, to_seq)


@router.get("/{session_id}/files/content", response_class=Response, responses=_BYTES)
async def read_file(
    session_id: UUID, reader: CurrentReader, request: Request, path: FilePath, seq: SeqQuery = None
) -> Response:
    """The bytes of a file as they were after a step."""
    name = _exact(request, path)
    data = await files.file_content(reader, session_id, name, seq)
    return Response(data, headers={**_INERT, **_attachment(files.printable(name))})


@router.get("/{session_id}/files/diff")
async def read_file_diff(
    session_id: UUID,
    reader: CurrentReader,
    request: Request,
    path: FilePath,
    from_seq: FromSeq = None,
    to_seq: ToSeq = None,
) -> FileDiff:
    """How a small text file changed between two steps, as a unified diff."""
    return await files.file_diff(reader, session_id, _exact(request, path), from_seq, to_seq)


@router.get("/{session_id}/cost")
async def read_cost(session_id: UUID, work: CurrentWork) -> SessionCost:
    """What a session costs: model calls by model, compute, its sub-agents, its budget."""
    return await costs.session_cost(work, session_id)


def _exact(request: Request, path: str) -> str:
    """The path byte by byte: the framework replaces what is not UTF-8, and names need not be."""
    query: str = request.scope["query_string"].decode("latin-1")
    given = dict(parse_qsl(query, keep_blank_values=True, errors="surrogateescape"))
    return given.get("path", path)


def _attachment(path: str) -> dict[str, str]:
    name = path.rpartition("/")[2]
    return {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
