"""A step in which a tool is used: asked for by the model, allowed by the tenant, journaled once.

What is next is decided from the journal alone. Calls of one answer are made in its order; those
that change nothing, one after the other, are made at the same time. A call that changes the
workspace may be made again, because the files are put back first. One that changes the world
outside leaves a mark in the session's row before it begins: whoever finds the mark and no result
does not know whether it happened, says so, and does not make it again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from uuid import UUID

from agentos.execution.pulse import conversation, guards
from agentos.execution.pulse.approvals.asking import together
from agentos.execution.pulse.approvals.tools import permission
from agentos.execution.pulse.conversation import ToolCall
from agentos.execution.pulse.engine_tools.base import CheckedTool, EngineTool, refused
from agentos.execution.pulse.engine_tools.offering import offered_engine_tools
from agentos.execution.pulse.journal import Change, Step, cut_off, doing
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.sub_agents.errors import SpawnRefused
from agentos.execution.pulse.toolroom import Toolroom, toolroom_of
from agentos.execution.pulse.waits import Done, Wait
from agentos.integrations.tools.base import Repeat, Tier, ToolContext, ToolSpec
from agentos.integrations.tools.toolbox import unknown_tool
from agentos.integrations.workspaces.errors import WorkspaceFull
from agentos.integrations.workspaces.snapshots import Snapshot

MOST_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A call that may be made, or why not."""

    call: ToolCall
    spec: ToolSpec | None = None
    engine_tool: EngineTool | None = None
    refusal: Done | None = None
    wait: Wait | None = None

    @property
    def changes_nothing(self) -> bool:
        return (
            self.engine_tool is None
            and self.refusal is None
            and self.spec is not None
            and self.spec.repeat == Repeat.ALWAYS
        )


async def offered(run: Run) -> list[ToolSpec]:
    """What the model may ask for."""
    room = await toolroom_of(run)
    return [*room.toolbox.specs, *(t.spec for t in offered_engine_tools(run).values())]


async def use_tools(run: Run) -> bool:
    """Uses the tools that the newest answer asks for.

    False: the session waits, or has ended. All that needs a person's word is asked for at once,
    before anything is done.
    """
    prepared = [await _prepare(run, call) for call in conversation.unanswered(run.path)]
    waits = [each.wait for each in prepared if each.wait is not None]
    if waits:
        await run.wait(together(waits))
        return False
    while prepared:
        together_now = _at_once(prepared)
        if not await _use(run, together_now):
            return False
        if run.orders.drain or run.session.pause_requested:
            return True
        prepared = prepared[len(together_now) :]
    return True


def _at_once(prepared: Sequence[_Prepared]) -> list[_Prepared]:
    """The next call, with those after it that can be made at the same time."""
    quiet = takewhile(lambda each: each.changes_nothing, prepared)
    return list(islice(quiet, MOST_AT_ONCE)) or [prepared[0]]


async def _prepare(run: Run, call: ToolCall) -> _Prepared:
    """Whether a call can and may be made. Nothing is done; nobody is asked about what cannot be."""
    room = await toolroom_of(run)
    engine_tools = offered_engine_tools(run)
    tool, engine_tool = room.toolbox.find(call.name), engine_tools.get(call.name)
    if engine_tool is not None:
        spec = engine_tool.spec
        # Those that are safe act on nothing but the session: no policy is about them.
        if spec.tier == Tier.SAFE or not isinstance(engine_tool, CheckedTool):
            return _Prepared(call, spec, engine_tool)
        if (refusal := engine_tool.check(call)) is not None:
            return _Prepared(call, spec, engine_tool, refusal)
    elif tool is not None:
        spec = tool.spec
        wrong = room.toolbox.check(call.name, call.arguments)
        if wrong is not None:
            refusal = Done(wrong.text, failed=True, details=wrong.details)
            return _Prepared(call, spec, refusal=refusal)
    else:
        names = [*(spec.name for spec in room.toolbox.specs), *engine_tools]
        return _Prepared(call, refusal=refused(unknown_tool(call.name, names)))
    outcome = await permission(run, call, spec)
    if isinstance(outcome, Wait):
        return _Prepared(call, spec, engine_tool, wait=outcome)
    return _Prepared(call, spec, engine_tool, refusal=outcome)


async def _use(run: Run, calls: Sequence[_Prepared]) -> bool:
    """Makes one call, or several that change nothing. False: the session waits, or has ended."""
    first = calls[0]
    if (run.session.doing or {}).get("key") == first.call.key:
        return await _journal_uncertain(run)
    if first.refusal is not None:
        return await _journal(run, first.call, first.refusal, 0)
    if first.engine_tool is not None:
        return await _use_engine_tool(run, first.call, first.engine_tool)
    if first.changes_nothing:
        return await _use_at_once(run, [each.call for each in calls])
    room = await toolroom_of(run)
    if first.spec is not None and first.spec.repeat == Repeat.NEVER:
        call = first.call
        mark = doing(call.key, call.name, call.id, call.arguments)
        await run.commit(Change(doing=mark))
    return await _with_files(run, first.call, lambda: _call(run, room, first.call))


async def _use_engine_tool(run: Run, call: ToolCall, tool: EngineTool) -> bool:
    if tool.spec.repeat == Repeat.WORKSPACE:
        return await _with_files(run, call, lambda: tool.use(run, call))
    began = time.monotonic()
    outcome = await tool.use(run, call)
    if isinstance(outcome, Done):
        return await _journal(run, call, outcome, _since(began))
    try:
        await run.wait(outcome)
    except SpawnRefused as error:
        return await _journal(run, call, refused(error), _since(began))
    return False


async def _use_at_once(run: Run, calls: Sequence[ToolCall]) -> bool:
    """Makes calls at the same time; their results are journaled in the order of the calls."""
    room = await toolroom_of(run)
    # Opened once, before all of them need it.
    await room.workspace()

    async def timed(call: ToolCall) -> tuple[Done, int]:
        began = time.monotonic()
        return await _call(run, room, call), _since(began)

    tasks = [asyncio.create_task(timed(call)) for call in calls]
    try:
        for call, task in zip(calls, tasks, strict=True):
            if not await _journal(run, call, *await task):
                return False
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return True


async def _with_files(run: Run, call: ToolCall, use: Callable[[], Awaitable[Done | Wait]]) -> bool:
    """Makes a call that may change the workspace, and keeps the files as they are after it."""
    began = time.monotonic()
    workspaces, before = run.parts.workspaces, run.session.snapshot_id
    workspace = await (await toolroom_of(run)).workspace()
    workspaces.begin_change(workspace)
    outcome = await use()
    assert isinstance(outcome, Done), "nothing that changes files waits"
    try:
        snapshot = await workspaces.snapshot(workspace, before)
    except WorkspaceFull as error:
        await workspaces.bring(workspace, before)
        full = refused(error)
        told = f"{full.text} All that this call did to the files was undone.\n\n{outcome.text}"
        outcome = Done(told, failed=True, details={**outcome.details, **full.details})
        return await _journal(run, call, outcome, _since(began))
    goes_on = await _journal(run, call, outcome, _since(began), snapshot)
    workspaces.settled(workspace, snapshot.id)
    return goes_on


async def _call(run: Run, room: Toolroom, call: ToolCall) -> Done:
    session = run.session
    kept: list[UUID] = []

    async def keep(data: bytes) -> str:
        kept.append(await run.parts.payloads.keep(session.tenant_id, data))
        return f'read_output with {{"output": "{kept[-1]}"}}'

    context = ToolContext(
        tenant_id=session.tenant_id,
        session_id=session.id,
        idempotency_key=f"{session.id}:{call.key}",
        workspace=await room.workspace(),
        sandbox=run.parts.sandbox,
        limits=room.limits,
        allowed_hosts=tuple(run.config.allowed_hosts),
        keep=keep,
    )
    result = await room.toolbox.call(call.name, call.arguments, context)
    details = dict(result.details)
    if kept:
        details["whole"] = str(kept[-1])
    return Done(result.text, result.failed, details)


async def _journal(
    run: Run, call: ToolCall, outcome: Done, duration_ms: int, snapshot: Snapshot | None = None
) -> bool:
    """Puts a result into the journal. False: with it the session goes in circles, and has failed."""
    step = _step(run, call, outcome, duration_ms, snapshot)
    await run.commit(
        Change(
            steps=[step],
            events=[run.progress(step, outcome.text)],
            snapshot_id=snapshot.id if snapshot else None,
        ),
        snapshot=snapshot,
    )
    if guards.repeats_itself(run):
        await run.fail("loop_detected", guards.loop_reason(run))
        return False
    return True


async def _journal_uncertain(run: Run) -> bool:
    session = run.session
    told = cut_off(session.id, session.doing, run.parts.clock.now())
    progress = [run.progress(step, step.output["text"]) for step in told.steps]
    await run.commit(Change(steps=told.steps, events=[*progress, *told.events]))
    return True


def _step(
    run: Run, call: ToolCall, outcome: Done, duration_ms: int, snapshot: Snapshot | None
) -> Step:
    status = outcome.status if outcome.status == "uncertain" or not outcome.failed else "failed"
    return Step(
        kind="tool",
        name=call.name,
        at=run.parts.clock.now(),
        status=status,
        key=call.key,
        input={"call_id": call.id, "arguments": call.arguments},
        output={"text": outcome.text, "failed": outcome.failed, **outcome.details},
        snapshot_id=snapshot.id if snapshot else None,
        duration_ms=duration_ms,
    )


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
