"""Ending tasks for certain."""

from __future__ import annotations

import asyncio
from typing import Any


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancels them until they are done, and looks at what they left.

    Once is not enough: nats-py swallows a cancellation while it flushes.
    """
    waiting = {task for task in tasks if not task.done()}
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=0.5)
    for task in tasks:
        if not task.cancelled():
            task.exception()
