"""Gates that run a command in the sandbox.

It runs in the session's own workspace, offline, and may write there what it likes, such as caches
and reports. Afterwards the files are put back to the session's snapshot: a gate looks at a result,
it does not add to it. If the worker is lost in between, the mark that `begin_change` left makes the
next one put them back.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from agentos.execution.pulse.gates.schemas import CommandGate, TestsGate
from agentos.execution.pulse.gates.texts import end_of
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.toolroom import toolroom_of
from agentos.execution.pulse.waits import Verdict
from agentos.integrations.sandboxes.base import Command, Outcome
from agentos.integrations.workspaces.workspace import Workspace
from agentos.kernel.errors import AgentOSError

_LOOKED_AT = 200_000
_SHOWN = 200

# For a machine without pytest. That no test was found is no success.
_UNITTEST = (
    "import sys, unittest; "
    'ran = unittest.main(module=None, argv=["tests", "discover", "-s", sys.argv[1]], exit=False).result; '
    "sys.exit(not (ran.testsRun and ran.wasSuccessful()))"
)
_PYTHON = (
    "if python3 -c 'import pytest' 2>/dev/null; then python3 -m pytest -q -p no:cacheprovider; "
    f"else python3 -c '{_UNITTEST}' {{place}}; fi"
)


async def check_command(run: Run, gate: CommandGate) -> Verdict:
    outcome = await _run(run, gate.command, gate.seconds)
    return _verdict(gate.command, outcome, gate.exit_code, gate.seconds)


async def check_tests(run: Run, gate: TestsGate) -> Verdict:
    command = gate.command
    if command is None:
        room = await toolroom_of(run)
        command = await usual_tests(await room.workspace())
    if command is None:
        return Verdict(False, "There are no tests in the workspace, or none of a usual kind.")
    return _verdict(command, await _run(run, command, gate.seconds), 0, gate.seconds)


async def usual_tests(workspace: Workspace) -> str | None:
    """How the tests of a project are run, as its files tell; None if it has none."""
    entries = await workspace.entries(depth=2, limit=10_000)
    files = {entry.path for entry in entries if entry.kind == "file"}
    for name in ("Makefile", "makefile", "GNUmakefile"):
        if name in files and "\ntest:" in "\n" + await _text(workspace, name):
            return "make test"
    if "package.json" in files and _has_test_script(await _text(workspace, "package.json")):
        return "npm test --silent"
    if "Cargo.toml" in files:
        return "cargo test"
    if "go.mod" in files:
        return "go test ./..."
    python = [path for path in files if _is_python_test(path)]
    if not python and not files & {"pytest.ini", "conftest.py"}:
        return None
    beneath = {path.partition("/")[0] for path in python if "/" in path}
    place = "." if not beneath or any("/" not in path for path in python) else sorted(beneath)[-1]
    return _PYTHON.format(place=f"'{place}'" if "'" not in place else ".")


def _is_python_test(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith("_test.py") or (name.startswith("test") and name.endswith(".py"))


def _has_test_script(text: str) -> bool:
    try:
        package = msgspec.json.decode(text)
        return bool(package["scripts"]["test"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return False


async def _text(workspace: Workspace, path: str) -> str:
    try:
        return (await workspace.read(path, limit=_LOOKED_AT)).decode(errors="replace")
    except AgentOSError:  # a link to nowhere, or closed to us
        return ""


async def _run(run: Run, command: str, seconds: int) -> Outcome:
    room = await toolroom_of(run)
    workspace, workspaces = await room.workspace(), run.parts.workspaces
    workspaces.begin_change(workspace)
    outcome = await run.parts.sandbox.run(
        Command(
            argv=("bash", "-c", command),
            workspace=workspace.root,
            uid=workspace.uid,
            limits=replace(
                room.limits, seconds=seconds, cpu_seconds=max(room.limits.cpu_seconds, seconds)
            ),
        )
    )
    await workspaces.bring(workspace, run.session.snapshot_id)
    return outcome


def _verdict(command: str, outcome: Outcome, wanted: int, seconds: int) -> Verdict:
    passed = outcome.ending == "exited" and outcome.exit_code == wanted
    shown = command if len(command) <= _SHOWN else f"{command[:_SHOWN]}…"
    output = end_of(outcome.output)
    reason = f"`{shown}` {_ended(outcome, wanted, seconds)}"
    if not passed:
        reason += f" It printed:\n{output}" if output else " It printed nothing."
    details = {
        "command": command,
        "ending": outcome.ending,
        "exit_code": outcome.exit_code,
        "output": output,
        "seconds": round(outcome.seconds, 3),
    }
    return Verdict(passed, reason, details)


def _ended(outcome: Outcome, wanted: int, seconds: int) -> str:
    if outcome.ending == "timed_out":
        return f"took longer than {seconds} seconds."
    if outcome.ending == "out_of_memory":
        return "needed more memory than there is for it."
    if outcome.ending == "killed":
        return "was killed."
    if outcome.exit_code == wanted:
        return f"ended with exit code {wanted}."
    return f"ended with exit code {outcome.exit_code} instead of {wanted}."
