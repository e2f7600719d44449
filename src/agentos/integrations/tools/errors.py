from __future__ import annotations

from agentos.kernel.errors import AgentOSError, Invalid, Kind


class UnknownTool(Invalid):
    """There is no tool of this name."""

    code = "unknown_tool"
    hint = "`agentos tools list` shows the built-in tools."


class BadAllowedHost(Invalid):
    """An allowed host is a host name, *.suffix or an address, each with an optional port."""

    code = "bad_allowed_host"
    hint = "Write it like example.com, *.example.com or example.com:8443."


class HostRefused(AgentOSError):
    """This address may not be reached from here."""

    code = "host_refused"
    kind = Kind.FORBIDDEN


class HostUnreachable(AgentOSError):
    """This host cannot be reached."""

    code = "host_unreachable"
    kind = Kind.TRANSIENT


class McpServerFailed(AgentOSError):
    """An MCP server cannot be used."""

    code = "mcp_server_failed"
    kind = Kind.INVALID
    hint = "Check the server's address or command, and that it speaks MCP."


class McpServerUnreachable(McpServerFailed):
    """An MCP server does not answer."""

    code = "mcp_server_unreachable"
    kind = Kind.TRANSIENT
    hint = "Check that the server is running, and that it can be reached from the worker."
