"""Searching files with a regular expression that somebody else wrote.

Such an expression can take for ever, and Python cannot interrupt one. So the search runs in a
process of its own, with a limit on time and memory, which is ended if it goes on too long.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from agentos.integrations.workspaces.errors import BadPattern, SearchTooSlow
from agentos.integrations.workspaces.searching import Match

_PROGRAM = "agentos.integrations.workspaces.searching"
_SECONDS = 10.0
_MAX_PATTERN = 10_000


async def search_files(
    root: int, pattern: str, path: bytes, glob: str | None, limit: int, seconds: float = _SECONDS
) -> list[Match]:
    """The first `limit` matches beneath a path, in the order of the paths."""
    where = {"path": os.fsdecode(path), "glob": glob, "limit": max(0, limit)}
    answer = await _ask([pattern], seconds, where, (root,))
    if "errno" in answer:
        raise OSError(answer["errno"], os.strerror(answer["errno"]))
    return [Match(**match) for match in answer["matches"]]


async def check_patterns(patterns: Sequence[str], seconds: float) -> None:
    """Raises BadPattern, which has the `number` of the first that is none, or SearchTooSlow.

    In one process for all of them: even to read an expression can take minutes.
    """
    if patterns:
        await _ask(patterns, seconds)


async def _ask(
    patterns: Sequence[str],
    seconds: float,
    where: Mapping[str, Any] = MappingProxyType({}),
    root: tuple[int, ...] = (),
) -> dict[str, Any]:
    for number, pattern in enumerate(patterns):
        if len(pattern) > _MAX_PATTERN:
            raise BadPattern(
                f"The expression has more than {_MAX_PATTERN} characters.", number=number
            )
    asked = json.dumps({"patterns": list(patterns), "seconds": seconds, **where})
    answer: dict[str, Any] = json.loads(await _answer(asked.encode(), seconds, root))
    if "bad_pattern" in answer:
        raise BadPattern(
            f"This is not a regular expression: {answer['bad_pattern'][:200]}.",
            number=answer["number"],
        )
    return answer


async def _answer(request: bytes, seconds: float, root: tuple[int, ...]) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-m", _PROGRAM, *map(str, root)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        pass_fds=root,
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
