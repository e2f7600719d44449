"""Installs Debian's Docker engine, with which the tests try teams in containers. Standard library only.

Usage: python3 tools/setup_docker.py
Does nothing where an engine is installed. Where none can be installed it says how to, and goes on.
The engine is not started: the tests start one of their own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import debian

# What packages ask before they start a service, and the answer that means no.
POLICY = Path(os.environ.get("POLICY", "/usr/sbin/policy-rc.d"))
NO = "#!/bin/sh\nexit 101\n"


@contextmanager
def without_services() -> Iterator[None]:
    """No package starts a service meanwhile. A policy that is there already stays."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text(NO)
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


if __name__ == "__main__":
    sys.exit(debian.ensure("dockerd", "docker.io", "No Docker", without_services()))
