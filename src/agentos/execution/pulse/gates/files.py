"""A gate that looks at a file of the workspace."""

from __future__ import annotations

from agentos.execution.pulse.gates.schemas import FileGate
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.toolroom import toolroom_of
from agentos.execution.pulse.waits import Verdict
from agentos.integrations.workspaces.errors import (
    BadPath,
    FileMissing,
    FileRefused,
    NotADirectory,
    NotAFile,
    SearchTooSlow,
)
from agentos.integrations.workspaces.workspace import Workspace


async def check_file(run: Run, gate: FileGate) -> Verdict:
    workspace = await (await toolroom_of(run)).workspace()
    found = await _found(workspace, gate.path)
    if gate.absent:
        gone = found == "nothing"
        return Verdict(gone, f"{gate.path} {'does not exist' if gone else 'still exists'}.")
    if found != "file":
        told = "does not exist" if found == "nothing" else "is not a file that can be read"
        return Verdict(False, f"{gate.path} {told}.")
    if gate.matches is None:
        return Verdict(True, f"{gate.path} exists.")
    return await _matched(workspace, gate.path, gate.matches)


async def _found(workspace: Workspace, path: str) -> str:
    """`nothing`, `file`, or `other`: a directory, a link out of the workspace, a closed file."""
    try:
        await workspace.read(path, limit=0)
    except (FileMissing, NotADirectory):
        return "nothing"
    except (NotAFile, BadPath, FileRefused):
        return "other"
    return "file"


async def _matched(workspace: Workspace, path: str, pattern: str) -> Verdict:
    """Searched as the search tool does: in a process of its own, which cannot hold us up."""
    try:
        matches = await workspace.search(pattern, path=path, limit=1)
    except SearchTooSlow:
        return Verdict(False, f"Looking for /{pattern}/ in {path} took too long.")
    if not matches:
        return Verdict(False, f"No line of {path} matches /{pattern}/.")
    line = matches[0].line
    return Verdict(True, f"Line {line} of {path} matches.", {"line": line})
