"""Whether a request gets slower with the number of tenants, and what the first one of a tenant costs.

The same list of 50 rows in an installation of 10 tenants and in one of 10,000 with a million rows.
A cold tenant is one that neither the server process nor its database connections have seen: its
request also pays for authentication, a rate-limit lease and the note that its key was used.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field

import asyncpg
import uvloop

from agentos.kernel.ids import TenantId, uuid7
from agentos.kernel.installation import DATABASE, _postgres
from agentos.tenancy.opaque_tokens import OpaqueToken, new_token
from bench import load
from bench.percentiles import p50_and_p99, percentile
from bench.report import Benchmark, figure, ratio
from bench.stack import Stack, free_port, process, stack

FEW, MANY = 10, 10_000
ROWS_PER_TENANT = 100
ROUNDS = 6
COLD_PER_ROUND = FEW - 1
HOT_PER_ROUND = 150


@dataclass
class Installation:
    """The first tenant is the hot one."""

    running: Stack
    keys: list[OpaqueToken]
    hot: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)

    def cold_keys(self, round_number: int) -> list[OpaqueToken]:
        """Others in each round, where there are others."""
        others = self.keys[1:]
        start = round_number * COLD_PER_ROUND % len(others)
        return others[start : start + COLD_PER_ROUND]


async def _run() -> None:
    async with AsyncExitStack() as stacks:
        few, many = [
            Installation(running, await _fill(running, tenants))
            for tenants in (FEW, MANY)
            for running in [await stacks.enter_async_context(stack())]
        ]
        for round_number in range(ROUNDS):
            await _round([few, many], round_number)
    for tenants, each in ((FEW, few), (MANY, many)):
        figure(f"hot tenant of {tenants:,}", p50_and_p99(each.hot))
        figure(f"cold tenant of {tenants:,}", p50_and_p99(each.cold))
    hot_few, hot_many = percentile(few.hot, 0.5), percentile(many.hot, 0.5)
    cold_few, cold_many = percentile(few.cold, 0.5), percentile(many.cold, 0.5)
    figure(f"cold / hot of {MANY:,}", f"{cold_many / hot_many:.2f}")
    ratio("cold_tenant_10k_vs_10", cold_many / cold_few, "≤2")
    ratio("hot_tenant_10k_vs_10", hot_many / hot_few, "≤2")


async def _round(installations: list[Installation], round_number: int) -> None:
    """New server processes, because a tenant is cold once."""
    with ExitStack() as servers:
        ports = []
        for each in installations:
            await _forget_use(each)
            ports.append(port := free_port())
            servers.enter_context(
                process(
                    ["-m", "agentos.cli.main", "serve", "--port", str(port)],
                    each.running.environment(),
                    ready=f"http://127.0.0.1:{port}/health/live",
                )
            )
        for each, port in zip(installations, ports, strict=True):
            await _ask(port, [each.keys[0]] * HOT_PER_ROUND)  # warms up
        for each, port in zip(installations, ports, strict=True):
            each.hot += await _ask(port, [each.keys[0]] * HOT_PER_ROUND)
        for each, port in zip(installations, ports, strict=True):
            each.cold += await _ask(port, each.cold_keys(round_number))


async def _ask(port: int, keys: list[OpaqueToken]) -> list[float]:
    headers = [{"Authorization": f"Bearer {key.text}"} for key in keys]
    return (await load.get_in_turn(port, "/api/keys?limit=50", headers)).latencies


async def _fill(running: Stack, tenants: int) -> list[OpaqueToken]:
    """Tenants with 100 keys each, one of which is returned; written in turn, as time would."""
    keys = [new_token("sk", TenantId(uuid7())) for _ in range(tenants)]
    connection = await _superuser(running)
    async with connection.transaction():
        # References and indexes are checked and built once, afterwards.
        await connection.execute("set local session_replication_role = replica")
        await connection.execute("alter table api_keys drop constraint api_keys_pkey")
        await connection.execute(
            "alter table api_keys drop constraint api_keys_tenant_id_token_hash_key"
        )
        await connection.copy_records_to_table(
            "tenants",
            records=[
                (key.tenant_id, "Bench", f"t-{key.tenant_id.hex}", "enterprise") for key in keys
            ],
            columns=["id", "name", "slug", "plan"],
        )
        await connection.copy_records_to_table(
            "api_keys",
            records=[
                (key.tenant_id, uuid7(), "ours", key.last_four, key.digest, ["keys:read"], "bench")
                for key in keys
            ],
            columns=["tenant_id", "id", "name", "last_four", "token_hash", "scopes", "created_by"],
        )
        await connection.execute(
            """insert into api_keys (tenant_id, id, name, last_four, token_hash, scopes, created_by)
               select t.id, uuidv7(), 'key ' || n, 'xxxx', sha256((n || t.id::text)::bytea), '{keys:read}', 'bench'
               from generate_series(2, $1::int) n, tenants t order by n""",
            ROWS_PER_TENANT,
        )
        await connection.execute("alter table api_keys add primary key (tenant_id, id)")
        await connection.execute("alter table api_keys add unique (tenant_id, token_hash)")
    await connection.execute("vacuum analyze api_keys, tenants")
    await connection.execute("checkpoint")
    await connection.close()
    return keys


async def _forget_use(each: Installation) -> None:
    """Whoever used a key a moment ago does not note it again."""
    connection = await _superuser(each.running)
    await connection.execute(
        "update api_keys set last_used_at = null where last_used_at is not null"
    )
    await connection.execute("checkpoint")
    await connection.close()


async def _superuser(running: Stack) -> asyncpg.Connection[asyncpg.Record]:
    postgres = _postgres(running.settings, running.secret_key, lambda _: None)
    connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(
        postgres.superuser_dsn(DATABASE)
    )
    return connection


BENCHMARK = Benchmark(
    "cold-tenants",
    "50 of a tenant's 100 rows, one request at a time; 10 tenants against 10,000",
    lambda: uvloop.run(_run()),
)
