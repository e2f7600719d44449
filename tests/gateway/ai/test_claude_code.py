"""The real Claude Code, a program of somebody else's, on models of a tenant."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest
from tests.gateway.ai.conftest import GPT, Lab

from agentos.kernel import metrics
from agentos.kernel.settings import Settings
from agentos.testing import Reply
from agentos.testing.scripts import ToolCall
from agentos.testing.vendors import OpenAIServer

CLI = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
SECONDS = 90
MESSAGES = "/api/ai/anthropic/v1/messages"
Answered = list[tuple[str, str, int]]


@dataclass(frozen=True)
class Said:
    """What the program printed, and how it ended."""

    code: int
    text: str
    notices: str


@dataclass
class ClaudeCode:
    """The program with a home of its own, and nothing to reach but the gateway."""

    lab: Lab
    home: Path

    async def ask(self, model: str, prompt: str, key: str | None = None) -> Said:
        process = await asyncio.create_subprocess_exec(
            CLI,
            *("-p", "--model", model, "--permission-mode", "bypassPermissions"),
            prompt,
            cwd=self.home,
            env=self._environment(model, key or self.lab.key),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(SECONDS):
                out, notices = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return Said(process.returncode, out.decode().strip(), notices.decode())

    def _environment(self, model: str, key: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "CLAUDE_CONFIG_DIR": str(self.home / ".claude"),
            "ANTHROPIC_BASE_URL": f"{self.lab.gateway.url}/api/ai/anthropic",
            "ANTHROPIC_API_KEY": key,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": model,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            # Without it, root may not let it use tools unasked.
            "IS_SANDBOX": "1",
            # Nobody listens there: what is not on this machine cannot be reached.
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1",
        }


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """As patient as usual: a second program on a busy machine may take its time."""
    return Settings(
        data_dir=tmp_path, signup="open", anonymous_requests_per_minute=100_000, secret_key=None
    )


@pytest.fixture
def claude(lab: Lab, tmp_path: Path) -> ClaudeCode:
    home = tmp_path / "home"
    home.mkdir()
    return ClaudeCode(lab, home)


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Answered:
    """Every request to the proxy: method, path, status. A path that is not there ends in `…`."""
    seen: Answered = []

    def observe(method: str, route: str, status: int, seconds: float) -> None:
        if route.startswith("/api/ai/"):
            seen.append((method, route, status))

    monkeypatch.setattr(metrics, "observe_request", observe)
    return seen


async def test_it_answers(claude: ClaudeCode, answered: Answered) -> None:
    said = await claude.ask("demo", "What is 12*7?")
    assert said.code == 0, said
    assert said.text.startswith("12*7 = 84")
    assert "demo model" in said.text
    assert answered == [("POST", MESSAGES, 200)]
    (call,) = await claude.lab.calls()
    assert (call["face"], call["provider"]) == ("anthropic.messages", "demo")
    assert (call["outcome"], call["estimated"]) == ("answered", False)
    assert call["input_tokens"] > 1000, "its own prompt is long"


async def test_it_uses_its_tools(claude: ClaudeCode, answered: Answered) -> None:
    script = """Make a file.
```demo
think It is to be made with a command.
call Bash {"command": "echo made-$((40 + 2)) | tee made.txt", "description": "Make it"}
call Read {"file_path": "made.txt"}
then
say The file has:
result
```"""
    said = await claude.ask("demo", script)
    assert said.code == 0, said
    assert (claude.home / "made.txt").read_text() == "made-42\n"
    assert said.text.startswith("The file has:\n")
    assert "made-42" in said.text
    assert answered == [("POST", MESSAGES, 200)] * 2
    assert [call["outcome"] for call in await claude.lab.calls()] == ["answered"] * 2


async def test_its_conversation_is_translated(
    claude: ClaudeCode, openai_server: OpenAIServer, answered: Answered
) -> None:
    # A tool that Claude Code keeps back until the model looks for it, then one it always offers.
    openai_server.queue(
        Reply(
            text="Let me look for it.",
            tool_calls=[ToolCall("ToolSearch", {"query": "select:NotebookEdit"}, "call_look")],
        ),
        Reply(
            tool_calls=[
                ToolCall("Bash", {"command": "echo one > one; cat one"}, "call_one"),
                ToolCall("Bash", {"command": "echo two >&2; exit 3"}, "call_two"),
            ]
        ),
        Reply(text="All of it is done."),
    )
    await claude.lab.connect("openai", openai_server)
    said = await claude.ask(f"openai/{GPT}", "Do all of it.")
    assert (said.code, said.text) == (0, "All of it is done.")
    assert answered == [("POST", MESSAGES, 200)] * 3
    first, second, third = (request.json for request in openai_server.requests)
    assert "NotebookEdit" not in offered(first)
    assert "DeferredToolPlaceholder" not in offered(first)
    assert "NotebookEdit" in offered(second)
    assert [message["role"] for message in third["messages"]] == [
        *("system", "user"),
        *("assistant", "tool"),
        *("assistant", "tool", "tool"),
    ]
    results = {m["tool_call_id"]: m["content"] for m in third["messages"] if m["role"] == "tool"}
    assert "NotebookEdit" in results["call_look"]
    assert results["call_one"] == "one"
    assert "two" in results["call_two"]
    calls = await claude.lab.calls()
    assert [call["outcome"] for call in calls] == ["answered"] * 3
    assert all(call["cost_micros"] > 0 for call in calls)


async def test_it_tells_why_it_was_refused(
    claude: ClaudeCode, openai_server: OpenAIServer, answered: Answered
) -> None:
    said = await claude.ask("demo", "Hello", key=claude.lab.key[:-4] + "AAAA")
    assert said.code == 1
    assert "401" in said.text
    assert "API key" in said.text
    await claude.lab.connect("openai", openai_server)
    budget = await claude.lab.person.client.put(
        "/api/budgets", json={"scope": "tenant", "cap_micros": 10}
    )
    assert budget.status_code == 200, budget.text
    said = await claude.ask(f"openai/{GPT}", "Hello")
    assert said.code == 1
    assert "402 This call might go over a budget" in said.text
    assert "agentos budgets set" in said.text
    assert {status for _, _, status in answered} == {401, 402}
    assert openai_server.requests == []
    assert await claude.lab.calls() == []


def offered(request: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in request["tools"]]
