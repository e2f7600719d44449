"""The HTTP client towards providers, as the router sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class UpstreamTimeout(Exception):
    """The provider stayed silent for too long."""


class UpstreamLost(Exception):
    """The provider could not be reached, or cut the connection."""


class UpstreamAnswer(Protocol):
    """An answer whose body is still arriving."""

    status: int

    def header(self, name: str) -> str | None: ...

    async def body(self, most: int) -> bytes:
        """The whole body. Raises UpstreamLost also if it is longer than `most` bytes."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, as soon as it arrives. Raises UpstreamTimeout, UpstreamLost."""
        ...


class Upstream(Protocol):
    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> AbstractAsyncContextManager[UpstreamAnswer]:
        """Sends a request. Leaving the block before the body has ended cancels it at the provider.

        `timeout` is the longest silence that is borne. Raises UpstreamTimeout, UpstreamLost.
        """
        ...

    async def close(self) -> None: ...
