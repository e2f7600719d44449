from __future__ import annotations

from typing import Any
from uuid import UUID

from agentos.execution.pulse.conversation import ToolCall
from agentos.execution.pulse.engine_tools.base import CheckedTool
from agentos.execution.pulse.engine_tools.names import COLLECT_FILES
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.states import ENDED
from agentos.execution.pulse.sub_agents import repository
from agentos.execution.pulse.sub_agents.errors import AgentMissing, AgentStillRuns, NothingThere
from agentos.execution.pulse.toolroom import toolroom_of
from agentos.execution.pulse.waits import Done
from agentos.integrations.tools.base import Repeat, Tier, ToolSpec
from agentos.integrations.tools.building import arguments_of
from agentos.integrations.workspaces.errors import NotAFile

_MOST_NAMED = 50


class CollectFiles(CheckedTool):
    """Copies files of a sub-agent that has ended into the workspace."""

    spec = ToolSpec(
        COLLECT_FILES,
        "Copy files of an agent that you started into your own files, over those of the same name.",
        arguments_of(
            {
                "agent": {"type": "string", "description": "The id in the result of spawn_agents."},
                "paths": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1, "maxLength": 4096},
                    "minItems": 1,
                    "maxItems": 200,
                    "description": "Files and directories; all that it has changed if left out.",
                },
            },
            "agent",
        ),
        Tier.SAFE,
        Repeat.WORKSPACE,
    )

    async def do(self, run: Run, call: ToolCall, arguments: dict[str, Any]) -> Done:  # noqa: ARG002 - the protocol's
        seed, files = await _snapshots(run, arguments["agent"])
        paths = await _wanted(run, seed, files, arguments.get("paths"))
        copied = [path for path in paths if await _copy(run, files, path)]
        if not copied:
            raise NothingThere("There are no files to copy there.")
        named = ", ".join(copied[:_MOST_NAMED])
        more = f" and {len(copied) - _MOST_NAMED} more" if len(copied) > _MOST_NAMED else ""
        return Done(f"Copied {named}{more}.", details={"files": len(copied)})


async def _snapshots(run: Run, agent: str) -> tuple[UUID | None, UUID]:
    """The files that an agent began with, and those it ended with."""
    session = run.session
    try:
        child_id = UUID(agent)
    except ValueError:
        raise AgentMissing() from None
    async with run.parts.db.transaction(tenant_id=session.tenant_id) as tx:
        child = await repository.child(tx, session.tenant_id, session.id, child_id)
        if child is None:
            raise AgentMissing()
        if child["state"] not in ENDED:
            raise AgentStillRuns()
        seed = await repository.seed(tx, session.tenant_id, child_id)
    if child["snapshot_id"] is None:
        raise NothingThere("The agent has no files.")
    return seed, child["snapshot_id"]


async def _copy(run: Run, files: UUID, path: str) -> bool:
    """False: it is a directory or a link."""
    try:
        data = await run.parts.workspaces.read_at(run.session.tenant_id, files, path)
    except NotAFile:
        return False
    workspace = await (await toolroom_of(run)).workspace()
    await workspace.write(path, data)
    return True


async def _wanted(run: Run, seed: UUID | None, files: UUID, paths: list[str] | None) -> list[str]:
    """The paths that are meant, with those beneath. Raises NothingThere for one that is not there."""
    workspaces, tenant_id = run.parts.workspaces, run.session.tenant_id
    if paths is None:
        changes = await workspaces.diff(tenant_id, seed, files)
        return [change.path for change in changes if change.kind != "removed"]
    there = dict.fromkeys(c.path for c in await workspaces.diff(tenant_id, None, files))
    found: dict[str, None] = {}
    for path in paths:
        name = path.strip("/").removeprefix("./")
        everything = name in ("", ".")
        below = [p for p in there if everything or p == name or p.startswith(f"{name}/")]
        if not below:
            raise NothingThere(f"The agent has no file {path[:200]}.")
        found.update(dict.fromkeys(below))
    return list(found)
