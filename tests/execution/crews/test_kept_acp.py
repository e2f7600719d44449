"""Teams of the real OpenCode over ACP, kept."""

from __future__ import annotations

from tests.execution.crews.kept_lab import ACP
from tests.execution.crews.kept_suite import KeptSuite, agents, crew, lab

__all__ = ["agents", "crew", "lab"]

KIT = ACP


class TestKept(KeptSuite):
    kit = ACP
