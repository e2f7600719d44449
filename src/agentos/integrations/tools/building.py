"""What the built-in tools have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from agentos.integrations.tools.base import ToolContext, ToolResult, ToolSpec
from agentos.kernel.errors import AgentOSError, Kind

# What a model can put right by asking for something else. The others are the engine's business.
MENDABLE = frozenset(
    {
        Kind.INVALID,
        Kind.FORBIDDEN,
        Kind.NOT_FOUND,
        Kind.CONFLICT,
        Kind.TOO_LARGE,
        Kind.LIMITED,
        Kind.PLAN,
    }
)


class BuiltInTool(ABC):
    """A tool of AgentOS itself. Errors that a model can put right come back as failed results."""

    spec: ToolSpec

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        try:
            return await self.do(arguments, context)
        except AgentOSError as error:
            if error.kind not in MENDABLE:
                raise
            return told(error)

    @abstractmethod
    async def do(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """What the tool does; its arguments fit the schema."""


def told(error: AgentOSError) -> ToolResult:
    """An error as a model is told about it."""
    text = f"{error.message} {error.advice}" if error.advice else error.message
    return failed(text, code=error.code)


def failed(text: str, **details: Any) -> ToolResult:
    return ToolResult(text, failed=True, details=details)


def arguments_of(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments. Others than these are refused."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }
