"""What holds for a team of every agent CLI, proven with the real one in its sandbox.

A module of tests has a class of its own, and says which CLI it is:

    class TestClaudeCode(KeptSuite):
        kit = CLAUDE_CODE
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
import pytest_asyncio
from tests.conftest import Engines
from tests.execution.crews.kept_lab import Crew, KeptLab, Kit, open_lab
from tests.execution.crews.test_chat_stream import Heard, spoken, until_finished
from tests.sidecar.agents import installed_agents

_MCP_SERVER = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        answer = {"protocolVersion": asked["params"]["protocolVersion"],
                  "capabilities": {"tools": {}}, "serverInfo": {"name": "notes", "version": "1"}}
    elif asked["method"] == "tools/list":
        answer = {"tools": [{"name": "note", "description": "Notes it.", "inputSchema": {
            "type": "object", "properties": {"text": {"type": "string"}}}}]}
    elif asked["method"] == "tools/call":
        text = asked["params"]["arguments"]["text"] + " " + os.environ["SUFFIX"][::-1]
        open("/workspace/noted.txt", "w").write(text)
        answer = {"content": [{"type": "text", "text": "noted"}]}
    else:
        answer = {}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""
_SECRET = "sk-heron-4711-not-for-logs"


@pytest.fixture(scope="session")
def agents() -> Path:
    return installed_agents("claude-code", "opencode")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(engines: Engines, agents: Path) -> AsyncIterator[KeptLab]:
    async with open_lab(engines, agents=agents) as lab, lab.worker(), lab.running_runs():
        yield lab


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def crew(lab: KeptLab, request: pytest.FixtureRequest) -> Crew:
    """One deployed team for the tests that leave it as they found it."""
    kit: Kit = request.module.KIT
    person = await lab.tenant()
    answer = await person.client.put("/api/vault/SUFFIX", json={"value": _SECRET})
    assert answer.status_code in (200, 201), answer.text
    crew = await lab.crew(
        kit,
        person,
        leader={
            "name": "lead",
            "role": "Leads",
            "instructions": "Be brief.",
            "permissions": {"ask": [kit.note_tool]},
        },
        workers=[{"name": "helper", "role": "Helps", "instructions": "Help."}],
        skills=[{"name": "herons", "description": "Herons", "instructions": "Stand on one leg."}],
        mcp_servers=[
            {
                "name": "notes",
                "command": ["python3", "-c", _MCP_SERVER],
                "env": {"SUFFIX": {"secret": "SUFFIX"}},
            }
        ],
    )
    await crew.until("running")
    return crew


def tools(read: dict[str, Any]) -> list[tuple[str, str]]:
    return [(deed["tool"], deed["state"]) for deed in read["activity"]]


@pytest.mark.asyncio(loop_scope="module")
class KeptSuite:
    """In this order: what breaks the team comes last."""

    kit: ClassVar[Kit]

    async def test_several_turns_are_one_conversation(self, crew: Crew) -> None:
        first = await crew.ask("say The password is heron.")
        assert (first["state"], first["answer"], first["attempt"]) == (
            "answered",
            "The password is heron.",
            1,
        )
        conversation = await self._conversation(crew)
        assert await crew.answer("say Second.") == "Second."
        assert await crew.answer("say Third.") == "Third."
        assert conversation is not None
        assert await self._conversation(crew) == conversation

    async def test_what_a_message_cost_is_known(self, crew: Crew) -> None:
        read = await crew.ask("say Paid for.", "usage 1200 300")
        async with asyncio.timeout(30):
            while read["input_tokens"] < 1200:
                await asyncio.sleep(0.1)
                read = await crew.message(read["id"])
        assert read["output_tokens"] >= 300

    async def test_a_tool_is_really_used(self, crew: Crew) -> None:
        read = await crew.ask(crew.kit.shell("echo hi > made.txt"), "say Made it.")
        assert (read["state"], read["answer"]) == ("answered", "Made it.")
        assert tools(read) == [(crew.kit.shell_tool, "done")]
        assert (crew.workspace / "made.txt").read_text() == "hi\n"

    async def test_a_file_that_comes_along_can_be_read(self, crew: Crew) -> None:
        stored = await crew.client.put("/api/objects/list.txt", content=b"a grey heron")
        attachment = {"object_id": stored.json()["id"], "name": "list.txt"}
        read = await crew.ask(
            crew.kit.read("attachments/list.txt"),
            "say It says:",
            "result",
            attachments=[attachment],
        )
        assert read["state"] == "answered", read
        assert "a grey heron" in read["answer"]

    async def test_whoever_joins_hears_the_answer_from_its_beginning(self, crew: Crew) -> None:
        async with crew.watching() as early:
            message_id, go = await crew.begun("say The end.", before="say The beginning.")
            async with crew.watching() as late:
                heard: list[Heard] = []
                while not {"chunk", "activity"} <= {kind for kind, _ in heard}:
                    heard.append(await anext(late))
                assert spoken(heard).strip() == "The beginning."
                go.touch()
                told = [[*heard, *await until_finished(late)], await until_finished(early)]
        deed = next(data["deed"] for kind, data in heard if kind == "activity")
        assert (deed["tool"], deed["state"]) == (crew.kit.shell_tool, "running")
        assert spoken(told[0]) == spoken(told[1])
        assert spoken(told[0]).startswith("The beginning.")
        assert spoken(told[0]).endswith("The end.")
        assert (await crew.message(message_id))["answer"] in spoken(told[0])

    async def test_an_error_of_the_model_is_told_and_the_team_goes_on(self, crew: Crew) -> None:
        failed = await crew.ask("fail invalid That cannot be done.")
        assert failed["state"] == "failed"
        assert "That cannot be done." in failed["error"]
        assert await crew.answer("say I am fine.") == "I am fine."

    async def test_an_answer_is_stopped_and_the_next_is_given(self, crew: Crew) -> None:
        message_id, _ = await crew.begun()
        waiting = await crew.send("say Next.")
        await crew.call("POST", f"/messages/{message_id}/cancel")
        assert (await crew.ended(message_id))["state"] == "cancelled"
        assert (await crew.ended(waiting))["answer"] == "Next."

    async def test_messages_and_schedules_at_once_are_answered_in_order(self, crew: Crew) -> None:
        at = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
        for n in (1, 2):
            prompt = f"```demo\nsay Schedule {n}.\n```"
            body = {"name": f"s{n}", "team_id": str(crew.id), "prompt": prompt, "at": at}
            answer = await crew.client.post("/api/schedules", json=body)
            assert answer.status_code == 201, answer.text
        sent = [await crew.send("wait 400", f"say Message {n}.") for n in (1, 2, 3)]
        async with asyncio.timeout(60):
            while True:
                page = await crew.call("GET", "/messages?limit=50")
                ours = [m for m in page["items"] if m["source"] == "schedule"]
                if len(ours) == 2:
                    break
                await asyncio.sleep(0.1)
        read = [await crew.ended(i) for i in [*sent, *(m["id"] for m in ours)]]
        read.sort(key=lambda each: int(each["position"]))
        assert [each["state"] for each in read] == ["answered"] * 5
        for each in read:
            assert each["answer"] in each["text"], "each answer is that of its question"
        assert {each["answer"] for each in read} == {
            *(f"Message {n}." for n in (1, 2, 3)),
            *(f"Schedule {n}." for n in (1, 2)),
        }
        finished = [each["finished_at"] for each in read]
        assert finished == sorted(finished)

    async def test_new_instructions_act_on_the_next_message(self, crew: Crew) -> None:
        # Said here: tests of one team may be shared out among several processes.
        await crew.answer("say The password is heron.")
        conversation = await self._conversation(crew)
        team = await crew.read()
        leader = {
            **{k: team["leader"][k] for k in ("name", "role", "permissions")},
            "instructions": "Speak of herons only.",
        }
        changed = await crew.call("PATCH", leader=leader)
        async with asyncio.timeout(100):
            while (await crew.read())["applied_version"] < changed["version"]:  # noqa: ASYNC110 - the API is asked
                await asyncio.sleep(0.05)
        before = len(crew.lab.asked)
        assert await crew.answer("say A heron.") == "A heron."
        asked = crew.lab.asked[before:]
        assert any(b"Speak of herons only." in each for each in asked)
        assert any(b"The password is heron." in each for each in asked), "it remembers"
        assert await self._conversation(crew) == conversation

    async def test_an_agent_that_is_killed_answers_once(self, crew: Crew) -> None:
        message_id, go = await crew.begun()
        crew.kill_agent()
        go.touch()
        read = await crew.ended(message_id)
        assert read["state"] == "answered", read
        assert read["answer"] in read["text"]
        assert read["attempt"] > 1
        finished = await crew.events("message.finished")
        assert [e["message_id"] for e in finished].count(message_id) == 1
        assert await crew.answer("say After that.") == "After that."

    async def test_a_sidecar_that_is_killed_answers_once(self, crew: Crew) -> None:
        message_id, go = await crew.begun()
        crew.kill_sidecar()
        go.touch()
        read = await crew.ended(message_id)
        assert read["state"] == "answered", read
        assert read["answer"] in read["text"]
        assert read["attempt"] > 1
        finished = await crew.events("message.finished")
        assert [e["message_id"] for e in finished].count(message_id) == 1
        await crew.until("running")

    async def test_what_was_stopped_goes_on_where_it_was(self, crew: Crew) -> None:
        conversation = await self._conversation(crew)
        await crew.answer(crew.kit.shell("echo kept > kept.txt"), "say Kept.")
        await crew.call("POST", "/stop")
        stopped = await crew.until("stopped")
        assert not stopped["deployed"]
        assert crew.processes("/opt/") == []
        waiting = await crew.send(crew.kit.shell("cat kept.txt"), "result")
        await crew.call("POST", "/deploy")
        read = await crew.ended(waiting)
        assert "kept" in read["answer"]
        assert await self._conversation(crew) == conversation

    async def _conversation(self, crew: Crew) -> str | None:
        found: str | None = await crew.lab.value(
            "select conversation from teams where id = $1", crew.id
        )
        return found


@pytest.mark.asyncio(loop_scope="module")
class ToolSuite(KeptSuite):
    """Of CLIs that have workers and skills, and ask before they use a tool."""

    async def test_a_worker_is_really_called(self, crew: Crew) -> None:
        assert crew.kit.worker is not None
        task = "```demo\nsay The coast is clear.\n```"
        read = await crew.ask(crew.kit.worker("helper", task), "say It says:", "result")
        assert read["state"] == "answered", read
        assert "The coast is clear." in read["answer"]

    async def test_a_skill_is_really_loaded(self, crew: Crew) -> None:
        assert crew.kit.skill is not None
        read = await crew.ask(crew.kit.skill("herons"), "say I know how.")
        assert (read["state"], read["answer"]) == ("answered", "I know how.")
        assert [state for _, state in tools(read)] == ["done"]

    async def test_a_person_says_no_then_yes_then_always(self, crew: Crew) -> None:
        """The MCP server is used with a secret from the vault, which nobody gets to see."""
        assert crew.kit.mcp is not None
        assert (await crew.read())["mcp_status"]["notes"]["status"] == "connected"
        noted = crew.workspace / "noted.txt"

        asked = await crew.send(*crew.kit.mcp("one"), "say Done?")
        approval = await crew.approval()
        assert (approval["team_id"], approval["message_id"]) == (str(crew.id), asked)
        assert approval["details"]["arguments"] == {"text": "one"}
        await crew.decide(approval, "reject", reason="Not today.")
        read = await crew.ended(asked)
        assert tools(read)[-1][1] == "denied", read
        assert not noted.exists()

        asked = await crew.send(*crew.kit.mcp("two"), "say Done.")
        await crew.decide(await crew.approval(), "approve")
        assert (await crew.ended(asked))["answer"] == "Done."
        assert noted.read_text() == f"two {_SECRET[::-1]}"

        asked = await crew.send(*crew.kit.mcp("three"), "say Done.")
        await crew.decide(await crew.approval(), "approve", always=True)
        assert (await crew.ended(asked))["answer"] == "Done."
        assert await crew.answer(*crew.kit.mcp("four"), "say Done.") == "Done."
        assert noted.read_text().startswith("four")
        told = json.dumps([await crew.read(), await crew.call("GET", "/messages?limit=50")])
        assert _SECRET not in told
