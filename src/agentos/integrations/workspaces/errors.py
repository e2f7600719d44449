from __future__ import annotations

from agentos.kernel.errors import AgentOSError, Conflict, Invalid, Kind, NotFound


class BadPath(Invalid):
    """This is not a path beneath the workspace."""

    code = "bad_path"
    hint = "Use a relative path like src/main.py, without `..`; links may not lead outside."


class NotAFile(Invalid):
    """There is something else than a file at this path."""

    code = "not_a_file"
    hint = "List the workspace to see what is there."


class NotADirectory(Invalid):
    """A part of this path is not a directory."""

    code = "not_a_directory"
    hint = "List the workspace to see what is there."


class FileMissing(NotFound):
    """There is no such file in the workspace."""

    code = "file_missing"
    hint = "List the workspace to see what is there."


class FileRefused(AgentOSError):
    """The permissions of the file do not allow this."""

    code = "file_refused"
    kind = Kind.FORBIDDEN
    hint = "Change its mode with chmod, or use another file."


class WorkspaceFull(AgentOSError):
    """The workspace is larger than it may be."""

    code = "workspace_full"
    kind = Kind.TOO_LARGE
    hint = "Remove files that are not needed, such as build products and caches."


def too_many_bytes(limit: int) -> WorkspaceFull:
    return WorkspaceFull(f"A workspace holds at most {limit} bytes.", limit=limit)


def too_many_files(limit: int) -> WorkspaceFull:
    return WorkspaceFull(
        f"A workspace holds at most {limit} files, directories and links.", limit=limit
    )


class DiskFull(AgentOSError):
    """The disk that holds the workspaces is full."""

    code = "disk_full"
    kind = Kind.LIMITED
    hint = "Have the operator make room in the data directory."


class BadPattern(Invalid):
    """This is not a regular expression."""

    code = "bad_pattern"
    hint = "Escape characters that have a meaning, such as ( [ * + ? with a backslash."


class SearchTooSlow(Invalid):
    """The search took too long and was ended."""

    code = "search_too_slow"
    hint = "Use a simpler expression, or search in fewer files."


class SnapshotMissing(NotFound):
    """There is no such snapshot of a workspace."""

    code = "snapshot_missing"


class SnapshotLost(AgentOSError):
    """The contents of this snapshot are missing from the object store, or damaged."""

    code = "snapshot_lost"
    hint = "Restore the object store from its backup, or use another checkpoint."


class SnapshotExpired(Conflict):
    """What this snapshot builds on was cleared away before it was recorded."""

    code = "snapshot_expired"
    hint = "Take the snapshot again."


class WorkspaceChanging(Conflict):
    """Something keeps changing the workspace while it is being put back."""

    code = "workspace_changing"
    hint = "End what still runs in the workspace, then try again."
