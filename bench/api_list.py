"""A list of 50 rows under row-level security: our whole edge against handlers that have none."""

from __future__ import annotations

from contextlib import ExitStack

import asyncpg
import uvloop

from agentos.kernel.ids import TenantId, uuid7
from agentos.tenancy.opaque_tokens import new_token
from bench import load
from bench.report import Benchmark, figure, ratio
from bench.stack import Stack, free_port, process, stack

ROUNDS = 5
SECONDS = 2.0
CONCURRENCY = 32


async def _run() -> None:
    async with stack() as running:
        tenant_id, credential = await _fill(running)
        ours, starlette, sqlalchemy = free_port(), free_port(), free_port()
        env = running.environment()
        peer = {**env, "DSN": running.where.runtime, "TENANT": str(tenant_id)}
        with ExitStack() as servers:
            for argv, environment, port in (
                (["-m", "agentos.cli.main", "serve", "--port", str(ours)], env, ours),
                (["-m", "bench.peers.starlette_list", str(starlette)], peer, starlette),
                (["-m", "bench.peers.sqlalchemy_list", str(sqlalchemy)], peer, sqlalchemy),
            ):
                ready = f"http://127.0.0.1:{port}/health/live"
                servers.enter_context(process(argv, environment, ready=ready))
            await _compare(
                credential, {"ours": ours, "starlette": starlette, "sqlalchemy": sqlalchemy}
            )


async def _compare(credential: str, ports: dict[str, int]) -> None:
    loads: dict[str, list[load.Load]] = {name: [] for name in ports}
    headers = {"Authorization": f"Bearer {credential}"}
    for round_number in range(ROUNDS + 1):
        for name, port in ports.items():
            measured = await load.get(
                port,
                "/api/keys?limit=50",
                headers=headers,
                concurrency=CONCURRENCY,
                seconds=SECONDS,
            )
            if round_number:  # the first warms up
                loads[name].append(measured)
    rates = {name: load.median_rate(measured) for name, measured in loads.items()}
    for name, rate in rates.items():
        figure(name, f"{rate:.0f} requests/s, p99 {loads[name][-1].percentile(0.99):.1f} ms")
    ratio("api_list_vs_bare_starlette", rates["ours"] / rates["starlette"], "≥0.7")
    ratio("api_list_vs_fastapi_sqlalchemy", rates["ours"] / rates["sqlalchemy"], "≥2")


async def _fill(running: Stack) -> tuple[TenantId, str]:
    """One enterprise tenant with 60 keys, the first of which is ours."""
    tenant_id = TenantId(uuid7())
    token = new_token("sk", tenant_id)
    connection = await asyncpg.connect(running.where.platform)
    await connection.execute(
        """insert into tenants (id, name, slug, plan, limits)
           values ($1, 'Bench', 'bench', 'enterprise', '{"requests_per_minute": 100000000}')""",
        tenant_id,
    )
    for number in range(60):
        key = token if number == 0 else new_token("sk", tenant_id)
        await connection.execute(
            """insert into api_keys (tenant_id, id, name, last_four, token_hash, scopes, created_by)
               values ($1, $2, $3, $4, $5, $6, 'bench')""",
            tenant_id,
            uuid7(),
            f"key {number}",
            key.last_four,
            key.digest,
            ["keys:read", "events:read"],
        )
    await connection.close()
    return tenant_id, token.text


BENCHMARK = Benchmark(
    "api-list", "50 rows under RLS, 32 connections, server on one core", lambda: uvloop.run(_run())
)
