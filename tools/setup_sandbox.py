"""Installs bubblewrap, which runs agents' commands apart from this machine. Standard library only.

Usage: python3 tools/setup_sandbox.py
Does nothing where it is installed. Where it cannot be installed it says how to, and goes on:
AgentOS then uses Landlock, or refuses to run commands.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PACKAGE = "bubblewrap"
MENDING = f"apt-get install {PACKAGE}"
# Another apt may be at work, or a mirror slow; nobody should wait for ever.
PATIENCE = 180
QUIET = {"DEBIAN_FRONTEND": "noninteractive", "APT_LISTCHANGES_FRONTEND": "none"}


def main() -> int:
    if shutil.which("bwrap"):
        return 0
    if shutil.which("apt-get") is None:
        return say(f"No sandbox: install {PACKAGE} with this system's package manager.")
    if os.geteuid() != 0:
        return say(f"No sandbox: {PACKAGE} is not installed. Run: sudo {MENDING}")
    print(f"Installing {PACKAGE}", flush=True)
    reason = install() and (update() or install())
    if reason or shutil.which("bwrap") is None:
        return say(f"No sandbox: {PACKAGE} could not be installed ({reason}). Run: {MENDING}")
    return 0


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
    """The build goes on without a sandbox: everything but running commands works."""
    print(text, file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
