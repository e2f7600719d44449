"""Which worker keeps which team, and what a keeper may write: only while it is the owner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from agentos.contracts.events import TeamAlerted, TeamMcpChanged, TeamStatusChanged
from agentos.execution.crews.keeping.trouble import LOOP_TIME
from agentos.execution.crews.logs import repository as logs
from agentos.execution.crews.logs.lines import server_lines, status_line, told
from agentos.execution.crews.schemas import TeamStatus
from agentos.kernel.database import Database, Transaction
from agentos.kernel.ids import TenantId
from agentos.kernel.outbox import Outbox

_LOCK = 0x63726577  # "crew"


class Lost(Exception):
    """Another worker keeps the team now."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A team that this worker keeps."""

    tenant_id: TenantId
    team_id: UUID
    owner: UUID
    fence: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What people want of a team, and how far it is."""

    name: str
    provider: str
    runtime: str
    deployed: bool
    generation: int
    version: int
    answer_seconds: int
    status: TeamStatus
    conversation: str | None
    snapshot_id: UUID | None


async def claim(db: Database, owner: UUID, room: int) -> list[Claim]:
    """Takes teams that should run and have no worker that lives, or that should end and have none."""
    # The usual answer, for which nobody has to wait.
    if not (await db.fetch(_ANY_UNKEPT))[0]["any"]:
        return []
    async with db.transaction() as tx:
        await tx.execute("select pg_advisory_xact_lock($1)", _LOCK)
        rows = await tx.fetch(_CLAIM, owner, room)
        for row in rows:
            line = told("A worker has taken it.") if row["left_by"] is None else _TAKEN_OVER
            await logs.write(tx, row["tenant_id"], row["id"], row["now"], line)
    return [Claim(TenantId(row["tenant_id"]), row["id"], owner, row["fence"]) for row in rows]


_TAKEN_OVER = told("Its worker is gone; another one has taken it over.", "warning")
_UNKEPT = """teams w
    where w.provider <> 'native' and (w.deployed or w.status <> 'stopped')
      and (w.owner is null or not exists (select from workers where workers.id = w.owner))"""
_ANY_UNKEPT = f"select exists (select from {_UNKEPT}) as any"  # noqa: S608 - written above
_CLAIM = f"""
with f as materialized (
    select tenant_id, id, owner from {_UNKEPT}
    order by w.status_at limit $2 for update skip locked)
update teams t set owner = $1, fence = t.fence + 1
from f where t.tenant_id = f.tenant_id and t.id = f.id
returning t.tenant_id, t.id, t.fence, f.owner as left_by, now()
"""  # noqa: S608 - written above


@dataclass(frozen=True, slots=True)
class Glance:
    """What a keeper has to look at if it changes, beside what only concerns an agent at work."""

    fence: int
    deployed: bool
    generation: int
    version: int
    answer_seconds: int
    last_position: int


async def glance(db: Database, owner: UUID) -> dict[UUID, Glance]:
    """The teams that a worker owns, by the database. One statement, for however many teams."""
    rows = await db.fetch(
        """select id, fence, deployed, generation, version, answer_seconds, last_position
           from teams where owner = $1""",
        owner,
    )
    return {
        row["id"]: Glance(**{name: value for name, value in row.items() if name != "id"})
        for row in rows
    }


async def disown(db: Database, owner: UUID, teams: Iterable[tuple[UUID, int]]) -> None:
    """Lets go of teams that a worker owns and nobody in it keeps, given with their fences."""
    async with db.transaction() as tx:
        for team_id, fence in teams:
            await tx.execute(
                "update teams set owner = null where owner = $1 and id = $2 and fence = $3",
                owner,
                team_id,
                fence,
            )


async def is_deleted(db: Database, claim: Claim) -> bool:
    async with db.transaction() as tx:
        return not await tx.value("select exists (select from teams where id = $1)", claim.team_id)


async def kept_elsewhere(db: Database) -> frozenset[UUID]:
    """The teams that a worker that lives keeps: what they have on this machine is theirs."""
    async with db.transaction() as tx:
        rows = await tx.fetch(
            "select t.id from teams t join workers w on w.id = t.owner where t.provider <> 'native'"
        )
    return frozenset(row["id"] for row in rows)


async def wanted(tx: Transaction, claim: Claim) -> Wanted:
    """Raises Lost."""
    row = await tx.row(
        """select name, provider, runtime, deployed, generation, version, answer_seconds, status,
               conversation, snapshot_id
           from teams where tenant_id = $1 and id = $2 and owner = $3 and fence = $4""",
        claim.tenant_id,
        claim.team_id,
        claim.owner,
        claim.fence,
    )
    if row is None:
        raise Lost
    return Wanted(**row)


async def hold(tx: Transaction, claim: Claim) -> asyncpg.Record:
    """The team's row, locked, while it is ours. Raises Lost."""
    row = await tx.row(
        """select name, status, reason, crashes, repairs, mcp_status, deployed, applied_version
           from teams
           where tenant_id = $1 and id = $2 and owner = $3 and fence = $4 for update""",
        claim.tenant_id,
        claim.team_id,
        claim.owner,
        claim.fence,
    )
    if row is None:
        raise Lost
    return row


async def release(tx: Transaction, claim: Claim) -> None:
    """Lets another worker keep the team, or nobody if it is stopped."""
    await tx.execute(
        """update teams set owner = null
           where tenant_id = $1 and id = $2 and owner = $3 and fence = $4""",
        claim.tenant_id,
        claim.team_id,
        claim.owner,
        claim.fence,
    )


async def set_status(
    tx: Transaction,
    outbox: Outbox,
    claim: Claim,
    status: TeamStatus,
    reason: str | None,
    now: datetime,
    *,
    logged: bool = True,
    **also: Any,
) -> None:
    """How the team is from now on; announced and logged if that is news. Raises Lost."""
    row = await hold(tx, claim)
    names = ["status", "reason", *also]
    values = [status, reason, *also.values()]
    changed = (row["status"], row["reason"]) != (status, reason)
    if changed:
        names.append("status_at")
        values.append(now)
    places = ", ".join(f"{name} = ${n}" for n, name in enumerate(names, 3))
    await tx.execute(
        f"update teams set {places} where tenant_id = $1 and id = $2",  # noqa: S608 - names of ours
        claim.tenant_id,
        claim.team_id,
        *values,
    )
    if changed:
        event = TeamStatusChanged(team_id=claim.team_id, status=status, reason=reason)
        await outbox.announce(tx, claim.tenant_id, now, event)
        if logged:
            await logs.write(tx, claim.tenant_id, claim.team_id, now, status_line(status, reason))


async def alert(tx: Transaction, outbox: Outbox, claim: Claim, reason: str, now: datetime) -> None:
    """Tells people that a team needs them."""
    row = await hold(tx, claim)
    event = TeamAlerted(team_id=claim.team_id, name=row["name"], reason=reason)
    await outbox.announce(tx, claim.tenant_id, now, event)


async def count_crash(tx: Transaction, claim: Claim, now: datetime) -> tuple[int, int]:
    """Notes a crash; returns how many there were within the time that makes a loop, and how many
    repairs. Raises Lost."""
    row = await hold(tx, claim)
    recent = [at for at in row["crashes"] if at > now - LOOP_TIME] + [now]
    await tx.execute(
        "update teams set crashes = $3 where tenant_id = $1 and id = $2",
        claim.tenant_id,
        claim.team_id,
        recent,
    )
    return len(recent), row["repairs"]


async def crash_count(tx: Transaction, claim: Claim, now: datetime) -> tuple[int, int]:
    """The same of crashes that are noted already. Raises Lost."""
    row = await hold(tx, claim)
    return len([at for at in row["crashes"] if at > now - LOOP_TIME]), row["repairs"]


async def applied(
    tx: Transaction, claim: Claim, version: int, conversation: str | None, now: datetime
) -> None:
    """Notes what the running agent works by. Raises Lost."""
    row = await hold(tx, claim)
    if version > row["applied_version"]:
        line = told(f"Its agent is given version {version}.")
        await logs.write(tx, claim.tenant_id, claim.team_id, now, line)
    await tx.execute(
        """update teams set applied_version = greatest(applied_version, $3),
               conversation = coalesce($4, conversation)
           where tenant_id = $1 and id = $2""",
        claim.tenant_id,
        claim.team_id,
        version,
        conversation,
    )


async def set_mcp(
    tx: Transaction, outbox: Outbox, claim: Claim, servers: dict[str, Any], now: datetime
) -> None:
    """How the team's MCP servers are; announced if that is news. Raises Lost."""
    row = await hold(tx, claim)
    if row["mcp_status"] == servers:
        return
    await tx.execute(
        "update teams set mcp_status = $3 where tenant_id = $1 and id = $2",
        claim.tenant_id,
        claim.team_id,
        servers,
    )
    event = TeamMcpChanged(team_id=claim.team_id, servers=servers)
    await outbox.announce(tx, claim.tenant_id, now, event)
    lines = server_lines(row["mcp_status"], servers)
    await logs.write(tx, claim.tenant_id, claim.team_id, now, *lines)
