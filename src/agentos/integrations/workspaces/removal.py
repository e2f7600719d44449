"""Removing trees of any depth, also while somebody changes them."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from agentos.integrations.workspaces.beneath import change_mode, directory_beneath, opened
from agentos.kernel.ids import uuid7

_ATTEMPTS = 100


def remove_at(trash: int, parent: int, name: bytes) -> None:
    """Removes `name` in `parent` and everything in it; FileNotFoundError if there is nothing.

    A directory is first moved to `trash`, where no sandbox can reach it by a path.
    """
    try:
        os.unlink(name, dir_fd=parent)
    except (IsADirectoryError, PermissionError):
        moved = str(uuid7()).encode()
        _move(parent, name, trash, moved)
        empty(trash)


def empty(trash: int) -> None:
    """Removes all that is in `trash`.

    Directories within directories are moved up to `trash` first, so that their depth, which
    others chose, costs neither open files nor recursion.
    """
    for _ in range(_ATTEMPTS):
        names = [os.fsencode(name) for name in os.listdir(trash)]
        if not names:
            return
        for name in names:
            _take_apart(trash, name)
    raise OSError(errno.EAGAIN, "the directory keeps filling")


def _take_apart(trash: int, name: bytes) -> None:
    pending = [name]
    while pending:
        current = pending.pop()
        with suppress(IsADirectoryError, FileNotFoundError):
            os.unlink(current, dir_fd=trash)
            continue
        with suppress(FileNotFoundError):
            change_mode(trash, current, 0o700)
            with opened(directory_beneath(trash, current)) as directory:
                pending += _unload(directory, trash)
            with suppress(OSError):  # filled again by somebody with a hand in it: next round
                os.rmdir(current, dir_fd=trash)


def _unload(directory: int, trash: int) -> list[bytes]:
    """Removes the files of a directory and moves its directories to `trash`."""
    moved = []
    with os.scandir(directory) as listing:
        for item in listing:
            name = os.fsencode(item.name)
            with suppress(FileNotFoundError):
                if item.is_dir(follow_symlinks=False):
                    fresh = str(uuid7()).encode()
                    _move(directory, name, trash, fresh)
                    moved.append(fresh)
                else:
                    os.unlink(name, dir_fd=directory)
    return moved


def _move(source: int, name: bytes, target: int, fresh: bytes) -> None:
    try:
        os.rename(name, fresh, src_dir_fd=source, dst_dir_fd=target)
    except PermissionError:
        # Whoever is not root has to own a directory's mode before it can be moved.
        change_mode(source, name, 0o700)
        os.rename(name, fresh, src_dir_fd=source, dst_dir_fd=target)
