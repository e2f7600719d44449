"""No attempt to get out of a sandbox succeeds, and each of them would without one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.conftest import Engines
from tests.integrations.sandboxes.attempts import ATTEMPTS, Attempt
from tests.integrations.sandboxes.conftest import (
    PYTHON,
    ROOT,
    TENANT,
    Box,
    Machine,
    as_account,
    furnish,
)

CHECKED = [
    each for each in ATTEMPTS if each.outside == "account" or (ROOT and each.outside == "root")
]


@pytest.fixture
def open_file() -> Iterator[int]:
    """A file that this process has open, and that its children would inherit."""
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    yield reading
    os.close(reading)
    os.close(writing)


@pytest.mark.usefixtures("open_file")
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=[each.name for each in ATTEMPTS])
async def test_attempt_is_held(
    attempt: Attempt, any_box: Box, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTOS_CANARY", "a secret of the worker")
    outcome = await any_box.python(attempt.program, machine.json())
    said = outcome.output.decode().splitlines()
    assert said[-1].startswith("held"), said
    assert machine.is_unharmed()


@pytest.mark.parametrize("attempt", CHECKED, ids=[each.name for each in CHECKED])
def test_attempt_would_succeed_outside(
    attempt: Attempt, place: Path, engines: Engines, open_file: int
) -> None:
    account = TENANT if ROOT else os.geteuid()
    argv = [PYTHON, "-c", attempt.program]
    with ExitStack() as stack:
        machine = furnish(stack, place, account, engines)
        argv.append(machine.json())
        if attempt.outside == "account":
            argv = as_account(account, argv)
        workspace = place / "workspace"
        workspace.mkdir(mode=0o777)
        workspace.chmod(0o777)
        done = subprocess.run(
            argv,
            cwd=workspace,
            env={"AGENTOS_CANARY": "x"},
            pass_fds=(open_file,),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert done.stdout.strip() == "ESCAPED", done.stdout + done.stderr
