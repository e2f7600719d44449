"""The real OpenCode."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentos.contracts.crew import AgentSpec, McpServerSpec, McpStatus
from agentos.sidecar.http import HttpClient, HttpFailed
from agentos.sidecar.providers.base import Provider, ProviderError, Reply, Verdict
from agentos.sidecar.providers.opencode import OpenCode, make_opencode
from agentos.sidecar.providers.opencode_gate import Call, Gate
from tests.sidecar.agents import (
    SECONDS,
    Heard,
    ModelEndpoint,
    call,
    denying,
    eventually,
    installed_agents,
    script,
)
from tests.sidecar.conformance import Kit, ProviderConformance, surroundings, team_spec
from tests.sidecar.test_claude_code import MCP_SERVER


@pytest.fixture(scope="session")
def agents() -> Path:
    return installed_agents("opencode")


@pytest.fixture
async def kit(tmp_path: Path, agents: Path) -> AsyncIterator[Kit]:
    async with ModelEndpoint().running() as endpoint:
        yield Kit(
            make=make_opencode,
            surroundings=surroundings(tmp_path, agents, endpoint),
            endpoint=endpoint,
            spec=team_spec("opencode"),
            shell_tool="bash",
            read_tool="read",
            shell=lambda command: call("bash", command=command),
            read=lambda path: call("read", filePath=path),
            pid=_pid,
        )


def _pid(provider: Provider) -> int:
    assert isinstance(provider, OpenCode)
    assert provider.pid is not None
    return provider.pid


def write(kit: Kit, path: str, *lines: str) -> None:
    file = kit.workspace / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")


class TestOpenCode(ProviderConformance):
    """All that holds for every provider."""


async def test_a_worker_is_called_and_told_apart(kit: Kit) -> None:
    write(
        kit,
        ".opencode/agent/scout.md",
        "---",
        "description: Looks around.",
        "mode: subagent",
        "---",
        "You are the scout of the lighthouse.",
        script(call("bash", command="echo seen > seen.txt"), "say The coast is clear."),
    )
    scout = AgentSpec(name="scout", leader=False, model="vendor/small")
    spec = msgspec.structs.replace(kit.spec, agents=(*kit.spec.agents, scout))
    task = call("task", description="Look", prompt="Look around.", subagent_type="scout")
    heard = Heard()
    async with kit.running(spec=spec) as provider:
        reply = await kit.ask(provider, script(task, "say The scout is back."), heard)
    assert reply == Reply("answered", "The scout is back.")
    assert (kit.workspace / "seen.txt").exists()
    assert heard.text("scout") == "The coast is clear."
    assert [(asked.tool, asked.agent) for asked in heard.asked] == [
        ("task", None),
        ("bash", "scout"),
    ]
    assert {(deed.tool, deed.agent) for deed in heard.deeds} == {("task", None), ("bash", "scout")}
    asked = await kit.endpoint.wait_call_with("You are the scout of the lighthouse.")
    assert asked.model == "vendor/small"


async def test_a_worker_may_not_do_what_is_denied(kit: Kit) -> None:
    write(
        kit,
        ".opencode/agent/scout.md",
        *("---", "description: Looks around.", "mode: subagent", "---"),
        script(call("bash", command="touch seen.txt"), "say I may not."),
    )
    scout = AgentSpec(name="scout", leader=False)
    spec = msgspec.structs.replace(kit.spec, agents=(*kit.spec.agents, scout))
    task = call("task", description="Look", prompt="Look around.", subagent_type="scout")
    heard = denying("bash")
    async with kit.running(spec=spec) as provider:
        await kit.ask(provider, script(task, "say The scout is back."), heard)
    assert heard.states("bash")[-1] == "denied"
    assert not (kit.workspace / "seen.txt").exists()


async def test_instructions_and_skills_of_the_team_are_loaded(kit: Kit) -> None:
    write(kit, "AGENTS.md", "You keep the lighthouse.")
    write(
        kit,
        ".claude/skills/signals/SKILL.md",
        *("---", "name: signals", "description: How to signal.", "---"),
        "Two short, one long.",
    )
    heard = Heard()
    async with kit.running() as provider:
        lines = (call("skill", name="signals"), "say I know how.")
        reply = await kit.ask(provider, script(*lines), heard)
    assert reply == Reply("answered", "I know how.")
    assert [asked.tool for asked in heard.asked] == ["skill"]
    assert kit.endpoint.calls_with("You keep the lighthouse.")
    assert kit.endpoint.calls_with("Two short, one long.")


async def test_a_command_without_a_program_is_asked_about(kit: Kit) -> None:
    # OpenCode's own permissions let this one pass.
    heard = denying("bash")
    async with kit.running() as provider:
        await kit.ask(provider, script(call("bash", command="> made.txt"), "say No."), heard)
    assert heard.asked[0].arguments["command"] == "> made.txt"
    assert not (kit.workspace / "made.txt").exists()


async def test_of_calls_at_once_only_the_denied_one_is_not_made(kit: Kit) -> None:
    heard = denying("bash")
    (kit.workspace / "open.txt").write_text("the-open-word")
    async with kit.running() as provider:
        lines = (call("bash", command="touch made.txt"), kit.read("open.txt"), "say Half of it.")
        await kit.ask(provider, script(*lines), heard)
    assert not (kit.workspace / "made.txt").exists()
    assert kit.endpoint.calls_with("the-open-word")


async def test_the_workspace_cannot_loosen_the_rules(kit: Kit) -> None:
    write(kit, ".opencode/plugin/bad.js", "require('fs').writeFileSync('ran.txt', 'x')")
    write(kit, "opencode.json", '{"permission": {"*": "allow"}, "model": "vendor/other"}')
    heard = denying("bash")
    async with kit.running() as provider:
        await kit.ask(provider, script(kit.shell("touch made.txt"), "say No."), heard)
        # What commands inherit does not tell them how to answer for the gate.
        told = await kit.ask(provider, script(kit.shell("env"), "result"))
    assert heard.states("bash")[-1] == "denied"
    assert not (kit.workspace / "ran.txt").exists()
    assert {asked.model for asked in kit.endpoint.calls} == {"demo"}
    assert "AGENTOS_AGENT_RUN" in told.text
    assert "AGENTOS_GATE" not in told.text


async def test_a_model_that_stays_busy_is_given_up(kit: Kit) -> None:
    heard = Heard()
    async with kit.running() as provider:
        reply = await kit.ask(provider, script("fail overload The harbour is full."), heard)
        assert reply.state == "failed"
        assert reply.error_code == "model_error"
        assert "The harbour is full." in reply.error
        assert heard.voided > 0
        well = await kit.ask(provider, script("say It is free again."))
    assert well == Reply("answered", "It is free again.")


async def test_an_answer_that_broke_off_is_said_again(kit: Kit) -> None:
    heard = Heard()
    kit.endpoint.hold_after("heron")
    async with kit.running() as provider:
        question = script("say A heron that stands very still.")
        async with kit.asking(provider, question, heard) as answering:
            async with asyncio.timeout(SECONDS):
                await heard.first_words.wait()
                kit.endpoint.cut()
                reply = await answering
    assert reply.state == "answered"
    assert heard.text() == reply.text == "A heron that stands very still."


async def test_five_questions_get_their_own_answers(kit: Kit) -> None:
    async with kit.running() as provider:
        for number in range(5):
            reply = await kit.ask(provider, script(f"say Number {number}."))
            assert reply == Reply("answered", f"Number {number}.")


async def test_events_that_break_off_are_made_up_for(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_events, back, breaks = HttpClient.events, asyncio.Event(), [0]

    async def breaking(client: HttpClient, path: str) -> AsyncGenerator[Any]:
        if breaks[0]:
            await back.wait()
        async for event in all_events(client, path):
            yield event
            if event["type"] == "message.part.delta" and not breaks[0]:
                breaks[0] += 1
                raise HttpFailed("cut off")

    monkeypatch.setattr(HttpClient, "events", breaking)
    async with kit.running() as provider:
        lines = ("say A river.", kit.shell("touch made.txt"), "say All of it.")
        async with kit.asking(provider, script(*lines), Heard()) as answering:
            await eventually((kit.workspace / "made.txt").exists)
            back.set()
            assert await answering == Reply("answered", "All of it.")
    assert breaks == [1]


async def test_mcp_servers_are_connected_and_asked_about(kit: Kit) -> None:
    write(kit, "notes.py", MCP_SERVER)
    servers = (
        McpServerSpec(
            name="notes",
            command=(sys.executable, str(kit.workspace / "notes.py")),
            env={"NOTE_SUFFIX": "!"},
        ),
        McpServerSpec(name="gone", command=("/no/such/server",)),
    )
    spec = msgspec.structs.replace(kit.spec, mcp_servers=servers)
    heard = Heard()
    async with kit.running(spec=spec) as provider:
        lines = (call("notes_note", text="a heron"), "say Noted.")
        reply = await kit.ask(provider, script(*lines), heard)
        status = {each.name: each for each in provider.mcp}
        denied = denying("notes_note")
        await kit.ask(provider, script(call("notes_note", text="no"), "say No."), denied)
    assert reply == Reply("answered", "Noted.")
    assert (kit.workspace / "noted.txt").read_text() == "a heron!"
    assert heard.asked[0].tool == "notes_note"
    assert heard.asked[0].arguments == {"text": "a heron"}
    assert status["notes"] == McpStatus("notes", "connected")
    assert status["gone"].status == "failed"
    assert status["gone"].error


async def test_a_broken_worker_file_is_told_of(kit: Kit) -> None:
    write(kit, ".opencode/agent/bad.md", "---", "tools: Bash, Read", "---", "Hello.")
    with pytest.raises(ProviderError, match=r"(?s)OpenCode.*bad"):
        async with kit.running():
            pass


async def test_the_gate_takes_odd_arguments_and_refuses_strangers() -> None:
    asked = []

    async def decide(call: Call) -> Verdict:
        asked.append(call)
        return Verdict(allow=True)

    gate = Gate(decide)
    await gate.open()
    try:
        port, token = gate.address.split(":")
        answers = await _through_the_gate(int(port), "wrong", b'{"id": 1}')
        assert answers == b""
        assert asked == []
        line = rb'{"id": 7, "tool": "bash", "session": "s", "call": "c", "args": {"a": "\ud83d"}}'
        answers = await _through_the_gate(int(port), token, line)
        assert msgspec.json.decode(answers) == {"id": 7, "allow": True, "reason": ""}
        assert asked[0].args == {"a": "\N{REPLACEMENT CHARACTER}"}
        # What cannot be read is not answered: the plugin then refuses everything.
        answers = await _through_the_gate(int(port), token, b"what?")
        assert answers == b""
    finally:
        await gate.close()


async def _through_the_gate(port: int, token: str, line: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(msgspec.json.encode({"token": token}) + b"\n" + line + b"\n")
        async with asyncio.timeout(SECONDS):
            return await reader.readline()
    finally:
        writer.close()
