"""Posting: ledger entries go to Postgres in batches, each once, with all they move."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal
from uuid import UUID

import asyncpg
import msgspec

from agentos.contracts.events import BudgetWarned
from agentos.kernel.database import Database, Transaction
from agentos.kernel.ids import uuid7
from agentos.kernel.logs import get_logger
from agentos.kernel.outbox import Outbox
from agentos.tenancy.ledger.calls import FinishedCall, Spender
from agentos.tenancy.ledger.holds import Move, lower
from agentos.tenancy.ledger.periods import Account, columns
from agentos.tenancy.ledger.pots import Pot
from agentos.tenancy.ledger.rating import rated
from agentos.tenancy.ledger.spool import Segment

log = get_logger(__name__)

# A record with which Postgres can never be content: a tenant that is gone, a number too large.
_POISON = (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError, ValueError, OverflowError)


@dataclass(slots=True, eq=False)
class Entry:
    """A row of the ledger, and what it moves."""

    kind: Literal["reserve", "settle", "release"]
    call_id: UUID
    spender: Spender
    at: datetime
    # Those the call counts against, the tenant's first.
    accounts: tuple[Account, ...]
    held_micros: int
    held_tokens: int
    reason: str | None = None
    call: FinishedCall | None = None
    # What the spending uses up of each hold.
    kept: Sequence[tuple[Pot, int]] = ()
    segment: Segment | None = None

    @property
    def period(self) -> date:
        return self.accounts[0].period

    @property
    def spent_micros(self) -> int:
        return (self.call.cost_micros or 0) if self.call else 0

    @property
    def spent_tokens(self) -> int:
        return tokens_of(self.call) if self.call else 0

    def line(self) -> bytes:
        """The entry for a person to read."""
        return msgspec.json.encode(
            {
                "kind": self.kind,
                "call_id": self.call_id,
                "spender": self.spender,
                "at": self.at,
                "held_micros": self.held_micros,
                "held_tokens": self.held_tokens,
                "reason": self.reason,
                "call": self.call,
            }
        )


def tokens_of(call: FinishedCall) -> int:
    """What counts against the plan: input includes what was cached, output what was reasoned."""
    return call.input_tokens + call.output_tokens


async def post(
    tx: Transaction, owner: UUID, entries: Sequence[Entry], outbox: Outbox, now: datetime
) -> None:
    """Writes entries and all they move. Those that are there already move nothing again."""
    settled = [entry for entry in await _write(tx, entries) if entry.kind == "settle"]
    if settled:
        # From here on others wait for the accounts.
        await _move(tx, owner, settled, outbox, now)
        await _add_up_days(tx, settled)


async def post_each(
    db: Database,
    owner: UUID,
    entries: Sequence[Entry],
    outbox: Outbox,
    now: datetime,
    reject: Callable[[Entry], None],
) -> None:
    """Posts a batch in one transaction. An entry that cannot be posted is rejected alone."""
    try:
        async with db.transaction() as tx:
            await post(tx, owner, entries, outbox, now)
    except _POISON as error:
        if len(entries) == 1:
            entry = entries[0]
            log.error(
                "a ledger entry was rejected",
                kind=entry.kind,
                call_id=str(entry.call_id),
                tenant_id=str(entry.spender.tenant_id),
                error=type(error).__name__,
            )
            reject(entry)
            return
        middle = len(entries) // 2
        await post_each(db, owner, entries[:middle], outbox, now, reject)
        await post_each(db, owner, entries[middle:], outbox, now, reject)


class _Row(msgspec.Struct, gc=False, omit_defaults=True):
    """A row of ledger_entries, and with a settled call the one of model_calls, as SQL reads it."""

    tenant_id: UUID
    call_id: UUID
    kind: str
    at: datetime
    period: date
    held_micros: int
    held_tokens: int
    team_id: UUID | None = None
    session_id: UUID | None = None
    spent_micros: int = 0
    spent_tokens: int = 0
    reason: str | None = None
    call: FinishedCall | None = None
    rated_micros: int | None = None


def _row(entry: Entry) -> _Row:
    spender, call = entry.spender, entry.call
    row = _Row(
        spender.tenant_id,
        entry.call_id,
        entry.kind,
        entry.at,
        entry.period,
        entry.held_micros,
        entry.held_tokens,
        spender.team_id,
        spender.session_id,
    )
    if call is not None:
        row.spent_micros = call.cost_micros or 0
        row.spent_tokens = tokens_of(call)
        row.rated_micros = rated(call.cost_micros)
        row.call = call
    else:
        row.reason = entry.reason
    return row


CALL_COLUMNS = (
    ("at", "timestamptz"),
    ("principal_kind", "text"),
    ("principal_id", "text"),
    ("face", "text"),
    ("provider", "text"),
    ("model", "text"),
    ("asked_model", "text"),
    ("outcome", "text"),
    ("error_class", "text"),
    ("streamed", "boolean"),
    ("estimated", "boolean"),
    ("attempts", "smallint"),
    ("input_tokens", "bigint"),
    ("cache_read_tokens", "bigint"),
    ("cache_write_tokens", "bigint"),
    ("output_tokens", "bigint"),
    ("reasoning_tokens", "bigint"),
    ("cost_micros", "bigint"),
    ("duration_ms", "integer"),
    ("first_byte_ms", "integer"),
)
# The rows come as one text: for hundreds of them, Postgres reads that with less work on this side
# than an array for each column takes to write.
_WRITE = f"""
    with given as materialized (
        select * from json_to_recordset(convert_from($1, 'UTF8')::json) as row (
            tenant_id uuid, call_id uuid, kind text, at timestamptz, team_id uuid, session_id uuid,
            period date, held_micros bigint, held_tokens bigint, spent_micros bigint,
            spent_tokens bigint, reason text, call json, rated_micros bigint)),
    written as (
        insert into ledger_entries (tenant_id, call_id, kind, at, team_id, session_id, period,
            held_micros, held_tokens, spent_micros, spent_tokens, reason)
        select tenant_id, call_id, kind, at, team_id, session_id, period, held_micros, held_tokens,
            coalesce(spent_micros, 0), coalesce(spent_tokens, 0), reason
        from given
        on conflict do nothing returning call_id, kind),
    called as (
        insert into model_calls (tenant_id, id, team_id, session_id, rated_micros,
            {", ".join(name for name, _ in CALL_COLUMNS)})
        select tenant_id, call_id, team_id, session_id, rated_micros,
            {", ".join(f"c.{name}" for name, _ in CALL_COLUMNS)}
        from given join written using (call_id, kind),
            json_to_record(call) as c ({", ".join(" ".join(column) for column in CALL_COLUMNS)})
        -- Not kind = 'settle': Postgres would then expect one row, and compare each with each.
        where call is not null
        on conflict do nothing)
    select call_id, kind from given
    where not exists (select from written
                      where written.call_id = given.call_id and written.kind = given.kind)
    """  # noqa: S608 - the names stand above


async def _write(tx: Transaction, entries: Sequence[Entry]) -> Sequence[Entry]:
    """Inserts entries and settled calls, and returns the entries that are new."""
    there = await tx.fetch(_WRITE, msgspec.json.encode([_row(entry) for entry in entries]))
    if not there:
        return entries
    known = {(row["call_id"], row["kind"]) for row in there}
    return [entry for entry in entries if (entry.call_id, entry.kind) not in known]


async def _move(
    tx: Transaction, owner: UUID, settled: Sequence[Entry], outbox: Outbox, now: datetime
) -> None:
    spent: dict[Account, list[int]] = defaultdict(lambda: [0, 0])
    kept: dict[Pot, int] = defaultdict(int)
    for entry in settled:
        micros, tokens = entry.spent_micros, entry.spent_tokens
        for account in entry.accounts:
            sums = spent[account]
            sums[0] += micros
            sums[1] += tokens
        for pot, amount in entry.kept:
            kept[pot] += amount
    await _spend(tx, spent, outbox, now)
    moves = moves_of(kept.items())
    if moves:
        await lower(tx, owner, moves)


def moves_of(kept: Iterable[tuple[Pot, int]]) -> list[Move]:
    """What spending takes off holds, but for those that others have by now."""
    moves: dict[Account, Move] = {}
    for pot, amount in kept:
        if amount and not pot.hold.lost:
            account = pot.hold.account
            moves.setdefault(account, Move(account)).add(pot.unit, amount)
    return list(moves.values())


async def _spend(
    tx: Transaction, spent: dict[Account, list[int]], outbox: Outbox, now: datetime
) -> None:
    """Adds to what accounts have spent, which locks them; warns of budgets four fifths spent."""
    rows = await tx.fetch(
        """with moved as (
               insert into accounts as a
                   (tenant_id, scope, subject_id, period, spent_micros, spent_tokens)
               select * from unnest($1::uuid[], $2::text[], $3::uuid[], $4::date[],
                                    $5::bigint[], $6::bigint[])
                    as k(tenant_id, scope, subject_id, period, micros, tokens)
               order by tenant_id, scope desc, subject_id, period
               on conflict (tenant_id, scope, subject_id, period) do update
               set spent_micros = a.spent_micros + excluded.spent_micros,
                   spent_tokens = a.spent_tokens + excluded.spent_tokens
               returning a.tenant_id, a.scope, a.subject_id, a.period, a.spent_micros, a.warned_at)
           select m.tenant_id, m.scope, m.subject_id, m.period, m.spent_micros, b.cap_micros
           from moved m join budgets b using (tenant_id, scope, subject_id)
           where m.warned_at is null and m.spent_micros > 0
             and m.spent_micros::numeric * 5 >= b.cap_micros::numeric * 4""",
        *columns(list(spent)),
        [micros for micros, _ in spent.values()],
        [tokens for _, tokens in spent.values()],
    )
    await warn(tx, rows, outbox, now)


async def warn(
    tx: Transaction, rows: Sequence[asyncpg.Record], outbox: Outbox, now: datetime
) -> None:
    """Says of accounts, locked and given with spent and cap, that their budgets are nearly spent."""
    for row in rows:
        account = Account(*row[:4])
        await tx.execute(
            """update accounts set warned_at = $5
               where (tenant_id, scope, subject_id, period) = ($1, $2, $3, $4)""",
            *account,
            now,
        )
        warning = BudgetWarned(
            scope=account.scope,
            subject_id=account.subject_id,
            cap_micros=row["cap_micros"],
            spent_micros=row["spent_micros"],
        )
        await outbox.announce(tx, account.tenant_id, now, warning)


DAY_SUMS = (
    "calls",
    "failed_calls",
    "unpriced_calls",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cost_micros",
    "rated_micros",
)
_ADD_DAYS = f"""
    insert into usage_days as u
        (id, tenant_id, day, provider, model, team_id, session_id, {", ".join(DAY_SUMS)})
    select * from unnest($1::uuid[], $2::uuid[], $3::date[], $4::text[], $5::text[], $6::uuid[],
        $7::uuid[], {", ".join(f"${number}::bigint[]" for number in range(8, 8 + len(DAY_SUMS)))})
    on conflict (tenant_id, day, provider, model, team_id, session_id) do update
    set {", ".join(f"{name} = u.{name} + excluded.{name}" for name in DAY_SUMS)}"""  # noqa: S608 - the names stand above


async def _add_up_days(tx: Transaction, settled: Sequence[Entry]) -> None:
    """Adds calls to their days. Whoever does so has locked their tenants' accounts before."""
    days: dict[tuple[Any, ...], list[int]] = {}
    for entry in settled:
        call, spender = entry.call, entry.spender
        assert call is not None, "a settled call is known"
        key = (
            spender.tenant_id,
            call.at.astimezone(UTC).date(),
            call.provider,
            call.model,
            spender.team_id,
            spender.session_id,
        )
        sums = days.get(key)
        if sums is None:
            sums = days[key] = [0] * len(DAY_SUMS)
        cost = call.cost_micros
        sums[0] += 1
        sums[1] += call.outcome == "failed"
        sums[2] += cost is None
        sums[3] += call.input_tokens
        sums[4] += call.cache_read_tokens
        sums[5] += call.cache_write_tokens
        sums[6] += call.output_tokens
        sums[7] += call.reasoning_tokens
        sums[8] += cost or 0
        sums[9] += rated(cost) or 0
    await tx.execute(
        _ADD_DAYS,
        [uuid7() for _ in days],
        *(list(column) for column in zip(*days, strict=True)),
        *(list(column) for column in zip(*days.values(), strict=True)),
    )
