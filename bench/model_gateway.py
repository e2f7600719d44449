"""A gateway whose tenant calls models of the bench's upstream, with everything on that costs time."""

from __future__ import annotations

import asyncio
import http.client
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg

from agentos.kernel.ids import TenantId, uuid7
from agentos.tenancy.opaque_tokens import new_token
from bench.peers.model_upstream import MODEL, PACED_MODEL, USAGE
from bench.pinned import SERVER_CORE, pinned
from bench.stack import Stack, free_port, stack

# Limits that are counted and never reached; "unlimited" would not be counted.
LIMITS = {
    "requests_per_minute": 10**8,
    "tokens_per_month": 10**14,
    "concurrent_model_calls": 10**6,
}
CAP_MICROS = 10**15
INPUT_RATE, OUTPUT_RATE = 1_000_000, 4_000_000
CALL_MICROS = (
    USAGE["prompt_tokens"] * INPUT_RATE + USAGE["completion_tokens"] * OUTPUT_RATE
) // 1_000_000
SCOPES = ["models:use", "models:read", "models:write", "budgets:write", "usage:read", "vault:write"]
# How long calls may take from being answered to being in the database.
BOOKING_SECONDS = 60.0


@dataclass(frozen=True)
class Books:
    """What the ledger holds of a tenant."""

    calls: int
    settled: int
    cost_micros: int
    entries_micros: int
    account_micros: int
    still_held: int

    def balanced(self, answered: int) -> bool:
        owed = answered * CALL_MICROS
        return (
            self.calls == self.settled == answered
            and self.cost_micros == self.entries_micros == self.account_micros == owed
            and self.still_held == 0
        )

    def __str__(self) -> str:
        return (
            f"{self.calls:,} calls, {self.settled:,} settled; micro-dollars of calls "
            f"{self.cost_micros:,}, entries {self.entries_micros:,}, account "
            f"{self.account_micros:,}; {self.still_held} still reserved"
        )


_BOOKS = """
select (select count(*) from model_calls where tenant_id = $1 and outcome = 'answered'),
       (select count(*) from ledger_entries where tenant_id = $1 and kind = 'settle'),
       (select coalesce(sum(cost_micros), 0) from model_calls where tenant_id = $1),
       (select coalesce(sum(spent_micros), 0) from ledger_entries where tenant_id = $1),
       (select coalesce(sum(spent_micros), 0) from accounts
        where tenant_id = $1 and scope = 'tenant'),
       (select coalesce(sum(held_micros), 0) from ledger_entries where tenant_id = $1)
"""


@dataclass(frozen=True)
class ModelGateway:
    pid: int
    port: int
    credential: str
    database_pid: int
    tenant_id: TenantId
    running: Stack

    async def books(self, answered: int) -> Books:
        """The books once they balance, or as they are when that takes too long."""
        connection = await asyncpg.connect(self.running.where.platform)
        deadline = time.monotonic() + BOOKING_SECONDS
        try:
            while True:
                row = await connection.fetchrow(_BOOKS, self.tenant_id)
                books = Books(*(int(value) for value in row or ()))
                if books.balanced(answered) or time.monotonic() > deadline:
                    return books
                await asyncio.sleep(0.5)
        finally:
            await connection.close()


@asynccontextmanager
async def model_gateway(upstream: int) -> AsyncIterator[ModelGateway]:
    """`agentos serve` on the servers' core; the engines run where they like."""
    async with stack() as running:
        tenant_id, credential = await _tenant(running)
        port = free_port()
        argv = [sys.executable, "-m", "agentos.cli.main", "serve", "--port", str(port)]
        log = running.settings.data_dir / "serve.log"
        with pinned(argv, core=SERVER_CORE, port=port, log=log, env=running.environment()) as pid:
            await asyncio.to_thread(_prepare, port, credential, upstream)
            yield ModelGateway(pid, port, credential, _postmaster(running), tenant_id, running)


async def _tenant(running: Stack) -> tuple[TenantId, str]:
    tenant_id = TenantId(uuid7())
    key = new_token("sk", tenant_id)
    connection = await asyncpg.connect(running.where.platform)
    await connection.execute(
        """insert into tenants (id, name, slug, plan, limits)
           values ($1, 'Bench', 'bench', 'enterprise', $2)""",
        tenant_id,
        json.dumps(LIMITS),
    )
    await connection.execute(
        """insert into api_keys (tenant_id, id, name, last_four, token_hash, scopes, created_by)
           values ($1, $2, 'bench', $3, $4, $5, 'bench')""",
        tenant_id,
        uuid7(),
        key.last_four,
        key.digest,
        SCOPES,
    )
    await connection.close()
    return tenant_id, key.text


def _prepare(port: int, credential: str, upstream: int) -> None:
    """A provider, prices and a budget, as a tenant sets them."""
    provider = {
        "name": "custom",
        "kind": "custom",
        "base_url": f"http://127.0.0.1:{upstream}/v1",
        "key": "bench",
    }
    _call(port, credential, "POST", "/api/models/providers", provider)
    for model in (MODEL, PACED_MODEL):
        price = {"provider": "custom", "model": model, "input": INPUT_RATE, "output": OUTPUT_RATE}
        _call(port, credential, "PUT", "/api/models/prices", price)
    _call(port, credential, "PUT", "/api/budgets", {"scope": "tenant", "cap_micros": CAP_MICROS})


def _call(port: int, credential: str, method: str, path: str, body: dict[str, Any]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Authorization": f"Bearer {credential}", "Content-Type": "application/json"}
    connection.request(method, path, json.dumps(body), headers)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path} answered {answer.status}: {said[:1000]!r}")


def _postmaster(running: Stack) -> int:
    file = next(running.settings.data_dir.rglob("postmaster.pid"))
    return int(file.read_text().split()[0])
