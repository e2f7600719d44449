"""`agentos tools`, as a person uses it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import typer
from tests.gateways import Gateway
from typer.testing import CliRunner

from agentos.cli.tools import app
from agentos.kernel.errors import Invalid, NotFound

Tools = Callable[..., Awaitable[str]]


@pytest.fixture
async def tools(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tools:
    """Runs the command against a tenant of its own. The event loop is free to answer it."""
    tenant_id = (await gateway.tenant()).tenant_id
    monkeypatch.setenv("AGENTOS_URL", gateway.url)
    monkeypatch.setenv("AGENTOS_API_KEY", await gateway.api_key(tenant_id))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    group = typer.main.get_group(app)

    async def run(*args: str) -> str:
        result = await asyncio.to_thread(CliRunner().invoke, app, list(args))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    assert set(group.commands) == {"list", "policy"}
    return run


async def test_tools_are_listed(tools: Tools) -> None:
    lines = (await tools("list")).splitlines()
    assert lines[0].split() == ["Tool", "Tier", "Decision", "Default", "What", "it", "does"]
    [shell] = [line for line in lines if line.startswith("shell ")]
    assert shell.split()[1:4] == ["dangerous", "allow", "yes"]
    assert "Run a command with bash" in shell
    listed = json.loads(await tools("list", "--json"))
    assert {tool["name"] for tool in listed} >= {"shell", "http_send"}


async def test_the_life_of_policies(tools: Tools) -> None:
    assert "agentos tools policy set" in await tools("policy", "list")
    assert await tools("policy", "set", "http_send", "deny") == "http_send may not be used.\n"
    asked = await tools("policy", "set", "mcp__github__*", "ask")
    assert asked == "mcp__github__* may be used once a person has approved the call.\n"
    lines = [line.split() for line in (await tools("policy", "list")).splitlines()]
    assert [line[:2] for line in lines] == [
        ["Subject", "Decision"],
        ["http_send", "deny"],
        ["mcp__github__*", "ask"],
    ]
    [send] = [line for line in (await tools("list")).splitlines() if line.startswith("http_send")]
    assert "deny" in send
    removed = await tools("policy", "remove", "http_send")
    assert removed == "The decision about http_send is taken back.\n"
    assert len(json.loads(await tools("policy", "list", "--json"))) == 1


async def test_mistakes(tools: Tools) -> None:
    with pytest.raises(NotFound):
        await tools("policy", "remove", "http_send")
    with pytest.raises(Invalid, match="no decision 'maybe'"):
        await tools("policy", "set", "shell", "maybe")
