"""The built-in tools by name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from agentos.integrations.models.hosts import Hosts
from agentos.integrations.tools.base import Tool
from agentos.integrations.tools.commands import Python, Shell
from agentos.integrations.tools.http_tools import HttpFetch, HttpSend
from agentos.integrations.tools.reading import ListFiles, ReadFile, SearchFiles
from agentos.integrations.tools.writing import DeleteFile, EditFile, WriteFile

# What a session has if it does not say. Those that reach out are only there with a host to reach.
DEFAULT_TOOLS = (
    "shell",
    "python",
    "read_file",
    "write_file",
    "edit_file",
    "delete_file",
    "list_files",
    "search_files",
)
DEFAULT_NETWORK_TOOLS = ("http_fetch",)


def built_in_tools(
    allowed_hosts: Sequence[str] = (), *, hosts: Hosts = "public"
) -> dict[str, Tool]:
    """Every built-in tool, as it is for a session that may reach these hosts.

    `hosts`: whether this installation lets sessions list private addresses among them.
    """
    return dict(_built_in_tools(bool(allowed_hosts), hosts))


# They keep nothing about a session: what there is of it comes with each call.
@cache
def _built_in_tools(networked: bool, hosts: Hosts) -> dict[str, Tool]:
    tools: tuple[Tool, ...] = (
        Shell(networked=networked, hosts=hosts),
        Python(networked=networked, hosts=hosts),
        ReadFile(),
        WriteFile(),
        EditFile(),
        DeleteFile(),
        ListFiles(),
        SearchFiles(),
        HttpFetch(hosts=hosts),
        HttpSend(hosts=hosts),
    )
    return {tool.spec.name: tool for tool in tools}
