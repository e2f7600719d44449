"""Installs Debian's Docker engine, with which the tests try teams in containers. Standard library only.

Usage: python3 tools/setup_docker.py
Does nothing where an engine is installed. Where none can be installed it says how to, and goes on.
The engine is not started: the tests start one of their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGE = "docker.io"
MENDING = f"apt-get install {PACKAGE}"
# Another apt may be at work, or a mirror slow; nobody should wait for ever.
PATIENCE = 300
QUIET = {"DEBIAN_FRONTEND": "noninteractive", "APT_LISTCHANGES_FRONTEND": "none"}
# What packages ask before they start a service, and the answer that means no.
POLICY = Path(os.environ.get("POLICY", "/usr/sbin/policy-rc.d"))
NO = "#!/bin/sh\nexit 101\n"


def main() -> int:
    if shutil.which("dockerd"):
        return 0
    if shutil.which("apt-get") is None:
        return say("No Docker: install its engine with this system's package manager.")
    if os.geteuid() != 0:
        return say(f"No Docker: {PACKAGE} is not installed. Run: sudo {MENDING}")
    print(f"Installing {PACKAGE}", flush=True)
    with without_services():
        reason = install() and (update() or install())
    if reason or shutil.which("dockerd") is None:
        return say(f"No Docker: {PACKAGE} could not be installed ({reason}). Run: {MENDING}")
    return 0


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


def install() -> str:
    return apt("install", "--no-install-recommends", PACKAGE)


def update() -> str:
    return apt("update")


def apt(*arguments: str) -> str:
    """Why it failed; empty: it did not."""
    command = ["apt-get", "-qq", "-y", "-o", "DPkg::Lock::Timeout=60", *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
            env={**os.environ, **QUIET},
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"apt-get took longer than {PATIENCE} s"
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stderr.splitlines() if line.startswith("E:")]
    return (lines or [f"apt-get ended with {done.returncode}"])[0]


def say(text: str) -> int:
    """The build goes on: everything but teams in containers works."""
    print(text, file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
