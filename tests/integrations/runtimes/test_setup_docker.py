"""`make test` installs the engine where it may, and never starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integrations.runtimes.teams import ROOT

TOOL = Path(__file__).parents[3] / "tools" / "setup_docker.py"
CHMOD = os.path.realpath("/bin/chmod")
# A package that asks, as they do, whether it may start its service.
PACKAGE = f"""
"$POLICY" && : > "${{0%/*}}/started"
printf '#!/bin/sh\\n' > "${{0%/*}}/dockerd"; {CHMOD} 755 "${{0%/*}}/dockerd"
"""
needs_root = pytest.mark.skipif(not ROOT, reason="only root may install")


def _run(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TOOL)],
        env={"PATH": str(path), "LOG": str(path / "log"), "POLICY": str(path / "policy")},
        capture_output=True,
        text=True,
        check=True,
    )


def _program(path: Path, name: str, script: str) -> None:
    (path / name).write_text(f"#!/bin/sh\n{script}\n")
    (path / name).chmod(0o755)


def _apt(path: Path, script: str) -> None:
    _program(path, "apt-get", f'echo "$@" >> "$LOG"\n{script}')


def test_nothing_to_do(tmp_path: Path) -> None:
    _program(tmp_path, "dockerd", "")
    _apt(tmp_path, "")
    done = _run(tmp_path)
    assert (done.stdout, done.stderr) == ("", "")
    assert not (tmp_path / "log").exists()


@needs_root
def test_installs_and_does_not_start(tmp_path: Path) -> None:
    _apt(tmp_path, PACKAGE)
    done = _run(tmp_path)
    assert (done.stdout, done.stderr) == ("Installing docker.io\n", "")
    assert (tmp_path / "dockerd").exists()
    assert not (tmp_path / "started").exists()
    assert not (tmp_path / "policy").exists()


@needs_root
def test_a_policy_of_the_machine_stays(tmp_path: Path) -> None:
    _program(tmp_path, "policy", "exit 0")
    _apt(tmp_path, PACKAGE)
    _run(tmp_path)
    assert (tmp_path / "started").exists()
    assert (tmp_path / "policy").exists()


@needs_root
def test_says_what_went_wrong_and_goes_on(tmp_path: Path) -> None:
    _apt(tmp_path, "echo 'E: no network' >&2; exit 100")
    done = _run(tmp_path)
    assert "could not be installed (E: no network). Run: apt-get install docker.io" in done.stderr
    assert not (tmp_path / "policy").exists()


def test_without_apt(tmp_path: Path) -> None:
    assert "this system's package manager" in _run(tmp_path).stderr
