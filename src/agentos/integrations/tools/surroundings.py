"""What the MCP servers of a session are given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agentos.integrations.models.hosts import Hosts
from agentos.integrations.sandboxes.base import Limits, Sandbox
from agentos.integrations.workspaces.workspace import Workspace

# Gives the value of a secret of the session's tenant.
Secrets = Callable[[str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """For whom and where a toolbox is opened."""

    sandbox: Sandbox
    workspace: Workspace
    limits: Limits
    allowed_hosts: tuple[str, ...] = ()
    # Whether this installation lets sessions reach private addresses.
    hosts: Hosts = "public"
    secrets: Secrets | None = None
