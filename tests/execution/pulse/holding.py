"""Model calls that a test holds open amid an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from agentos.integrations.models.demo import model as demo


@contextmanager
def held_waits() -> Iterator[asyncio.Event]:
    """The demo model's `wait` lasts until the event is set."""
    go = asyncio.Event()

    async def wait(_: float) -> None:
        await go.wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "asyncio", SimpleNamespace(sleep=wait))
        yield go
