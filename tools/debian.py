"""Installs a Debian package where it is missing and can be had. Standard library only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext

# Another apt may be at work, or a mirror slow; nobody should wait for ever.
PATIENCE = 300
QUIET = {"DEBIAN_FRONTEND": "noninteractive", "APT_LISTCHANGES_FRONTEND": "none"}


def ensure(
    program: str,
    package: str,
    without: str,
    around: AbstractContextManager[None] | None = None,
) -> int:
    """Installs `package` unless `program` is there. Where it cannot, it says how to, beginning with
    `without`, and the build goes on; so the answer is always 0.
    """
    if shutil.which(program):
        return 0
    if shutil.which("apt-get") is None:
        return _say(f"{without}: install {package} with this system's package manager.")
    mending = f"apt-get install {package}"
    if os.geteuid() != 0:
        return _say(f"{without}: {package} is not installed. Run: sudo {mending}")
    print(f"Installing {package}", flush=True)
    with around or nullcontext():
        reason = _install(package) and (_apt("update") or _install(package))
    if reason or shutil.which(program) is None:
        return _say(f"{without}: {package} could not be installed ({reason}). Run: {mending}")
    return 0


def _install(package: str) -> str:
    return _apt("install", "--no-install-recommends", package)


def _apt(*arguments: str) -> str:
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


def _say(text: str) -> int:
    print(text, file=sys.stderr, flush=True)
    return 0
