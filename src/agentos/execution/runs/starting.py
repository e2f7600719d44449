"""What a run starts: a message to a team, or a session of its own."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from agentos.contracts.events import RunStarted
from agentos.execution.crews.messages.schemas import MessageSource
from agentos.execution.crews.messages.service import enqueue
from agentos.execution.pulse.front import PulseFront
from agentos.execution.pulse.schemas import SessionCreate
from agentos.execution.pulse.service import create_session
from agentos.execution.runs import repository
from agentos.tenancy.principals import Principal, PrincipalKind, Scope
from agentos.tenancy.work import Work


def starter(tenant_id: Any, plan: str, source_id: UUID, name: str) -> Principal:
    """In whose name a schedule or a webhook acts: its own, and for nothing else."""
    return Principal(
        kind=PrincipalKind.SERVICE,
        id=str(source_id),
        name=name,
        tenant_id=tenant_id,
        scopes=frozenset({Scope.SESSIONS_WRITE, Scope.SESSIONS_READ}),
        plan=plan,
    )


async def start_run(
    work: Work,
    front: PulseFront,
    run_id: UUID,
    *,
    source: MessageSource,
    team_id: UUID | None,
    prompt: str | None,
    session: dict[str, Any] | None,
) -> None:
    """Starts a run that is queued and locked, or just made. Raises what sending and creating do."""
    message_id = session_id = None
    if team_id is not None:
        assert prompt is not None, "a run for a team has a prompt"
        message = await enqueue(
            work, front.hints.bus, team_id, text=prompt, source=source, run_id=run_id
        )
        message_id = message.id
    else:
        assert session is not None, "a run without a team has a session"
        created = await create_session(work, front, SessionCreate.model_validate(session))
        session_id = created.id
    now = work.now()
    await repository.started(work.tx, work.tenant_id, run_id, message_id, session_id, now)
    run = await repository.lock(work.tx, work.tenant_id, run_id)
    assert run is not None, "it was just started"
    event = RunStarted(run_id=run_id, schedule_id=run.schedule_id, webhook_id=run.webhook_id)
    await work.outbox.announce(work.tx, work.tenant_id, now, event)
