"""What happens when somebody else kills the sandbox, or the worker.

Unlike after `run`, whatever is then an orphan is reaped by the machine's first process, at its leisure.
"""

from __future__ import annotations

import asyncio
import sys

import psutil
import pytest
from tests.integrations.sandboxes.conftest import SRC, Box
from tests.integrations.sandboxes.traces import (
    DAEMONS,
    groups,
    processes_of,
    temporary_directories,
    until_there,
)

from agentos.integrations.sandboxes.choosing import Choice, choose_sandbox

WORKER = """
import asyncio, sys
from pathlib import Path
from agentos.integrations.sandboxes.base import Command
from agentos.integrations.sandboxes.bubblewrap import Bubblewrap
from agentos.integrations.sandboxes.landlock import Landlock
from agentos.integrations.sandboxes.cgroups import find_cgroups
kind, workspace, uid, program = sys.argv[1:]
sandbox = {"bubblewrap": Bubblewrap, "landlock": Landlock}[kind](find_cgroups())
asyncio.run(sandbox.run(Command(("python3", "-c", program), Path(workspace), uid=int(uid))))
"""


async def test_a_sandbox_that_somebody_kills(box: Box) -> None:
    if box.cgroups is None and box.sandbox.name == "landlock":
        pytest.skip("only control groups know what the launcher has left")
    others = set(psutil.Process().children())
    running = asyncio.create_task(box.python(DAEMONS + "time.sleep(3600)"))
    await until_there(box.workspace / "ready")
    (own,) = set(psutil.Process().children()) - others
    own.kill()
    outcome = await running
    assert (outcome.ending, outcome.exit_code) == ("killed", None)
    assert processes_of(box) == []


async def test_killing_the_worker_ends_everything(box: Box) -> None:
    """And what it could not tidy up, the next one does."""
    argv = [sys.executable, "-c", WORKER, box.sandbox.name, str(box.workspace), str(box.account)]
    worker = await asyncio.create_subprocess_exec(
        *argv, DAEMONS + "time.sleep(3600)", env={"PYTHONPATH": str(SRC)}
    )
    await until_there(box.workspace / "ready")
    left = [*psutil.Process(worker.pid).children(recursive=True), *processes_of(box)]
    assert len(left) >= 3
    worker.kill()
    await worker.wait()
    _, alive = psutil.wait_procs(left, timeout=10)
    assert alive == []
    kind: Choice = "bubblewrap" if box.sandbox.name == "bubblewrap" else "landlock"
    await choose_sandbox(kind)
    assert groups(worker.pid) == []
    assert temporary_directories(worker.pid) == []
