"""Post-actions: HTTP calls after the runs of a schedule or a webhook."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import asyncpg

from agentos.contracts.events import PostActionChanged
from agentos.execution.post_actions import repository
from agentos.execution.post_actions.errors import PostActionNotFound
from agentos.execution.post_actions.schemas import (
    PostActionCreate,
    PostActionRead,
    PostActionUpdate,
)
from agentos.execution.pulse.configs import SecretMissing
from agentos.execution.runs.templates import check_template
from agentos.execution.schedules.errors import ScheduleNotFound
from agentos.execution.webhooks.errors import WebhookNotFound
from agentos.kernel.ids import uuid7
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import Scope
from agentos.tenancy.vault import service as vault
from agentos.tenancy.work import Work


async def create_post_action(work: Work, body: PostActionCreate) -> PostActionRead:
    _require_write(work, body.schedule_id)
    if not await repository.source_exists(
        work.tx, work.tenant_id, body.schedule_id, body.webhook_id
    ):
        raise ScheduleNotFound() if body.schedule_id is not None else WebhookNotFound()
    values = body.model_dump(mode="json", exclude={"schedule_id", "webhook_id"})
    await _check(work, values)
    post_action_id, now = uuid7(), work.now()
    stamps = {"created_at": now, "updated_at": now}
    places = {"id": post_action_id, "schedule_id": body.schedule_id, "webhook_id": body.webhook_id}
    await repository.insert(work.tx, work.tenant_id, {**places, **values, **stamps})
    await _record(work, "created", post_action_id, body.name)
    return PostActionRead(**await _found(work, post_action_id))


async def list_post_actions(
    work: Work,
    page: PageRequest,
    *,
    schedule_id: UUID | None = None,
    webhook_id: UUID | None = None,
) -> RowPage[PostActionRead]:
    work.require(Scope.SCHEDULES_READ)
    work.require(Scope.WEBHOOKS_READ)
    rows = await repository.page(
        work.tx,
        work.tenant_id,
        schedule_id=schedule_id,
        webhook_id=webhook_id,
        after=page.after_id,
        limit=page.limit + 1,
    )
    return page.of(PostActionRead, rows)


async def update_post_action(
    work: Work, post_action_id: UUID, body: PostActionUpdate
) -> PostActionRead:
    _require_either(work)
    row = await _found(work, post_action_id, lock=True)
    _require_write(work, row["schedule_id"])
    # Null is a body like any other; of the rest, it stands for what is not given.
    given = {n for n in body.model_fields_set if n == "body" or getattr(body, n) is not None}
    # Each of them whole, also with what goes without saying.
    values = body.model_dump(mode="json", include=given)
    await _check(work, values)
    if values:
        values["updated_at"] = work.now()
        await repository.update(work.tx, work.tenant_id, post_action_id, values)
    await _record(work, "updated", post_action_id, values.get("name", row["name"]))
    return PostActionRead(**await _found(work, post_action_id))


async def delete_post_action(work: Work, post_action_id: UUID) -> None:
    _require_either(work)
    row = await _found(work, post_action_id, lock=True)
    _require_write(work, row["schedule_id"])
    await repository.delete(work.tx, work.tenant_id, post_action_id)
    await _record(work, "deleted", post_action_id, row["name"])


def _require_write(work: Work, schedule_id: UUID | None) -> None:
    work.require(Scope.WEBHOOKS_WRITE if schedule_id is None else Scope.SCHEDULES_WRITE)


def _require_either(work: Work) -> None:
    """Before it is known whose it is: without any right, it is the same whether it is there."""
    if Scope.WEBHOOKS_WRITE not in work.principal.scopes:
        work.require(Scope.SCHEDULES_WRITE)


async def _check(work: Work, values: dict[str, Any]) -> None:
    """Raises BadTemplate, SecretMissing."""
    for name in ("url", "body"):
        if values.get(name) is not None:
            check_template(values[name])
    secret = (values.get("auth") or {}).get("secret")
    if secret is not None and not await vault.exists(work, secret):
        raise SecretMissing(f"There is no secret {secret!r} in the vault.")


async def _found(work: Work, post_action_id: UUID, *, lock: bool = False) -> asyncpg.Record:
    row = await repository.find(work.tx, work.tenant_id, post_action_id, lock=lock)
    if row is None:
        raise PostActionNotFound()
    return row


async def _record(work: Work, change: str, post_action_id: UUID, name: str) -> None:
    await work.record(
        f"post_action.{change}",
        PostActionChanged(post_action_id=post_action_id, name=name, change=change),
        target=("post_action", post_action_id),
        after={"name": name},
    )
