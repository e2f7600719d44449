"""The tools of one session, by name."""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from agentos.integrations.tools.arguments import Arguments
from agentos.integrations.tools.base import Tool, ToolContext, ToolResult, ToolSpec
from agentos.integrations.tools.building import MENDABLE, told
from agentos.integrations.tools.built_in import (
    DEFAULT_NETWORK_TOOLS,
    DEFAULT_TOOLS,
    built_in_tools,
)
from agentos.integrations.tools.errors import UnknownTool
from agentos.integrations.tools.schemas import McpServer
from agentos.integrations.tools.surroundings import Surroundings
from agentos.kernel.errors import AgentOSError, Invalid
from agentos.kernel.texts import storable


class Toolbox:
    """What a model may ask for. Whatever it asks, the answer is a result that it can go on with.

    Errors are raised only for what is not the model's to mend: no sandbox, no disk, no database.
    """

    def __init__(self, tools: Iterable[Tool], left_out: Sequence[str] = ()):
        self._tools = {tool.spec.name: tool for tool in tools}
        self._arguments: dict[str, Arguments] = {}
        # Tools of MCP servers that cannot be offered, and why.
        self.left_out = tuple(left_out)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self._tools.values())

    def find(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def check(self, name: str, arguments: Mapping[str, Any] | str) -> ToolResult | None:
        """Why a call cannot be made, or None if it can. Nothing is done."""
        try:
            self._parsed(name, arguments)
        except Invalid as error:
            return told(error)
        return None

    async def call(
        self, name: str, arguments: Mapping[str, Any] | str, context: ToolContext
    ) -> ToolResult:
        """Makes a call. An unknown tool or arguments that do not fit are failed results."""
        try:
            parsed = self._parsed(name, arguments)
        except Invalid as error:
            return told(error)
        try:
            result = await self._tools[name].run(parsed, context)
        except AgentOSError as error:
            if error.kind not in MENDABLE:
                raise
            return told(error)
        return replace(result, text=storable(result.text))

    def _parsed(self, name: str, arguments: Mapping[str, Any] | str) -> dict[str, Any]:
        tool = self._tools.get(name)
        if tool is None:
            raise unknown_tool(name, self._tools)
        if name not in self._arguments:
            self._arguments[name] = Arguments(tool.spec.schema)
        return self._arguments[name].parse(arguments)


def unknown_tool(name: str, known: Iterable[str]) -> UnknownTool:
    names = sorted(known)
    close = difflib.get_close_matches(name[:100], names, n=1)
    guess = f" Did you mean {close[0]}?" if close else ""
    there = f"There are: {', '.join(names)}." if names else "There are none."
    return UnknownTool(f"There is no tool '{name[:100]}'.{guess}", hint=there)


def check_tools(wanted: Iterable[str]) -> None:
    """Raises UnknownTool for a name that is not one of a built-in tool."""
    known = built_in_tools()
    for name in wanted:
        if name not in known:
            raise unknown_tool(name, known)


@asynccontextmanager
async def open_toolbox(
    wanted: Sequence[str] | None, servers: Sequence[McpServer], around: Surroundings
) -> AsyncIterator[Toolbox]:
    """The tools of a session, with its MCP servers connected for as long as the block lasts.

    `wanted`: built-in tools by name; None: the usual ones. Raises UnknownTool, McpServerFailed.
    """
    known = built_in_tools(around.allowed_hosts, hosts=around.hosts)
    if wanted is None:
        wanted = DEFAULT_TOOLS + (DEFAULT_NETWORK_TOOLS if around.allowed_hosts else ())
    check_tools(wanted)
    if len({server.name for server in servers}) != len(servers):
        raise Invalid("Two MCP servers have the same name.")
    tools: list[Tool] = [known[name] for name in dict.fromkeys(wanted)]
    left_out: list[str] = []
    async with AsyncExitStack() as stack:
        for server in servers:
            theirs, reasons = await _connected(server, around, stack)
            tools += theirs
            left_out += reasons
        yield Toolbox(tools, left_out)


async def _connected(
    server: McpServer, around: Surroundings, stack: AsyncExitStack
) -> tuple[Sequence[Tool], list[str]]:
    # Imported here: the MCP package takes most of a second, and most sessions have no server.
    from agentos.integrations.tools.mcp_servers import McpConnection
    from agentos.integrations.tools.mcp_tools import tools_of

    connection = McpConnection(server, around)
    stack.push_async_callback(connection.close)
    return await tools_of(connection)
