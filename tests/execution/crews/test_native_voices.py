"""Team workers of native teams in the chat, and those who begin to watch amid an answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID

import pytest
from tests.execution.crews.native_lab import TeamLab, lab, settings  # noqa: F401 - fixtures
from tests.execution.crews.test_chat_stream import Heard, chat, until_finished, watched
from tests.execution.pulse.conftest import script
from tests.execution.pulse.faults.conftest import crew, zygote  # noqa: F401 - fixtures
from tests.execution.pulse.faults.processes import Crew
from tests.execution.pulse.holding import held_waits

from agentos.execution.crews import native_family

# ruff: noqa: F811 - fixtures are arguments, too


def worker(name: str, *lines: str) -> dict[str, str]:
    return {"name": name, "role": "Works", "instructions": script(*lines)}


def calling(*tasks: dict[str, str]) -> str:
    return f"call spawn_agents {json.dumps({'tasks': tasks})}"


class Screen:
    """What somebody sees who puts together what is heard."""

    def __init__(self) -> None:
        self.said: dict[str | None, str] = {}
        self.deeds: dict[str, dict[str, Any]] = {}
        self.frames: list[dict[str, Any]] = []

    def show(self, told: Heard) -> None:
        kind, data = told
        if kind not in ("chunk", "activity"):
            return
        self.frames.append(data)
        if kind == "activity":
            self.deeds[data["deed"]["id"]] = data["deed"]
            return
        if data.get("reset"):
            self.said = {}
        agent = data.get("agent")
        self.said[agent] = self.said.get(agent, "") + data["text"]

    async def until(self, heard: AsyncIterator[Heard], seen: Callable[[], bool]) -> None:
        while not seen():
            self.show(await anext(heard))

    def of(self, agent: str | None) -> str:
        return self.said.get(agent, "")

    def did(self) -> list[tuple[str | None, str, str]]:
        return [(d.get("agent"), d["tool"], d.get("state", "done")) for d in self.deeds.values()]


async def test_a_worker_is_heard_by_its_name(lab: TeamLab) -> None:
    writer = worker("writer", "say I look.", 'call shell {"command": "echo hi"}', "say I wrote.")
    team_id = await lab.team(workers=[writer])
    async with lab.relaying(), lab.engine(), chat(lab, team_id) as heard:
        await anext(heard)
        await watched(lab, team_id)
        sent = await lab.send(
            team_id,
            script("say Let me ask.", calling({"prompt": "Go.", "agent": "writer"}), "say Done."),
        )
        told = await until_finished(heard)
    screen, whole = Screen(), Screen()
    for each in told:
        screen.show(each)
        if each[0] == "chunk" and each[1].get("agent"):
            assert not each[1].get("reset"), "a worker makes nothing void"
            assert screen.of(None) == "Let me ask.", "the leader's words stay"
            whole.show(each)
    assert whole.of("writer") == "I look.\n\nI wrote."
    assert screen.said == {None: "Done."}
    assert screen.did() == [("writer", "spawn_agents", "done"), ("writer", "shell", "done")]
    assert {frame["message_id"] for frame in screen.frames} == {sent["id"]}
    assert [frame["n"] for frame in screen.frames] == list(range(len(screen.frames)))
    answer = await lab.message(team_id, sent["id"])
    assert answer["answer"] == "Done."
    assert [deed["tool"] for deed in answer["activity"]] == ["spawn_agents"]
    child = await lab.superuser.fetchval("select id from sessions where parent_id is not null")
    leaders, workers = list(screen.deeds)
    assert leaders == answer["activity"][0]["id"]
    assert workers.startswith(f"{child}.")


async def test_a_worker_of_a_worker_is_heard_and_one_without_a_name_by_its_task(
    lab: TeamLab,
) -> None:
    team_id = await lab.team(workers=[worker("writer", "say I wrote.")])
    inner = script("say I ask on.", calling({"prompt": "Go.", "agent": "writer"}), "say All said.")
    async with lab.relaying(), lab.engine(), chat(lab, team_id) as heard:
        await anext(heard)
        await watched(lab, team_id)
        outer = calling({"prompt": inner, "title": "lead"})
        sent = await lab.send(team_id, script(outer, "say Done."))
        told = await until_finished(heard)
    said: dict[str | None, str] = {}
    for kind, data in told:
        if kind == "chunk":
            assert data["message_id"] == sent["id"]
            said[data.get("agent")] = said.get(data.get("agent"), "") + data["text"]
    assert said == {
        "“lead”": "I ask on.\n\nAll said.",
        "writer": "I wrote.",
        None: "Done.",
    }


async def test_an_answer_that_nobody_watches_takes_no_query_for_it(
    lab: TeamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def place_of(*given: object) -> None:
        asked.append(given)

    monkeypatch.setattr(native_family, "place_of", place_of)
    team_id = await lab.team(workers=[worker("writer", "say I wrote.")])
    prompt = script(calling({"prompt": "Go.", "agent": "writer"}), "say Done.")
    async with lab.engine():
        await lab.ask(team_id, prompt)
        assert asked == []
        lab.parts.audience.seen(team_id)
        await lab.ask(team_id, prompt)
    assert len(asked) == 3, "one for each call of a model"


async def test_who_comes_while_a_worker_speaks_hears_all_from_the_beginning(lab: TeamLab) -> None:
    first = worker("first", "say I am done already.")
    second = worker(
        "second",
        "say I look.",
        'call shell {"command": "echo hi"}',
        "repeat 5 tick",
        "wait 1",
        "repeat 5 tock",
    )
    team_id = await lab.team(workers=[first, second])
    tasks = [{"prompt": "Go.", "agent": name} for name in ("first", "second")]
    with held_waits() as go:
        async with lab.relaying(), lab.engine(), chat(lab, team_id) as early:
            await anext(early)
            await watched(lab, team_id)
            sent = await lab.send(team_id, script("say Let me ask.", calling(*tasks), "say Done."))
            here, there = Screen(), Screen()
            await here.until(early, lambda: "tick" in here.of("second") and "first" in here.said)
            first_id = await lab.superuser.fetchval(
                "select id from sessions where parent_id is not null order by id limit 1"
            )
            await lab.ended(first_id)
            async with chat(lab, team_id) as late:
                assert await anext(late) == ("snapshot", {"running": sent["id"], "queued": []})
                await there.until(late, lambda: "tick" in there.of("second"))
                assert there.of(None) == "Let me ask."
                assert there.of("first") == "I am done already."
                assert there.of("second").startswith("I look.\n\ntick")
                assert sorted(map(str, there.did())) == sorted(
                    map(
                        str,
                        [
                            ("first", "spawn_agents", "running"),
                            ("second", "spawn_agents", "running"),
                            ("second", "shell", "done"),
                        ],
                    )
                )
                go.set()
                for screen, heard in ((here, early), (there, late)):
                    await screen.until(heard, lambda s=screen: s.of("second").count("tock") == 5)  # type: ignore[misc]
                    assert screen.of(None) == "Let me ask."
                assert here.said == there.said, "nothing is heard twice"
                for screen, heard in ((here, early), (there, late)):
                    for each in await until_finished(heard):
                        screen.show(each)
    assert here.said == there.said == {None: "Done."}
    assert (await lab.message(team_id, sent["id"]))["answer"] == "Done."


async def test_who_comes_while_the_leader_speaks_hears_its_beginning_and_no_voided_words(
    lab: TeamLab,
) -> None:
    team_id = await lab.team(workers=[worker("writer", "say I wrote.")])
    prompt = script(
        "say Let me ask.",
        calling({"prompt": "Go.", "agent": "writer"}),
        "repeat 5 tick",
        "wait 1",
        "repeat 5 tock",
    )
    with held_waits() as go:
        async with lab.relaying(), lab.engine(), chat(lab, team_id) as early:
            await anext(early)
            await watched(lab, team_id)
            sent = await lab.send(team_id, prompt)
            here, there = Screen(), Screen()
            await here.until(early, lambda: "tick" in here.of(None))
            async with chat(lab, team_id) as late:
                await there.until(late, lambda: bool(there.deeds))
                assert "tick" in there.of(None)
                assert there.frames[0]["reset"]
                assert list(there.said) == [None]
                assert there.did() == [("writer", "spawn_agents", "done")]
                go.set()
                for screen, heard in ((here, early), (there, late)):
                    for each in await until_finished(heard):
                        screen.show(each)
    answer = (await lab.message(team_id, sent["id"]))["answer"]
    assert answer.count("tick") == answer.count("tock") == 5
    assert here.said == there.said == {None: answer}


async def test_who_comes_while_a_tool_is_used_sees_it(lab: TeamLab) -> None:
    team_id = await lab.team()
    command = "while [ ! -e go ]; do sleep 0.02; done"
    async with lab.relaying(), lab.engine():
        sent = await lab.send(
            team_id,
            script("say Wait.", f'call shell {{"command": "{command}"}}', "say Done."),
        )
        session_id = UUID(sent["session_id"])
        async with asyncio.timeout(20):
            while "model" not in await lab.kinds(session_id):  # noqa: ASYNC110 - a table is read
                await asyncio.sleep(0.02)
        async with chat(lab, team_id) as late:
            screen = Screen()
            await screen.until(late, lambda: bool(screen.deeds))
            assert screen.said == {None: "Wait."}
            assert screen.did() == [(None, "shell", "running")]
            tenant_id = str(lab.person.tenant_id)
            files = lab.parts.settings.workspaces_dir / tenant_id / str(session_id) / "files"
            (files / "go").touch()
            for each in await until_finished(late):
                screen.show(each)
    assert screen.said == {None: "Done."}
    assert screen.did() == [(None, "shell", "done")]


async def test_workers_in_several_processes_are_all_heard(lab: TeamLab, crew: Crew) -> None:
    names = ["one", "two", "three"]
    members = [worker(n, f"repeat 3 {n}", "wait 3000", f"say end of {n}") for n in names]
    team_id = await lab.team(workers=members)
    for _ in names:
        await crew.start(capacity=1)
    tasks = [{"prompt": "Go.", "agent": name} for name in names]
    async with lab.relaying(), chat(lab, team_id) as early:
        await anext(early)
        sent = await lab.send(team_id, script("say Let me ask.", calling(*tasks), "say Done."))
        here, there = Screen(), Screen()
        await here.until(early, lambda: all(name in here.of(name) for name in names))
        async with chat(lab, team_id) as late:
            for screen, heard in ((there, late), (here, early)):
                await screen.until(
                    heard,
                    lambda s=screen: all(f"end of {name}" in s.of(name) for name in names),  # type: ignore[misc]
                )
                assert screen.of(None) == "Let me ask."
                for name in names:
                    assert screen.of(name).startswith(name)
                    assert screen.of(name).count(name) == 4
            await lab.answered(team_id, sent["id"])
    await crew.dismiss()
