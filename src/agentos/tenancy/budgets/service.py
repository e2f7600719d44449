"""Budgets: hard caps on what a tenant, a team or a session may spend.

The escrow keeps them. Here they are set and removed, and what was said about an account, that it
is nearly or wholly used up, is put right for its new cap.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from agentos.contracts.events import (
    BudgetRemoved,
    BudgetResumed,
    BudgetSet,
    BudgetWarned,
    Event,
)
from agentos.kernel.clock import Clock
from agentos.kernel.database import Database, Transaction
from agentos.kernel.errors import Invalid, NotFound
from agentos.kernel.ids import uuid7
from agentos.kernel.outbox import Outbox
from agentos.tenancy.budgets import repository
from agentos.tenancy.budgets.schemas import (
    BudgetFilter,
    BudgetPut,
    BudgetRead,
    BudgetScope,
    Standing,
)
from agentos.tenancy.ledger.periods import WHOLE_LIFE, Account, month_of
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import Scope
from agentos.tenancy.work import Work

WARN_PERCENT = 80
_RESOURCE = "budgets"
_BATCH = 1000


async def list_budgets(work: Work, wanted: BudgetFilter, page: PageRequest) -> RowPage[BudgetRead]:
    work.require(Scope.USAGE_READ)
    rows = await repository.budgets(
        work.tx, work.tenant_id, month_of(work.now()), wanted, page.after_id, page.limit + 1
    )
    return page.of(BudgetRead, rows)


async def read_budget(work: Work, budget_id: UUID) -> BudgetRead:
    work.require(Scope.USAGE_READ)
    return await _read(work, budget_id)


async def set_budget(work: Work, body: BudgetPut) -> BudgetRead:
    """Sets or changes a cap. Setting it to what it is changes and announces nothing."""
    work.require(Scope.BUDGETS_WRITE)
    account = _account(work, body.scope, _subject(work, body))
    return await _set(work, account, body.cap_micros)


async def cap_session(work: Work, session_id: UUID, cap_micros: int) -> None:
    """Gives a session its cap, in the name of whoever may make sessions."""
    await _set(work, _session_account(work.tenant_id, session_id), cap_micros)


async def room_of_session(tx: Transaction, tenant_id: UUID, session_id: UUID) -> int | None:
    """What a session may still spend of its own cap, neither spent nor held; None if it has none.

    Until the transaction ends nobody else changes caps of the tenant, or takes from this account.
    """
    await tx.execute(
        "select pg_advisory_xact_lock(hashtextextended($1, 0))", f"{tenant_id}:{_RESOURCE}"
    )
    account = _session_account(tenant_id, session_id)
    there = await repository.cap(tx, account)
    if there is None:
        return None
    standing = await repository.lock_account(tx, account)
    held = await repository.held(tx, account)
    cap: int = there["cap_micros"]
    return max(0, cap - standing.spent_micros - held)


async def held_of_session(tx: Transaction, tenant_id: UUID, session_id: UUID) -> int:
    """What processes have taken out of a session's account and may bring back."""
    return await repository.held(tx, _session_account(tenant_id, session_id))


async def move_cap(
    tx: Transaction,
    tenant_id: UUID,
    source: UUID,
    target: UUID,
    micros: int,
    *,
    by: str,
    now: datetime,
) -> list[Event]:
    """Lowers the cap of one session and raises another's, or gives it one: the sum stays the same.

    The caller has seen in this transaction, by `room_of_session`, that the source has the room.
    Returns what there is to announce.
    """
    events: list[Event] = []
    for session_id, change in ((source, -micros), (target, micros)):
        account = _session_account(tenant_id, session_id)
        there = await repository.cap(tx, account)
        before = None if there is None else there["cap_micros"]
        after = (before or 0) + change
        standing = await repository.lock_account(tx, account)
        await repository.upsert(tx, account, uuid7(), after, by, now)
        events.append(BudgetSet(scope="session", subject_id=session_id, cap_micros=after))
        events += await _put_right(tx, now, account, standing, before, after)
    return events


def _session_account(tenant_id: UUID, session_id: UUID) -> Account:
    return Account(tenant_id, "session", session_id, WHOLE_LIFE)


async def _set(work: Work, account: Account, cap_micros: int) -> BudgetRead:
    # Two sets at once take turns: each compares its cap with the one that was there before it.
    await work.hold(_RESOURCE)
    there = await repository.cap(work.tx, account)
    if there is not None and there["cap_micros"] == cap_micros:
        return await _read(work, there["id"])
    before = None if there is None else there["cap_micros"]
    standing = await repository.lock_account(work.tx, account)
    budget_id = await repository.upsert(
        work.tx, account, uuid7(), cap_micros, work.principal.name, work.now()
    )
    events = await _put_right(work.tx, work.now(), account, standing, before, cap_micros)
    await work.record(
        "budget.set",
        BudgetSet(scope=account.scope, subject_id=account.subject_id, cap_micros=cap_micros),
        *events,
        target=("budget", budget_id),
        before=None if before is None else _shown(account, before),
        after=_shown(account, cap_micros),
    )
    return await _read(work, budget_id)


async def remove_budget(work: Work, budget_id: UUID) -> None:
    """Removes a cap; what it had paused goes on."""
    work.require(Scope.BUDGETS_WRITE)
    await work.hold(_RESOURCE)
    budget = await _read(work, budget_id)
    account = _account(work, budget.scope, budget.subject_id)
    standing = await repository.lock_account(work.tx, account)
    await repository.delete(work.tx, work.tenant_id, budget_id)
    events = await _put_right(work.tx, work.now(), account, standing, budget.cap_micros, None)
    await work.record(
        "budget.removed",
        BudgetRemoved(scope=account.scope, subject_id=account.subject_id),
        *events,
        target=("budget", budget_id),
        before=_shown(account, budget.cap_micros),
    )


async def resume_in_new_month(platform_db: Database, outbox: Outbox, clock: Clock) -> int:
    """Announces that what was paused until the month ended may go on; returns how many budgets.

    Call it every minute or so, from any number of workers: each account is announced once.
    """
    now = clock.now()
    async with platform_db.transaction() as tx:
        rows = await repository.clear_past_months(tx, month_of(now), _BATCH)
        for row in rows:
            resumed = BudgetResumed(
                scope=row["scope"], subject_id=row["subject_id"], cap_micros=row["cap_micros"]
            )
            await outbox.announce(tx, row["tenant_id"], now, resumed)
    return len(rows)


def is_nearly_spent(spent_micros: int, cap_micros: int) -> bool:
    """Whether a budget is to be warned of. One of nothing, of which nothing was spent, is not."""
    return spent_micros > 0 and spent_micros * 100 >= cap_micros * WARN_PERCENT


async def _put_right(
    tx: Transaction,
    now: datetime,
    account: Account,
    standing: Standing,
    before: int | None,
    after: int | None,
) -> list[Event]:
    """Makes the account's flags fit the new cap, and returns what there is to announce."""
    events: list[Event] = []
    warned_at = standing.warned_at
    if after is None or not is_nearly_spent(standing.spent_micros, after):
        warned_at = None
    elif warned_at is None:
        warned_at = now
        events.append(
            BudgetWarned(
                scope=account.scope,
                subject_id=account.subject_id,
                cap_micros=after,
                spent_micros=standing.spent_micros,
            )
        )
    exhausted_at = standing.exhausted_at
    if exhausted_at is not None and _has_room_again(standing, before, after):
        exhausted_at = None
        events.append(
            BudgetResumed(
                scope=account.scope,
                subject_id=account.subject_id,
                # Of a cap that is removed, what it was.
                cap_micros=after if after is not None else before or 0,
            )
        )
    if (warned_at, exhausted_at) != (standing.warned_at, standing.exhausted_at):
        await repository.set_flags(tx, account, warned_at, exhausted_at)
    return events


def _has_room_again(standing: Standing, before: int | None, after: int | None) -> bool:
    """Whether what was paused may try again.

    Held money does not count: it may come back, and then nobody would say so. A call that is
    still too large is refused again, and that is said again.
    """
    if after is None:
        return True
    return (before is None or after > before) and after > standing.spent_micros


def _subject(work: Work, body: BudgetPut) -> UUID:
    if body.scope == "tenant":
        if body.subject_id not in (None, work.tenant_id):
            raise Invalid(
                "A tenant's budget is for the tenant itself.", hint="Leave out subject_id."
            )
        return work.tenant_id
    if body.subject_id is None:
        raise Invalid(
            f"A budget of a {body.scope} needs its subject_id.",
            hint=f"Give the id of the {body.scope}.",
        )
    return body.subject_id


def _account(work: Work, scope: BudgetScope, subject_id: UUID) -> Account:
    period = WHOLE_LIFE if scope == "session" else month_of(work.now())
    return Account(work.tenant_id, scope, subject_id, period)


async def _read(work: Work, budget_id: UUID) -> BudgetRead:
    row = await repository.budget(work.tx, work.tenant_id, month_of(work.now()), budget_id)
    if row is None:
        raise NotFound()
    return BudgetRead(**row)


def _shown(account: Account, cap_micros: int) -> dict[str, object]:
    return {"scope": account.scope, "subject_id": str(account.subject_id), "cap_micros": cap_micros}
