"""Checks of the machine itself."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from typing import TYPE_CHECKING

from agentos.cli.checks.outcomes import Outcome, ok, problem, skipped, warning

if TYPE_CHECKING:
    from agentos.kernel.settings import Settings

_OLDEST_PYTHON = (3, 11)
_FREE_BYTES = 1_000_000_000


def python_version() -> Outcome:
    version = ".".join(map(str, sys.version_info[:3]))
    if tuple(sys.version_info) < _OLDEST_PYTHON:
        return problem(version, "AgentOS needs Python 3.11 or newer.")
    return ok(version)


def data_directory(settings: Settings) -> Outcome:
    place = settings.data_dir
    if not place.is_dir():
        if settings.embedded_postgres or settings.embedded_nats:
            return problem(f"{place} is not there yet", "Start AgentOS with `agentos up`.")
        return skipped(f"{place} is not there, and nothing embedded needs it")
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        return problem(f"{place} is not yours to use", "Run as the user that AgentOS runs as.")
    if place.stat().st_mode & stat.S_IWOTH:
        return problem(f"everybody may write to {place}", f"Run: chmod o-w {place}")
    free = shutil.disk_usage(place).free
    if free < _FREE_BYTES:
        return warning(
            f"{place} has {free / 1e6:.0f} MB left", "Make room: at least 1 GB should be free."
        )
    return ok(f"{place}, {free / 1e9:.0f} GB free")


def key_files(settings: Settings) -> Outcome:
    files = [settings.data_dir / "secrets" / "secret_key", settings.data_dir / "vault.keys"]
    present = [file for file in files if file.exists()]
    open_to_others = [str(file) for file in present if file.stat().st_mode & 0o077]
    if open_to_others:
        names = " ".join(open_to_others)
        return problem(f"others can read {names}", f"Run: chmod 600 {names}")
    if not present:
        return skipped("none on this machine")
    return ok(f"private: {', '.join(file.name for file in present)}")
