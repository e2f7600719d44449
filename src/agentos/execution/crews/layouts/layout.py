"""The files that make an agent CLI the team it is told to be: paths below the workspace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link; the target is relative to where it is."""

    target: str


Layout = Mapping[str, bytes | Link]
