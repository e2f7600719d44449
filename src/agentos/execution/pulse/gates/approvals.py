"""A gate that a person decides."""

from __future__ import annotations

from agentos.execution.pulse import conversation
from agentos.execution.pulse.approvals.asking import Request, ask
from agentos.execution.pulse.gates.evidence import changed_files, result_text
from agentos.execution.pulse.gates.schemas import ApprovalGate
from agentos.execution.pulse.gates.texts import beginning_of
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.waits import Verdict, Wait

_MOST_TEXT = 4_000


async def check_approval(run: Run, gate: ApprovalGate) -> Verdict | Wait:
    outcome = await ask(
        run,
        Request(
            kind="gate",
            key=_key(run, gate),
            subject=gate.name,
            details={
                "question": gate.question,
                "result": beginning_of(result_text(run), _MOST_TEXT),
                "files": await changed_files(run),
            },
        ),
    )
    if isinstance(outcome, Wait):
        return outcome
    who = outcome.decided_by or "AgentOS"
    told = "approved" if outcome.approved else "did not approve"
    return Verdict(
        outcome.approved, outcome.reason or f"{who} {told}.", {"decided_by": outcome.decided_by}
    )


def _key(run: Run, gate: ApprovalGate) -> str:
    """A name of its own for each answer, and for each time that it failed on it."""
    answer = conversation.last_answer(run.path)
    since = answer.seq if answer else 0
    failed = sum(s.kind == "gate" and s.name == gate.name and s.seq > since for s in run.path)
    return f"gate.{gate.name}.{since}.{failed}"
