"""MCP servers, remote and in the sandbox: their tools, and every way in which they can fail."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import mcp
import pytest
from mcp_types import Tool as TheirTool
from pydantic import ValidationError
from tests.integrations.tools.conftest import Kept
from tests.integrations.tools.mcp_examples import (
    OFFICIAL_STDIO_SERVER,
    STDIO_SERVER,
    Example,
    http_example,
)

from agentos.integrations.sandboxes.base import Command, Outcome, SandboxMissing
from agentos.integrations.sandboxes.choosing import why_not
from agentos.integrations.sandboxes.landlock import Landlock
from agentos.integrations.tools.base import Repeat, Tier, ToolContext
from agentos.integrations.tools.errors import McpServerFailed
from agentos.integrations.tools.mcp_tools import spec_of, tool_name
from agentos.integrations.tools.schemas import McpServer
from agentos.integrations.tools.surroundings import Surroundings
from agentos.integrations.tools.toolbox import Toolbox, open_toolbox
from agentos.kernel.errors import Invalid, NotFound


@pytest.fixture
async def example() -> AsyncIterator[Example]:
    async with http_example() as running:
        yield running


def remote(example: Example, **more: object) -> McpServer:
    return McpServer.model_validate({"name": "ex", "url": example.url, **more})


async def test_tools_of_a_remote_server(
    around: Surroundings, context: ToolContext, example: Example, kept: Kept
) -> None:
    async with open_toolbox([], [remote(example)], around) as toolbox:
        treated = {spec.name: (spec.tier, spec.repeat) for spec in toolbox.specs}
        assert treated["mcp__ex__add"] == (Tier.SAFE, Repeat.ALWAYS)
        assert treated["mcp__ex__drop"] == (Tier.DESTRUCTIVE, Repeat.NEVER)
        assert treated["mcp__ex__put"] == (Tier.DANGEROUS, Repeat.ALWAYS)
        assert treated["mcp__ex__fail"] == (Tier.DANGEROUS, Repeat.NEVER)
        added = await toolbox.call("mcp__ex__add", {"a": 2, "b": 3}, context)
        assert (added.failed, added.text) == (False, "5")
        assert example.asked == [("add", "session:7")]
        wrong = await toolbox.call("mcp__ex__add", {"a": "two", "b": 3}, context)
        assert wrong.failed
        assert len(example.asked) == 1
        [odd] = [name for name in treated if "weird" in name]
        assert (await toolbox.call(odd, {}, context)).text == "weird"
        failed = await toolbox.call("mcp__ex__fail", {}, context)
        assert failed.failed
        assert "it did not work" in failed.text
        drawn = await toolbox.call("mcp__ex__picture", {}, context)
        assert drawn.text == "a picture:\n[image/png of 400 bytes, not shown. All of it: output-1]"
        long = await toolbox.call("mcp__ex__lines", {"count": 20_000}, context)
        assert len(long.text) < 25_000
        assert long.text.rstrip().endswith("19999")
        assert len(kept.outputs) == 2


async def test_only_some_of_its_tools(around: Surroundings, example: Example) -> None:
    async with open_toolbox(["shell"], [remote(example, tools=["add"])], around) as toolbox:
        assert [spec.name for spec in toolbox.specs] == ["shell", "mcp__ex__add"]
    with pytest.raises(McpServerFailed, match="has no tool nothing"):
        async with open_toolbox([], [remote(example, tools=["nothing"])], around):
            raise AssertionError


async def test_secrets_go_into_headers_and_nowhere_else(
    around: Surroundings, context: ToolContext, example: Example, caplog: pytest.LogCaptureFixture
) -> None:
    async def secrets(name: str) -> str:
        if name != "example-token":
            raise NotFound(f"There is no secret {name}.")
        return "canary-4711"

    caplog.set_level(logging.DEBUG)
    with_vault = replace(around, secrets=secrets)
    headers = {"X-Plain": "plain", "Authorization": {"secret": "example-token"}}
    server = remote(example, headers=headers)
    assert server.secrets == {"example-token"}
    async with open_toolbox([], [server], with_vault) as toolbox:
        await toolbox.call("mcp__ex__add", {"a": 1, "b": 1}, context)
        hung = await toolbox.call("mcp__ex__drop", {}, context)
    assert example.headers[0]["authorization"] == "canary-4711"
    assert example.headers[0]["x-plain"] == "plain"
    assert "canary" not in caplog.text + hung.text + repr(server)
    unknown = remote(example, headers={"A": {"secret": "other"}})
    with pytest.raises(McpServerFailed, match="needs the secret other: There is no secret"):
        async with open_toolbox([], [unknown], with_vault):
            raise AssertionError
    with pytest.raises(McpServerFailed, match="no vault"):
        async with open_toolbox([], [server], around):
            raise AssertionError


async def test_a_call_that_takes_too_long(
    around: Surroundings, context: ToolContext, example: Example
) -> None:
    async with open_toolbox([], [remote(example, timeout_seconds=1)], around) as toolbox:
        hung = await toolbox.call("mcp__ex__hang", {}, context)
        assert hung.failed
        assert hung.details["uncertain"] is True
        # The server is still good for other calls.
        assert (await toolbox.call("mcp__ex__add", {"a": 1, "b": 1}, context)).text == "2"


async def test_a_call_that_is_cancelled(
    around: Surroundings, context: ToolContext, example: Example
) -> None:
    async with open_toolbox([], [remote(example)], around) as toolbox:
        calling = asyncio.create_task(toolbox.call("mcp__ex__hang", {}, context))
        await example.hanging.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert (await toolbox.call("mcp__ex__add", {"a": 1, "b": 1}, context)).text == "2"


async def test_a_server_that_goes_away_and_comes_back(
    around: Surroundings, context: ToolContext
) -> None:
    async with http_example() as first:
        opened = open_toolbox([], [remote(first)], around)
        toolbox = await opened.__aenter__()
        assert (await toolbox.call("mcp__ex__add", {"a": 1, "b": 1}, context)).text == "2"
    gone = await toolbox.call("mcp__ex__add", {"a": 1, "b": 1}, context)
    assert gone.failed
    still = await toolbox.call("mcp__ex__add", {"a": 1, "b": 1}, context)
    assert still.failed
    async with http_example(urlsplit(first.url).port or 0):
        back = await toolbox.call("mcp__ex__add", {"a": 1, "b": 1}, context)
        assert back.text == "2"
        await opened.__aexit__(None, None, None)


async def test_servers_that_cannot_be_used(around: Surroundings, example: Example) -> None:
    async def refused(server: McpServer, surroundings: Surroundings = around) -> str:
        with pytest.raises(McpServerFailed) as caught:
            async with open_toolbox([], [server], surroundings):
                raise AssertionError
        return caught.value.message

    nowhere = McpServer(name="ex", url="http://127.0.0.1:1/mcp")
    assert "does not answer" in await refused(nowhere)
    other = McpServer(name="ex", url=example.url.replace("/mcp", "/nothing"))
    assert "The MCP server ex" in await refused(other)
    unknown = McpServer(name="ex", url="https://mcp.nowhere.test/")
    assert "was not found" in await refused(unknown)
    # This installation does not connect tenants to its own network.
    public = replace(around, hosts="public")
    assert "may not be reached" in await refused(remote(example), public)
    assert "may not be reached" in await refused(
        McpServer(name="ex", url="http://169.254.169.254/mcp")
    )
    assert example.asked == []


async def test_answers_that_are_too_long(around: Surroundings, context: ToolContext) -> None:
    for as_json in (True, False):
        async with http_example(as_json=as_json) as example:
            server = remote(example, timeout_seconds=30)
            async with open_toolbox([], [server], around) as toolbox:
                flood = await toolbox.call("mcp__ex__lines", {"count": 2_000_000}, context)
                assert flood.failed
                again = await toolbox.call("mcp__ex__add", {"a": 1, "b": 1}, context)
                assert again.text == "2"


@asynccontextmanager
async def small_server(
    around: Surroundings, script: str = STDIO_SERVER, **more: object
) -> AsyncIterator[Toolbox]:
    await around.workspace.write("server.py", script.encode())
    server = McpServer.model_validate(
        {"name": "small", "command": ["python3", "server.py"], "timeout_seconds": 10, **more}
    )
    async with open_toolbox([], [server], around) as toolbox:
        yield toolbox


async def test_a_server_in_the_sandbox(around: Surroundings, context: ToolContext) -> None:
    async with small_server(around) as toolbox:
        done = await toolbox.call("mcp__small__where", {}, context)
        # The workspace is its directory; the host's files are not there; and there is no network.
        assert done.text == "/workspace False session:7 - -"
        assert await around.workspace.read("trace.txt") == b"called\n"
        assert toolbox.find("mcp__small__broken") is None
        [reason] = toolbox.left_out
        assert reason.startswith("broken of the MCP server small: This is not a valid JSON Schema")


async def test_a_server_in_the_sandbox_with_a_way_out(
    around: Surroundings, context: ToolContext
) -> None:
    reaching = replace(around, allowed_hosts=("example.com",))
    async with small_server(reaching) as toolbox:
        done = await toolbox.call("mcp__small__where", {}, context)
        assert done.text == "/workspace False session:7 - http://127.0.0.1:3128"


async def test_a_server_that_misbehaves(around: Surroundings, context: ToolContext) -> None:
    async def secrets(name: str) -> str:
        return "canary-4711"

    around = replace(around, secrets=secrets)
    async with small_server(around, env={"TOKEN": {"secret": "x"}}) as toolbox:

        async def call(tool: str) -> str:
            return (await toolbox.call(f"mcp__small__{tool}", {}, context)).text

        assert "canary-4711" in await call("where")
        died = await toolbox.call("mcp__small__die", {}, context)
        assert died.failed
        assert died.text == "The connection to the MCP server small was lost during the call."
        assert died.details["uncertain"] is True
        # It is started again by the next call.
        assert "/workspace" in await call("where")
        flooded = await toolbox.call("mcp__small__flood", {}, context)
        assert flooded.failed
        assert "/workspace" in await call("where")
        # Its own pattern for its answer would take years to match.
        assert (await call("evil")).endswith('!"}')
        nonsense = await toolbox.call("mcp__small__nonsense", {}, context)
        assert nonsense.failed
        assert "does not speak MCP as it should" in nonsense.text


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("import sys; sys.exit('no configuration: ' + 'canary-4711')", "no configuration: ***"),
        ("print('hello')", "ended with exit code 0"),
        ("def (", "SyntaxError"),
    ],
)
async def test_a_server_that_does_not_start(around: Surroundings, script: str, told: str) -> None:
    async def secrets(name: str) -> str:
        return "canary-4711"

    around = replace(around, secrets=secrets)
    with pytest.raises(McpServerFailed) as caught:
        async with small_server(around, script, env={"TOKEN": {"secret": "x"}}):
            raise AssertionError
    assert told in caught.value.message
    assert "canary" not in caught.value.message


async def test_a_command_that_is_not_there(around: Surroundings) -> None:
    server = McpServer(name="small", command=["no-such-program"])
    with pytest.raises(McpServerFailed, match="no-such-program: No such file"):
        async with open_toolbox([], [server], around):
            raise AssertionError


async def test_in_the_other_sandbox(around: Surroundings) -> None:
    sandbox = Landlock()
    if await why_not(sandbox) is not None:
        pytest.skip("this kernel has no Landlock")
    with pytest.raises(McpServerFailed, match="This kind of sandbox cannot be talked to"):
        async with small_server(replace(around, sandbox=sandbox)):
            raise AssertionError


async def test_no_sandbox_no_server(around: Surroundings) -> None:
    class NoSandbox:
        name = "none"

        async def run(self, command: Command) -> Outcome:
            raise SandboxMissing()

    with pytest.raises(SandboxMissing):
        async with small_server(replace(around, sandbox=NoSandbox())):
            raise AssertionError


async def test_the_official_server_in_the_sandbox(
    around: Surroundings, context: ToolContext
) -> None:
    """As somebody would who keeps it and what it needs in the workspace."""
    packages = Path(mcp.__file__).parent.parent
    needed = "_cffi_backend* annotated_types anyio click cryptography httpcore2 httpx2 idna mcp "
    needed += "mcp_types opentelemetry pydantic pydantic_core python_multipart sniffio "
    needed += "sse_starlette starlette typing_extensions.py typing_inspection uvicorn *.dist-info"
    for pattern in needed.split():
        for place in packages.glob(pattern):
            to = around.workspace.root / "lib" / place.name
            if place.is_dir():
                shutil.copytree(place, to)
            else:
                to.parent.mkdir(exist_ok=True)
                shutil.copy(place, to)
    env = {"PYTHONPATH": "/workspace/lib"}
    async with small_server(around, OFFICIAL_STDIO_SERVER, env=env) as toolbox:
        done = await toolbox.call("mcp__small__shout", {"text": "hello"}, context)
        assert (done.failed, done.text) == (False, "HELLO")


def test_names_fit_every_model() -> None:
    names = {
        tool_name("ex", tool)
        for tool in ("a", "a.b", "a/b", "a b", "x" * 200, "x" * 199 + "y", "ü", "ö", "")
    }
    assert len(names) == 9
    assert all(len(name) <= 64 and name.isascii() for name in names)
    assert all(name.replace("_", "").replace("-", "").isalnum() for name in names)


def test_what_a_server_says_about_itself_has_bounds() -> None:
    tool = TheirTool(name="t", description="d" * 10_000, input_schema={"properties": {}})
    spec = spec_of("ex", tool)
    assert len(spec.description) == 4000
    assert spec.schema["type"] == "object"
    huge = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(10_000)}}
    with pytest.raises(Invalid, match="too large"):
        spec_of("ex", TheirTool(name="t", input_schema=huge))


@pytest.mark.parametrize(
    "config",
    [
        {"name": "a"},
        {"name": "A", "url": "https://a.test/"},
        {"name": "a__b", "url": "https://a.test/"},
        {"name": "a", "url": "https://a.test/", "command": ["x"]},
        {"name": "a", "url": "ftp://a.test/"},
        {"name": "a", "url": "https://user:pw@a.test/"},
        {"name": "a", "url": "https://a.test/", "env": {"A": "b"}},
        {"name": "a", "url": "https://a.test/", "headers": {"A": "b\r\nc"}},
        {"name": "a", "url": "https://a.test/", "headers": {"A b": "c"}},
        {"name": "a", "command": []},
        {"name": "a", "command": ["a\0b"]},
        {"name": "a", "command": ["x"], "headers": {"A": "b"}},
        {"name": "a", "command": ["x"], "env": {"A=B": "c"}},
        {"name": "a", "command": ["x"], "timeout_seconds": 0},
        {"name": "a", "command": ["x"], "oops": 1},
    ],
)
def test_configurations_that_are_refused(config: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        McpServer.model_validate(config)


async def test_two_servers_of_one_name(around: Surroundings, example: Example) -> None:
    with pytest.raises(Invalid, match="same name"):
        async with open_toolbox([], [remote(example), remote(example)], around):
            raise AssertionError
