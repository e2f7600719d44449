"""Makes the calls of post-actions, each until it is taken or was tried often enough."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import httpx2
import msgspec

from agentos.contracts.events import DeliveryFinished
from agentos.execution.post_actions.errors import BadPostAction
from agentos.execution.pulse.parts import PulseParts
from agentos.execution.runs.templates import render, render_json
from agentos.integrations.tools.http_client import http_client
from agentos.integrations.tools.routes import AnyHost, Routes
from agentos.kernel.database import Transaction
from agentos.kernel.errors import Invalid, NotFound
from agentos.kernel.ids import TenantId
from agentos.kernel.logs import get_logger
from agentos.kernel.texts import storable

log = get_logger(__name__)

_BATCH = 20
_READ_SECONDS = 20.0
# Who has taken a delivery and is not heard of again has lost it after this.
_TAKEN = timedelta(seconds=90)
_FIRST_WAIT = timedelta(seconds=5)
_LONGEST_WAIT = timedelta(hours=1)
_MOST_ANSWER = 64 * 1024

_TAKE = """
with f as materialized (
    select tenant_id, id from deliveries where state = 'waiting' and next_at <= $1
    order by next_at limit $3 for update skip locked)
update deliveries d set next_at = $1::timestamptz + $2::interval, attempts = attempts + 1
from f where d.tenant_id = f.tenant_id and d.id = f.id
returning d.tenant_id, d.id
"""

_READ = """
select d.id, d.attempts, d.run_id, a.id as post_action_id, a.method, a.url, a.headers, a.body,
    a.auth, a.max_attempts, r.state, r.result, r.error, r.due_at, r.finished_at,
    coalesce(s.name, w.name) as source
from deliveries d
join post_actions a on a.tenant_id = d.tenant_id and a.id = d.post_action_id
join runs r on r.tenant_id = d.tenant_id and r.id = d.run_id
left join schedules s on s.tenant_id = r.tenant_id and s.id = r.schedule_id
left join webhooks w on w.tenant_id = r.tenant_id and w.id = r.webhook_id
where d.tenant_id = $1 and d.id = $2 and d.state = 'waiting'
"""


@dataclass(frozen=True, slots=True)
class _Call:
    method: str
    url: httpx2.URL
    headers: Mapping[str, str]
    body: bytes | None


@dataclass(frozen=True, slots=True)
class _Told:
    """What came of one try. `again`: another one may help."""

    status: int | None
    error: str | None
    again: bool


class Deliverer:
    def __init__(self, parts: PulseParts):
        self._parts = parts
        self._routes = Routes(AnyHost(parts.settings.tool_hosts))

    async def deliver_due(self) -> int:
        """Makes the calls that are due; returns how many. A try that is lost is made again."""
        now = self._parts.clock.now()
        async with self._parts.platform_db.transaction() as tx:
            rows = await tx.fetch(_TAKE, now, _TAKEN, _BATCH)
        await asyncio.gather(
            *(self._deliver(TenantId(row["tenant_id"]), row["id"]) for row in rows)
        )
        return len(rows)

    async def _deliver(self, tenant_id: TenantId, delivery_id: UUID) -> None:
        async with self._parts.db.transaction(tenant_id=tenant_id) as tx:
            row = await tx.row(_READ, tenant_id, delivery_id)
            if row is None:
                return  # it was removed meanwhile
            call = await self._call_or_fault(tx, tenant_id, row)
        told = call if isinstance(call, _Told) else await self._made(call)
        async with self._parts.db.transaction(tenant_id=tenant_id) as tx:
            await self._note(tx, tenant_id, row, told)

    async def _call_or_fault(
        self, tx: Transaction, tenant_id: TenantId, row: asyncpg.Record
    ) -> _Call | _Told:
        try:
            return await self._call(tx, tenant_id, row)
        except (NotFound, Invalid) as error:
            return _Told(None, error.message, again=False)

    async def _call(self, tx: Transaction, tenant_id: TenantId, row: asyncpg.Record) -> _Call:
        """Raises MissingVariable, SecretNotFound, BadPostAction."""
        values = _values(row)
        headers = {"User-Agent": "AgentOS", "X-AgentOS-Delivery": str(row["id"]), **row["headers"]}
        body: bytes | None = None
        if row["method"] not in ("GET", "DELETE"):
            body, kind = _body(row["body"], values)
            if not any(name.lower() == "content-type" for name in headers):
                headers["Content-Type"] = kind
        headers |= await self._auth(tx, tenant_id, row["auth"])
        return _Call(row["method"], _url(render(row["url"], values)), headers, body)

    async def _auth(
        self, tx: Transaction, tenant_id: TenantId, auth: dict[str, Any]
    ) -> dict[str, str]:
        if auth["kind"] == "none":
            return {}
        secret = await self._parts.vault.reveal(tx, tenant_id, auth["secret"])
        if auth["kind"] != "basic" and not secret.isprintable():
            # Said here, because the client would quote it.
            raise BadPostAction("The secret has characters that no header can hold.")
        if auth["kind"] == "bearer":
            return {"Authorization": f"Bearer {secret}"}
        if auth["kind"] == "basic":
            pair = base64.b64encode(f"{auth['user']}:{secret}".encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        return {auth["header"]: secret}

    async def _made(self, call: _Call) -> _Told:
        client = http_client(self._routes, read_seconds=_READ_SECONDS, most_bytes=_MOST_ANSWER)
        headers = [(name.encode(), value.encode()) for name, value in call.headers.items()]
        try:
            async with (
                asyncio.timeout(_READ_SECONDS * 2),
                client,
                # What it answers is not read: it may be of any length.
                client.stream(call.method, call.url, headers=headers, content=call.body) as answer,
            ):
                pass
        except (httpx2.HTTPError, TimeoutError) as error:
            # What they say may hold the URL, which may hold what the run came to: kept short.
            said = storable(f"{type(error).__name__}: {error}")
            return _Told(None, said[:300], again=True)
        if answer.status_code < 300:
            return _Told(answer.status_code, None, again=False)
        again = answer.status_code >= 500 or answer.status_code in (408, 425, 429)
        return _Told(answer.status_code, f"It was answered with {answer.status_code}.", again)

    async def _note(
        self, tx: Transaction, tenant_id: TenantId, row: asyncpg.Record, told: _Told
    ) -> None:
        now = self._parts.clock.now()
        delivered = told.error is None
        over = delivered or not told.again or row["attempts"] >= row["max_attempts"]
        state = "delivered" if delivered else "failed" if over else "waiting"
        await tx.execute(
            """update deliveries set state = $3, status = $4, error = $5, next_at = $6,
                   finished_at = $7
               where tenant_id = $1 and id = $2 and state = 'waiting'""",
            tenant_id,
            row["id"],
            state,
            told.status,
            told.error,
            None if over else now + _wait(row["attempts"]),
            now if over else None,
        )
        if over:
            event = DeliveryFinished(
                run_id=row["run_id"],
                post_action_id=row["post_action_id"],
                state=state,
                status=told.status,
            )
            await self._parts.outbox.announce(tx, tenant_id, now, event)


def _values(row: asyncpg.Record) -> dict[str, Any]:
    run = {
        "id": str(row["run_id"]),
        "state": row["state"],
        "result": row["result"] or "",
        "error": row["error"] or "",
        "due_at": row["due_at"].isoformat(),
        "finished_at": row["finished_at"].isoformat(),
    }
    return {"run": run, "source": {"name": row["source"]}}


def _url(text: str) -> httpx2.URL:
    """Raises BadPostAction."""
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL:
        url = httpx2.URL()
    if not url.host:
        raise BadPostAction("The URL that comes of it is none.")
    return url


def _body(template: str | None, values: dict[str, Any]) -> tuple[bytes, str]:
    """What is sent, and what kind it is. A template that is JSON stays JSON."""
    if template is None:
        return msgspec.json.encode(values), "application/json"
    try:
        document = render_json(msgspec.json.decode(template), values)
    except (msgspec.DecodeError, RecursionError):
        return render(template, values).encode(), "text/plain; charset=utf-8"
    return msgspec.json.encode(document), "application/json"


def _wait(attempts: int) -> timedelta:
    """Twice as long each time, and not for all at the same moment."""
    wait: timedelta = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (attempts - 1))
    return wait * random.uniform(0.8, 1.2)  # noqa: S311 - not for secrets
