"""The tools of MCP servers, as tools of a session."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mcp_types
import msgspec
from mcp import Client
from pydantic import TypeAdapter

from agentos.integrations.tools.arguments import Arguments, BadSchema
from agentos.integrations.tools.base import Repeat, Tier, ToolContext, ToolResult, ToolSpec
from agentos.integrations.tools.building import failed
from agentos.integrations.tools.errors import McpServerFailed
from agentos.integrations.tools.mcp_links import McpCallFailed
from agentos.integrations.tools.mcp_servers import McpConnection
from agentos.integrations.tools.outputs import Keep, shown, size_of

IDEMPOTENCY_META = "agentos/idempotencyKey"

# What models of all vendors take as the name of a tool.
_LONGEST_NAME = 64
_ODD = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_DESCRIPTION = 4000
_MOST_SCHEMA_BYTES = 100_000
_MOST_TOOLS = 200
_MOST_PAGES = 20
_LIST_SECONDS = 30.0

_Answer = TypeAdapter[mcp_types.CallToolResult | mcp_types.InputRequiredResult](
    mcp_types.CallToolResult | mcp_types.InputRequiredResult
)


@dataclass(frozen=True, slots=True)
class McpTool:
    """One tool of a server."""

    spec: ToolSpec
    connection: McpConnection
    # What the server itself calls it.
    theirs: str

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        request = mcp_types.CallToolRequest(
            params=mcp_types.CallToolRequestParams(
                name=self.theirs,
                arguments=dict(arguments),
                _meta={IDEMPOTENCY_META: context.idempotency_key},
            )
        )
        seconds = min(self.connection.server.timeout_seconds, context.limits.seconds)

        # Not `Client.call_tool`: that matches the answer against patterns of the server's own
        # choice with an engine that a hostile one can keep busy for ever.
        async def call(
            client: Client,
        ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
            return await client.session.send_request(request, _Answer, seconds)

        try:
            answer = await self.connection.ask(call, seconds + 1)
        except McpCallFailed as error:
            return failed(str(error), **({"uncertain": True} if error.uncertain else {}))
        if isinstance(answer, mcp_types.InputRequiredResult):
            return failed(f"{self.spec.name} asks for input from a person, which is not possible.")
        text = await _text(answer, context.keep)
        return ToolResult(text, failed=answer.is_error)


async def tools_of(connection: McpConnection) -> tuple[list[McpTool], list[str]]:
    """The tools of a server, and why others were left out. Raises McpServerFailed."""
    await connection.open()
    server = connection.server
    try:
        listed = await connection.ask(_listed, _LIST_SECONDS)
    except McpCallFailed as error:
        raise McpServerFailed(str(error)) from None
    wanted = None if server.tools is None else set(server.tools)
    tools: dict[str, McpTool] = {}
    left_out = []
    for tool in listed:
        if wanted is not None and tool.name not in wanted:
            continue
        try:
            spec = spec_of(server.name, tool)
        except BadSchema as error:
            left_out.append(f"{tool.name[:100]} of the MCP server {server.name}: {error.message}")
            continue
        tools.setdefault(spec.name, McpTool(spec, connection, tool.name))
    missing = sorted((wanted or set()) - {tool.name for tool in listed})
    if missing:
        raise McpServerFailed(
            f"The MCP server {server.name} has no tool {', '.join(missing)[:500]}.",
            hint=f"It has: {', '.join(tool.name for tool in listed)[:1000]}.",
        )
    return list(tools.values()), left_out


async def _listed(client: Client) -> list[mcp_types.Tool]:
    tools: list[mcp_types.Tool] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None or len(tools) >= _MOST_TOOLS:
            break
    return tools[:_MOST_TOOLS]


def spec_of(server: str, tool: mcp_types.Tool) -> ToolSpec:
    """How a tool of a server is offered to models. Raises BadSchema."""
    schema = {"type": "object", **tool.input_schema}
    if len(msgspec.json.encode(schema)) > _MOST_SCHEMA_BYTES:
        raise BadSchema("Its schema is too large.")
    Arguments(schema)
    tier, repeat = _treated(tool.annotations)
    described = tool.description or tool.title or tool.name
    return ToolSpec(
        name=tool_name(server, tool.name),
        description=described[:_LONGEST_DESCRIPTION],
        schema=schema,
        tier=tier,
        repeat=repeat,
    )


def tool_name(server: str, tool: str) -> str:
    """`mcp__{server}__{tool}`; a name that models do not take is made to fit and stays unique."""
    name = f"mcp__{server}__{_ODD.sub('_', tool)}"
    if len(name) <= _LONGEST_NAME and not _ODD.search(tool):
        return name
    mark = hashlib.sha256(tool.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - 9]}_{mark}"


def _treated(hints: mcp_types.ToolAnnotations | None) -> tuple[Tier, Repeat]:
    """What the server says about its tool, the worst of it first."""
    if hints is None:
        return Tier.DANGEROUS, Repeat.NEVER
    if hints.destructive_hint and not hints.read_only_hint:
        return Tier.DESTRUCTIVE, Repeat.NEVER
    if hints.read_only_hint:
        return Tier.SAFE, Repeat.ALWAYS
    return Tier.DANGEROUS, Repeat.ALWAYS if hints.idempotent_hint else Repeat.NEVER


async def _text(answer: mcp_types.CallToolResult, keep: Keep) -> str:
    parts = [await _part(block, keep) for block in answer.content]
    if not parts and answer.structured_content is not None:
        parts = [msgspec.json.encode(answer.structured_content).decode()]
    text = "\n".join(parts)
    if not text.strip():
        return "[It answered with nothing.]"
    return await shown(text.encode(errors="replace"), keep)


async def _part(block: mcp_types.ContentBlock, keep: Keep) -> str:
    if isinstance(block, mcp_types.TextContent):
        return block.text
    if isinstance(block, mcp_types.ImageContent | mcp_types.AudioContent):
        return await _described(block.mime_type, block.data, keep)
    if isinstance(block, mcp_types.ResourceLink):
        return f"[{block.name}: {block.uri}]"
    resource = block.resource
    if isinstance(resource, mcp_types.TextResourceContents):
        return f"[{resource.uri}]\n{resource.text}"
    return await _described(resource.mime_type or "binary data", resource.blob, keep)


async def _described(kind: str, encoded: str, keep: Keep) -> str:
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return f"[{kind[:100]}, damaged.]"
    return f"[{kind[:100]} of {size_of(len(data))}, not shown. All of it: {await keep(data)}]"
