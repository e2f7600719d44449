"""What both kinds of stream share: write what comes, watch the client, stop when told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

import asyncpg

from agentos.gateway.events.errors import TOO_SLOW, UNAVAILABLE, Ending
from agentos.gateway.events.frames import Frame
from agentos.gateway.events.hub import Feed
from agentos.gateway.events.mailbox import Ended
from agentos.kernel.errors import AgentOSError
from agentos.kernel.logs import get_logger

log = get_logger(__name__)

# A client that takes nothing for so long is gone, whatever its mailbox says.
_WRITE_SECONDS = 30.0
_LOOK_SECONDS = 5.0

Write = Callable[[list[Frame]], Awaitable[None]]


async def pump(
    feed: Feed, *, write: Write, listen: Coroutine[None, None, None], idle: float | None = None
) -> Ending | None:
    """Writes the feed until it ends, for the reason returned, or `listen` says the client left.

    After `idle` seconds without an event, `write` gets an empty list.
    """
    listener = asyncio.ensure_future(listen)
    writer = asyncio.create_task(_write_all(feed, write, idle))
    # A writer that waits for a slow client would never see that the feed has ended.
    feed.mailbox.when_ended(writer.cancel)
    try:
        await asyncio.wait({listener, writer}, return_when=asyncio.FIRST_COMPLETED)
        left = listener.done() and feed.mailbox.ending is None
    finally:
        for task in (listener, writer):
            task.cancel()
        results = await asyncio.gather(listener, writer, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, OSError):
            raise result
    return None if left else feed.mailbox.ending


async def _write_all(feed: Feed, write: Write, idle: float | None) -> None:
    patience = _Patience(feed)
    try:
        while True:
            frames = await feed.take(idle)
            patience.begin()
            await write(frames)
            patience.end()
            feed.delivered(frames)
    except Ended:
        return
    except (AgentOSError, asyncpg.PostgresError) as error:
        log.warning("a stream lost its history", error=repr(error))
        feed.end(UNAVAILABLE)
    finally:
        patience.stop()


class _Patience:
    """Ends a feed whose client takes nothing. One timer a stream: one a write costs more than
    the write.
    """

    def __init__(self, feed: Feed):
        self._feed = feed
        self._loop = asyncio.get_running_loop()
        self._since: float | None = None
        self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)

    def begin(self) -> None:
        self._since = self._loop.time()

    def end(self) -> None:
        self._since = None

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        if self._since is not None and self._loop.time() - self._since >= _WRITE_SECONDS:
            self._feed.end(TOO_SLOW)
        else:
            self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)
