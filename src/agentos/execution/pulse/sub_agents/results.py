"""What sub-agents have come to, as their parent is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg

from agentos.execution.pulse.run import Run
from agentos.execution.pulse.states import State
from agentos.execution.pulse.waits import Done
from agentos.integrations.tools.outputs import shown

_MOST_FILES = 20


async def told(run: Run, children: Sequence[asyncpg.Record]) -> Done:
    """One result for all of them. That some have failed is part of it."""
    details: dict[str, Any] = {"agents": [_summary(child) for child in children]}

    async def keep(data: bytes) -> str:
        kept = await run.parts.payloads.keep(run.session.tenant_id, data)
        details["whole"] = str(kept)
        return f'read_output with {{"output": "{kept}"}}'

    text = "\n\n".join(_told(number, child) for number, child in enumerate(children, 1))
    return Done(await shown(text.encode("utf-8", "replace"), keep), details=details)


def _summary(child: asyncpg.Record) -> dict[str, Any]:
    return {
        "id": str(child["id"]),
        "title": child["title"],
        "state": child["state"],
        "error": child["error"],
    }


def _told(number: int, child: asyncpg.Record) -> str:
    lines = [f"## {number}. {child['title']}", f"Agent {child['id']}: {child['state']}"]
    result = child["result"] or {}
    if child["state"] == State.COMPLETE:
        lines.append(result["text"])
        lines += _files(result)
    else:
        lines.append(f"It did not get done: {child['error']}")
    return "\n".join(lines)


def _files(result: dict[str, Any]) -> list[str]:
    files = result["files"]
    if not files:
        return []
    named = ", ".join(f"{file['path']} ({file['kind']})" for file in files[:_MOST_FILES])
    more = len(files) - _MOST_FILES + result["more_files"]
    return [f"Files it changed: {named}" + (f" and {more} more." if more > 0 else ".")]
