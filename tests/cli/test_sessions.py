"""`agentos sessions` against a real gateway."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.execution.pulse.conftest import Lab, lab, script, settings

from agentos.cli.client import Client
from agentos.cli.profile import SignIn
from agentos.cli.session_ids import find_session
from agentos.cli.step_lines import duration, line_of, plan_of
from agentos.execution.relay import Relay
from agentos.kernel.errors import Invalid, NotFound

from .conftest import Cli, FakeGateway, Request

__all__ = ["lab", "settings"]

WRITES = script(
    'call write_file {"path": "a.txt", "content": "one\\n"}',
    "then",
    'call write_file {"path": "a.txt", "content": "one\\n\\ttwo\\n"}',
    "say Written.",
)


@pytest.fixture
async def owner(cli: Cli, lab: Lab) -> Cli:
    key = await lab.gateway.api_key(lab.person.tenant_id)
    return Cli(cli.env | {"AGENTOS_URL": lab.gateway.url, "AGENTOS_API_KEY": key})


@pytest.fixture
async def working(lab: Lab) -> AsyncIterator[None]:
    relay = asyncio.create_task(Relay(lab.parts.platform_db, lab.parts.bus).run())
    async with lab.engine():
        yield
    relay.cancel()
    await asyncio.gather(relay, return_exceptions=True)


async def test_an_empty_list_says_what_to_do(owner: Cli) -> None:
    assert "Start one with `agentos run" in (await owner("sessions", "list")).out
    filtered = await owner("sessions", "list", "--state", "failed")
    assert filtered.out == "There is no such session.\n"
    assert "agentos run" in (await owner("sessions", "show", "last", code=5)).err
    assert "ROLLED_BACK" in (await owner("sessions", "list", "--state", "lost", code=2)).err


async def test_sessions_are_found_by_words_and_by_team(owner: Cli, lab: Lab) -> None:
    body = {"name": "Scribes", "model": "demo", "leader": {"name": "lead"}}
    team = (await lab.client.post("/api/teams", json=body)).json()
    for title, of in (
        ("Mend the roof", None),
        ("mend the Gate", team["id"]),
        ("Write", team["id"]),
    ):
        await lab.create("hello", title=title, team_id=of)

    async def titles(*options: str) -> list[str]:
        listed = (await owner("sessions", "list", "--json", *options)).json
        return [session["title"] for session in listed]

    assert await titles("--search", "GATE mend") == ["mend the Gate"]
    assert await titles("--team", "scribes") == ["Write", "mend the Gate"]
    assert await titles("--team", team["id"], "--search", "roof") == []
    assert "no team 'poets'" in (await owner("sessions", "list", "--team", "poets", code=5)).err


async def test_life_without_a_worker(owner: Cli) -> None:
    await owner("run", "hello", "--detach", "--title", "Mine")
    listed = (await owner("sessions", "list", "--json")).json
    name = listed[0]["id"][-8:]
    assert re.search(rf"{name} +QUEUED +Mine", (await owner("sessions", "list")).out)
    shown = (await owner("sessions", "show", name)).out
    assert "Queue     number 1 of this tenant" in shown
    assert f"agentos sessions watch {name}" in shown
    paused = await owner("sessions", "pause", name)
    assert paused.out == f"Session {name} (Mine) pauses at its next step at the latest.\n"
    assert "PAUSED (pause)" in (await owner("sessions", "list", "--state", "paused")).out
    assert (await owner("sessions", "resume", "last", "--json")).json["queued"] is True
    assert "is cancelled" in (await owner("sessions", "cancel", name)).out
    assert (await owner("sessions", "cancel", name, code=6)).err
    watched = await owner("sessions", "watch", name, code=1)
    assert "FAILED · " in watched.out
    assert "cancelled it." in watched.out


@pytest.mark.usefixtures("working")
async def test_what_there_is_to_see(owner: Cli, tmp_path: Path) -> None:
    await owner("run", WRITES)
    steps = (await owner("sessions", "steps", "last")).out
    assert "✓ write_file  a.txt · Wrote a.txt: 1 line, 4 bytes." in steps
    assert "RUNNING → CHECKPOINT" in steps
    tools = (await owner("sessions", "steps", "last", "--kind", "tool", "--json")).json
    assert [step["name"] for step in tools] == ["write_file", "write_file"]
    first = str(tools[0]["seq"])
    one = (await owner("sessions", "steps", "last", "--step", first)).json
    assert one["input"]["arguments"]
    files = (await owner("sessions", "files", "last")).out
    assert re.search(r"added +- +9 B +a\.txt", files)
    assert "changed" in (await owner("sessions", "files", "last", "--from", first)).out
    whole = (await owner("sessions", "diff", "last")).out
    assert whole.endswith("+one\n+\ttwo\n"), "exactly, for patch"
    later = (await owner("sessions", "diff", "last", "a.txt", "--from", first)).out
    assert "\n one\n+\ttwo\n" in later
    assert (await owner("sessions", "diff", "last", "--from", "99", code=5)).err
    text = await owner("sessions", "get-file", "last", "a.txt", "--at", first, "-o", "-")
    assert text.out == "one\n"
    place = tmp_path / "copy"
    await owner("sessions", "get-file", "last", "a.txt", "-o", str(place))
    assert place.read_text() == "one\n\ttwo\n"
    assert not [name for name in _names(tmp_path) if name.endswith(".part")]
    assert (await owner("sessions", "get-file", "last", "b.txt", "-o", str(place), code=5)).err
    cost = (await owner("sessions", "cost", "last")).out
    assert re.search(r"demo/demo +3 ", cost)
    assert "Total " in cost


def _names(place: Path) -> list[str]:
    return [each.name for each in place.iterdir()]


@pytest.mark.usefixtures("working")
async def test_a_file_that_is_there_is_not_replaced_unasked(owner: Cli) -> None:
    await owner("run", script('call write_file {"path": "README.md", "content": ""}', "say x"))
    done = await owner("sessions", "get-file", "last", "README.md", code=6)
    assert "-o README.md" in done.err


@pytest.mark.usefixtures("working")
async def test_back_and_forth(owner: Cli) -> None:
    await owner("run", WRITES)
    first = (await owner("sessions", "steps", "last", "--kind", "tool", "--json")).json[0]["seq"]
    made = await owner("sessions", "checkpoint", "last", "mine")
    assert "agentos sessions restore" in made.out
    assert re.search(r"\nmine +\d+ ", (await owner("sessions", "checkpoints", "last")).out)
    assert (await owner("sessions", "rollback", "last", code=2)).err
    back = ("sessions", "rollback", "last", "--to", str(first))
    preview = await owner(*back, "--preview")
    assert re.search(r"undoes \d+ steps:\n +\d+ +✓ model ", preview.out)
    assert "Files:\n  changed  a.txt" in preview.out
    refused = await owner(*back, code=2)
    assert "--yes" in refused.err
    done = await owner(*back, "--yes")
    undo = re.search(r"To undo it: `agentos (sessions rollback \w+ --to \d+)`", done.out)
    assert undo is not None, done.out
    assert re.search(r"added +- +4 B", (await owner("sessions", "files", "last")).out)
    steps = (await owner("sessions", "steps", "last")).out
    assert re.search(r" no\n", steps), "what was undone is marked"
    await owner(*undo[1].split(), "--yes")
    assert re.search(r"added +- +9 B", (await owner("sessions", "files", "last")).out)
    lost = await owner("sessions", "restore", "last", "nowhere", code=5)
    assert "There are: " in lost.err
    restored = await owner("sessions", "restore", "last", "mine", "--prompt", "What is 1 + 1?")
    assert "1 + 1 = 2" in restored.out


@pytest.mark.usefixtures("working")
async def test_on_and_elsewhere(owner: Cli) -> None:
    await owner("run", "What is 2 + 2?")
    original = (await owner("sessions", "list", "--json")).json[0]["id"]
    more = await owner("sessions", "continue", "last", "What is 3 * 3?")
    assert "3 * 3 = 9" in more.out
    assert "2 + 2" not in more.out.partition("\n")[2], "only what is new is shown"
    fork = await owner("sessions", "fork", original, "--at", "1", "--prompt", "What is 5 - 1?")
    assert f"A fork of {original[-8:]} at step 1." in fork.out
    assert "5 - 1 = 4" in fork.out
    made = (await owner("sessions", "fork", "last", "--prompt", "hi", "--no-run", "--json")).json
    assert made["state"] == "CREATED"
    assert "agentos sessions run" in (await owner("sessions", "show", made["id"])).out
    assert "is in the queue" in (await owner("sessions", "run", made["id"])).out
    watched = await owner("sessions", "watch", made["id"], "--json")
    assert watched.json["state"] == "COMPLETE"


# Which one is meant


def _fake(fake: FakeGateway, *ids: str) -> Client:
    rows = [{"id": each, "title": f"Session {n}"} for n, each in enumerate(ids)]

    def answer(_: Request) -> Any:
        return 200, {"items": rows, "next_cursor": None}

    fake.handler = answer
    return Client(fake.url, SignIn(api_key="sk"))


ONE = "01890000-0000-7000-8000-00000000aaaa"
OTHER = "01890000-0000-7000-8000-00000001bbbb"


def test_the_whole_id_is_not_looked_up(fake: FakeGateway) -> None:
    assert find_session(_fake(fake), ONE.upper()) == ONE
    assert fake.seen == []


@pytest.mark.parametrize("part", ["aaaa", "0000aaaa", "8000-00000000aaaa", "  AAAA "])
def test_a_part_is_enough(part: str, fake: FakeGateway) -> None:
    assert find_session(_fake(fake, OTHER, ONE), part) == ONE


def test_last_is_the_newest(fake: FakeGateway) -> None:
    assert find_session(_fake(fake, OTHER), "last") == OTHER
    assert "limit=1" in fake.seen[0].path


def test_what_fits_several_names_them(fake: FakeGateway) -> None:
    with pytest.raises(Invalid, match=r"0000aaaa \(Session 0\), 0001bbbb \(Session 1\)"):
        find_session(_fake(fake, ONE, OTHER), "0189")


def test_what_fits_none(fake: FakeGateway) -> None:
    with pytest.raises(NotFound):
        find_session(_fake(fake, ONE), "cccc")
    for wrong in ("aaa", "no", "../x", "aaaa?"):
        with pytest.raises(Invalid):
            find_session(_fake(fake, ONE), wrong)


# Lines


def _step(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    plain = {"seq": 1, "status": "done", "input": None, "output": None, "duration_ms": 0}
    return {**plain, "kind": kind, "name": name, "cost_micros": None, **fields}


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (
            _step(
                *("tool", "shell"),
                input={"arguments": '{"command": "make\\ntest"}'},
                output={"text": "a\nlast\n"},
                status="failed",
            ),
            "✗ shell       make test · last",
        ),
        (_step("tool", "x", input={"arguments": "{broken"}), "✓ x           {broken"),
        (
            _step("tool", "t", input={"excerpt": "…", "bytes": 9}, output={"excerpt": "…"}),
            "✓ t",
        ),
        (_step("tool", "http_send", status="uncertain"), "? http_send"),
        (_step("state", "FAILED", input={"from": "RUNNING"}, output={"reason": "No."}), None),
        (_step("model", "demo", output=None), "✓ model"),
        (_step("message", "user", output={"text": "a\x1b[31mb"}), "✓ message     a\\x1b[31mb"),
        (_step("rollback", "user", input={"to_seq": 4}), "✓ rollback    back to step 4"),
        (_step("compaction", "demo"), "✓ compaction  the conversation was summed up"),
        (_step("gate", "g", output={"reason": "ok"}), "✓ gate        g · ok"),
    ],
)
def test_a_step_in_one_line(step: dict[str, Any], text: str | None) -> None:
    assert line_of(step).text == (text or "✓ state       RUNNING → FAILED · No.")


def test_what_is_no_plan() -> None:
    plan = [{"step": "a", "status": "done"}]
    assert plan_of(_step("tool", "update_plan", output={"plan": plan})) == plan
    assert plan_of(_step("tool", "update_plan", output={"excerpt": "…"})) is None
    assert plan_of(_step("tool", "shell", output={"plan": plan})) is None


def test_durations() -> None:
    told = [duration(ms) for ms in (0, 999, 1_000, 59_949, 61_000, 3_720_000)]
    assert told == ["0 ms", "999 ms", "1.0 s", "59.9 s", "1 min 1 s", "1 h 2 min"]
