"""Native teams on real workers: order, delegation, changes, crashes, files, approvals."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any
from uuid import UUID

from tests.execution.crews.native_lab import TeamLab, lab, settings, texts  # noqa: F401 - fixtures
from tests.execution.pulse.conftest import script
from tests.execution.pulse.faults.conftest import crew, zygote  # noqa: F401 - fixtures
from tests.execution.pulse.faults.processes import Crew

# ruff: noqa: F811 - fixtures are arguments, too

WRITER = {
    "name": "writer",
    "role": "Writes texts",
    "instructions": "```demo\nsay I am the writer.\n```",
}


async def test_messages_are_answered_in_order_each_once(lab: TeamLab) -> None:
    team_id = await lab.team()
    prompts = [script("wait 20", f"say answer {n}") for n in range(5)]
    async with lab.engine(), lab.engine():
        sent = [await lab.send(team_id, prompt) for prompt in prompts[:3]]
        sent += await asyncio.gather(*(lab.send(team_id, prompt) for prompt in prompts[3:]))
        answers = [await lab.answered(team_id, each["id"]) for each in sent]
    for given, answer in zip(prompts, answers, strict=True):
        assert answer["text"] == given
        assert answer["state"] == "answered"
    assert sorted(texts(answers)) == [f"answer {n}" for n in range(5)]
    assert [answer["answer"][-1] for answer in answers] == list("01234")
    in_order = sorted(answers, key=lambda answer: answer["position"])
    assert len({answer["session_id"] for answer in answers}) == 1, "one conversation"
    journal = await lab.journal(UUID(answers[0]["session_id"]))
    said = [
        json.loads(row["output"])["text"]
        for row in journal
        if row["kind"] == "message" and row["name"] == "user"
    ]
    assert said == [answer["text"] for answer in in_order]
    finished = await lab.events("message.finished")
    assert len(finished) == len({each["message_id"] for each in finished}) == 5
    assert all(answer["attempt"] == 1 for answer in answers)


async def test_a_message_knows_what_it_took(lab: TeamLab) -> None:
    team_id = await lab.team()
    async with lab.engine():
        first = await lab.ask(
            team_id, script("usage 100 10", 'call shell {"command": "echo hi"}', "say done")
        )
        second = await lab.ask(team_id, script("usage 7 3", "say short"))
    assert [deed["tool"] for deed in first["activity"]] == ["shell"]
    assert first["activity"][0]["summary"] == "echo hi"
    assert first["activity"][0].get("state", "done") == "done"
    assert first["input_tokens"] >= 100
    assert (second["input_tokens"], second["output_tokens"]) == (7, 3)
    assert second["activity"] == []
    assert second["started_at"] is not None
    assert second["finished_at"] is not None


async def test_a_running_answer_is_cancelled_and_the_next_is_given(lab: TeamLab) -> None:
    team_id = await lab.team()
    async with lab.engine():
        slow = await lab.send(team_id, script("wait 5000", "say too late"))
        queued = await lab.send(team_id, script("say never"))
        last = await lab.send(team_id, script("say on we go"))
        session_id = UUID(slow["session_id"])
        await lab.until(session_id, "RUNNING")
        assert (await lab.post(f"/api/teams/{team_id}/messages/{queued['id']}/cancel"))[
            "state"
        ] == "cancelled"
        stopped = await lab.post(f"/api/teams/{team_id}/messages/{slow['id']}/cancel")
        assert (stopped["state"], stopped["answer"]) == ("cancelled", None)
        answer = await lab.answered(team_id, last["id"])
    assert answer["answer"] == "on we go"
    assert (await lab.message(team_id, slow["id"]))["state"] == "cancelled"
    finished = await lab.events("message.finished")
    assert len(finished) == 3


async def test_a_member_is_called_by_name(lab: TeamLab) -> None:
    team_id = await lab.team(workers=[WRITER, {"name": "idle"}])
    calls = json.dumps({"tasks": [{"prompt": "Write.", "agent": "writer", "title": "Draft"}]})
    async with lab.engine():
        answer = await lab.ask(team_id, script(f"call spawn_agents {calls}", "result"))
        unknown = await lab.ask(
            team_id,
            script('call spawn_agents {"tasks": [{"prompt": "x", "agent": "nobody"}]}', "result"),
        )
    assert answer["state"] == "answered", answer
    assert "I am the writer." in answer["answer"]
    (deed,) = answer["activity"]
    assert (deed["tool"], deed["agent"], deed["summary"]) == ("spawn_agents", "writer", "Draft")
    child = await lab.superuser.fetchrow("select * from sessions where parent_id is not null")
    assert child is not None
    assert child["team_id"] == team_id
    assert child["state"] == "COMPLETE"
    assert "There is no agent 'nobody'" in unknown["answer"]
    assert "writer, idle" in unknown["answer"]
    took: int = await lab.superuser.fetchval("select sum(input_tokens) from steps")
    assert answer["input_tokens"] + unknown["input_tokens"] == took, "its members' included"


async def test_a_change_acts_at_the_next_message_and_the_conversation_stays(lab: TeamLab) -> None:
    def leader(*lines: str) -> dict[str, Any]:
        return {"name": "lead", "instructions": script(*lines)}

    team_id = await lab.team(leader=leader("say One"))
    async with lab.engine():
        first = await lab.ask(team_id, "Go")
        # The demo model takes the second turn of its script only in the second answer it gives.
        changed = await lab.client.patch(
            f"/api/teams/{team_id}", json={"leader": leader("say new", "then", "say Two")}
        )
        assert changed.status_code == 200, changed.text
        second = await lab.ask(team_id, "Go on")
    assert texts([first, second]) == ["One", "Two"]
    assert first["session_id"] == second["session_id"]


async def test_a_worker_that_dies_amid_an_answer(lab: TeamLab, crew: Crew) -> None:
    team_id = await lab.team()
    sent = [await lab.send(team_id, script("wait 100", f"say answer {n}")) for n in range(2)]
    dying = crew.fork(capacity=1, reaps=False, moment="model", nth=1)
    assert await dying.ended() < 0
    assert (await lab.message(team_id, sent[0]["id"]))["state"] == "running"
    await crew.start()
    answers = [await lab.answered(team_id, each["id"]) for each in sent]
    await crew.dismiss()
    assert texts(answers) == ["answer 0", "answer 1"]
    finished = await lab.events("message.finished")
    assert len(finished) == 2


async def test_a_worker_that_dies_around_the_last_commit(lab: TeamLab, crew: Crew) -> None:
    team_id = await lab.team()
    for moment in ("before", "amid", "after"):
        sent = await lab.send(team_id, script(f"say {moment}"))
        dying = crew.fork(capacity=1, reaps=False, moment=moment, nth=1)
        assert await dying.ended() < 0
        helping = await crew.start()
        assert (await lab.answered(team_id, sent["id"]))["answer"] == moment
        helping.send(signal.SIGTERM)
        await helping.ended()
    assert len(await lab.events("message.finished")) == 3
    assert len(await lab.events("message.started")) == 3


async def test_an_attachment_is_a_file(lab: TeamLab) -> None:
    team_id = await lab.team()
    stored = await lab.store("in/data.csv", "größe,1\n".encode())
    read = script('call read_file {"path": "attachments/mine.csv"}', "result")
    given = [{"object_id": stored, "name": "mine.csv"}]
    async with lab.engine():
        first = await lab.ask(team_id, read, attachments=given)
        again = await lab.ask(team_id, read)
        await lab.client.delete("/api/objects/in/data.csv")
        await lab.superuser.execute("delete from discarded_objects")
    assert "größe,1" in first["answer"]
    assert first["attachments"][0]["name"] == "mine.csv"
    assert "größe,1" in again["answer"], "files stay from message to message"
    journal = await lab.journal(UUID(first["session_id"]))
    assert "attachments/mine.csv" in json.loads(journal[0]["output"])["text"]


async def test_skills_are_files_and_memory_is_told(lab: TeamLab) -> None:
    skill = {"name": "greet", "description": "How: to greet", "instructions": "Say hello."}
    leader = {"name": "lead", "skills": ["greet"]}
    team_id = await lab.team(leader=leader, skills=[skill])
    path = ".agents/skills/greet/SKILL.md"
    remember = json.dumps({"path": "MEMORY.md", "content": script("say a", "then") * 3})
    async with lab.engine():
        read = await lab.ask(team_id, script(f'call read_file {{"path": "{path}"}}', "result"))
        await lab.client.patch(
            f"/api/teams/{team_id}", json={"leader": {"name": "lead"}, "skills": []}
        )
        gone = await lab.ask(team_id, script(f'call read_file {{"path": "{path}"}}', "result"))
        await lab.ask(team_id, script(f"call write_file {remember}", "say noted"))
    assert "Say hello." in read["answer"]
    assert "Say hello." not in gone["answer"]
    steps = await lab.journal(UUID(read["session_id"]))
    given = [json.loads(row["input"]) for row in steps if row["name"] == "given"]
    assert [bool(each["skills"]) for each in given] == [True, False]


async def test_what_the_team_has_noted_is_in_its_prompt(lab: TeamLab) -> None:
    team_id = await lab.team()
    # The demo model obeys a script in the system prompt if no message has one.
    note = "```demo\nsay no\nthen\nsay no\nthen\nsay From memory\n```"
    arguments = json.dumps({"path": "MEMORY.md", "content": note})
    async with lab.engine():
        noted = await lab.ask(team_id, f"use the write_file tool with {arguments}")
        told = await lab.ask(team_id, "What do you know?")
    assert noted["activity"][0]["tool"] == "write_file"
    assert told["answer"] == "From memory"


async def test_a_stopped_team_goes_on_where_it_was(lab: TeamLab) -> None:
    team_id = await lab.team()
    async with lab.engine():
        first = await lab.ask(team_id, script("say first"))
        slow = await lab.send(team_id, script("wait 5000", "say too late"))
        waiting = await lab.send(team_id, script("say after the break"))
        await lab.until(UUID(first["session_id"]), "RUNNING")
        await lab.post(f"/api/teams/{team_id}/stop")
        stopped = await lab.message(team_id, slow["id"])
        assert (stopped["state"], stopped["error"]) == ("cancelled", "The team was stopped.")
        while_stopped = await lab.send(team_id, script("say sent while stopped"))
        assert {
            (await lab.message(team_id, each["id"]))["state"] for each in (waiting, while_stopped)
        } == {"queued"}
        await lab.post(f"/api/teams/{team_id}/deploy")
        answers = [await lab.answered(team_id, each["id"]) for each in (waiting, while_stopped)]
    assert texts(answers) == ["after the break", "sent while stopped"]
    assert answers[1]["session_id"] == first["session_id"]


async def test_a_restart_takes_up_the_next_message(lab: TeamLab) -> None:
    team_id = await lab.team()
    async with lab.engine():
        slow = await lab.send(team_id, script("wait 5000", "say too late"))
        following = await lab.send(team_id, script("say next"))
        await lab.until(UUID(slow["session_id"]), "RUNNING")
        await lab.post(f"/api/teams/{team_id}/restart")
        assert (await lab.answered(team_id, following["id"]))["answer"] == "next"
    assert (await lab.message(team_id, slow["id"]))["state"] == "cancelled"


async def test_a_failure_is_told_and_the_next_message_is_answered(lab: TeamLab) -> None:
    team_id = await lab.team()
    async with lab.engine():
        failed = await lab.ask(team_id, script("fail auth no such key"))
        fine = await lab.ask(team_id, script("say fine"))
    assert failed["state"] == "failed"
    assert failed["error"]
    assert fine["answer"] == "fine"


async def test_a_person_is_asked_about_a_tool(lab: TeamLab) -> None:
    team_id = await lab.team(leader={"name": "lead", "permissions": {"ask": ["shell"]}})
    async with lab.engine():
        prompt = script('call shell {"command": "echo asked"}', "result")
        sent = await lab.send(team_id, prompt)
        session_id = UUID(sent["session_id"])
        await lab.until(session_id, "PAUSED")
        assert (await lab.message(team_id, sent["id"]))["state"] == "running"
        (waiting,) = (await lab.client.get("/api/approvals?state=waiting")).json()["items"]
        assert waiting["subject"] == "shell"
        await lab.post(f"/api/approvals/{waiting['id']}/approve")
        answer = await lab.answered(team_id, sent["id"])
    assert "asked" in answer["answer"]


async def test_permissions_restrict_tools_commands_and_files(lab: TeamLab) -> None:
    permissions = {
        "tools": ["shell", "write_file"],
        "denied_commands": ["rm *"],
        "allowed_commands": ["echo *", "rm *"],
        "files": ["notes/**"],
    }
    team_id = await lab.team(leader={"name": "lead", "permissions": permissions})

    async def tried(tool: str, **arguments: str) -> str:
        answer = await lab.ask(team_id, script(f"call {tool} {json.dumps(arguments)}", "result"))
        return str(answer["answer"])

    async with lab.engine():
        assert "hi" in await tried("shell", command="echo hi")
        assert "denied by the rule `rm *`" in await tried("shell", command="echo a; rm -rf x")
        assert "not among those" in await tried("shell", command="echo $(cat /etc/passwd)")
        assert "outside the files" in await tried("write_file", path="a.txt", content="x")
        assert "outside the files" not in await tried("write_file", path="notes/a.md", content="x")


async def test_a_session_of_a_team_that_goes_on_by_hand(lab: TeamLab) -> None:
    team_id = await lab.team()
    async with lab.engine():
        first = await lab.ask(team_id, script("say first"))
        session_id = UUID(first["session_id"])
        await lab.post(
            f"/api/sessions/{session_id}/continue", prompt=script("wait 300", "say by hand")
        )
        meanwhile = await lab.ask(team_id, script("say a message"))
    assert meanwhile["answer"] == "a message"
    assert (await lab.message(team_id, first["id"]))["answer"] == "first"


async def test_a_deleted_team_leaves_nothing_at_work(lab: TeamLab) -> None:
    team_id = await lab.team()
    async with lab.engine():
        first = await lab.ask(team_id, script("say first"))
        await lab.send(team_id, script("wait 5000"))
        await lab.until(UUID(first["session_id"]), "RUNNING")
        await lab.post(f"/api/teams/{team_id}/stop")
        answer = await lab.client.delete(f"/api/teams/{team_id}")
        assert answer.status_code == 204, answer.text
    assert (await lab.read(UUID(first["session_id"])))["state"] == "FAILED"
    assert await lab.superuser.fetchval("select count(*) from team_messages") == 0
