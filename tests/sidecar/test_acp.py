"""An agent behind the Agent Client Protocol: the real OpenCode, and one that does what it is told."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from agentos.contracts.crew import McpServerSpec, McpStatus
from agentos.sidecar.providers.acp import Acp, make_acp
from agentos.sidecar.providers.base import Provider, ProviderDied, ProviderMissing, Reply
from tests.sidecar.agents import (
    SECONDS,
    Heard,
    ModelEndpoint,
    call,
    denying,
    installed_agents,
    never_answering,
    script,
)
from tests.sidecar.conformance import Kit, ProviderConformance, surroundings, team_spec
from tests.sidecar.test_opencode import write

# An agent of the protocol in few lines. The text of a prompt is the steps it takes: lines of
# `say <words>`, `request <method> <params>`, `update <update>`, `stop <reason>`, `error <message>`,
# `exit <code>`, `noise`, `wait` (for a cancellation). What requests were answered with is said.
AGENT = r"""
import json, os, sys
session, number, history = "s-1", 0, os.environ["HOME"] + "/history"
def put(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def update(what):
    put({"method": "session/update", "params": {"sessionId": session, "update": what}})
def say(text):
    content = {"type": "text", "text": text}
    update({"sessionUpdate": "agent_message_chunk", "content": content})
def get():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)
def prompt(text):
    global number
    for step in text.splitlines():
        word, _, rest = step.partition(" ")
        if word == "say":
            say(rest)
        elif word == "update":
            update(json.loads(rest))
        elif word == "request":
            method, _, params = rest.partition(" ")
            number += 1
            put({"id": f"a{number}", "method": method,
                 "params": {"sessionId": session, **json.loads(params)}})
            answer = get()
            while answer.get("method") == "session/cancel":
                answer = get()
            say(json.dumps(answer.get("result", answer.get("error"))))
        elif word == "noise":
            print("this is not JSON", flush=True)
            put({"method": "other/thing", "params": {}})
            update({"sessionUpdate": "from_the_future"})
        elif word == "wait":
            while get().get("method") != "session/cancel":
                pass
            return {"result": {"stopReason": "cancelled"}}
        elif word == "stop":
            return {"result": {"stopReason": rest}}
        elif word == "error":
            return {"error": {"code": -32603, "message": rest}}
        elif word == "exit":
            print("the last words", file=sys.stderr, flush=True)
            sys.exit(int(rest))
    return {"result": {"stopReason": "end_turn"}}
while True:
    asked = get()
    method, params = asked["method"], asked.get("params", {})
    if method == "initialize":
        capabilities = {"loadSession": True}
        answer = {"result": {"protocolVersion": int(os.environ.get("ACP_VERSION", "1")),
                             "agentCapabilities": capabilities}}
    elif method == "session/new":
        open(history, "w").close()
        answer = {"result": {"sessionId": session}}
    elif method == "session/load":
        if params["sessionId"] != session:
            answer = {"error": {"code": -32602, "message": "no such session"}}
        else:
            say(open(history).read())
            answer = {"result": {}}
    elif method == "session/prompt":
        text = params["prompt"][0]["text"]
        with open(history, "a") as file:
            file.write(text + "\n")
        answer = prompt(text)
    else:
        continue
    put({"id": asked["id"], **answer})
"""


REFERENCE_AGENT = """
import asyncio
from uuid import uuid4
import acp
from acp import schema


class Echo(acp.Agent):
    def on_connect(self, conn):
        self._conn = conn

    async def initialize(self, protocol_version, **_):
        return schema.InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd, mcp_servers=None, **_):
        return schema.NewSessionResponse(session_id=uuid4().hex)

    async def prompt(self, prompt, session_id, **_):
        call = acp.start_tool_call("c1", "Run it", kind="execute", raw_input={"command": "ls"})
        await self._conn.session_update(session_id, call)
        options = [schema.PermissionOption(option_id="y", name="Yes", kind="allow_once")]
        answer = await self._conn.request_permission(
            options=options,
            session_id=session_id,
            tool_call=schema.ToolCallUpdate(tool_call_id="c1"),
        )
        allowed = "allowed" if answer.outcome.outcome == "selected" else "denied"
        said = acp.update_agent_message_text(prompt[0].text + " " + allowed)
        await self._conn.session_update(session_id, said)
        return schema.PromptResponse(stop_reason="end_turn")


asyncio.run(acp.run_agent(Echo()))
"""


@pytest.fixture(scope="session")
def agents() -> Path:
    return installed_agents("opencode")


@pytest.fixture
async def kit(tmp_path: Path, agents: Path) -> AsyncIterator[Kit]:
    async with ModelEndpoint().running() as endpoint:
        yield Kit(
            make=make_acp,
            surroundings=surroundings(tmp_path, agents, endpoint),
            endpoint=endpoint,
            spec=msgspec.structs.replace(team_spec("acp"), command=("opencode", "acp")),
            shell_tool="execute",
            read_tool="read",
            shell=lambda command: call("bash", command=command),
            read=lambda path: call("read", filePath=path),
            pid=_pid,
        )


@pytest.fixture
def told(kit: Kit, tmp_path: Path) -> Kit:
    """The same with an agent that does what it is told."""
    program = tmp_path / "told_agent.py"
    program.write_text(AGENT)
    kit.spec = msgspec.structs.replace(kit.spec, command=(sys.executable, str(program)))
    return kit


def _pid(provider: Provider) -> int:
    assert isinstance(provider, Acp)
    assert provider.pid is not None
    return provider.pid


def request(method: str, **params: object) -> str:
    return f"request {method} {msgspec.json.encode(params).decode()}"


def update(name: str, **fields: object) -> str:
    return f"update {msgspec.json.encode({'sessionUpdate': name, **fields}).decode()}"


OPTIONS = [
    {"optionId": "a", "kind": "allow_always", "name": "Always"},
    {"optionId": "b", "kind": "allow_once", "name": "Once"},
    {"optionId": "c", "kind": "reject_once", "name": "No"},
]


def ask_for(number: str, **fields: object) -> str:
    tool_call = {"toolCallId": number, **fields}
    return request("session/request_permission", toolCall=tool_call, options=OPTIONS)


class TestAcp(ProviderConformance):
    """All that holds for every provider, with `opencode acp`."""


async def test_the_agent_writes_through_us_and_is_asked_about_once(kit: Kit) -> None:
    heard = Heard()
    path = str(kit.workspace / "made.txt")
    async with kit.running() as provider:
        lines = (call("write", filePath=path, content="a heron"), "say Written.")
        reply = await kit.ask(provider, script(*lines), heard)
    assert reply == Reply("answered", "Written.")
    assert (kit.workspace / "made.txt").read_text() == "a heron"
    assert [asked.tool for asked in heard.asked] == ["edit"]


async def test_words_and_deeds(told: Kit) -> None:
    heard = Heard()
    steps = (
        "noise",
        "say First I",
        "say  look.",
        update("tool_call", toolCallId="1", title="Look", kind="search", rawInput={"for": "it"}),
        update("tool_call_update", toolCallId="1", status="completed"),
        "say Now I know.",
    )
    async with told.running() as provider:
        reply = await told.ask(provider, "\n".join(steps), heard)
    assert reply == Reply("answered", "Now I know.")
    assert heard.text() == "First I look.\n\nNow I know."
    assert [(deed.tool, deed.summary, deed.state) for deed in heard.deeds] == [
        ("search", '{"for":"it"}', "running"),
        ("search", '{"for":"it"}', "done"),
    ]


async def test_a_permission_is_given_for_once(told: Kit) -> None:
    heard = Heard()
    known = update("tool_call", toolCallId="1", title="Run", kind="execute", rawInput={"a": 1})
    steps = (known, ask_for("1", rawInput={"command": "ls"}), ask_for("1"))
    async with told.running() as provider:
        reply = await told.ask(provider, "\n".join(steps), heard)
    outcome = '{"outcome": {"outcome": "selected", "optionId": "b"}}'
    assert reply.text == outcome * 2
    # Two questions about one call are one.
    assert [(asked.tool, asked.arguments) for asked in heard.asked] == [
        ("execute", {"a": 1, "command": "ls"})
    ]


async def test_a_denied_call_is_told_of_where_the_agent_stops_at_it(told: Kit) -> None:
    heard = denying("execute", reason="The shell is for others.")
    async with told.running() as provider:
        # It says what it was answered, and so has gone on by itself.
        reply = await told.ask(provider, ask_for("1", kind="execute"), heard)
        assert reply.text == '{"outcome": {"outcome": "selected", "optionId": "c"}}'
    assert heard.states("execute")[-1] == "denied"


async def test_files_of_the_workspace_are_read_and_written(told: Kit) -> None:
    heard = Heard()
    write(told, "poem.txt", "one", "two", "three")
    poem, new = str(told.workspace / "poem.txt"), str(told.workspace / "a/new.txt")
    steps = (
        request("fs/read_text_file", path=poem, line=2, limit=1),
        request("fs/write_text_file", path=new, content="four"),
    )
    async with told.running() as provider:
        reply = await told.ask(provider, "\n".join(steps), heard)
    assert reply.text == '{"content": "two\\n"}{}'
    assert (told.workspace / "a/new.txt").read_text() == "four"
    assert [asked.tool for asked in heard.asked] == ["read", "edit"]


@pytest.mark.parametrize("method", ["fs/read_text_file", "fs/write_text_file"])
@pytest.mark.parametrize(
    "path", ["/etc/hostname", "{workspace}/../outside", "{workspace}/link", ""]
)
async def test_other_files_are_not(told: Kit, method: str, path: str) -> None:
    heard = Heard()
    (told.workspace / "link").symlink_to("/etc/hostname")
    outside = told.workspace.parent / "outside"
    outside.write_text("secret")
    where = path.format(workspace=told.workspace)
    async with told.running() as provider:
        reply = await told.ask(provider, request(method, path=where, content="x"), heard)
    assert '"code"' in reply.text
    assert "secret" not in reply.text
    assert outside.read_text() == "secret"


async def test_a_denied_file_is_not_written(told: Kit) -> None:
    path = str(told.workspace / "new.txt")
    async with told.running() as provider:
        asked = request("fs/write_text_file", path=path, content="x")
        reply = await told.ask(provider, asked, denying("edit", reason="Not here."))
    assert "Not here." in reply.text
    assert not (told.workspace / "new.txt").exists()


async def test_terminals_are_not_offered(told: Kit) -> None:
    async with told.running() as provider:
        reply = await told.ask(provider, request("terminal/create", command="ls"))
    assert "-32601" in reply.text


async def test_a_cancellation_is_answered(told: Kit) -> None:
    heard = never_answering()
    steps = ask_for("1", kind="execute") + "\nwait"
    async with told.running() as provider, told.asking(provider, steps, heard) as answering:
        async with asyncio.timeout(SECONDS):
            await heard.first_question.wait()
            await provider.interrupt()
            reply = await answering
    assert reply == Reply("cancelled", '{"outcome": {"outcome": "cancelled"}}')
    assert len(heard.withdrawn) == 1


@pytest.mark.parametrize(
    ("step", "reply"),
    [
        ("stop max_tokens", Reply("answered", "So far.")),
        ("stop refusal", Reply("failed", "So far.", "The agent refused to go on.", "agent_error")),
        (
            "stop cancelled",
            Reply("failed", "So far.", "The agent stopped by itself.", "agent_error"),
        ),
        ("error No credit.", Reply("failed", "So far.", "No credit.", "model_error")),
    ],
)
async def test_how_turns_end(told: Kit, step: str, reply: Reply) -> None:
    async with told.running() as provider:
        assert await told.ask(provider, f"say So far.\n{step}") == reply
        assert await told.ask(provider, "say Next.") == Reply("answered", "Next.")


async def test_last_words_are_kept(told: Kit) -> None:
    async with told.running() as provider:
        with pytest.raises(ProviderDied, match="the last words") as died:
            await told.ask(provider, "exit 7")
    assert died.value.exit_code == 7


async def test_a_loaded_conversation_is_not_said_again(told: Kit) -> None:
    heard = Heard()
    async with told.running() as provider:
        await told.ask(provider, "say The word is heron.")
        conversation = provider.conversation
    async with told.running(conversation) as provider:
        assert provider.conversation == conversation
        reply = await told.ask(provider, "say Back.", heard)
    assert heard.text() == reply.text == "Back."


async def test_another_version_of_the_protocol_is_refused(told: Kit) -> None:
    env = {**told.surroundings.env, "ACP_VERSION": "9"}
    told.surroundings = replace(told.surroundings, env=env)
    with pytest.raises(ProviderMissing, match="version 9"):
        async with told.running():
            pass


@pytest.mark.parametrize("command", [(), ("no-such-agent",), ("/no/such/agent", "acp")])
async def test_an_agent_that_is_not_there_is_missing(kit: Kit, command: tuple[str, ...]) -> None:
    spec = msgspec.structs.replace(kit.spec, command=command)
    with pytest.raises(ProviderMissing):
        async with kit.running(spec=spec):
            pass


async def test_mcp_servers_that_the_agent_cannot_use_are_told_of(told: Kit) -> None:
    servers = (
        McpServerSpec(name="near", command=("server",), env={"A": "b"}),
        McpServerSpec(name="far", url="http://127.0.0.1:9/mcp", headers={"X": "y"}),
    )
    spec = msgspec.structs.replace(told.spec, mcp_servers=servers)
    async with told.running(spec=spec) as provider:
        assert provider.mcp == (
            McpStatus("near", "configured"),
            McpStatus("far", "failed", "The agent cannot use MCP servers over HTTP."),
        )


async def test_the_reference_implementation_understands_us(told: Kit, tmp_path: Path) -> None:
    """The package `agent-client-protocol` is a requirement of the tests alone."""
    program = tmp_path / "reference_agent.py"
    program.write_text(REFERENCE_AGENT)
    spec = msgspec.structs.replace(told.spec, command=(sys.executable, str(program)))
    heard = Heard()
    async with told.running(spec=spec) as provider:
        reply = await told.ask(provider, "Hello there.", heard)
    assert reply == Reply("answered", "Hello there. allowed")
    assert [asked.tool for asked in heard.asked] == ["execute"]


async def test_half_a_surrogate_pair_is_replaced(told: Kit) -> None:
    heard = Heard()
    steps = r'update {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "a \ud83d b"}'
    async with told.running() as provider:
        reply = await told.ask(provider, f"{steps}\nsay Still here.", heard)
    assert reply == Reply("answered", "Still here.")
    assert heard.deeds[0].tool == "a \N{REPLACEMENT CHARACTER} b"
