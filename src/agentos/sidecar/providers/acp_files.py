"""The files that an ACP agent reads and writes through its client: those of the workspace."""

from __future__ import annotations

from pathlib import Path

from agentos.sidecar.providers.base import Surroundings
from agentos.sidecar.providers.json_rpc import INVALID_PARAMS, RpcError

_MOST_BYTES = 16 * 1024 * 1024


class Files:
    """The workspace, without what the sidecar keeps in it."""

    def __init__(self, surroundings: Surroundings):
        self._workspace = surroundings.workspace.resolve()
        self._home = surroundings.home.resolve()

    def path(self, written: str) -> Path:
        """The file that is meant, links followed. Raises RpcError if it is out of bounds."""
        try:
            path = (self._workspace / written).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise RpcError(f"{written!r} is not a path: {error}", INVALID_PARAMS) from error
        if not path.is_relative_to(self._workspace) or path.is_relative_to(self._home):
            raise RpcError(f"{written} is not in the workspace.", INVALID_PARAMS)
        return path

    def read(self, path: Path, line: int | None, limit: int | None) -> str:
        """The text of a file, or some lines of it, counted from 1. Raises RpcError."""
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise RpcError(f"{path} is too large to be read at once.")
            text = path.read_text(errors="replace")
        except OSError as error:
            raise RpcError(f"{path} cannot be read: {error.strerror}") from error
        if line is None and limit is None:
            return text
        start = max((line or 1) - 1, 0)
        lines = text.splitlines(keepends=True)[start:]
        return "".join(lines if limit is None else lines[:limit])

    def write(self, path: Path, text: str) -> None:
        """Writes a whole file, with the directories it needs. Raises RpcError."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, errors="replace")
        except OSError as error:
            raise RpcError(f"{path} cannot be written: {error.strerror}") from error
