from __future__ import annotations

from typing import Any
from uuid import UUID

from agentos.execution.pulse.conversation import ToolCall
from agentos.execution.pulse.engine_tools.base import CheckedTool
from agentos.execution.pulse.engine_tools.names import READ_OUTPUT
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.waits import Done
from agentos.integrations.tools.base import Repeat, Tier, ToolSpec
from agentos.integrations.tools.building import arguments_of
from agentos.integrations.tools.outputs import MOST_CHARACTERS
from agentos.kernel.errors import NotFound


class OutputMissing(NotFound):
    """This session has no kept output of this id."""

    code = "output_missing"
    hint = "Use the id that a shortened output names."


class ReadOutput(CheckedTool):
    """Pages through an output that was too long for the conversation."""

    spec = ToolSpec(
        READ_OUTPUT,
        "Read on in the output of an earlier call that was too long to be shown whole.",
        arguments_of(
            {
                "output": {"type": "string", "description": "The id that the output names."},
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "The first character to show; 0 if left out.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST_CHARACTERS,
                    "description": f"How many characters to show; {MOST_CHARACTERS} if left out.",
                },
            },
            "output",
        ),
        Tier.SAFE,
        Repeat.ALWAYS,
    )

    async def do(self, run: Run, call: ToolCall, arguments: dict[str, Any]) -> Done:  # noqa: ARG002 - the protocol's
        object_id = await _own(run, arguments["output"])
        data = await run.parts.payloads.data(run.session.tenant_id, object_id)
        text = data.decode(errors="replace")
        offset = arguments.get("offset", 0)
        end = min(len(text), offset + arguments.get("limit", MOST_CHARACTERS))
        if offset >= len(text):
            return Done(f"[It has {len(text)} characters: there is nothing at {offset}.]")
        rest = f" Go on with offset {end}." if end < len(text) else " That is the end."
        return Done(f"{text[offset:end]}\n[Characters {offset} to {end} of {len(text)}.{rest}]")


async def _own(run: Run, given: str) -> UUID:
    """The id, if it is one of an object that a step of this session names. Raises OutputMissing."""
    try:
        object_id = UUID(given)
    except ValueError:
        raise OutputMissing() from None
    session = run.session
    async with run.parts.db.transaction(tenant_id=session.tenant_id) as tx:
        known = await tx.value(
            """select exists (select from steps where tenant_id = $1 and session_id = $2
               and (output_object = $3 or input_object = $3
                 or (kind = 'tool' and output ->> 'whole' = $3::text)))""",
            session.tenant_id,
            session.id,
            object_id,
        )
    if not known:
        raise OutputMissing()
    return object_id
