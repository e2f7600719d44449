"""Lines of a team's log, as they may be kept and shown: bounded, storable, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentos.execution.crews.logs.schemas import Level, Source
from agentos.execution.crews.schemas import TeamStatus
from agentos.kernel.redaction import redact
from agentos.kernel.texts import storable

MOST_CHARACTERS = 2_000
# Of one line before its secrets are masked, so that none is cut in two and passes for something else.
MOST_RAW = 4_000

_LEVELS: dict[TeamStatus, Level] = {
    "degraded": "warning",
    "crash_loop": "error",
    "repairing": "warning",
    "error": "error",
}
# How the agent CLIs call a server that gives no trouble.
_WELL = frozenset({"connected", "pending", "ready", "disabled"})
# Colours and the like, which agent CLIs print, and then what else no line of a log has.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_ERROR = re.compile(r"\b(?:error|fatal|panic|exception|traceback|critical)\b", re.IGNORECASE)
_WARNING = re.compile(r"\bwarn(?:ing)?\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Line:
    level: Level
    source: Source
    text: str


def told(text: str, level: Level = "info") -> Line:
    """Something that a team lived through."""
    return Line(level, "team", _shown(redact(_plain(text[:MOST_RAW]))))


def status_line(status: TeamStatus, reason: str | None) -> Line:
    because = f" {reason}" if reason else ""
    return told(f"Status: {status}.{because}", _LEVELS.get(status, "info"))


def crash_line(what: str, reason: str, *, loop: bool) -> Line:
    return told(f"Crashed. {what} {reason}", "error" if loop else "warning")


def server_lines(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Line]:
    """What has changed of how the MCP servers are."""
    lines = []
    for name, now in after.items():
        if before.get(name) == now:
            continue
        status, error = now["status"], now["error"]
        because = f" {error}" if error else ""
        level: Level = "info" if status in _WELL and not error else "warning"
        lines.append(told(f"MCP server {name}: {status}.{because}", level))
    return lines


def printed(lines: Sequence[str]) -> list[Line]:
    """What an agent CLI has printed. Masked as a whole: a secret may go over several lines."""
    text = redact("\n".join(_plain(line[:MOST_RAW]) for line in lines))
    return [
        Line(_guessed(line), "agent", line)
        for line in (_shown(each.rstrip()) for each in text.split("\n"))
        if line
    ]


def _plain(text: str) -> str:
    """Without what only a terminal understands, and what no row has a place for."""
    return _CONTROLS.sub("", _ESCAPES.sub("", storable(text.replace("\0", ""))))


def _shown(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"


def _guessed(text: str) -> Level:
    """An agent CLI does not say how much a line matters; its words do, mostly."""
    if _ERROR.search(text):
        return "error"
    return "warning" if _WARNING.search(text) else "info"


def left_out(count: int) -> Iterable[str]:
    """Says that so many lines are missing, if some are."""
    return (f"({count} lines left out)",) if count else ()
