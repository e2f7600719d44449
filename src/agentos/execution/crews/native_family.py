"""The conversation of a native team and the sessions of its workers, from one to the other."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from agentos.execution.pulse.journal import STEP_COLUMNS, Step, step_of
from agentos.kernel.database import Transaction

# How a session `c`, which `p` has started, is called in the chat. A team worker has its profile's
# instructions, which begin with its name. Others have no name but that of their task, in quotes: so
# it is nobody else's.
_NAME = """coalesce(
    (select a->>'name' from jsonb_array_elements(p.config->'agents') a
     where a->>'instructions' = c.config->>'instructions' limit 1),
    '“' || left(c.title, 60) || '”')"""


@dataclass(frozen=True, slots=True)
class Place:
    """Which message a session works on, and as which team worker; None: as the leader."""

    message_id: UUID
    agent: str | None


async def place_of(tx: Transaction, tenant_id: UUID, session_id: UUID) -> Place | None:
    """None: neither it nor the first of its ancestors answers a message."""
    row = await tx.row(
        f"""with recursive up(id, parent_id) as (
               select id, parent_id from sessions where tenant_id = $1 and id = $2
               union all
               select s.id, s.parent_id from up join sessions s on s.tenant_id = $1 and s.id = up.parent_id
           )
           select m.id, (select {_NAME} from sessions c
                   join sessions p on p.tenant_id = $1 and p.id = c.parent_id
                   where c.tenant_id = $1 and c.id = $2) as agent
           from up join team_messages m on m.tenant_id = $1 and m.session_id = up.id
           where up.parent_id is null and m.state = 'running'""",  # noqa: S608 - the name stands above
        tenant_id,
        session_id,
    )
    return None if row is None else Place(row["id"], row["agent"])


@dataclass(frozen=True, slots=True)
class Answering:
    """A message that a team is at, and the session that is its conversation."""

    message_id: UUID
    session_id: UUID
    # The session that tells of it: the leader's if it is being worked on, else the first of its
    # workers' that is. None: nobody works.
    teller: UUID | None


async def answering(tx: Transaction, tenant_id: UUID, team_id: UUID) -> Answering | None:
    row = await tx.row(
        """with recursive message as materialized (
               select id, session_id from team_messages
               where tenant_id = $1 and team_id = $2 and state = 'running'
           ), family(id, owner, depth) as (
               select s.id, s.owner, 0 from message m
               join sessions s on s.tenant_id = $1 and s.id = m.session_id
               union all
               select s.id, s.owner, 1 from family f
               join sessions s on s.tenant_id = $1 and s.parent_id = f.id
           )
           select id, session_id, (select f.id from family f where f.owner is not null
               order by f.depth, f.id limit 1) as teller
           from message""",
        tenant_id,
        team_id,
    )
    return None if row is None else Answering(row["id"], row["session_id"], row["teller"])


@dataclass(slots=True)
class Part:
    """What the leader or a team worker did for a message, as far as it is in the journal."""

    session_id: UUID
    agent: str | None
    # Of a worker: the turn of the leader in which it, or who called it, was called.
    turn: int
    ended: bool
    steps: list[Step]


async def parts_of(
    tx: Transaction, tenant_id: UUID, session_id: UUID, *, most_steps: int
) -> list[Part]:
    """The leader's part and then its workers', since the leader was last spoken to: answers and
    tools, the newest of them."""
    rows = await tx.fetch(
        f"""with recursive asked(seq) as materialized (
               select coalesce(max(seq), 0) from steps where tenant_id = $1 and session_id = $2
               and kind = 'message' and name = 'user'
           ), family(id, agent, turn, since, ended) as (
               select c.id, null::text, 0, asked.seq, c.finished_at is not null
               from sessions c, asked where c.tenant_id = $1 and c.id = $2
               union all
               -- The key of the call that started it begins with the step of that call.
               select c.id, {_NAME}, case when f.turn > 0 then f.turn else k.step end, 0,
                   c.finished_at is not null
               from family f
               join sessions p on p.tenant_id = $1 and p.id = f.id
               join sessions c on c.tenant_id = $1 and c.parent_id = p.id
               cross join lateral (select split_part(c.parent_call, '.', 1)::integer as step) k
               where k.step > f.since
           ), newest as (
               select f.id as whose, f.agent, f.turn, f.ended, n.* from family f
               join steps n on n.tenant_id = $1 and n.session_id = f.id and n.seq > f.since
               where n.kind in ('model', 'tool') order by n.at desc limit $3
           )
           select whose, agent, turn, ended, {STEP_COLUMNS} from newest
           order by agent is not null, whose, seq""",  # noqa: S608 - the names stand above and in journal.py
        tenant_id,
        session_id,
        most_steps,
    )
    parts: dict[UUID, Part] = {}
    for row in rows:
        part = parts.setdefault(
            row["whose"], Part(row["whose"], row["agent"], row["turn"], row["ended"], [])
        )
        part.steps.append(step_of(row))
    return list(parts.values())
