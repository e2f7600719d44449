"""What a native team finds in its workspace when it begins with a message: skills, attachments,
and what it has noted in MEMORY.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import msgspec
from msgspec.structs import replace

from agentos.execution.crews.layouts.texts import skill_files
from agentos.execution.crews.messages.errors import AttachmentMissing
from agentos.execution.crews.native_config import ATTACHMENTS_FOLDER, MEMORY_FILE
from agentos.execution.crews.schemas import Skill
from agentos.execution.pulse.finishing import checkpoint_of
from agentos.execution.pulse.journal import Change, Step
from agentos.execution.pulse.run import Run
from agentos.integrations.workspaces.errors import FileMissing, NotAFile
from agentos.integrations.workspaces.workspace import Workspace
from agentos.kernel.objects import BlobMissing

# The checkpoint with the files that a message came with.
GIVEN = "given"
MOST_MEMORY_BYTES = 20 * 1024
_MEMORY = "What you have noted in {file} so far:\n\n{text}"
_CUT = "\n\n[The rest is left out: read the file, and keep it short.]"


@dataclass(frozen=True, slots=True)
class _Given:
    """What belongs on the desk for a message."""

    message_id: UUID
    skills: Mapping[str, bytes]
    attachments: list[dict[str, Any]] = field(default_factory=list)

    @property
    def mark(self) -> dict[str, Any]:
        """What the checkpoint says of it."""
        digest = hashlib.sha256(msgspec.msgpack.encode(sorted(self.skills.items()))).hexdigest()
        return {
            "skills": digest if self.skills else None,
            "paths": sorted(self.skills),
            "message_id": str(self.message_id) if self.attachments else None,
        }


async def lay_out(run: Run) -> bool:
    """Puts onto the desk of a team's conversation what the message at hand needs.

    False for other sessions, to which it does nothing. Until the commit nothing is known of it, and
    the next worker does it again from the start.
    """
    if run.session.team_id is None or run.session.parent_id is not None:
        return False
    given = await _given(run)
    if given is None:
        return False
    before = _newest_mark(run.path)
    if _is_new(given, before):
        await _write(run, given, before)
    await _remind(run)
    return True


async def _given(run: Run) -> _Given | None:
    session = run.session
    async with run.parts.db.transaction(tenant_id=session.tenant_id) as tx:
        row = await tx.row(
            """select m.id, m.attachments, t.skills from team_messages m
               join teams t on t.tenant_id = m.tenant_id and t.id = m.team_id
               where m.tenant_id = $1 and m.session_id = $2 and m.state = 'running'""",
            session.tenant_id,
            session.id,
        )
    if row is None:
        return None
    skills = [Skill.model_validate(skill) for skill in row["skills"]]
    return _Given(row["id"], skill_files(skills), row["attachments"])


def _newest_mark(path: list[Step]) -> dict[str, Any]:
    given = [s.input for s in path if s.kind == "checkpoint" and s.name == GIVEN]
    return given[-1] if given else {"skills": None, "paths": [], "message_id": None}


def _is_new(given: _Given, before: Mapping[str, Any]) -> bool:
    mark = given.mark
    if mark["skills"] != before["skills"]:
        return True
    return bool(given.attachments) and mark["message_id"] != before["message_id"]


async def _write(run: Run, given: _Given, before: Mapping[str, Any]) -> None:
    session, workspaces = run.session, run.parts.workspaces
    workspace = await workspaces.open(session.tenant_id, session.workspace_id)
    await workspaces.bring(workspace, session.snapshot_id)
    workspaces.begin_change(workspace)
    for path in before["paths"]:
        if path not in given.skills:
            await _remove(workspace, path)
    for path, data in given.skills.items():
        await workspace.write(path, data)
    for each in given.attachments:
        await workspace.write(f"{ATTACHMENTS_FOLDER}/{each['name']}", await _content(run, each))
    snapshot = await workspaces.snapshot(workspace, session.snapshot_id)
    checkpoint, event = checkpoint_of(run, GIVEN, snapshot.id)
    await run.commit(
        Change(
            steps=[replace(checkpoint, input=given.mark)],
            events=[event],
            snapshot_id=snapshot.id,
        ),
        snapshot=snapshot,
    )
    workspaces.settled(workspace, snapshot.id)


async def _remove(workspace: Workspace, path: str) -> None:
    try:
        await workspace.remove(path)
    except (FileMissing, NotAFile):
        return  # the agents have done it themselves


async def _content(run: Run, attachment: Mapping[str, Any]) -> bytes:
    try:
        return await run.parts.payloads.data(run.session.tenant_id, UUID(attachment["object_id"]))
    except BlobMissing:
        raise AttachmentMissing(
            f"The attachment {attachment['name']} was deleted before it was read."
        ) from None


async def _remind(run: Run) -> None:
    """Adds what the team has noted to what the leader is told, for this run."""
    session = run.session
    if session.snapshot_id is None:
        return
    try:
        noted = await run.parts.workspaces.read_at(
            session.tenant_id, session.snapshot_id, MEMORY_FILE
        )
    except (FileMissing, NotAFile):
        return
    text = noted[:MOST_MEMORY_BYTES].decode("utf-8", "replace").replace("\0", "\ufffd").strip()
    if text:
        memory = _MEMORY.format(file=MEMORY_FILE, text=text)
        cut = _CUT if len(noted) > MOST_MEMORY_BYTES else ""
        told = f"{run.config.instructions}\n\n{memory}{cut}"
        run.config = run.config.model_copy(update={"instructions": told})
