from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from agentos.execution.crews.schemas import (
    AgentPut,
    Permissions,
    ProviderName,
    RuntimeName,
    Skill,
    TeamDefinition,
    TeamStatus,
)
from agentos.integrations.tools.schemas import McpServer
from agentos.kernel.database import Transaction
from agentos.kernel.ids import TenantId, uuid7


@dataclass(frozen=True, slots=True)
class Definition:
    """What a team is told to be: all of it, at one version."""

    tenant_id: TenantId
    team_id: UUID
    version: int
    name: str
    description: str
    provider: ProviderName
    runtime: RuntimeName | None
    model: str
    command: tuple[str, ...] | None
    leader: AgentPut
    workers: tuple[AgentPut, ...]
    skills: tuple[Skill, ...]
    mcp_servers: tuple[McpServer, ...]
    allowed_hosts: tuple[str, ...]
    answer_seconds: int

    @property
    def agents(self) -> tuple[AgentPut, ...]:
        """The leader first."""
        return (self.leader, *self.workers)

    def document(self) -> TeamDefinition:
        """The same as people write it."""
        return TeamDefinition(
            name=self.name,
            description=self.description,
            provider=self.provider,
            runtime=self.runtime,
            model=self.model,
            command=None if self.command is None else list(self.command),
            leader=self.leader,
            workers=list(self.workers),
            skills=list(self.skills),
            mcp_servers=list(self.mcp_servers),
            allowed_hosts=list(self.allowed_hosts),
            answer_seconds=self.answer_seconds,
        )


@dataclass(frozen=True, slots=True)
class TeamRow:
    """A team as whoever has locked it knows it: what people want of it, and how it is."""

    tenant_id: TenantId
    id: UUID
    name: str
    provider: ProviderName
    runtime: RuntimeName | None
    answer_seconds: int
    version: int
    deployed: bool
    status: TeamStatus
    reason: str | None
    applied_version: int
    generation: int
    owner: UUID | None
    fence: int
    crashes: list[datetime]
    repairs: int
    session_id: UUID | None
    conversation: str | None
    snapshot_id: UUID | None
    last_position: int
    created_by: str
    principal_kind: str
    principal_id: str

    @property
    def is_native(self) -> bool:
        return self.provider == "native"


_ROW = """tenant_id, id, name, provider, runtime, answer_seconds, version, deployed, status, reason,
    applied_version, generation, owner, fence, crashes, repairs, session_id, conversation,
    snapshot_id, last_position, created_by, principal_kind, principal_id"""
_DOCUMENT = """name, description, provider, runtime, model, command, skills, mcp_servers,
    allowed_hosts, answer_seconds, version"""
# In the order of TeamRead's fields.
_READ = """t.id, t.name, t.description, t.provider, t.runtime, t.model,
    (select count(*) from team_agents a where a.tenant_id = t.tenant_id and a.team_id = t.id)
        as agents,
    t.deployed, t.status, t.reason, t.status_at, t.version, t.applied_version,
    (select count(*) from team_messages m where m.tenant_id = t.tenant_id and m.team_id = t.id
        and m.state in ('queued', 'running')) as waiting,
    t.created_by, t.created_at, t.updated_at"""


# Of any use-case -------------------------------------------------------------------------------


async def definition(tx: Transaction, tenant_id: UUID, team_id: UUID) -> Definition | None:
    """What the team is told to be now; None if there is no such team.

    To see the team and its agents at the same version, whoever changes nothing needs no lock: an
    update writes both in one transaction, and this is one statement.
    """
    row = await tx.row(
        f"""select {_DOCUMENT}, (select jsonb_agg(to_jsonb(a) order by a.leader desc, a.position)
                from team_agents a where a.tenant_id = t.tenant_id and a.team_id = t.id) as agents
            from teams t where tenant_id = $1 and id = $2""",
        tenant_id,
        team_id,
    )
    if row is None:
        return None
    # The leader is the first.
    leader, *workers = [_agent(agent) for agent in row["agents"]]
    return Definition(
        tenant_id=TenantId(tenant_id),
        team_id=team_id,
        version=row["version"],
        name=row["name"],
        description=row["description"],
        provider=row["provider"],
        runtime=row["runtime"],
        model=row["model"],
        command=None if row["command"] is None else tuple(row["command"]),
        leader=leader,
        workers=tuple(workers),
        skills=tuple(Skill.model_validate(skill) for skill in row["skills"]),
        mcp_servers=tuple(McpServer.model_validate(server) for server in row["mcp_servers"]),
        allowed_hosts=tuple(row["allowed_hosts"]),
        answer_seconds=row["answer_seconds"],
    )


def _agent(row: dict[str, Any]) -> AgentPut:
    return AgentPut(
        name=row["name"],
        role=row["role"],
        instructions=row["instructions"],
        model=row["model"],
        skills=row["skills"],
        permissions=Permissions.model_validate(row["permissions"]),
    )


async def lock(tx: Transaction, tenant_id: UUID, team_id: UUID) -> TeamRow | None:
    """The team, which nobody else changes until the transaction ends; None if there is none."""
    row = await tx.row(
        f"select {_ROW} from teams where tenant_id = $1 and id = $2 for update", tenant_id, team_id
    )
    return None if row is None else TeamRow(**row)


async def lock_after_session(tx: Transaction, tenant_id: UUID, team_id: UUID) -> TeamRow | None:
    """As `lock`, with the session of a native team's conversation, for whoever may end that.

    The session first, as workers do when it ends: the other way round, each would wait for the
    other. If the team has got another session meanwhile, the team is let go of, and it all begins
    again.
    """
    # One statement for a team without a session, such as all of agent CLIs.
    row = await tx.row(_LOCK_UNLESS_SESSION, tenant_id, team_id)
    if row is None:
        return None
    session_id, *rest = row.values()
    if row["id"] is not None:
        return TeamRow(*rest)
    held: UUID | None = None
    while True:
        if session_id != held and session_id is not None:
            await tx.execute(
                "select from sessions where tenant_id = $1 and id = $2 for update",
                tenant_id,
                session_id,
            )
            held = session_id
        await tx.execute("savepoint team")
        team = await lock(tx, tenant_id, team_id)
        if team is None or team.session_id in (None, held):
            return team
        await tx.execute("rollback to savepoint team")
        session_id = team.session_id


_LOCK_UNLESS_SESSION = f"""
with free as materialized (
    select {_ROW} from teams where tenant_id = $1 and id = $2 and session_id is null for update)
select seen.session_id as seen_session_id, free.*
from (select session_id from teams where tenant_id = $1 and id = $2) seen left join free on true
"""


# Lists and details -----------------------------------------------------------------------------


async def page(
    tx: Transaction,
    tenant_id: UUID,
    *,
    status: str | None,
    provider: str | None,
    name: str | None,
    before: UUID,
    limit: int,
) -> list[asyncpg.Record]:
    return await tx.fetch(
        f"""select {_READ} from teams t
            where t.tenant_id = $1 and t.id < $2
              and ($3::text is null or t.status = $3)
              and ($4::text is null or t.provider = $4)
              and ($5::text is null or position(lower($5) in lower(t.name)) > 0)
            order by t.id desc limit $6""",
        tenant_id,
        before,
        status,
        provider,
        name,
        limit,
    )


async def find(tx: Transaction, tenant_id: UUID, team_id: UUID) -> asyncpg.Record | None:
    return await tx.row(
        f"""select {_READ}, t.mcp_status, t.session_id from teams t
            where t.tenant_id = $1 and t.id = $2""",
        tenant_id,
        team_id,
    )


async def exists(tx: Transaction, tenant_id: UUID, team_id: UUID) -> bool:
    found: bool = await tx.value(
        "select exists (select from teams where tenant_id = $1 and id = $2)", tenant_id, team_id
    )
    return found


async def deployed_on_machines(tx: Transaction, tenant_id: UUID) -> int:
    """How many teams of CLI providers are deployed."""
    count: int = await tx.value(
        "select count(*) from teams where tenant_id = $1 and deployed and provider <> 'native'",
        tenant_id,
    )
    return count


# Changes ---------------------------------------------------------------------------------------


async def insert(
    tx: Transaction,
    tenant_id: UUID,
    team_id: UUID,
    document: TeamDefinition,
    *,
    principal: tuple[str, str, str],
    now: datetime,
) -> None:
    """Raises asyncpg.UniqueViolationError if another team has its name."""
    kind, principal_id, principal_name = principal
    await tx.execute(
        """insert into teams (tenant_id, id, name, description, provider, runtime, model, command,
               skills, mcp_servers, allowed_hosts, answer_seconds, status_at, created_by,
               principal_kind, principal_id, created_at, updated_at)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $13, $13)""",
        tenant_id,
        team_id,
        document.name,
        document.description,
        document.provider,
        document.runtime,
        document.model,
        document.command,
        *_values(document),
        now,
        principal_name,
        kind,
        principal_id,
    )
    await insert_agents(tx, tenant_id, team_id, document)


async def update(
    tx: Transaction, tenant_id: UUID, team_id: UUID, document: TeamDefinition, now: datetime
) -> None:
    """Makes this the team's definition, as a new version. Raises asyncpg.UniqueViolationError."""
    await tx.execute(
        """update teams set name = $3, description = $4, runtime = $5, model = $6, command = $7,
               skills = $8, mcp_servers = $9, allowed_hosts = $10, answer_seconds = $11,
               version = version + 1, updated_at = $12
           where tenant_id = $1 and id = $2""",
        tenant_id,
        team_id,
        document.name,
        document.description,
        document.runtime,
        document.model,
        document.command,
        *_values(document),
        now,
    )


def _values(document: TeamDefinition) -> tuple[Any, ...]:
    return (
        [skill.model_dump(mode="json") for skill in document.skills],
        [server.model_dump(mode="json") for server in document.mcp_servers],
        document.allowed_hosts,
        document.answer_seconds,
    )


async def insert_agents(
    tx: Transaction, tenant_id: UUID, team_id: UUID, document: TeamDefinition
) -> None:
    agents: Sequence[AgentPut] = (document.leader, *document.workers)
    rows = [
        {
            "id": str(uuid7()),
            "leader": agent is document.leader,
            "position": position,
            **agent.model_dump(mode="json"),
        }
        for position, agent in enumerate(agents)
    ]
    await tx.execute(
        """insert into team_agents (tenant_id, team_id, id, leader, name, role, instructions,
               model, skills, permissions, position)
           select $1, $2, a.id, a.leader, a.name, a.role, a.instructions, a.model, a.skills,
               a.permissions, a.position
           from jsonb_to_recordset($3) as a (id uuid, leader boolean, name text, role text,
               instructions text, model text, skills text[], permissions jsonb, position smallint)""",
        tenant_id,
        team_id,
        rows,
    )


async def delete_agents(tx: Transaction, tenant_id: UUID, team_id: UUID) -> None:
    await tx.execute(
        "delete from team_agents where tenant_id = $1 and team_id = $2", tenant_id, team_id
    )


async def want(
    tx: Transaction,
    team: TeamRow,
    now: datetime,
    *,
    deployed: bool,
    status: TeamStatus,
    reason: str | None,
    restart: bool = False,
) -> None:
    """Notes what people want of a locked team, and how it is from now on.

    Whatever went wrong before is forgotten: somebody has looked at it.
    """
    await tx.execute(
        """update teams set deployed = $3, status = $4, reason = $5, updated_at = $6,
               status_at = case when status = $4 then status_at else $6 end,
               generation = generation + $7::int, crashes = '{}', repairs = 0
           where tenant_id = $1 and id = $2""",
        team.tenant_id,
        team.id,
        deployed,
        status,
        reason,
        now,
        int(restart),
    )


async def revoke(tx: Transaction, team: TeamRow, until: datetime) -> None:
    """Makes void what the team's sidecars were given to get onto the bus."""
    await tx.execute(
        "insert into bus_revocations (tenant_id, team_id, until) values ($1, $2, $3)",
        team.tenant_id,
        team.id,
        until,
    )


async def delete(tx: Transaction, team: TeamRow) -> None:
    """With all that belongs to it: agents, messages, schedules, webhooks, their runs."""
    await tx.execute("delete from teams where tenant_id = $1 and id = $2", team.tenant_id, team.id)
