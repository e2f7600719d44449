"""The start of a session: the files it was given, kept as the checkpoint `start`."""

from __future__ import annotations

from msgspec.structs import replace

from agentos.execution.crews.native_desk import lay_out
from agentos.execution.pulse.finishing import checkpoint_of
from agentos.execution.pulse.journal import Change
from agentos.execution.pulse.run import Run

_BEGUN = frozenset({"model", "tool", "compaction"})


async def prepare(run: Run) -> None:
    """Writes the files that a new session was given. Does nothing to one that has begun.

    Until the commit nothing is known of it, and the next worker does it again from the start.
    """
    if await lay_out(run):
        return
    given, session = run.config.files, run.session
    if (not given and session.snapshot_id is None) or _is_prepared(run):
        return
    workspaces = run.parts.workspaces
    workspace = await workspaces.open(session.tenant_id, session.workspace_id)
    await workspaces.bring(workspace, session.snapshot_id)
    workspaces.begin_change(workspace)
    for path, text in given.items():
        await workspace.write(path, text.encode())
    snapshot = await workspaces.snapshot(workspace, session.snapshot_id)
    checkpoint, event = checkpoint_of(run, "start", snapshot.id)
    checkpoint = replace(checkpoint, input={"files": len(given)})
    await run.commit(
        Change(steps=[checkpoint], events=[event], snapshot_id=snapshot.id),
        snapshot=snapshot,
    )
    workspaces.settled(workspace, snapshot.id)


def _is_prepared(run: Run) -> bool:
    """Whoever made the session may have kept its start, but could not have written its files."""
    if any(step.kind in _BEGUN for step in run.path):
        return True
    starts = [step for step in run.path if step.kind == "checkpoint" and step.name == "start"]
    return any(step.input == {"files": len(run.config.files)} for step in starts) or (
        bool(starts) and not run.config.files
    )
