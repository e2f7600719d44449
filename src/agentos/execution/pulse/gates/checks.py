"""How gates are checked: one function for each kind.

A check reads; it leaves nothing behind but its verdict. So a gate whose worker was lost is simply
checked again, and those before it, which are in the journal, are not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agentos.execution.pulse.gates.approvals import check_approval
from agentos.execution.pulse.gates.commands import check_command, check_tests
from agentos.execution.pulse.gates.files import check_file
from agentos.execution.pulse.gates.limits import check_cost, check_time
from agentos.execution.pulse.gates.outputs import check_schema
from agentos.execution.pulse.gates.rubrics import check_rubric
from agentos.execution.pulse.gates.schemas import Gate
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.waits import Verdict, Wait

# Each takes the gate of its kind.
_CHECKS: dict[str, Callable[[Run, Any], Awaitable[Verdict | Wait]]] = {
    "command": check_command,
    "tests": check_tests,
    "schema": check_schema,
    "file": check_file,
    "cost": check_cost,
    "time": check_time,
    "rubric": check_rubric,
    "approval": check_approval,
}


async def check_gate(run: Run, gate: Gate) -> Verdict | Wait:
    """What a gate finds; or what the session has to wait for, after which it is checked again."""
    return await _CHECKS[gate.kind](run, gate)
