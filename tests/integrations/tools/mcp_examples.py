"""MCP servers to try the tools with: the package's own over HTTP, and small ones on stdio."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, ImageContent, TextContent, ToolAnnotations


@dataclass
class Example:
    """A server that is running, and what it noticed."""

    url: str
    asked: list[tuple[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)


def _server(example: Example) -> MCPServer:
    server = MCPServer("example")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def add(a: int, b: int, ctx: Context[Any, Any]) -> int:
        """Add two numbers."""
        example.asked.append(
            ("add", (ctx.request_context.meta or {}).get("agentos/idempotencyKey"))
        )
        example.headers.append(dict(ctx.headers or {}))
        return a + b

    @server.tool(annotations=ToolAnnotations(destructive_hint=True))
    async def drop(name: str) -> str:
        """Drop a table."""
        return f"dropped {name}"

    @server.tool(annotations=ToolAnnotations(idempotent_hint=True, destructive_hint=False))
    async def put(name: str) -> str:
        """Put something."""
        return f"put {name}"

    @server.tool(name="get.weird name!")
    async def weird() -> str:
        """Has a name that models do not take."""
        return "weird"

    @server.tool()
    async def fail() -> str:
        """Fail."""
        raise ToolError("it did not work")

    @server.tool(structured_output=False)
    async def picture() -> CallToolResult:
        """Draw."""
        data = base64.b64encode(b"\x89PNG" * 100).decode()
        return CallToolResult(
            content=[
                TextContent(type="text", text="a picture:"),
                ImageContent(type="image", data=data, mime_type="image/png"),
            ]
        )

    @server.tool()
    async def lines(count: int) -> str:
        """Many lines."""
        return "".join(f"{n}\n" for n in range(count))

    @server.tool()
    async def hang() -> str:
        """Never answer."""
        example.hanging.set()
        await example.release.wait()
        return "released"

    return server


@asynccontextmanager
async def http_example(port: int = 0, *, as_json: bool = False) -> AsyncIterator[Example]:
    """The package's own server, over streamable HTTP on loopback."""
    listening = socket.create_server(("127.0.0.1", port))
    example = Example(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp")
    app = _server(example).streamable_http_app(json_response=as_json)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    # Not `serve`, which would take over the signals. Whoever connects already waits in the queue.
    serving = asyncio.create_task(server._serve([listening]))
    try:
        yield example
    finally:
        example.release.set()
        server.should_exit = True
        await serving
        listening.close()


# Speaks as much MCP as is needed, and misbehaves as it is told to.
STDIO_SERVER = r"""
import json, os, sys
print("a line that is no message", flush=True)
print("the server has started", file=sys.stderr, flush=True)
def say(id, result):
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
def tool(name, **schema):
    return {"name": name, "description": name, "inputSchema": {"type": "object", **schema}}
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked["method"], asked.get("id")
    if method == "initialize":
        say(id, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                 "serverInfo": {"name": "small", "version": "1"}})
    elif method == "tools/list":
        say(id, {"tools": [tool("where"), tool("die"), tool("flood"), tool("nonsense"),
                           {**tool("evil"), "outputSchema": {"type": "object", "properties": {
                               "a": {"type": "string", "pattern": "^(a+)+$"}}}},
                           tool("broken", properties={"a": {"$ref": "http://127.0.0.1:1/x"}})]})
    elif method == "tools/call":
        name = asked["params"]["name"]
        key = asked["params"]["_meta"]["agentos/idempotencyKey"]
        if name == "where":
            text = " ".join([os.getcwd(), str(os.path.exists("/etc/shadow")), key,
                             os.environ.get("TOKEN", "-"), os.environ.get("http_proxy", "-")])
            open("trace.txt", "a").write("called\n")
            say(id, {"content": [{"type": "text", "text": text}]})
        elif name == "die":
            print("my token is", os.environ.get("TOKEN"), file=sys.stderr, flush=True)
            sys.exit(7)
        elif name == "flood":
            sys.stdout.write("x" * (9 * 2**20))
            sys.stdout.flush()
        elif name == "evil":
            say(id, {"content": [], "structuredContent": {"a": "a" * 50 + "!"}})
        elif name == "nonsense":
            say(id, {"content": "not a list"})
    elif id is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": id,
                          "error": {"code": -32601, "message": "no such method"}}), flush=True)
"""

OFFICIAL_STDIO_SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("official")
@server.tool()
def shout(text: str) -> str:
    "Say it louder."
    return text.upper()
server.run("stdio")
"""
