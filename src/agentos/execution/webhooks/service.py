"""Webhooks: what somebody else's system asks a team, or starts, by sending to a secret address."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from agentos.contracts.events import RunQueued, WebhookChanged, WebhookDeleted
from agentos.execution.crews.messages.schemas import MOST_TEXT
from agentos.execution.pulse.front import PulseFront
from agentos.execution.pulse.schemas import SessionCreate
from agentos.execution.runs import repository as runs
from agentos.execution.runs.schemas import RunRead
from agentos.execution.runs.service import runs_of
from agentos.execution.runs.starting import start_run, starter
from agentos.execution.runs.targets import changed_target, checked_target
from agentos.execution.runs.templates import check_template, render
from agentos.execution.webhooks import repository
from agentos.execution.webhooks.errors import BadPayload, NotAWebhook, WebhookBusy, WebhookNotFound
from agentos.execution.webhooks.schemas import (
    Fired,
    WebhookCreate,
    WebhookCreated,
    WebhookRead,
    WebhookUpdate,
)
from agentos.kernel.ids import uuid7
from agentos.kernel.texts import storable
from agentos.tenancy.opaque_tokens import OpaqueToken, new_token
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import PrincipalKind, Scope
from agentos.tenancy.work import Work

PREFIX = "whk"
PATH = "/api/hooks/"
_RETRY_SECONDS = 10


async def create_webhook(work: Work, front: PulseFront, body: WebhookCreate) -> WebhookCreated:
    work.require(Scope.WEBHOOKS_WRITE)
    session = await _checked(work, front, body.team_id, body.prompt, body.session)
    token, webhook_id, now = new_token(PREFIX, work.tenant_id), uuid7(), work.now()
    await repository.insert(
        work.tx,
        work.tenant_id,
        {
            "id": webhook_id,
            "name": body.name,
            "team_id": body.team_id,
            "prompt": body.prompt,
            "session": session,
            **_kept(token),
            "enabled": body.enabled,
            "max_unfinished": body.max_unfinished,
            "created_by": work.principal.name,
            "principal_kind": work.principal.kind,
            "principal_id": work.principal.id,
            "created_at": now,
            "updated_at": now,
        },
    )
    row = await _recorded(work, webhook_id, "created")
    return _created(row, token)


async def rotate_token(work: Work, webhook_id: UUID) -> WebhookCreated:
    """A new token; the old one stops working within a second."""
    work.require(Scope.WEBHOOKS_WRITE)
    await _found(work, webhook_id, lock=True)
    token = new_token(PREFIX, work.tenant_id)
    changes = {**_kept(token), "updated_at": work.now()}
    await repository.update(work.tx, work.tenant_id, webhook_id, changes)
    return _created(await _recorded(work, webhook_id, "rotated"), token)


async def list_webhooks(
    work: Work, page: PageRequest, *, team_id: UUID | None = None
) -> RowPage[WebhookRead]:
    work.require(Scope.WEBHOOKS_READ)
    rows = await repository.page(work.tx, work.tenant_id, team_id, page.after_id, page.limit + 1)
    return page.of(WebhookRead, rows)


async def read_webhook(work: Work, webhook_id: UUID) -> WebhookRead:
    work.require(Scope.WEBHOOKS_READ)
    return WebhookRead(**await _found(work, webhook_id))


async def update_webhook(
    work: Work, front: PulseFront, webhook_id: UUID, body: WebhookUpdate
) -> WebhookRead:
    work.require(Scope.WEBHOOKS_WRITE)
    row = await _found(work, webhook_id, lock=True)
    given = body.model_dump(exclude_unset=True, exclude_none=True)
    names = ("name", "max_unfinished", "enabled")
    changes: dict[str, Any] = {name: given[name] for name in names if name in given}
    if "prompt" in given or "session" in given:
        prompt, session = changed_target(row, body.prompt, body.session)
        changes["session"] = await _checked(work, front, row["team_id"], prompt, session)
        changes["prompt"] = prompt
    if changes:
        changes["updated_at"] = work.now()
        await repository.update(work.tx, work.tenant_id, webhook_id, changes)
    return WebhookRead(**await _recorded(work, webhook_id, "updated"))


async def delete_webhook(work: Work, webhook_id: UUID) -> None:
    """Removes a webhook and its history. What it has started goes on."""
    work.require(Scope.WEBHOOKS_WRITE)
    row = await _found(work, webhook_id, lock=True)
    await repository.delete(work.tx, work.tenant_id, webhook_id)
    await work.record(
        "webhook.deleted",
        WebhookDeleted(webhook_id=webhook_id, name=row["name"]),
        target=("webhook", webhook_id),
        before={"name": row["name"]},
    )


async def list_runs(work: Work, webhook_id: UUID, page: PageRequest) -> RowPage[RunRead]:
    work.require(Scope.WEBHOOKS_READ)
    await _found(work, webhook_id)
    return await runs_of(work, page, webhook_id=webhook_id)


async def fire(work: Work, front: PulseFront, body: bytes, content_type: str) -> Fired:
    """Starts a run with what was sent. It is started, and not lost any more, or refused."""
    principal = work.principal
    if principal.kind is not PrincipalKind.WEBHOOK:
        raise NotAWebhook()
    webhook_id = UUID(principal.id)
    # Locked: so that two at once cannot both take the last place.
    row = await repository.find(work.tx, work.tenant_id, webhook_id, lock=True)
    if row is None:
        raise WebhookNotFound()
    unfinished = await runs.unfinished(work.tx, work.tenant_id, webhook_id)
    if unfinished >= row["max_unfinished"]:
        raise WebhookBusy(
            f"{unfinished} runs of this webhook are not finished yet.", retry_after=_RETRY_SECONDS
        )
    values = _payload(body, content_type)
    prompt, session = _filled(row, values)
    run_id, now = uuid7(), work.now()
    await runs.insert(
        work.tx,
        work.tenant_id,
        run_id,
        webhook_id=webhook_id,
        due_at=now,
        manual=False,
        state="queued",
        prompt=prompt,
        session=session,
        now=now,
    )
    await repository.touch(work.tx, work.tenant_id, webhook_id, now)
    event = RunQueued(run_id=run_id, schedule_id=None, webhook_id=webhook_id, due_at=now)
    await work.record("webhook.fired", event, target=("webhook", webhook_id))
    acting = starter(work.tenant_id, principal.plan, webhook_id, row["name"])
    await start_run(
        Work(work.tx, acting, work.outbox, work.clock, work.request_id),
        front,
        run_id,
        source="webhook",
        team_id=row["team_id"],
        prompt=prompt,
        session=session,
    )
    run = await runs.find(work.tx, work.tenant_id, run_id)
    assert run is not None, "it was just made"
    return fired(run)


def fired(run: asyncpg.Record) -> Fired:
    return Fired(
        run_id=run["id"],
        state=run["state"],
        message_id=run["message_id"],
        session_id=run["session_id"],
        result=run["result"],
        error=run["error"],
    )


def _payload(body: bytes, content_type: str) -> dict[str, Any]:
    """What the template may name. Raises BadPayload."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise BadPayload("It is not UTF-8 text.") from None
    if "json" not in content_type.lower():
        return {"body": storable(text)}
    try:
        document = storable(msgspec.json.decode(body)) if body.strip() else {}
    except (msgspec.DecodeError, RecursionError):
        raise BadPayload("It is not JSON.") from None
    named = document if isinstance(document, dict) else {}
    return {**named, "body": document}


def _filled(
    row: asyncpg.Record, values: dict[str, Any]
) -> tuple[str | None, dict[str, Any] | None]:
    """What the run asks or starts. Raises MissingVariable, BadPayload."""
    session = row["session"]
    prompt = render(session["prompt"] if row["prompt"] is None else row["prompt"], values)
    if not prompt.strip():
        raise BadPayload("The prompt that comes of it is empty.")
    if len(prompt) > MOST_TEXT:
        raise BadPayload(f"The prompt that comes of it is longer than {MOST_TEXT:,} characters.")
    if row["prompt"] is not None:
        return prompt, None
    return None, {**session, "prompt": prompt}


async def _checked(
    work: Work,
    front: PulseFront,
    team_id: UUID | None,
    prompt: str | None,
    session: SessionCreate | None,
) -> dict[str, Any] | None:
    stored = await checked_target(work, front, team_id=team_id, prompt=prompt, session=session)
    check_template(prompt if stored is None and prompt is not None else (stored or {})["prompt"])
    return stored


async def _found(work: Work, webhook_id: UUID, *, lock: bool = False) -> asyncpg.Record:
    row = await repository.find(work.tx, work.tenant_id, webhook_id, lock=lock)
    if row is None:
        raise WebhookNotFound()
    return row


async def _recorded(work: Work, webhook_id: UUID, change: str) -> asyncpg.Record:
    row = await _found(work, webhook_id)
    await work.record(
        f"webhook.{change}",
        WebhookChanged(webhook_id=webhook_id, name=row["name"], change=change),
        target=("webhook", webhook_id),
        after={"name": row["name"], "enabled": row["enabled"]},
    )
    return row


def _kept(token: OpaqueToken) -> dict[str, Any]:
    return {"token_hash": token.digest, "token_hint": token.last_four}


def _created(row: asyncpg.Record, token: OpaqueToken) -> WebhookCreated:
    return WebhookCreated(**row, token=token.text, path=f"{PATH}{token.text}")
