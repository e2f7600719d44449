"""Teams of the real OpenCode, kept."""

from __future__ import annotations

from tests.execution.crews.kept_lab import OPENCODE
from tests.execution.crews.kept_suite import ToolSuite, agents, crew, lab

__all__ = ["agents", "crew", "lab"]

KIT = OPENCODE


class TestKept(ToolSuite):
    kit = OPENCODE
