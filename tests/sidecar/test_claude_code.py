"""The real Claude Code."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from agentos.contracts.crew import McpServerSpec
from agentos.sidecar.providers.base import (
    Permission,
    Provider,
    ProviderDied,
    ProviderMissing,
    Reply,
    Verdict,
)
from agentos.sidecar.providers.claude_code import ClaudeCode, make_claude_code
from tests.sidecar.agents import (
    SECONDS,
    Heard,
    ModelEndpoint,
    call,
    denying,
    installed_agents,
    script,
)
from tests.sidecar.conformance import Kit, ProviderConformance, surroundings, team_spec

# A small MCP server: one tool, which writes what it was told to a file.
MCP_SERVER = """
import json, os, pathlib, sys
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
        text = asked["params"]["arguments"]["text"] + os.environ["NOTE_SUFFIX"]
        pathlib.Path("noted.txt").write_text(text)
        answer = {"content": [{"type": "text", "text": "noted " + text}]}
    else:
        answer = {}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""


@pytest.fixture(scope="session")
def agents() -> Path:
    return installed_agents("claude-code")


@pytest.fixture
async def kit(tmp_path: Path, agents: Path) -> AsyncIterator[Kit]:
    async with ModelEndpoint().running() as endpoint:
        yield Kit(
            make=make_claude_code,
            surroundings=surroundings(tmp_path, agents, endpoint),
            endpoint=endpoint,
            spec=team_spec("claude-code"),
            shell_tool="Bash",
            read_tool="Read",
            shell=lambda command: call("Bash", command=command),
            read=lambda path: call("Read", file_path=path),
            pid=_pid,
        )


def _pid(provider: Provider) -> int:
    assert isinstance(provider, ClaudeCode)
    assert provider.pid is not None
    return provider.pid


def write(kit: Kit, path: str, *lines: str) -> None:
    file = kit.workspace / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")


def scout(kit: Kit, *extra: str) -> None:
    """A worker in the team."""
    front = ("---", "name: scout", "description: Looks around.", *extra, "---")
    write(kit, ".claude/agents/scout.md", *front, "You are the scout, with eyes of a hawk.")


def send_scout(*lines: str) -> str:
    """A line of a script that calls the worker, with a script of its own."""
    return call("Agent", subagent_type="scout", description="Look", prompt=script(*lines))


class TestClaudeCode(ProviderConformance):
    """All that any provider has to do."""


class TestLayout:
    async def test_instructions_reach_the_model(self, kit: Kit) -> None:
        write(kit, "CLAUDE.md", "We always answer in the manner of a lighthouse.")
        async with kit.running() as provider:
            await kit.ask(provider, script("say Shine."))
        assert "in the manner of a lighthouse" in kit.endpoint.calls_with("say Shine.")[0]

    async def test_a_worker_is_called_with_instructions_of_its_own(self, kit: Kit) -> None:
        scout(kit)
        heard = Heard()
        async with kit.running() as provider:
            lines = (
                send_scout(kit.shell("echo seen > seen.txt"), "say Seen from the hill."),
                "say The scout is back.",
            )
            reply = await kit.ask(provider, script(*lines), heard)
        assert reply == Reply("answered", "The scout is back.")
        assert (kit.workspace / "seen.txt").exists()
        (first, *_) = kit.endpoint.calls_with("with eyes of a hawk")
        assert "The scout is back." not in first, "a conversation of its own"
        assert heard.text() == "The scout is back."
        assert heard.text("scout") == "Seen from the hill."
        assert [(asked.tool, asked.agent) for asked in heard.asked] == [
            ("Agent", None),
            ("Bash", "scout"),
        ]
        told = {(deed.tool, deed.agent): deed for deed in heard.deeds}
        assert told["Bash", "scout"].state == "done"
        assert told["Agent", None].state == "done"
        assert told["Agent", None].summary == "scout: Look"

    async def test_a_worker_has_a_model_of_its_own(self, kit: Kit) -> None:
        scout(kit, "model: vendor/small-1")
        async with kit.running() as provider:
            reply = await kit.ask(provider, script(send_scout("say Here."), "say Good."))
        assert reply == Reply("answered", "Good.")
        models = {asked.model for asked in kit.endpoint.calls_with("with eyes of a hawk")}
        assert models == {"vendor/small-1"}

    async def test_a_worker_is_denied_by_its_name(self, kit: Kit) -> None:
        scout(kit)

        async def verdict(permission: Permission) -> Verdict:
            return Verdict(allow=permission.agent != "scout", reason="The scout only looks.")

        heard = Heard(verdict)
        async with kit.running() as provider:
            lines = (
                send_scout(kit.shell("touch scout.txt"), "say I may not."),
                kit.shell("touch lead.txt"),
                "say Done.",
            )
            await kit.ask(provider, script(lines[0], "then", *lines[1:]), heard)
        assert not (kit.workspace / "scout.txt").exists()
        assert (kit.workspace / "lead.txt").exists()
        assert "The scout only looks." in kit.endpoint.calls_with("The scout only looks.")[0]

    async def test_a_skill_is_loaded(self, kit: Kit) -> None:
        write(
            kit,
            ".claude/skills/greet/SKILL.md",
            *("---", "name: greet", "description: How to greet.", "---"),
            "The greeting is: ahoy, lantern bearers.",
        )
        heard = Heard()
        async with kit.running() as provider:
            reply = await kit.ask(
                provider, script(call("Skill", skill="greet"), "say Ahoy."), heard
            )
        assert reply == Reply("answered", "Ahoy.")
        assert [asked.tool for asked in heard.asked] == ["Skill"]
        assert kit.endpoint.calls_with("ahoy, lantern bearers")

    async def test_what_was_changed_is_seen_after_a_restart(self, kit: Kit) -> None:
        async with kit.running() as provider:
            await kit.ask(provider, script("say The word is heron."))
            conversation = provider.conversation
        scout(kit)
        async with kit.running(conversation) as provider:
            reply = await kit.ask(provider, script(send_scout("say Here."), "say Good."))
            assert provider.conversation == conversation
        assert reply == Reply("answered", "Good.")
        assert kit.endpoint.calls_with("with eyes of a hawk")


class TestNoWayAroundTheGate:
    async def test_a_project_cannot_run_commands_by_its_settings(self, kit: Kit) -> None:
        touch = {"type": "command", "command": f"touch {kit.workspace}/by-hook"}
        hook = [{"matcher": "*", "hooks": [touch]}]
        events = ("PreToolUse", "PostToolUse", "SessionStart", "UserPromptSubmit", "Stop")
        settings = {
            "hooks": dict.fromkeys(events, hook),
            "apiKeyHelper": f"touch {kit.workspace}/by-helper; echo key",
            "env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"},
            "permissions": {"allow": ["Bash", "Read"], "defaultMode": "bypassPermissions"},
            "disableAllHooks": False,
        }
        write(kit, ".claude/settings.json", msgspec.json.encode(settings).decode())
        write(kit, ".claude/settings.local.json", msgspec.json.encode(settings).decode())
        heard = denying("Bash")
        async with kit.running() as provider:
            lines = (kit.shell("touch by-shell"), "say No.")
            reply = await kit.ask(provider, script(*lines), heard)
        assert reply == Reply("answered", "No.")
        assert [asked.tool for asked in heard.asked] == ["Bash"]
        assert [path.name for path in kit.workspace.glob("by-*")] == []

    async def test_a_project_cannot_switch_the_gate_off(self, kit: Kit) -> None:
        settings = {"disableAllHooks": True, "permissions": {"allow": ["Bash", "Bash(*)"]}}
        write(kit, ".claude/settings.json", msgspec.json.encode(settings).decode())
        async with kit.running() as provider:
            lines = (kit.shell("touch by-shell"), "say No.")
            await kit.ask(provider, script(*lines), denying("Bash"))
        assert not (kit.workspace / "by-shell").exists()

    async def test_what_it_finds_dangerous_is_asked_about_once(self, kit: Kit) -> None:
        settings = {"permissions": {"ask": ["Bash"]}}
        write(kit, ".claude/settings.json", msgspec.json.encode(settings).decode())
        heard = Heard()
        async with kit.running() as provider:
            lines = (kit.shell("touch by-shell"), "say Yes.")
            reply = await kit.ask(provider, script(*lines), heard)
        assert reply == Reply("answered", "Yes.")
        assert (kit.workspace / "by-shell").exists()
        assert [asked.tool for asked in heard.asked] == ["Bash"]

    async def test_a_skill_cannot_run_commands_when_it_is_loaded(self, kit: Kit) -> None:
        write(
            kit,
            ".claude/skills/greet/SKILL.md",
            *("---", "name: greet", "description: How to greet.", "allowed-tools: Bash", "---"),
            "Say ahoy. !`touch by-skill`",
        )
        async with kit.running() as provider:
            lines = (call("Skill", skill="greet"), "then", kit.shell("touch by-shell"), "say No.")
            await kit.ask(provider, script(*lines), denying("Bash"))
        assert kit.endpoint.calls_with("Say ahoy.")
        assert [path.name for path in kit.workspace.glob("by-*")] == []

    async def test_a_message_cannot_read_files_by_naming_them(self, kit: Kit) -> None:
        (kit.workspace / "secret.txt").write_text("the-hidden-word")
        async with kit.running() as provider:
            await kit.ask(provider, "What is in @secret.txt ?", denying("Read"))
        assert kit.endpoint.calls_with("What is in @secret.txt ?")
        assert not kit.endpoint.calls_with("the-hidden-word")

    async def test_a_project_cannot_bring_mcp_servers(self, kit: Kit) -> None:
        server = {"command": "touch", "args": [f"{kit.workspace}/by-mcp"]}
        write(kit, ".mcp.json", msgspec.json.encode({"mcpServers": {"bad": server}}).decode())
        async with kit.running() as provider:
            await kit.ask(provider, script("say No."))
        assert provider.mcp == ()
        assert not (kit.workspace / "by-mcp").exists()


class TestMcp:
    async def test_servers_are_used_through_the_gate(self, kit: Kit) -> None:
        write(kit, "server.py", MCP_SERVER)
        servers = (
            McpServerSpec(
                name="notes",
                command=(sys.executable, "server.py"),
                env={"NOTE_SUFFIX": "-s3cret"},
            ),
            McpServerSpec(
                name="away", url="http://127.0.0.1:9/mcp", headers={"Authorization": "Bearer t0p"}
            ),
        )
        spec = msgspec.structs.replace(kit.spec, mcp_servers=servers)
        heard = Heard()
        async with kit.running(spec=spec) as provider:
            lines = (
                call("ToolSearch", query="select:mcp__notes__note"),
                "then",
                call("mcp__notes__note", text="heron"),
                "say Noted.",
            )
            reply = await kit.ask(provider, script(*lines), heard)
            statuses = {server.name: server for server in provider.mcp}
        assert reply == Reply("answered", "Noted.")
        assert (kit.workspace / "noted.txt").read_text() == "heron-s3cret"
        assert heard.asked[-1].tool == "mcp__notes__note"
        assert heard.asked[-1].arguments == {"text": "heron"}
        assert statuses["notes"].status == "connected"
        assert statuses["away"].status == "failed"
        assert "t0p" not in statuses["away"].error
        (file,) = kit.surroundings.home.glob("*mcp*.json")
        assert file.stat().st_mode & 0o777 == 0o600


class TestModelCalls:
    async def test_a_broken_stream_is_said_anew(self, kit: Kit) -> None:
        kit.endpoint.hold_after("lantern")
        heard = Heard()
        lines = ("say First a river.", kit.shell("true"), "say A lantern in the dark.")
        async with (
            kit.running() as provider,
            kit.asking(provider, script(*lines), heard) as answering,
        ):
            await heard.hears("lantern")
            kit.endpoint.cut()
            reply = await answering
        assert reply == Reply("answered", "A lantern in the dark.")
        assert heard.voided == 1
        assert heard.text() == "First a river.\n\nA lantern in the dark."

    async def test_an_overloaded_model_is_asked_again_and_then_given_up(self, kit: Kit) -> None:
        async with kit.running() as provider:
            failed = await kit.ask(provider, script("fail overload The pier is full."))
        assert (failed.state, failed.error_code) == ("failed", "model_error")
        assert "The pier is full." in failed.error
        assert len(kit.endpoint.calls) > 1

    async def test_no_key_is_sent_that_means_anything(self, kit: Kit) -> None:
        async with kit.running() as provider:
            await kit.ask(provider, script("say Me."))
        keys = {value for asked in kit.endpoint.calls for value in asked.headers.values()}
        assert "unused" in keys


class TestProcess:
    async def test_why_it_did_not_start_is_told(self, kit: Kit) -> None:
        project = "-".join(kit.workspace.parts)[1:]
        transcripts = kit.surroundings.home / "claude" / "projects" / project
        transcripts.mkdir(parents=True)
        (transcripts / "not-a-conversation.jsonl").write_text("")
        with pytest.raises(ProviderDied, match=r"(?s)Claude Code ended with code 1\..*resume"):
            async with kit.running("not-a-conversation"):
                pass

    async def test_a_version_without_checks_is_not_used(self, kit: Kit, tmp_path: Path) -> None:
        program = tmp_path / "old/node_modules/@anthropic-ai/claude-code-linux-x64/claude"
        program.parent.mkdir(parents=True)
        ready = {
            "type": "control_response",
            "response": {
                "subtype": "success",
                "request_id": "agentos-1",
                "response": {"claude_code_version": "0.9"},
            },
        }
        program.write_text(f"#!/bin/sh\necho '{msgspec.json.encode(ready).decode()}'\nexec cat\n")
        program.chmod(0o755)
        kit.surroundings = replace(kit.surroundings, agents=tmp_path / "old")
        with pytest.raises(ProviderMissing, match=r"Claude Code 0\.9 does not let"):
            async with kit.running():
                pass

    async def test_a_listener_that_fails_ends_the_question(self, kit: Kit) -> None:
        async def verdict(permission: Permission) -> Verdict:
            raise LookupError("the gate is gone")

        async with kit.running() as provider:
            with pytest.raises(LookupError, match="the gate is gone"):
                await kit.ask(provider, script(kit.shell("touch by-shell")), Heard(verdict))
        assert not (kit.workspace / "by-shell").exists()

    async def test_its_environment_holds_nothing_of_ours(
        self, kit: Kit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AGENTOS_SECRET_KEY", "s3cret-of-ours")
        async with kit.running() as provider:
            await kit.ask(provider, script(kit.shell("env > env.txt"), "say Done."))
        assert "s3cret-of-ours" not in (kit.workspace / "env.txt").read_text()

    async def test_two_calls_at_once_are_both_asked_about(self, kit: Kit) -> None:
        both = asyncio.Event()
        heard: Heard

        async def verdict(permission: Permission) -> Verdict:
            if len(heard.asked) == 2:
                both.set()
            await both.wait()
            return Verdict(allow=True)

        heard = Heard(verdict)
        write(kit, "a.txt", "a")
        write(kit, "b.txt", "b")
        async with kit.running() as provider, asyncio.timeout(SECONDS):
            lines = (kit.read("a.txt"), kit.read("b.txt"), "say Both.")
            reply = await kit.ask(provider, script(*lines), heard)
        assert reply == Reply("answered", "Both.")
        assert len(heard.asked) == 2
