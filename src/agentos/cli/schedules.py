from __future__ import annotations

from typing import Annotated, Any

import typer

from agentos.cli.client import Client, Url
from agentos.cli.keys import moment
from agentos.cli.named import SCHEDULE, TEAM, ScheduleRef, Yes, confirm, find, one_of, path_of
from agentos.cli.output import (
    AsJson,
    Column,
    Row,
    cell,
    print_json,
    printable,
    show_done,
    show_list,
)
from agentos.cli.runs import (
    Limit,
    OfTeam,
    OtherSession,
    Prompt,
    SessionFile,
    Team,
    check_change,
    last_run,
    print_last_run,
    show_runs,
    target,
    target_change,
    team_names,
)
from agentos.cli.session_ids import short
from agentos.kernel.errors import Invalid

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

_MISSED = ("skip", "once", "all")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

Cron = Annotated[str | None, typer.Option(help="Minute, hour, day, month, weekday: '0 9 * * 1-5'.")]
TimeZone = Annotated[
    str | None,
    typer.Option("--timezone", help="In which cron is read, such as Europe/Berlin. Default: UTC."),
]
Every = Annotated[str | None, typer.Option(help="An interval: 90s, 15m, 6h, 1d or 2w.")]
At = Annotated[
    str | None,
    typer.Option(help="Once, at a time like 2030-05-31T09:00 or in 30m; or when --every begins."),
]


@app.command("list")
def list_schedules(team: OfTeam = None, url: Url = None, as_json: AsJson = False) -> None:
    """The schedules of this tenant."""
    client = Client.open(url)
    found = client.items(SCHEDULE.path, team_id=None if team is None else find(client, TEAM, team))
    names = team_names(client) if found and not as_json else {}
    columns = (
        Column("Name", "name"),
        Column("When", _when),
        Column("Next", lambda row: row["next_at"] or _why_not(row)),
        Column("Last run", last_run),
        Column("Starts", lambda row: _starts(row, names)),
        Column("Id", "id"),
    )
    show_list(
        found,
        columns,
        as_json=as_json,
        empty="No schedules yet. Make one with `agentos schedules create NAME --cron '0 9 * * 1-5' "
        "--team TEAM --prompt TEXT`.",
    )


def _when(row: Row) -> str:
    if row["kind"] == "cron":
        return f"{row['cron']} {row['timezone']}"
    if row["kind"] == "once":
        return f"once, {cell(row['at'])}"
    return f"every {_span(row['every_seconds'])}"


def _span(seconds: int) -> str:
    for unit, length in reversed(_UNITS.items()):
        if seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _why_not(row: Row) -> str:
    return "never again" if row["enabled"] else "paused"


def _starts(row: Row, names: dict[str, str]) -> str:
    if row["team_id"] is None:
        return "a session"
    return f"team {names.get(row['team_id'], short(row['team_id']))}"


@app.command()
def show(schedule: ScheduleRef, url: Url = None, as_json: AsJson = False) -> None:
    """One schedule: what it starts, what came of it last, and when it fires next."""
    client = Client.open(url)
    found = client.get(path_of(client, SCHEDULE, schedule))
    if as_json:
        print_json(found)
        return
    names = team_names(client) if found["team_id"] else {}
    print(f"Schedule {printable(found['name'])} ({found['id']})")
    print(f"When     {_when(found)}{'' if found['enabled'] else ', paused'}")
    print(f"Missed   {found['missed']}")
    print(f"Starts   {printable(_starts(found, names))}")
    print_last_run(found, 9)
    print(f"Created  {cell(found['created_at'])} by {printable(found['created_by'])}")
    print(f"\n{printable(found['prompt'] or found['session']['prompt'], lines=True)}\n")
    _print_moments(found["upcoming"])


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What it is called.")],
    cron: Cron = None,
    timezone: TimeZone = None,
    every: Every = None,
    at: At = None,
    team: Team = None,
    prompt: Prompt = None,
    session_file: SessionFile = None,
    missed: Annotated[
        str,
        typer.Option(help="What becomes of moments while nothing was running: skip, once or all."),
    ] = "once",
    paused: Annotated[bool, typer.Option("--paused", help="Do not let it fire yet.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Ask a team, or start a session, by cron, at an interval, or once."""
    body: dict[str, Any] = {
        "name": name,
        "enabled": not paused,
        **_timing(cron, timezone, every, at),
    }
    body["missed"] = one_of(missed, _MISSED, "way with missed moments")
    client = Client.open(url)
    body |= target(client, team, prompt, session_file)
    made = client.post(SCHEDULE.path, body)
    show_done(f"Made the schedule {made['name']}; it {_then(made)}.", made, as_json=as_json)


@app.command()
def update(
    schedule: ScheduleRef,
    name: Annotated[str | None, typer.Option(help="What it shall be called.")] = None,
    cron: Cron = None,
    timezone: Annotated[
        str | None, typer.Option("--timezone", help="In which cron is read, such as Europe/Berlin.")
    ] = None,
    every: Every = None,
    at: At = None,
    prompt: Prompt = None,
    session_file: OtherSession = None,
    missed: Annotated[
        str | None, typer.Option(help="What becomes of missed moments: skip, once or all.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Change a schedule. What is not given stays; its team and its history stay, too."""
    body: dict[str, Any] = {"name": name} if name is not None else {}
    body |= _given_timing(cron, timezone, every, at) | target_change(prompt, session_file)
    if missed is not None:
        body["missed"] = one_of(missed, _MISSED, "way with missed moments")
    check_change(body, "schedules update")
    client = Client.open(url)
    done = client.patch(path_of(client, SCHEDULE, schedule), body)
    show_done(f"Changed the schedule {done['name']}; it {_then(done)}.", done, as_json=as_json)


def _then(row: Row) -> str:
    if row["next_at"] is not None:
        return f"fires next {cell(row['next_at'])}"
    return "does not fire any more" if row["enabled"] else "is paused"


@app.command()
def preview(
    cron: Cron = None,
    timezone: TimeZone = None,
    every: Every = None,
    at: At = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """When a schedule would fire, without making one."""
    found = Client.open(url).post(f"{SCHEDULE.path}/preview", _timing(cron, timezone, every, at))
    if as_json:
        print_json(found)
    else:
        _print_moments(found["upcoming"])


@app.command()
def pause(schedule: ScheduleRef, url: Url = None, as_json: AsJson = False) -> None:
    """Let a schedule not fire until it is resumed."""
    client = Client.open(url)
    done = client.post(f"{path_of(client, SCHEDULE, schedule)}/pause")
    show_done(f"The schedule {done['name']} is paused.", done, as_json=as_json)


@app.command()
def resume(schedule: ScheduleRef, url: Url = None, as_json: AsJson = False) -> None:
    """Let a schedule fire again. What fell into the pause is not made up for."""
    client = Client.open(url)
    done = client.post(f"{path_of(client, SCHEDULE, schedule)}/resume")
    show_done(
        f"The schedule {done['name']} fires next {cell(done['next_at'])}.", done, as_json=as_json
    )


@app.command()
def run(schedule: ScheduleRef, url: Url = None, as_json: AsJson = False) -> None:
    """Start a run now, whether or not the schedule is paused."""
    client = Client.open(url)
    done = client.post(f"{path_of(client, SCHEDULE, schedule)}/run")
    show_done(
        f"Run {short(done['id'])} is {done['state']}. See `agentos schedules runs "
        f"{printable(schedule)}`.",
        done,
        as_json=as_json,
    )


@app.command()
def runs(
    schedule: ScheduleRef, limit: Limit = 20, url: Url = None, as_json: AsJson = False
) -> None:
    """What a schedule has started, newest first."""
    client = Client.open(url)
    path = path_of(client, SCHEDULE, schedule)
    show_runs(client, path, limit, as_json=as_json, empty="It has not fired yet.")


@app.command()
def delete(
    schedule: ScheduleRef, yes: Yes = False, url: Url = None, as_json: AsJson = False
) -> None:
    """Remove a schedule and its history."""
    client = Client.open(url)
    path = path_of(client, SCHEDULE, schedule)
    found = client.get(path)
    confirm(f"Delete {found['name']} with its history?", yes)
    client.delete(path)
    show_done(f"Deleted the schedule {found['name']}.", {"deleted": found["id"]}, as_json=as_json)


def _timing(
    cron: str | None, timezone: str | None, every: str | None, at: str | None
) -> dict[str, Any]:
    """When it fires, as the API takes it."""
    if cron is None and every is None and at is None:
        raise Invalid("When shall it fire?", hint="Give --cron, --every or --at.")
    return _given_timing(cron, timezone, every, at)


def _given_timing(
    cron: str | None, timezone: str | None, every: str | None, at: str | None
) -> dict[str, Any]:
    options = {
        "cron": cron,
        "timezone": timezone,
        "every_seconds": None if every is None else _seconds(every),
        "at": None if at is None else moment(at, ahead=True),
    }
    return {name: value for name, value in options.items() if value is not None}


def _seconds(text: str) -> int:
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit() and unit in _UNITS):
        raise Invalid(f"'{text}' is not an interval.", hint="Use 90s, 15m, 6h, 1d or 2w.")
    return int(number) * _UNITS[unit]


def _print_moments(moments: list[str]) -> None:
    if not moments:
        print("It does not fire any more.")
    for each in moments:
        print(cell(each))
