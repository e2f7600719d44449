"""What those who judge a result, people and models, are shown of it."""

from __future__ import annotations

import msgspec

from agentos.execution.pulse import conversation, outputs
from agentos.execution.pulse.journal import encoded
from agentos.execution.pulse.run import Run
from agentos.integrations.workspaces.workspaces import Change
from agentos.kernel.texts import storable

_MOST_FILES = 200


def result_text(run: Run) -> str:
    """What the session answers, with its structured output if there is one."""
    answer = conversation.last_answer(run.path)
    text = conversation.text_of(answer) if answer else ""
    given = outputs.accepted(run.path)
    if given is None:
        return text
    shown = msgspec.json.format(encoded(given.value) or "null", indent=2)
    return f"{text}\n\n{shown}" if text else shown


async def changes_of(run: Run) -> list[Change]:
    """How the files differ from those that the session was given to start with."""
    first = next((s for s in run.path if s.kind == "checkpoint" and s.name == "start"), None)
    return await run.parts.workspaces.diff(
        run.session.tenant_id, first.snapshot_id if first else None, run.session.snapshot_id
    )


async def changed_files(run: Run) -> list[str]:
    """The files that the session has changed since its start, each with how."""
    shown = [storable(f"{change.kind} {change.path}") for change in await changes_of(run)]
    more = len(shown) - _MOST_FILES
    return [*shown[:_MOST_FILES], *([f"and {more} more"] if more > 0 else [])]
