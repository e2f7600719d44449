"""Which provider wants which files."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentos.execution.crews.layouts import acp, claude_code, opencode
from agentos.execution.crews.layouts.layout import Layout
from agentos.execution.crews.repository import Definition

LAYOUTS: Mapping[str, Callable[[Definition], Layout]] = {
    "claude-code": claude_code.render,
    "opencode": opencode.render,
    "acp": acp.render,
}


def render(team: Definition, provider: str) -> Layout:
    """The files that a CLI provider works by. The same team makes the same files."""
    return LAYOUTS[provider](team)
