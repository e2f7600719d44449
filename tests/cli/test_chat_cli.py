"""`agentos chat` and `agentos messages` against a real gateway with an engine beside it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.execution.pulse.conftest import Lab, lab, script, settings

from agentos.cli.chat_view import Quiet, Terminal, deed_line
from agentos.cli.client import Client
from agentos.execution.relay import Relay

from .conftest import Cli, FakeGateway, Request
from .test_run import Terminal as Screen

__all__ = ["lab", "settings"]

SLOW = script("repeat 3 tick", "wait 5000", "say never")
WORKS = script('call shell {"command": "echo hi"}', "then", "say All", "say done.")


@pytest.fixture
async def owner(cli: Cli, lab: Lab) -> Cli:
    key = await lab.gateway.api_key(lab.person.tenant_id)
    return Cli(cli.env | {"AGENTOS_URL": lab.gateway.url, "AGENTOS_API_KEY": key})


@pytest.fixture
async def crew(lab: Lab) -> str:
    """The id of a team that is deployed."""
    leader = {"name": "lead", "role": "Leads"}
    body = {"name": "Crew", "model": "demo", "leader": leader, "deploy": True}
    return str((await lab.post("/api/teams", 201, **body))["id"])


@pytest.fixture
async def working(lab: Lab) -> AsyncIterator[None]:
    relay = asyncio.create_task(Relay(lab.parts.platform_db, lab.parts.bus).run())
    async with lab.engine():
        yield
    relay.cancel()
    await asyncio.gather(relay, return_exceptions=True)


async def test_nobody_there(owner: Cli, crew: str) -> None:
    assert "no team 'nobody'" in (await owner("chat", "nobody", "hi", code=5)).err
    assert "What shall the team be told?" in (await owner("chat", "Crew", code=2)).err
    await owner("teams", "stop", crew)
    stopped = await owner("chat", "crew", "hi", code=6)
    assert "agentos teams deploy Crew" in stopped.err
    sent = await owner("chat", "crew", "What is 2 + 2?", "--detach")
    assert "Message 1 to Crew is queued." in sent.out
    assert re.search(r"agentos messages show Crew [0-9a-f]{8}", sent.out)


@pytest.mark.usefixtures("working", "crew")
async def test_in_a_pipe_the_answer_is_all(owner: Cli) -> None:
    done = await owner("chat", "Crew", WORKS)
    assert done.out == "All\ndone.\n"
    assert "✓ shell · echo hi" in done.err
    assert re.search(r"answered · .* tokens · \$0\.00", done.err)
    quiet = await owner("chat", "Crew", "-", "--no-stream", stdin="What is 12 * 7?")
    assert "12 * 7 = 84" in quiet.out
    assert "✓" not in quiet.err
    message = (await owner("chat", "Crew", "What is 1 + 1?", "--json")).json
    assert (message["state"], message["position"]) == ("answered", 3)
    failed = await owner("chat", "Crew", script("fail invalid Nonsense."), code=1)
    assert "failed" in failed.err


@pytest.mark.usefixtures("working", "crew")
async def test_lines_of_json(owner: Cli) -> None:
    done = await owner(
        "chat", "Crew", script("repeat 3 tick", "wait 300", "say tock"), "--json-lines"
    )
    *heard, message = [json.loads(line) for line in done.out.splitlines()]
    assert message["state"] == "answered"
    kinds = [each["type"] for each in heard]
    assert kinds[-1] == "message.finished"
    assert "message.chunk" in kinds


@pytest.mark.usefixtures("working", "crew")
async def test_files_come_along(owner: Cli, tmp_path: Path) -> None:
    (tmp_path / "a list.txt").write_text("milk\n")
    reads = script('call shell {"command": "cat attachments/*"}', "then", "result")
    done = await owner("chat", "Crew", reads, "--attach", str(tmp_path / "a list.txt"))
    assert "milk" in done.out
    lost = await owner("chat", "Crew", "hi", "--attach", str(tmp_path / "none"), code=5)
    assert "none" in lost.err


@pytest.mark.usefixtures("working", "crew")
async def test_messages(owner: Cli) -> None:
    assert 'agentos chat Crew "…"' in (await owner("messages", "list", "Crew")).out
    await owner("chat", "Crew", "What is 2 + 2?")
    await owner("chat", "Crew", WORKS)
    listed = (await owner("messages", "list", "Crew")).out
    assert re.search(r"\n2 +answered .* All done\. ", listed)
    found = await owner("messages", "list", "Crew", "--q", "2 + 2", "--state", "answered", "--json")
    assert [row["position"] for row in found.json] == [1]
    assert (await owner("messages", "list", "Crew", "--state", "odd", code=2)).err
    shown = (await owner("messages", "show", "Crew", "last")).out
    assert "  ✓ shell · echo hi\nanswered · " in shown
    assert shown.endswith("All\ndone.\n")
    assert "2 + 2 = 4" in (await owner("messages", "show", "Crew", "1")).out
    whole = found.json[0]["id"]
    for given in (whole, whole[-8:]):
        assert (await owner("messages", "show", "Crew", given, "--json")).json["id"] == whole
    assert (await owner("messages", "show", "Crew", "7", code=5)).err
    assert (await owner("messages", "show", "Crew", "what", code=2)).err
    assert (await owner("messages", "cancel", "Crew", "1", code=6)).err


@pytest.mark.usefixtures("crew")
async def test_a_message_leaves_the_queue(owner: Cli) -> None:
    await owner("chat", "Crew", "one", "--detach")
    await owner("chat", "Crew", "two", "--detach")
    cancelled = await owner("messages", "cancel", "Crew", "2")
    assert re.fullmatch(r"Message 2 \([0-9a-f]{8}\) is cancelled\.\n", cancelled.out)


@pytest.mark.usefixtures("working", "crew")
async def test_an_interrupt_stops_the_answer(owner: Cli, lab: Lab) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentos.cli.main", "chat", "Crew", SLOW, "--json-lines"),
        env=owner.env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    first = json.loads(await process.stdout.readline())
    assert first["type"].startswith("message.")
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    assert process.returncode == 130, err
    assert json.loads(out.splitlines()[-1])["state"] == "cancelled"
    assert "Stopping the answer." in err.decode()


# On a terminal


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n")


@pytest.mark.usefixtures("working", "crew")
async def test_words_as_they_come(owner: Cli) -> None:
    said = script(
        'call shell {"command": "echo hi"}', "then", "repeat 3 tick", "wait 300", "say tock"
    )
    screen = Screen(owner, 80, "chat", "Crew", said, NO_COLOR="1")
    assert await screen.ended() == 0
    plain = _plain(screen.seen)
    assert "✓ shell · echo hi" in plain
    assert plain.count("lead › ") == 1
    assert re.search(r"lead › tick *tick *tick *\n?tock\nanswered · ", plain), plain


@pytest.mark.usefixtures("working", "crew")
async def test_a_conversation(owner: Cli) -> None:
    screen = Screen(owner, 80, "chat", "Crew", NO_COLOR="1")
    await screen.until("you › ")
    screen.type("What is 2 + 2?\n")
    await screen.until("answered · ")
    assert "2 + 2 = 4" in screen.seen
    screen.seen = screen.seen.partition("answered · ")[2]
    await screen.until("you › ")
    screen.type("\n")
    screen.type("What is 3 * 3?\n")
    await screen.until("answered · ")
    assert "3 * 3 = 9" in screen.seen
    screen.seen = screen.seen.rpartition("answered · ")[2]
    await screen.until("you › ")
    screen.type("\x04")
    assert await screen.ended() == 0


@pytest.mark.usefixtures("working")
async def test_one_interrupt_stops_the_answer_and_the_conversation_goes_on(
    owner: Cli, lab: Lab
) -> None:
    leader = {"name": "lead", "instructions": SLOW}
    body = {"name": "Slow", "model": "demo", "leader": leader, "deploy": True}
    await lab.post("/api/teams", 201, **body)
    screen = Screen(owner, 80, "chat", "Slow", NO_COLOR="1")
    await screen.until("you › ")
    screen.type("Begin\n")
    await screen.until("tick")
    screen.type("\x03")
    await screen.until("cancelled · ")
    assert "Stopping the answer." in screen.seen
    screen.seen = screen.seen.partition("cancelled · ")[2]
    await screen.until("you › ")
    screen.type("\x04")
    assert await screen.ended() == 0


@pytest.mark.usefixtures("working", "crew")
async def test_what_needs_a_person_is_asked_here(owner: Cli) -> None:
    await owner("tools", "policy", "set", "shell", "ask")
    screen = Screen(owner, 80, "chat", "Crew", WORKS, NO_COLOR="1")
    await screen.until("Approve? [y/N/always]")
    assert "command: echo hi" in screen.seen
    screen.type("y\n")
    assert await screen.ended() == 0
    assert "done.\nanswered · " in _plain(screen.seen)


@pytest.mark.usefixtures("working", "crew")
async def test_in_a_pipe_it_says_how_to_approve(owner: Cli, lab: Lab) -> None:
    await owner("tools", "policy", "set", "shell", "ask")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentos.cli.main", "chat", "Crew", WORKS),
        env=owner.env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    told = ""
    while "Decide with" not in told:
        told += (await process.stderr.readline()).decode()
    found = re.search(r"agentos approvals approve ([0-9a-f-]{36})", told)
    assert found is not None
    await owner("approvals", "approve", found[1])
    out, _ = await process.communicate()
    assert (process.returncode, out.decode()) == (0, "All\ndone.\n")


# A gateway that is not itself

TEAM_ID = "01890000-0000-7000-8000-00000000aaaa"
MESSAGE_ID = "01890000-0000-7000-8000-00000001bbbb"


def _stubborn(fake: FakeGateway, ends_after: int) -> Cli:
    """A team whose chat breaks off at once, and whose message ends after it was looked at so often."""
    looks = 0

    def answer(request: Request) -> Any:
        nonlocal looks
        path = request.path.partition("?")[0]
        if path.endswith("/chat"):
            return 200, b'data: {"running": null, "queued": []}\n\n'
        if path == "/api/approvals":
            return 200, {"items": [], "next_cursor": None}
        if "/messages" not in path:
            team = {"id": TEAM_ID, "name": "Crew", "deployed": True, "status": "running"}
            return 200, {**team, "session_id": None, **TEAM}
        ended = request.method == "GET" and (looks := looks + 1) >= ends_after
        message = {"id": MESSAGE_ID, "position": 1, **ENDED, "finished_at": None}
        return 200, {**message, **({"finished_at": ENDED["finished_at"]} if ended else {})}

    fake.handler = answer
    env = {"AGENTOS_URL": fake.url, "AGENTOS_API_KEY": "sk", "HOME": "/", "PATH": "/bin"}
    return Cli(env)


async def test_an_answer_is_found_without_the_stream(fake: FakeGateway) -> None:
    done = await _stubborn(fake, 2)("chat", TEAM_ID, "hi")
    assert done.out == "one two\n"
    assert sum(request.path.endswith("/chat") for request in fake.seen) > 1, "it listens again"


async def test_the_second_interrupt_leaves(fake: FakeGateway) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentos.cli.main", "chat", TEAM_ID, "hi"),
        env=_stubborn(fake, 10**9).env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    await _asked_for(fake, "GET", f"/messages/{MESSAGE_ID}")
    process.send_signal(signal.SIGINT)
    await _asked_for(fake, "POST", "/cancel")
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert process.returncode == 130
    assert "Ctrl-C again leaves." in err.decode()


async def _asked_for(fake: FakeGateway, method: str, end: str) -> None:
    async with asyncio.timeout(60):
        while not any(r.method == method and r.path.endswith(end) for r in fake.seen):  # noqa: ASYNC110 - another thread sees it
            await asyncio.sleep(0.02)


# Views

TEAM: dict[str, Any] = {"leader": {"name": "lead"}}
ENDED: dict[str, Any] = {
    "state": "answered",
    "answer": "one two",
    "error": None,
    "input_tokens": 1,
    "output_tokens": 2,
    "cost_micros": 3,
    "started_at": "2030-01-01T00:00:00Z",
    "finished_at": "2030-01-01T00:00:01.500Z",
}


def _chunk(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "message.chunk", "message_id": "1", "n": 1, "text": text, **more}


def _deed(state: str, **more: Any) -> dict[str, Any]:
    deed = {"id": "a", "tool": "Bash", "summary": "ls", "state": state, **more}
    return {"type": "message.activity", "message_id": "1", "n": 1, "deed": deed}


def _shown(capsys: pytest.CaptureFixture[str], *heard: dict[str, Any], **ended: Any) -> str:
    view = Terminal(Client("http://127.0.0.1:1"), TEAM)
    for each in heard:
        view.hear(each)
    view.ended({**ENDED, **ended})
    return capsys.readouterr().out


END = "answered · 1.5 s · 3 tokens · $0.000003\n"


def test_a_whole_answer_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert _shown(capsys, _chunk("one "), _chunk("two")) == f"lead › one two\n{END}"


def test_what_was_missed_is_told_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert _shown(capsys, _chunk("one")) == f"lead › one two\n{END}"
    assert _shown(capsys) == f"lead › one two\n{END}"
    other = _shown(capsys, _chunk("e tw"))
    assert other == f"lead › e tw\nlead › one two\n{END}"


def test_words_that_are_void(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _shown(capsys, _chunk("no"), _chunk("", reset=True), _chunk("one two"))
    assert shown == f"lead › no\none two\n{END}"


def test_what_is_repeated_is_not_printed_twice(capsys: pytest.CaptureFixture[str]) -> None:
    before = (_chunk("one"), _deed("running"), _deed("done"))
    plain = _shown(capsys, *before, _chunk(" two"))
    again = (_chunk("one", reset=True), _deed("done"))
    assert _shown(capsys, *before, *again, _chunk(" two")) == plain
    assert _shown(capsys, *before, *again, *again, _chunk(" two")) == plain
    assert _shown(capsys, *before, _chunk("one two", reset=True), _deed("done")) == plain
    assert _shown(capsys, *before, _chunk("o", reset=True), _chunk("ne two")) == plain
    assert _shown(capsys, *before, _chunk(" two"), *(_chunk("one two", reset=True),) * 2) == plain


def test_a_repeat_brings_what_was_missed(capsys: pytest.CaptureFixture[str]) -> None:
    helper = _chunk("On it.", agent="helper")
    plain = _shown(capsys, _chunk("one"), helper, _chunk(" two"), answer="one two")
    repeat = (_chunk("one", reset=True), helper, _chunk(" two"))
    for heard in ((), (_chunk("o"),), (_chunk("one"), helper)):
        assert _shown(capsys, *heard, *repeat, answer="one two") == plain


def test_another_answer_is_printed_from_its_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    anew = (_chunk("one ", reset=True), _chunk("two"))
    assert _shown(capsys, _chunk("one three"), *anew) == f"lead › one three\none two\n{END}"
    longer = _shown(capsys, _chunk("one two three"), *anew)
    assert longer == f"lead › one two three\none two\n{END}"
    other = _shown(capsys, _chunk("one two", agent="helper"), *anew)
    assert other == f"helper › one two\nlead › one two\n{END}"


def test_what_was_done_is_noted_once(capsys: pytest.CaptureFixture[str]) -> None:
    view = Quiet(TEAM)
    for each in (_deed("running"), _deed("done"), _deed("done"), _deed("failed", id="b")):
        view.hear(each)
    assert capsys.readouterr().err == "✓ Bash · ls\n✗ Bash · ls\n"


def test_who_speaks_and_what_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _shown(
        capsys,
        _chunk("Look:"),
        _deed("running"),
        _deed("done", agent="scout"),
        _chunk("seen", agent="scout"),
        _chunk("one two"),
    )
    assert "  ▸ Bash · ls\n  ✓ scout: Bash · ls\nscout › seen\nlead › one two\n" in shown


def test_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _shown(capsys, answer=None, state="failed", error="It broke.", started_at=None)
    assert shown == "It broke.\nfailed · 3 tokens · $0.000003\n"


def test_what_agents_write_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _shown(capsys, _chunk("\x1b[2Jone"), _deed("denied", summary="\x1b]0;x\x07"), answer="")
    assert "\x1b" not in shown
    assert deed_line({"tool": "t", "state": "denied"}) == "t (not allowed)"
    view = Quiet(TEAM)
    view.ended({**ENDED, "answer": "\x1b[2J"})
    assert "\x1b" not in capsys.readouterr().out
