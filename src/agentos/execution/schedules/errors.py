from __future__ import annotations

from agentos.kernel.errors import AgentOSError, Invalid, Kind, NotFound


class ScheduleNotFound(NotFound):
    """There is no such schedule."""

    code = "schedule_not_found"


class ScheduleNameTaken(AgentOSError):
    """Another schedule has this name."""

    code = "schedule_name_taken"
    kind = Kind.CONFLICT
    hint = "Choose another name."


class BadCron(Invalid):
    """That is not a cron expression."""

    code = "bad_cron"
    hint = "Five fields: minute hour day month weekday, such as `0 9 * * 1-5`."


class BadTimeZone(Invalid):
    """There is no such time zone."""

    code = "bad_time_zone"
    hint = "Use a name of the time zone database, such as Europe/Berlin."


class NothingToCome(AgentOSError):
    """The schedule has no moment left to fire at."""

    code = "nothing_to_come"
    kind = Kind.CONFLICT
    hint = "Give it a moment in the future."
