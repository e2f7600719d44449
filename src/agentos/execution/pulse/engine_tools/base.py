"""Tools that the engine itself answers: what they do is done to the session, not to the world."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

from agentos.execution.pulse.conversation import ToolCall
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.waits import Done, Wait
from agentos.integrations.tools.arguments import Arguments
from agentos.integrations.tools.base import ToolSpec
from agentos.integrations.tools.building import MENDABLE, told
from agentos.kernel.errors import AgentOSError, Invalid, Kind

# Conflicts are about the session: another worker owns it, nobody decided in time.
_TOLD = MENDABLE - {Kind.CONFLICT}


class EngineTool(Protocol):
    @property
    def spec(self) -> ToolSpec: ...

    async def use(self, run: Run, call: ToolCall) -> Done | Wait:
        """Its answer; or what the session has to wait for, after which it is asked again."""
        ...


class CheckedTool(ABC):
    """An engine tool that is only used with arguments that fit its schema.

    What the model can put right is told to it, as with all tools.
    """

    spec: ClassVar[ToolSpec]

    def __init__(self) -> None:
        self._arguments = Arguments(self.spec.schema)

    def check(self, call: ToolCall) -> Done | None:
        """Why a call cannot be made, or None if it can. Nothing is done."""
        try:
            self._arguments.parse(call.arguments)
        except Invalid as error:
            return refused(error)
        return None

    async def use(self, run: Run, call: ToolCall) -> Done | Wait:
        try:
            return await self.do(run, call, self._arguments.parse(call.arguments))
        except AgentOSError as error:
            if error.kind not in _TOLD:
                raise
            return refused(error)

    @abstractmethod
    async def do(self, run: Run, call: ToolCall, arguments: dict[str, Any]) -> Done | Wait:
        """What the tool does."""


def refused(error: AgentOSError) -> Done:
    """An error as the model is told about it."""
    result = told(error)
    return Done(result.text, failed=True, details=result.details)
