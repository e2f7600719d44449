"""The process that searches: reads what to look for from stdin, answers on stdout, both as JSON.

Started as a module with the number of an open root directory. Imports little, because it starts
anew for each search.
"""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import stat
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from itertools import islice
from typing import Any

from agentos.integrations.workspaces.beneath import directory_beneath, open_beneath, opened

_MAX_FILE_BYTES = 8 * 1024 * 1024
_MAX_TEXT = 500
_MEMORY_BYTES = 1024 * 1024 * 1024
# Gone since it was listed, or not ours to read.
_PASSED_OVER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EXDEV)


@dataclass(frozen=True, slots=True)
class Match:
    """A line that matches, counted from 1 and cut short if it is very long."""

    path: str
    line: int
    text: str


def main() -> None:
    request = json.load(sys.stdin)
    seconds = int(request["seconds"]) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    for number, pattern in enumerate(request["patterns"]):
        try:
            compiled = re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            json.dump({"bad_pattern": str(error), "number": number}, sys.stdout)
            return
    if "path" in request:
        _search(request, compiled, int(sys.argv[1]))
    else:
        json.dump({}, sys.stdout)


def _search(request: dict[str, Any], pattern: re.Pattern[str], root: int) -> None:
    try:
        files = sorted(_files(root, os.fsencode(request["path"])))
    except OSError as error:
        json.dump({"errno": error.errno}, sys.stdout)
        return
    glob: str | None = request["glob"]
    wanted = (path for path in files if glob is None or _fits(path, glob))
    matches = (match for path in wanted for match in _lines(root, path, pattern))
    json.dump(
        {"matches": [asdict(match) for match in islice(matches, request["limit"])]}, sys.stdout
    )


def _files(root: int, path: bytes) -> Iterator[str]:
    """The files beneath a path, or the one it is."""
    with opened(open_beneath(root, path, os.O_PATH)) as handle:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            yield os.fsdecode(path)
            return
    pending = [path]
    while pending:
        place = pending.pop()
        try:
            directory = directory_beneath(root, place, follow=place == path)
        except OSError as error:
            if error.errno not in _PASSED_OVER:
                raise
            continue
        prefix = "" if place == b"." else os.fsdecode(place) + "/"
        with opened(directory), os.scandir(directory) as listing:
            for item in listing:
                if item.is_dir(follow_symlinks=False):
                    pending.append(os.fsencode(prefix + item.name))
                elif item.is_file(follow_symlinks=False):
                    yield prefix + item.name


def _fits(path: str, glob: str) -> bool:
    return fnmatch(path, glob) or fnmatch(path.rpartition("/")[2], glob)


def _lines(root: int, path: str, pattern: re.Pattern[str]) -> Iterator[Match]:
    text = _text(root, os.fsencode(path))
    for number, line in enumerate(text.split("\n"), 1):
        if pattern.search(line):
            yield Match(path, number, line[:_MAX_TEXT].rstrip("\r"))


def _text(root: int, path: bytes) -> str:
    """The text of a file; empty if it is none."""
    try:
        handle = open_beneath(root, path, os.O_RDONLY)
    except OSError as error:
        if error.errno not in _PASSED_OVER:
            raise
        return ""
    with opened(handle):
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        with os.fdopen(os.dup(handle), "rb") as file:
            data = file.read(_MAX_FILE_BYTES)
    return "" if b"\0" in data[:8192] else data.decode(errors="replace")


if __name__ == "__main__":
    main()
