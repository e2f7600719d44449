"""Every event AgentOS announces, as one typed contract each.

An event is a fact in the past tense. It is written to the outbox in the transaction that caused
it, gets its sequence number from the relay, and travels as an `Envelope`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What all events share. Subclasses name their `type` and add their facts."""

    type: ClassVar[str]


# Pulse


class SessionCreated(Event, frozen=True):
    type = "session.created"
    session_id: UUID
    config: dict[str, Any]


class SessionQueued(Event, frozen=True):
    type = "session.queued"
    session_id: UUID


class SessionStarted(Event, frozen=True):
    type = "session.started"
    session_id: UUID


class SessionPaused(Event, frozen=True):
    """It waits, and takes no slot: for a person, its sub-agents, a budget, or to try again."""

    type = "session.paused"
    session_id: UUID
    waiting_for: str


class SessionResumed(Event, frozen=True):
    type = "session.resumed"
    session_id: UUID


class SessionProgress(Event, frozen=True):
    """A step is in the journal. `pct` is how much of its turns the session has used."""

    type = "session.progress"
    session_id: UUID
    seq: int
    kind: str
    step: str
    status: str
    summary: str
    cost_micros: int
    duration_ms: int
    pct: float


class SessionCheckpoint(Event, frozen=True):
    type = "session.checkpoint"
    session_id: UUID
    checkpoint_id: UUID


class SessionGateStarted(Event, frozen=True):
    type = "session.gate.started"
    session_id: UUID
    gates: list[str]


class SessionGatePassed(Event, frozen=True):
    type = "session.gate.passed"
    session_id: UUID
    gate: str


class SessionGateFailed(Event, frozen=True):
    type = "session.gate.failed"
    session_id: UUID
    gate: str
    reason: str


class SessionCompleted(Event, frozen=True):
    type = "session.completed"
    session_id: UUID
    result: dict[str, Any]


class SessionFailed(Event, frozen=True):
    type = "session.failed"
    session_id: UUID
    error: str


class SessionRollbackStarted(Event, frozen=True):
    type = "session.rollback_started"
    session_id: UUID
    to_seq: int


class SessionRolledBack(Event, frozen=True):
    type = "session.rolled_back"
    session_id: UUID
    to_seq: int


class SessionForked(Event, frozen=True):
    """A session was made out of the steps of another."""

    type = "session.forked"
    session_id: UUID
    forked_from: UUID
    forked_seq: int


class SessionStepUncertain(Event, frozen=True):
    """A call with effects outside may have happened: its worker was lost before it could say."""

    type = "session.step_uncertain"
    session_id: UUID
    step: str
    key: str


class ApprovalRequested(Event, frozen=True):
    """A session or, with a `team_id`, the agent of a team waits for somebody's word."""

    type = "approval.requested"
    approval_id: UUID
    session_id: UUID | None
    kind: str
    subject: str
    expires_at: datetime
    team_id: UUID | None = None
    message_id: UUID | None = None


class ApprovalDecided(Event, frozen=True):
    type = "approval.decided"
    approval_id: UUID
    session_id: UUID | None
    state: str
    decided_by: str | None
    team_id: UUID | None = None
    message_id: UUID | None = None


class ChainCreated(Event, frozen=True):
    type = "chain.created"
    chain_id: UUID
    name: str


class ChainStarted(Event, frozen=True):
    type = "chain.started"
    chain_id: UUID


class ChainNodeStarted(Event, frozen=True):
    type = "chain.node.started"
    chain_id: UUID
    node: str
    item: int
    session_id: UUID
    tries: int


class ChainNodeCompleted(Event, frozen=True):
    type = "chain.node.completed"
    chain_id: UUID
    node: str
    item: int


class ChainNodeFailed(Event, frozen=True):
    type = "chain.node.failed"
    chain_id: UUID
    node: str
    item: int
    error: str


class ChainNodeSkipped(Event, frozen=True):
    type = "chain.node.skipped"
    chain_id: UUID
    node: str


class ChainCompleted(Event, frozen=True):
    type = "chain.completed"
    chain_id: UUID


class ChainFailed(Event, frozen=True):
    type = "chain.failed"
    chain_id: UUID
    error: str


class ChainCancelled(Event, frozen=True):
    type = "chain.cancelled"
    chain_id: UUID


# Tools


class ToolPolicySet(Event, frozen=True):
    type = "tool.policy_set"
    subject: str
    decision: str


class ToolPolicyRemoved(Event, frozen=True):
    type = "tool.policy_removed"
    subject: str


# Heartbeat


class HeartbeatCheckOk(Event, frozen=True):
    type = "heartbeat.check.ok"
    check_id: str


class HeartbeatCheckWarn(Event, frozen=True):
    type = "heartbeat.check.warn"
    check_id: str
    message: str


class HeartbeatAlert(Event, frozen=True):
    type = "heartbeat.alert"
    priority: int
    message: str


# Dreams


class DreamPlanted(Event, frozen=True):
    type = "dream.planted"
    dream_id: UUID
    seed: str


class DreamEvolved(Event, frozen=True):
    type = "dream.evolved"
    dream_id: UUID
    stage: str
    fitness: float


class DreamBloomed(Event, frozen=True):
    type = "dream.bloomed"
    dream_id: UUID


class DreamCompiled(Event, frozen=True):
    type = "dream.compiled"
    dream_id: UUID
    session_id: UUID


# Skills


class SkillInstalled(Event, frozen=True):
    type = "skill.installed"
    skill_id: str
    version: str


class SkillPublished(Event, frozen=True):
    type = "skill.published"
    skill_id: str
    author: str


# Tenants and people


class TenantCreated(Event, frozen=True):
    type = "tenant.created"
    name: str
    slug: str
    plan: str


class TenantUpdated(Event, frozen=True):
    type = "tenant.updated"
    changed: list[str]


class MemberInvited(Event, frozen=True):
    type = "member.invited"
    invitation_id: UUID
    email: str
    role: str


class InvitationRevoked(Event, frozen=True):
    type = "member.invitation_revoked"
    invitation_id: UUID


class MemberJoined(Event, frozen=True):
    type = "member.joined"
    user_id: UUID
    role: str


class MemberRoleChanged(Event, frozen=True):
    type = "member.role_changed"
    user_id: UUID
    role: str


class MemberRemoved(Event, frozen=True):
    type = "member.removed"
    user_id: UUID


class ApiKeyCreated(Event, frozen=True):
    type = "api_key.created"
    api_key_id: UUID
    name: str


class ApiKeyRevoked(Event, frozen=True):
    type = "api_key.revoked"
    api_key_id: UUID


# Vault and objects


class SecretStored(Event, frozen=True):
    type = "secret.stored"
    secret_id: UUID
    name: str
    version: int


class SecretDeleted(Event, frozen=True):
    type = "secret.deleted"
    secret_id: UUID
    name: str


class VaultKeyRotated(Event, frozen=True):
    type = "vault.key_rotated"
    version: int


class ObjectStored(Event, frozen=True):
    type = "object.stored"
    object_id: UUID
    key: str
    size: int


class ObjectDeleted(Event, frozen=True):
    type = "object.deleted"
    object_id: UUID
    key: str


# Models and money


class ProviderConnected(Event, frozen=True):
    type = "model.provider_connected"
    provider_id: UUID
    name: str
    kind: str


class ProviderUpdated(Event, frozen=True):
    type = "model.provider_updated"
    provider_id: UUID
    name: str
    changed: list[str]


class ProviderRemoved(Event, frozen=True):
    type = "model.provider_removed"
    provider_id: UUID
    name: str


class FallbackChainSet(Event, frozen=True):
    type = "model.fallback_chain_set"
    targets: list[str]


class PriceSet(Event, frozen=True):
    type = "model.price_set"
    provider: str
    model: str


class PriceRemoved(Event, frozen=True):
    type = "model.price_removed"
    provider: str
    model: str


class BudgetSet(Event, frozen=True):
    type = "budget.set"
    scope: str
    subject_id: UUID
    cap_micros: int


class BudgetRemoved(Event, frozen=True):
    type = "budget.removed"
    scope: str
    subject_id: UUID


class BudgetWarned(Event, frozen=True):
    """Four fifths of a budget are spent."""

    type = "budget.warned"
    scope: str
    subject_id: UUID
    cap_micros: int
    spent_micros: int


class BudgetExhausted(Event, frozen=True):
    """A call was refused because it might have gone over a budget: work pauses here."""

    type = "budget.exhausted"
    scope: str
    subject_id: UUID
    cap_micros: int
    spent_micros: int


class BudgetResumed(Event, frozen=True):
    """A budget that was exhausted has room again."""

    type = "budget.resumed"
    scope: str
    subject_id: UUID
    cap_micros: int


# Crews


class TeamCreated(Event, frozen=True):
    type = "team.created"
    team_id: UUID
    name: str
    provider: str


class TeamUpdated(Event, frozen=True):
    """The team or one of its agents was changed; a running one goes on by the new version."""

    type = "team.updated"
    team_id: UUID
    version: int
    changed: list[str]


class TeamDeleted(Event, frozen=True):
    type = "team.deleted"
    team_id: UUID
    name: str


class TeamStatusChanged(Event, frozen=True):
    """How a team is: stopped, starting, running, degraded, crash_loop, repairing, error."""

    type = "team.status_changed"
    team_id: UUID
    status: str
    reason: str | None


class TeamAlerted(Event, frozen=True):
    """A team needs somebody: it was repaired as often as is tried, and does not run."""

    type = "team.alerted"
    team_id: UUID
    name: str
    reason: str


class TeamMcpChanged(Event, frozen=True):
    """How the MCP servers of a running team are, by name."""

    type = "team.mcp_changed"
    team_id: UUID
    servers: dict[str, Any]


class MessageQueued(Event, frozen=True):
    type = "message.queued"
    message_id: UUID
    team_id: UUID
    position: int
    source: str
    author: str
    text: str


class MessageStarted(Event, frozen=True):
    """An agent works on the message; `attempt` is above 1 after a crash."""

    type = "message.started"
    message_id: UUID
    team_id: UUID
    attempt: int


class MessageFinished(Event, frozen=True):
    """The message is answered, failed, cancelled or uncertain. A long answer is shortened here."""

    type = "message.finished"
    message_id: UUID
    team_id: UUID
    state: str
    answer: str
    error: str | None
    cost_micros: int


class ScheduleChanged(Event, frozen=True):
    """A schedule was created, updated, paused or resumed; `next_at` is null if nothing is to come."""

    type = "schedule.changed"
    schedule_id: UUID
    name: str
    change: str
    next_at: datetime | None


class ScheduleDeleted(Event, frozen=True):
    type = "schedule.deleted"
    schedule_id: UUID
    name: str


class WebhookChanged(Event, frozen=True):
    """A webhook was created, updated, or given a new token."""

    type = "webhook.changed"
    webhook_id: UUID
    name: str
    change: str


class WebhookDeleted(Event, frozen=True):
    type = "webhook.deleted"
    webhook_id: UUID
    name: str


class PostActionChanged(Event, frozen=True):
    """A post-action was created, updated or deleted."""

    type = "post_action.changed"
    post_action_id: UUID
    name: str
    change: str


class RunQueued(Event, frozen=True):
    """A schedule or a webhook has fired."""

    type = "run.queued"
    run_id: UUID
    schedule_id: UUID | None
    webhook_id: UUID | None
    due_at: datetime


class RunStarted(Event, frozen=True):
    type = "run.started"
    run_id: UUID
    schedule_id: UUID | None
    webhook_id: UUID | None


class RunFinished(Event, frozen=True):
    type = "run.finished"
    run_id: UUID
    schedule_id: UUID | None
    webhook_id: UUID | None
    state: str
    error: str | None


class DeliveryFinished(Event, frozen=True):
    """A post-action's call was taken, or given up."""

    type = "run.delivered"
    run_id: UUID
    post_action_id: UUID
    state: str
    status: int | None


EVENT_TYPES: dict[str, type[Event]] = {kind.type: kind for kind in Event.__subclasses__()}


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it travels: on NATS, on the event socket and in history pages."""

    seq: int
    id: UUID
    type: str
    tenant_id: UUID
    at: datetime
    data: msgspec.Raw


def encode_envelope(
    *, seq: int, event_id: UUID, event_type: str, tenant_id: UUID, at: datetime, data: str
) -> bytes:
    """An envelope on the wire; `data` is JSON already, as the database keeps it."""
    return msgspec.json.encode(
        Envelope(
            seq=seq,
            id=event_id,
            type=event_type,
            tenant_id=tenant_id,
            at=at,
            data=msgspec.Raw(data.encode()),
        )
    )


class Unnumbered(msgspec.Struct, frozen=True, kw_only=True):
    """An event that is committed, told before it has its place in the stream.

    It comes again with its number and the same id. Whoever hears both may ignore either.
    """

    id: UUID
    type: str
    tenant_id: UUID
    at: datetime
    data: Event


def encode_unnumbered(tenant_id: UUID, event_id: UUID, at: datetime, event: Event) -> bytes:
    return msgspec.json.encode(
        Unnumbered(id=event_id, type=event.type, tenant_id=tenant_id, at=at, data=event)
    )


def subject(tenant_id: UUID, event_type: str) -> str:
    """The NATS subject an event is published on.

    What teams say among themselves is below `team`, and no event must be there.
    """
    root, dot, rest = event_type.partition(".")
    return f"tenant.{tenant_id}.{_subject_root(root)}{dot}{rest}"


def subject_roots() -> list[str]:
    """The first word of every event type: what the bus keeps under `tenant.*.{root}.>`."""
    return sorted({_subject_root(kind.partition(".")[0]) for kind in EVENT_TYPES})


def _subject_root(root: str) -> str:
    return "teams" if root == "team" else root
