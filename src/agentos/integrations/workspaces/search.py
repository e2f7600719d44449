"""Searching files with a regular expression that somebody else wrote.

Such an expression can take for ever, and Python cannot interrupt one. So the search runs in a
process of its own, with a limit on time and memory, which is ended if it goes on too long.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from agentos.integrations.workspaces.errors import BadPattern, SearchTooSlow
from agentos.integrations.workspaces.searching import Match

_PROGRAM = "agentos.integrations.workspaces.searching"
_SECONDS = 10.0
_MAX_PATTERN = 10_000


async def search_files(
    root: int, pattern: str, path: bytes, glob: str | None, limit: int, seconds: float = _SECONDS
) -> list[Match]:
    """The first `limit` matches beneath a path, in the order of the paths."""
    if len(pattern) > _MAX_PATTERN:
        raise BadPattern(f"The expression has more than {_MAX_PATTERN} characters.")
    asked = {
        "pattern": pattern,
        "path": os.fsdecode(path),
        "glob": glob,
        "limit": max(0, limit),
        "seconds": seconds,
    }
    answer = json.loads(await _ask(root, json.dumps(asked).encode(), seconds))
    if "bad_pattern" in answer:
        raise BadPattern(f"This is not a regular expression: {answer['bad_pattern']}.")
    if "errno" in answer:
        raise OSError(answer["errno"], os.strerror(answer["errno"]))
    return [Match(**match) for match in answer["matches"]]


async def _ask(root: int, request: bytes, seconds: float) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-m", _PROGRAM, str(root)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        pass_fds=(root,),
        # The locale decides how bytes of names become text; nothing else is its business.
        env={name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ},
    )
    try:
        async with asyncio.timeout(seconds):
            answer, _ = await process.communicate(request)
    except TimeoutError:
        raise SearchTooSlow() from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        # Out of the memory or the time that it was given.
        raise SearchTooSlow()
    return answer
