"""What a call counts against: accounts, each over a period."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import NamedTuple
from uuid import UUID

from agentos.tenancy.ledger.calls import Spender

# A session has one budget for its whole life.
WHOLE_LIFE = date(1970, 1, 1)


class Account(NamedTuple):
    """The key of a row of accounts."""

    tenant_id: UUID
    scope: str
    subject_id: UUID
    period: date


def month_of(at: datetime) -> date:
    """The first day of the UTC month."""
    return at.astimezone(UTC).date().replace(day=1)


def next_month(month: date) -> datetime:
    """When the month after this one begins."""
    year, number = (month.year + 1, 1) if month.month == 12 else (month.year, month.month + 1)
    return datetime(year, number, 1, tzinfo=UTC)


def session_account(tenant_id: UUID, session_id: UUID) -> Account:
    return Account(tenant_id, "session", session_id, WHOLE_LIFE)


def accounts_of(spender: Spender, month: date) -> tuple[Account, ...]:
    """The accounts of a spender: its tenant's first, then its team's and its session's."""
    tenant_id = spender.tenant_id
    accounts = [Account(tenant_id, "tenant", tenant_id, month)]
    if spender.team_id is not None:
        accounts.append(Account(tenant_id, "team", spender.team_id, month))
    if spender.session_id is not None:
        accounts.append(session_account(tenant_id, spender.session_id))
    return tuple(accounts)


def columns(accounts: list[Account]) -> tuple[list[UUID], list[str], list[UUID], list[date]]:
    """Accounts as the arrays that `unnest` takes."""
    return (
        [account.tenant_id for account in accounts],
        [account.scope for account in accounts],
        [account.subject_id for account in accounts],
        [account.period for account in accounts],
    )
