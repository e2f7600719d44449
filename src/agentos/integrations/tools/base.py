"""What a tool is: something a model may ask for, that is done in its session's name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

from agentos.integrations.sandboxes.base import Limits, Sandbox
from agentos.integrations.workspaces.workspace import Workspace
from agentos.kernel.ids import TenantId


class Tier(StrEnum):
    """How much harm a tool can do; the tenant's tool policy decides by it."""

    SAFE = "safe"
    DANGEROUS = "dangerous"
    DESTRUCTIVE = "destructive"


class Repeat(StrEnum):
    """Whether a call that may have happened can be made again."""

    # It changes nothing.
    ALWAYS = "always"
    # It changes the workspace only, which is put back first.
    WORKSPACE = "workspace"
    # It changes the world outside: whether it happened has to be found out, not tried.
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model is told about it, and as the engine has to treat it."""

    name: str
    description: str
    # JSON Schema of the arguments: an object.
    schema: Mapping[str, Any]
    tier: Tier
    repeat: Repeat


@dataclass(frozen=True, slots=True)
class ToolContext:
    """For whom and where a call is made."""

    tenant_id: TenantId
    session_id: UUID
    # The same for the same call, however often it is made.
    idempotency_key: str
    workspace: Workspace
    sandbox: Sandbox
    limits: Limits
    # Hosts that commands and http_fetch may reach; empty: none.
    allowed_hosts: tuple[str, ...]
    # Keeps an output that is too long for a conversation, and says how to get at it.
    keep: Callable[[bytes], Awaitable[str]]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model is told, and what the timeline shows besides."""

    text: str
    failed: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)


class Tool(Protocol):
    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Does it. What the model can put right comes back as a failed result, not as an error."""
        ...
