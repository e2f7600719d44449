"""The agent loop: ask the model, use the tools it asks for, until it has an answer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta

from agentos.execution.pulse import conversation, finishing, model_steps, outputs, tool_steps
from agentos.execution.pulse.errors import BadConfig
from agentos.execution.pulse.journal import Fenced
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.starting import prepare
from agentos.execution.pulse.waits import Wait
from agentos.kernel.errors import AgentOSError, Unavailable
from agentos.kernel.logs import get_logger

log = get_logger(__name__)

# The object store or the database was away: soon, but not at once.
_PART_AGAIN = timedelta(seconds=5)


async def work(run: Run, seconds_left: float | None) -> None:
    """Works on a claimed session until it ends, waits, or is not ours any more."""
    limits = [s for s in (seconds_left, _own_limit(run)) if s is not None]
    try:
        async with run.stack:
            try:
                async with asyncio.timeout(min(limits) if limits else None) as limit:
                    await _steps(run)
            except TimeoutError:
                if not limit.expired():
                    raise
                await run.fail("time_limit", _time_is_up(run, seconds_left))
    except Fenced:
        log.info("a session is not ours any more", session=str(run.session.id))
    except Unavailable as error:
        log.warning("a session waits for a part", session=str(run.session.id), error=error.code)
        again = run.parts.clock.now() + _PART_AGAIN
        with suppress(Fenced):
            await run.wait(Wait("retry", wake_at=again))
    except AgentOSError as error:
        with suppress(Fenced):
            await run.fail(error.code, error.message)
    except Exception:
        # A process edge: one session that breaks must not take the others along.
        log.exception("a session broke", session=str(run.session.id))
        with suppress(Fenced):
            await run.fail("internal", "Something went wrong inside AgentOS; the log says what.")


async def _steps(run: Run) -> None:
    if run.outdated is not None:
        raise BadConfig(f"Its configuration is not valid any more: {run.outdated}")
    await run.load()
    await prepare(run)
    while True:
        if run.orders.drain:
            await run.give_back()
            return
        if run.session.pause_requested:
            await run.wait(Wait("pause"))
            return
        if not await _next(run):
            return


async def _next(run: Run) -> bool:
    """Does what is next. False: the session is not worked on any more."""
    last = conversation.last_spoken(run.path)
    if last is None or last.kind in ("message", "compaction"):
        return await model_steps.ask(run)
    if conversation.unanswered(run.path):
        return await tool_steps.use_tools(run)
    if last.kind == "tool" and outputs.accepted(run.path) is None:
        return await model_steps.ask(run)
    return await finishing.finish(run)


def _own_limit(run: Run) -> float | None:
    most = run.config.guards.max_seconds
    return None if most is None else max(0.0, most - run.session.ran_ms / 1000)


def _time_is_up(run: Run, seconds_left: float | None) -> str:
    own = _own_limit(run)
    if own is not None and (seconds_left is None or own <= seconds_left):
        return f"It ran for {run.config.guards.max_seconds} seconds, as long as it may (guards.max_seconds)."
    return "It ran as long as the plan of the tenant lets a session run."
