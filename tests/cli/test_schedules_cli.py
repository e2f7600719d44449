"""`agentos schedules` against a real gateway."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.gateways import Gateway

from agentos.cli.runs import print_last_run
from agentos.cli.schedules import _seconds, _when
from agentos.kernel.errors import Invalid

from .conftest import Cli


@pytest.fixture
async def owner(cli: Cli, gateway: Gateway) -> Cli:
    person = await gateway.tenant()
    leader = {"name": "lead"}
    body = {"name": "Crew", "model": "demo", "leader": leader, "deploy": True}
    assert (await person.client.post("/api/teams", json=body)).status_code == 201
    key = await gateway.api_key(person.tenant_id)
    env = {"AGENTOS_URL": gateway.url, "AGENTOS_API_KEY": key, "TZ": "UTC"}
    return Cli(cli.env | env)


DAILY = ("schedules", "create", "Daily", "--cron", "0 9 * * 1-5", "--timezone", "Europe/Berlin")
ASKS = ("--team", "crew", "--prompt", "What is new?")


async def test_life_of_a_schedule(owner: Cli) -> None:
    assert "agentos schedules create" in (await owner("schedules", "list")).out
    made = await owner(*DAILY, *ASKS)
    assert re.match(r"Made the schedule Daily; it fires next \d{4}-\d\d-\d\d 0[78]:00", made.out)
    assert (await owner(*DAILY, *ASKS, code=6)).err
    listed = (await owner("schedules", "list", "--team", "Crew")).out
    assert re.search(r"Daily +0 9 \* \* 1-5 Europe/Berlin +\d{4}-.* team Crew ", listed)
    shown = (await owner("schedules", "show", "daily")).out
    assert "Starts   team Crew" in shown
    assert "\nWhat is new?\n" in shown
    assert len(re.findall(r"^\d{4}-\d\d-\d\d 0[78]:00:00$", shown, re.MULTILINE)) == 5
    assert "is paused" in (await owner("schedules", "pause", "Daily")).out
    assert re.search(r"Daily .* paused ", (await owner("schedules", "list")).out)
    assert "It has not fired yet." in (await owner("schedules", "runs", "Daily")).out
    run = await owner("schedules", "run", "Daily")
    assert "is running. See `agentos schedules runs Daily`" in run.out
    (one,) = (await owner("schedules", "runs", "Daily", "--json")).json
    assert (one["manual"], one["prompt"]) == (True, "What is new?")
    (message,) = (await owner("messages", "list", "Crew", "--json")).json
    assert (message["source"], message["run_id"]) == ("schedule", one["id"])
    assert "fires next" in (await owner("schedules", "resume", "Daily")).out
    assert "--yes" in (await owner("schedules", "delete", "Daily", code=2)).err
    assert "Deleted" in (await owner("schedules", "delete", "Daily", "--yes")).out
    assert (await owner("schedules", "show", "Daily", code=5)).err


async def test_sessions_and_other_ways(owner: Cli, tmp_path: Path) -> None:
    place = tmp_path / "session.yaml"
    place.write_text("prompt: What is 2 + 2?\nmodel: demo\n")
    what = ("--session-file", str(place))
    create = ("schedules", "create")
    every = await owner(*create, "Often", "--every", "15m", *what, "--missed", "all", "--json")
    assert (every.json["every_seconds"], every.json["missed"]) == (900, "all")
    once = await owner(*create, "Once", "--at", "2h", *what, "--paused", "--json")
    assert (once.json["kind"], once.json["enabled"]) == ("once", False)
    assert "a session" in (await owner("schedules", "list")).out
    assert "What is 2 + 2?" in (await owner("schedules", "show", "Often")).out
    assert (await owner(*create, "x", *what, code=2)).err
    assert (await owner(*create, "x", "--every", "soon", *what, code=2)).err
    assert (await owner(*create, "x", "--every", "1d", code=2)).err
    assert (await owner(*create, "x", "--every", "1d", *what, "--team", "Crew", code=2)).err
    assert (await owner(*create, "x", "--every", "1d", *what, "--missed", "odd", code=2)).err
    assert (await owner(*create, "x", "--at", "2001-01-01", *what, code=6)).err
    bad = await owner(*create, "x", "--cron", "nonsense", *what, code=2)
    assert "Five fields" in bad.err


async def test_change_a_schedule(owner: Cli, tmp_path: Path) -> None:
    made = (await owner(*DAILY, *ASKS, "--json")).json
    assert made["last_run"] is None
    changed = await owner("schedules", "update", "daily", "--cron", "30 6 * * *")
    assert re.match(
        r"Changed the schedule Daily; it fires next \d{4}-\d\d-\d\d 0[45]:30", changed.out
    )
    now = (await owner("schedules", "show", "Daily", "--json")).json
    same = ("name", "timezone", "prompt", "team_id", "missed", "enabled")
    assert [now[name] for name in same] == [made[name] for name in same]
    other = ("--name", "Weekly", "--every", "1w", "--prompt", "-", "--missed", "skip", "--json")
    new = (await owner("schedules", "update", "Daily", *other, stdin="What was it?")).json
    assert [new[name] for name in ("name", "cron", "every_seconds", "prompt", "missed")] == (
        ["Weekly", None, 604_800, "What was it?", "skip"]
    )
    await owner("schedules", "pause", "Weekly")
    paused = await owner("schedules", "update", "Weekly", "--timezone", "Asia/Tokyo")
    assert paused.out == "Changed the schedule Weekly; it is paused.\n"
    place = tmp_path / "session.yaml"
    place.write_text("prompt: What is 2 + 2?\nmodel: demo\n")
    create = ("schedules", "create", "Sums", "--every", "1h", "--session-file", str(place))
    sums = (await owner(*create, "--json")).json
    other = (await owner("schedules", "update", "Sums", "--prompt", "And 3 + 3?", "--json")).json
    assert other["session"] == {**sums["session"], "prompt": "And 3 + 3?"}
    place.write_text("prompt: What is 4 + 4?\nmodel: demo\n")
    whole = await owner("schedules", "update", "Sums", "--session-file", str(place), "--json")
    assert whole.json["session"]["prompt"] == "What is 4 + 4?"


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((), 2, "agentos schedules update --help"),
        (("--cron", "nonsense"), 2, "Five fields"),
        (("--cron", "* * * * *", "--every", "1h"), 2, "cron"),
        (("--timezone", "X/Y"), 2, "X/Y"),
        (("--every", "soon"), 2, "15m"),
        (("--at", "2001-01-01"), 6, ""),
        (("--missed", "odd"), 2, "skip, once, all"),
        (("--session-file", "/dev/null"), 5, "/dev/null"),
        (("--session-file", "s.yaml", "--prompt", "x"), 2, "one of them"),
        (("--name", "Taken"), 6, "name"),
    ],
)
async def test_no_change_of_a_schedule(
    owner: Cli, options: tuple[str, ...], code: int, said: str
) -> None:
    made = (await owner(*DAILY, *ASKS, "--json")).json
    await owner("schedules", "create", "Taken", "--every", "1h", *ASKS)
    assert said in (await owner("schedules", "update", "Daily", *options, code=code)).err
    assert (await owner("schedules", "show", "Daily", "--json")).json == made


async def test_what_came_of_the_last_run(owner: Cli) -> None:
    await owner(*DAILY, *ASKS)
    assert re.search(r"Daily .* none +team Crew ", (await owner("schedules", "list")).out)
    assert "\nLast run none\n" in (await owner("schedules", "show", "Daily")).out
    await owner("schedules", "run", "Daily")
    when = r"running \d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    assert re.search(rf"Daily .* {when} +team Crew ", (await owner("schedules", "list")).out)
    assert re.search(rf"\nLast run {when}\n", (await owner("schedules", "show", "Daily")).out)
    assert "  What is new?  " in (await owner("schedules", "runs", "Daily")).out


def test_what_went_wrong_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    run = {"state": "failed", "due_at": "x", "finished_at": "y", "error": "It\nbroke\x1b."}
    print_last_run({"last_run": run}, 9)
    assert capsys.readouterr().out == "Last run failed y: It broke\\x1b.\n"


async def test_preview(owner: Cli) -> None:
    moments = (await owner("schedules", "preview", "--cron", "30 6 * * *")).out.splitlines()
    assert len(moments) == 5
    assert all(each.endswith(" 06:30:00") for each in moments)
    found = await owner("schedules", "preview", "--every", "1h", "--json")
    assert len(found.json["upcoming"]) == 5
    assert (await owner("schedules", "preview", code=2)).err
    zone = await owner("schedules", "preview", "--cron", "* * * * *", "--timezone", "X/Y", code=2)
    assert "X/Y" in zone.err


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("2w", 1_209_600)])
def test_intervals(text: str, seconds: int) -> None:
    assert _seconds(text) == seconds
    row: dict[str, Any] = {"kind": "interval", "every_seconds": seconds}
    assert _when(row) == f"every {text}"


@pytest.mark.parametrize("text", ["", "5", "m", "-5m", "1.5h", "٣m", "5y"])
def test_no_intervals(text: str) -> None:
    with pytest.raises(Invalid):
        _seconds(text)
