"""Schedules: create, change, pause, run now; and when they fire next."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import asyncpg

from agentos.contracts.events import RunQueued, ScheduleChanged, ScheduleDeleted
from agentos.execution.pulse.front import PulseFront
from agentos.execution.runs import repository as runs
from agentos.execution.runs.schemas import RunRead
from agentos.execution.runs.service import runs_of
from agentos.execution.runs.starting import start_run, starter
from agentos.execution.runs.targets import changed_target, checked_target
from agentos.execution.schedules import repository, times
from agentos.execution.schedules.errors import NothingToCome, ScheduleNotFound
from agentos.execution.schedules.schemas import (
    ScheduleCreate,
    ScheduleDetails,
    ScheduleRead,
    ScheduleUpdate,
    Timing,
    TimingPreview,
)
from agentos.kernel.ids import uuid7
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

_SHOWN = 5
_TIMING = ("cron", "timezone", "every_seconds", "at")


async def create_schedule(work: Work, front: PulseFront, body: ScheduleCreate) -> ScheduleDetails:
    work.require(Scope.SCHEDULES_WRITE)
    session = await checked_target(
        work, front, team_id=body.team_id, prompt=body.prompt, session=body.session
    )
    times.check(body)
    timing, now, schedule_id = _anchored(body, work), work.now(), uuid7()
    next_at = times.next_moment(timing, now)
    if next_at is None:
        raise NothingToCome()
    principal = work.principal
    await repository.insert(
        work.tx,
        work.tenant_id,
        {
            "id": schedule_id,
            "name": body.name,
            "team_id": body.team_id,
            "prompt": body.prompt,
            "session": session,
            **_values(timing),
            "missed": body.missed,
            "enabled": body.enabled,
            "next_at": next_at if body.enabled else None,
            "created_by": principal.name,
            "principal_kind": principal.kind,
            "principal_id": principal.id,
            "created_at": now,
            "updated_at": now,
        },
    )
    return await _recorded(work, schedule_id, "created")


async def list_schedules(
    work: Work, page: PageRequest, *, team_id: UUID | None = None
) -> RowPage[ScheduleRead]:
    work.require(Scope.SCHEDULES_READ)
    rows = await repository.page(work.tx, work.tenant_id, team_id, page.after_id, page.limit + 1)
    return page.of(ScheduleRead, rows)


async def read_schedule(work: Work, schedule_id: UUID) -> ScheduleDetails:
    work.require(Scope.SCHEDULES_READ)
    return _details(work, await _found(work, schedule_id))


async def preview(work: Work, timing: Timing) -> TimingPreview:
    """When a schedule that does not exist yet would fire."""
    work.require(Scope.SCHEDULES_READ)
    times.check(timing)
    return TimingPreview(upcoming=times.upcoming(_anchored(timing, work), work.now(), _SHOWN))


async def update_schedule(
    work: Work, front: PulseFront, schedule_id: UUID, body: ScheduleUpdate
) -> ScheduleDetails:
    """Changes what is given. The next moment is counted anew if the timing has changed."""
    work.require(Scope.SCHEDULES_WRITE)
    row = await _found(work, schedule_id, lock=True)
    given = body.model_dump(exclude_unset=True, exclude_none=True)
    changes: dict[str, Any] = {name: given[name] for name in ("name", "missed") if name in given}
    if "prompt" in given or "session" in given:
        prompt, session = changed_target(row, body.prompt, body.session)
        changes["prompt"] = prompt
        changes["session"] = await checked_target(
            work, front, team_id=row["team_id"], prompt=prompt, session=session
        )
    if any(name in given for name in _TIMING):
        timing = _retimed(row, given)
        times.check(timing)
        timing = _anchored(timing, work)
        next_at = times.next_moment(timing, work.now())
        if next_at is None:
            raise NothingToCome()
        changes |= {**_values(timing), "next_at": next_at if row["enabled"] else None}
    if changes:
        await repository.update(
            work.tx, work.tenant_id, schedule_id, changes | {"updated_at": work.now()}
        )
    return await _recorded(work, schedule_id, "updated")


async def pause_schedule(work: Work, schedule_id: UUID) -> ScheduleDetails:
    """It does not fire until it is resumed; what falls into the pause is not made up for."""
    work.require(Scope.SCHEDULES_WRITE)
    await _found(work, schedule_id, lock=True)
    changes = {"enabled": False, "next_at": None, "updated_at": work.now()}
    await repository.update(work.tx, work.tenant_id, schedule_id, changes)
    return await _recorded(work, schedule_id, "paused")


async def resume_schedule(work: Work, schedule_id: UUID) -> ScheduleDetails:
    work.require(Scope.SCHEDULES_WRITE)
    row = await _found(work, schedule_id, lock=True)
    next_at = times.next_moment(timing_of(row), work.now())
    if next_at is None:
        raise NothingToCome()
    if not row["enabled"]:
        changes = {"enabled": True, "next_at": next_at, "updated_at": work.now()}
        await repository.update(work.tx, work.tenant_id, schedule_id, changes)
    return await _recorded(work, schedule_id, "resumed")


async def run_now(work: Work, front: PulseFront, schedule_id: UUID) -> RunRead:
    """Starts a run at once, whether or not the schedule is paused; its next moment stays.

    In the schedule's name, as at its moments: who may change when it fires needs no more for this.
    """
    work.require(Scope.SCHEDULES_WRITE)
    row = await _found(work, schedule_id, lock=True)
    run_id, now = uuid7(), work.now()
    await runs.insert(
        work.tx,
        work.tenant_id,
        run_id,
        schedule_id=schedule_id,
        due_at=now,
        manual=True,
        state="queued",
        prompt=row["prompt"],
        session=row["session"],
        now=now,
    )
    event = RunQueued(run_id=run_id, schedule_id=schedule_id, webhook_id=None, due_at=now)
    await work.record("schedule.run", event, target=("schedule", schedule_id))
    acting = starter(work.tenant_id, work.principal.plan, schedule_id, row["name"])
    await start_run(
        Work(work.tx, acting, work.outbox, work.clock, work.request_id),
        front,
        run_id,
        source="schedule",
        team_id=row["team_id"],
        prompt=row["prompt"],
        session=row["session"],
    )
    found = await runs.find(work.tx, work.tenant_id, run_id)
    assert found is not None, "it was just made"
    return RunRead(**found)


async def delete_schedule(work: Work, schedule_id: UUID) -> None:
    """Removes a schedule and its history. What it has started goes on."""
    work.require(Scope.SCHEDULES_WRITE)
    row = await _found(work, schedule_id, lock=True)
    await repository.delete(work.tx, work.tenant_id, schedule_id)
    await work.record(
        "schedule.deleted",
        ScheduleDeleted(schedule_id=schedule_id, name=row["name"]),
        target=("schedule", schedule_id),
        before={"name": row["name"]},
    )


async def list_runs(work: Work, schedule_id: UUID, page: PageRequest) -> RowPage[RunRead]:
    work.require(Scope.SCHEDULES_READ)
    await _found(work, schedule_id)
    return await runs_of(work, page, schedule_id=schedule_id)


def timing_of(row: asyncpg.Record) -> Timing:
    return Timing(**{name: row[name] for name in _TIMING})


async def _found(work: Work, schedule_id: UUID, *, lock: bool = False) -> asyncpg.Record:
    row = await repository.find(work.tx, work.tenant_id, schedule_id, lock=lock)
    if row is None:
        raise ScheduleNotFound()
    return row


async def _recorded(work: Work, schedule_id: UUID, change: str) -> ScheduleDetails:
    row = await _found(work, schedule_id)
    await work.record(
        f"schedule.{change}",
        ScheduleChanged(
            schedule_id=schedule_id, name=row["name"], change=change, next_at=row["next_at"]
        ),
        target=("schedule", schedule_id),
        after={"name": row["name"], "enabled": row["enabled"], "next_at": row["next_at"]},
    )
    return _details(work, row)


def _details(work: Work, row: asyncpg.Record) -> ScheduleDetails:
    upcoming = (
        times.upcoming(timing_of(row), work.now(), _SHOWN) if row["next_at"] is not None else []
    )
    return ScheduleDetails(**row, upcoming=upcoming)


def _anchored(timing: Timing, work: Work) -> Timing:
    """An interval begins at some moment: now, unless another was given."""
    if timing.every_seconds is not None and timing.at is None:
        return timing.model_copy(update={"at": work.now()})
    return timing


def _values(timing: Timing) -> dict[str, Any]:
    return {"kind": timing.kind, **{name: getattr(timing, name) for name in _TIMING}}


def _retimed(row: asyncpg.Record, given: dict[str, Any]) -> Timing:
    """The timing with what is given; a new way of timing takes the place of the old one."""
    kept: dict[str, Any] = {name: row[name] for name in _TIMING}
    if "cron" in given:
        kept |= {"every_seconds": None, "at": None}
    elif "every_seconds" in given:
        kept |= {"cron": None, "at": None}
    elif "at" in given and row["kind"] != "interval":
        kept |= {"cron": None, "every_seconds": None}
    return Timing(**kept | {name: given[name] for name in _TIMING if name in given})
