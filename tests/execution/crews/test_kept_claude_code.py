"""Teams of the real Claude Code, kept."""

from __future__ import annotations

from tests.execution.crews.kept_lab import CLAUDE_CODE
from tests.execution.crews.kept_suite import ToolSuite, agents, crew, lab

__all__ = ["agents", "crew", "lab"]

KIT = CLAUDE_CODE


class TestKept(ToolSuite):
    kit = CLAUDE_CODE
