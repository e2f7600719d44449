"""`make` installs the sandbox where it may, and never fails for want of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integrations.sandboxes.conftest import ROOT

TOOL = Path(__file__).parents[3] / "tools" / "setup_sandbox.py"


def _run(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TOOL)],
        env={"PATH": str(path), "LOG": str(path / "log")},
        capture_output=True,
        text=True,
        check=True,
    )


def _program(path: Path, name: str, script: str) -> None:
    (path / name).write_text(f"#!/bin/sh\n{script}\n")
    (path / name).chmod(0o755)


def _apt(path: Path, script: str) -> None:
    _program(path, "apt-get", f'echo "$@" >> "$LOG"\n{script}')


MAKE_BWRAP = f'printf \'#!/bin/sh\\n\' > "${{0%/*}}/bwrap"; {os.path.realpath("/bin/chmod")} 755 "${{0%/*}}/bwrap"'
needs_root = pytest.mark.skipif(not ROOT, reason="only root may install")


def test_nothing_to_do(tmp_path: Path) -> None:
    _program(tmp_path, "bwrap", "")
    _apt(tmp_path, "")
    done = _run(tmp_path)
    assert (done.stdout, done.stderr) == ("", "")
    assert not (tmp_path / "log").exists()


@needs_root
def test_installs(tmp_path: Path) -> None:
    _apt(tmp_path, MAKE_BWRAP)
    done = _run(tmp_path)
    assert (done.stdout, done.stderr) == ("Installing bubblewrap\n", "")
    assert (tmp_path / "bwrap").exists()


@needs_root
def test_updates_the_list_of_packages_if_needed(tmp_path: Path) -> None:
    """A fresh machine has none."""
    missing = "E: Unable to locate package bubblewrap"
    script = f"""case "$*" in
    *update*) : > "${{0%/*}}/updated" ;;
    *) test -e "${{0%/*}}/updated" || {{ echo '{missing}' >&2; exit 100; }}
       {MAKE_BWRAP} ;;
    esac"""
    _apt(tmp_path, script)
    done = _run(tmp_path)
    assert (done.stdout, done.stderr) == ("Installing bubblewrap\n", "")
    assert (tmp_path / "bwrap").exists()
    calls = (tmp_path / "log").read_text().splitlines()
    assert [("update" in c, "install" in c) for c in calls] == [
        (False, True),
        (True, False),
        (False, True),
    ]


@needs_root
def test_says_what_went_wrong_and_goes_on(tmp_path: Path) -> None:
    _apt(tmp_path, "echo 'E: no network' >&2; exit 100")
    done = _run(tmp_path)
    assert "could not be installed (E: no network). Run: apt-get install bubblewrap" in done.stderr


def test_without_apt(tmp_path: Path) -> None:
    assert "this system's package manager" in _run(tmp_path).stderr
