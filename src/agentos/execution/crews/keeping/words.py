"""Words of a sandbox, as they may be kept and shown: bounded, storable, and without our secrets."""

from __future__ import annotations

from agentos.contracts.crew import Answer, Beat
from agentos.kernel.redaction import redact
from agentos.kernel.texts import storable

MOST_REASON = 2000
_MOST_NAME = 200
_MOST_SERVERS = 50
_MOST_ANSWER = 8 * 1024 * 1024
_MOST_ERROR = 4000


def reason_of(text: str) -> str:
    """Why something is so, for people. It may be the end of what a process printed."""
    return redact(storable(text[:MOST_REASON]))


def servers_of(beat: Beat) -> dict[str, dict[str, str]]:
    """How the MCP servers are, by name."""
    return {
        storable(each.name[:_MOST_NAME]): {
            "status": storable(each.status[:_MOST_NAME]),
            "error": reason_of(each.error),
        }
        for each in beat.mcp[:_MOST_SERVERS]
    }


def conversation_of(beat: Beat) -> str | None:
    """What the conversation is resumed by; None if that cannot be kept."""
    name = beat.conversation
    fits = name is not None and len(name) <= _MOST_NAME and storable(name) == name
    return name if fits else None


def text_of(answer: Answer) -> str:
    return storable(answer.text[:_MOST_ANSWER])


def error_of(answer: Answer) -> tuple[str | None, str | None]:
    """Why there is no answer, and the code of that."""
    error = redact(storable(answer.error[:_MOST_ERROR]))
    return error or None, storable(answer.error_code[:_MOST_NAME]) or None
