"""What a test server has seen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class RecordedRequest:
    """A request as it came in, and how it ended."""

    method: str
    path: str
    query: Mapping[str, str]
    # Names are found in any case.
    headers: Mapping[str, str]
    body: bytes
    # None if the body is not JSON.
    json: Any
    # Seconds since the epoch.
    at: float
    # Pieces of the answer that have been sent, as `Fault.after_chunks` counts them.
    chunks: int = 0
    # The status that was answered; None while there is none yet.
    status: int | None = None
    # The client left before the answer was over.
    cancelled: bool = False
    # The server is done with it, whichever way.
    ended: bool = False


class Watch:
    """Lets tests wait for something to become true instead of sleeping."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def changed(self) -> None:
        before, self._changed = self._changed, asyncio.Event()
        before.set()

    async def until(self, true: Callable[[], bool], timeout: float) -> None:
        """Returns once it is true. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            while not true():
                await self._changed.wait()
