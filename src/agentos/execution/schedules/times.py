"""When a schedule fires: cron as Debian's cron understands it, intervals, and single moments.

When the clocks go forward, what falls into the missing hour happens right after it; when they go
back, what falls into the hour that comes twice happens once. Jobs that run every hour or more often
follow the elapsed time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from agentos.execution.schedules.errors import BadCron, BadTimeZone
from agentos.execution.schedules.schemas import Timing

# More that were missed are not caught up with.
MOST_MISSED = 100


def zone(name: str) -> ZoneInfo:
    """Raises BadTimeZone."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadTimeZone(f"There is no time zone {name[:100]}.") from None


_CRON_FIELDS = 5


def check(timing: Timing) -> None:
    """Raises BadCron, BadTimeZone."""
    where = zone(timing.timezone)
    if timing.cron is not None:
        # The library takes six as well, with seconds first; that would be an interval in disguise.
        if len(timing.cron.split()) != _CRON_FIELDS:
            raise BadCron(f"{timing.cron[:100]!r} is not a cron expression: it has five fields.")
        try:
            first = next(CronSim(timing.cron, datetime.now(where)), None)
        except CronSimError as error:
            raise BadCron(f"{timing.cron[:100]!r} is not a cron expression: {error}.") from None
        if first is None:
            raise BadCron(f"{timing.cron[:100]!r} never happens.")


def moments(timing: Timing, after: datetime) -> Iterator[datetime]:
    """The moments after this one at which it fires, in order; they may go on for ever."""
    if timing.cron is not None:
        for each in CronSim(timing.cron, after.astimezone(zone(timing.timezone))):
            yield each.astimezone(UTC)
    elif timing.every_seconds is not None:
        assert timing.at is not None, "an interval has a beginning"
        every = timedelta(seconds=timing.every_seconds)
        passed = max(0, (after - timing.at) // every + 1)
        while True:
            yield timing.at + passed * every
            passed += 1
    elif timing.at is not None and timing.at > after:
        yield timing.at


def next_moment(timing: Timing, after: datetime) -> datetime | None:
    return next(moments(timing, after), None)


def upcoming(timing: Timing, after: datetime, count: int) -> list[datetime]:
    return list(islice(moments(timing, after), count))


def missed(timing: Timing, first: datetime, now: datetime) -> list[datetime]:
    """The moments from `first` to now; of too many, the newest."""
    found = [first]
    for moment in moments(timing, first):
        if moment > now:
            break
        found.append(moment)
        if len(found) > 10 * MOST_MISSED:
            # Long ago; only the newest count, and they are found from the other side.
            return _newest(timing, now)
    return found[-MOST_MISSED:]


def _newest(timing: Timing, now: datetime) -> list[datetime]:
    if timing.every_seconds is not None:
        back = timedelta(seconds=timing.every_seconds) * MOST_MISSED
        start = now - back
    else:
        assert timing.cron is not None, "a single moment is not missed often"
        backwards = CronSim(timing.cron, now.astimezone(zone(timing.timezone)), reverse=True)
        start = min(each.astimezone(UTC) for each in islice(backwards, MOST_MISSED))
        start -= timedelta(microseconds=1)
    return [each for each in islice(moments(timing, start), MOST_MISSED + 1) if each <= now]
