"""Blocking work in threads that does not outlive the one who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs `work` in a thread. If cancelled, waits for it first: it may be changing files."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def read_ahead(pieces: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The pieces, each made in a thread while the one before is being used. Must be closed."""
    ahead = asyncio.ensure_future(asyncio.to_thread(next, pieces, None))
    try:
        while (piece := await asyncio.shield(ahead)) is not None:
            ahead = asyncio.ensure_future(asyncio.to_thread(next, pieces, None))
            yield piece
    finally:
        await asyncio.wait({ahead})
        # What went wrong in it has been raised above, or nobody wants to know any more.
        ahead.cancelled() or ahead.exception()
