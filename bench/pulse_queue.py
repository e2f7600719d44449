"""Sessions in the queue of a real database, put there by SQL, and what became of them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import asyncpg

from agentos.execution.pulse.schemas import SessionConfig
from agentos.kernel.ids import uuid7
from agentos.kernel.installation import DATABASE, _postgres
from bench.stack import Stack, stack

TENANTS = 20


def script(*lines: str) -> str:
    """A prompt that the demo model follows."""
    return "\n".join(["```demo", *lines, "```"])


def turns(count: int, wait_ms: int) -> str:
    """A session of so many turns, in each of which the model thinks for a while and uses a tool."""
    lines: list[str] = []
    for n in range(count):
        lines.append(f"wait {wait_ms}")
        lines.append(f'call update_plan {{"plan": [{{"step": "{n}", "status": "done"}}]}}')
    return script(*lines, "say Done.")


# Model, tool, model: the three steps that are compared.
THREE_STEPS = script('call update_plan {"plan": [{"step": "a", "status": "done"}]}', "say Done.")


@dataclass
class Queue:
    """The queue of one installation, filled by its superuser: no API, no triggers of references."""

    running: Stack
    connection: asyncpg.Connection[asyncpg.Record]

    async def tenants(self, count: int, plan: str = "enterprise") -> list[UUID]:
        ids = [uuid7() for _ in range(count)]
        await self.connection.executemany(
            "insert into tenants (id, name, slug, plan) values ($1, 'Bench', $2, $3)",
            [(each, f"t-{each.hex}", plan) for each in ids],
        )
        return ids

    async def fill(self, tenants: Sequence[UUID], count: int, prompt: str = THREE_STEPS) -> None:
        """So many sessions more, the tenants in turn."""
        await self.connection.execute(
            _FILL, list(tenants), count, _config(prompt), json.dumps({"text": prompt})
        )

    async def add(
        self, tenant_id: UUID, prompt: str = THREE_STEPS, tool: str = "update_plan"
    ) -> UUID:
        """One session, and its id."""
        added: UUID = await self.connection.fetchval(
            f"{_FILL} returning session_id",
            [tenant_id],
            1,
            _config(prompt, tool),
            json.dumps({"text": prompt}),
        )
        return added

    async def settle(self) -> None:
        """Statistics and files as after a while, not as after a load."""
        await self.connection.execute("vacuum analyze sessions, steps, tenants")
        await self.connection.execute("checkpoint")

    async def waiting(self) -> int:
        return await self._count("queued_at is not null")

    async def completed(self) -> int:
        """Those that failed do not count: what fails fast is not fast."""
        return await self._count("finished_at is not null and state = 'COMPLETE'")

    async def running_now(self) -> int:
        return await self._count("owner is not null")

    async def retrying(self) -> int:
        return await self._count("waiting_for = 'retry'")

    async def workers(self) -> int:
        count: int = await self.connection.fetchval("select count(*) from workers")
        return count

    async def until(
        self, what: Callable[[], Awaitable[int]], least: int, seconds: float = 60
    ) -> None:
        """Waits until a count is high enough."""
        deadline = time.monotonic() + seconds
        while (now := await what()) < least:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what.__name__} is {now} after {seconds} s, not {least}")
            await asyncio.sleep(0.05)

    async def _count(self, condition: str) -> int:
        count: int = await self.connection.fetchval(
            f"select count(*) from sessions where {condition}"
        )
        return count

    async def require_success(self) -> None:
        """Fails the benchmark if a session failed."""
        failed = await self.connection.fetch(
            """select error_code, min(error) as error, count(*) from sessions
               where state = 'FAILED' group by 1"""
        )
        if failed:
            raise RuntimeError(f"sessions failed: {[dict(row) for row in failed]}")

    def postmaster(self) -> int:
        file = next(self.running.settings.data_dir.rglob("postmaster.pid"))
        return int(file.read_text().split()[0])


@asynccontextmanager
async def queue() -> AsyncIterator[Queue]:
    """An installation of its own, without gateway and workers."""
    async with stack() as running:
        connection = await asyncpg.connect(database_url(running, DATABASE))
        await connection.execute("set session_replication_role = replica")
        try:
            yield Queue(running, connection)
        finally:
            await connection.close()


def database_url(running: Stack, database: str) -> str:
    """Any database of the embedded server, as its superuser."""
    postgres = _postgres(running.settings, running.secret_key, lambda _: None)
    return postgres.superuser_dsn(database)


def log_file(running: Stack, name: str) -> Path:
    return running.settings.data_dir / f"{name}.log"


def _config(prompt: str, tool: str = "update_plan") -> str:
    # Only what the script uses: the peers' have one tool, too.
    config = SessionConfig(prompt=prompt, model="demo", tools=[tool], sub_agents=False)
    return config.model_dump_json()


# As the service writes a session that is queued at once.
_FILL = """
with s as (
    insert into sessions (tenant_id, id, state, title, config, workspace_id, created_by,
        principal_kind, principal_id, created_at, updated_at, queued_at, seq)
    select n.tenant_id, n.id, 'QUEUED', 'Bench', $3::jsonb, n.id, 'bench', 'user', 'bench',
        now(), now(), clock_timestamp(), 2
    from (select ($1::uuid[])[1 + i % cardinality($1)] as tenant_id, uuidv7() as id
          from generate_series(1, $2::int) i) n
    returning tenant_id, id
)
insert into steps (tenant_id, session_id, seq, parent, kind, name, status, input, output, fence, at)
select s.tenant_id, s.id, v.seq, v.seq - 1, v.kind, v.name, 'done', v.input, v.output, 0, now()
from s cross join (values
    (1, 'message', 'user', null::json, $4::json),
    (2, 'state', 'QUEUED', '{"from": "CREATED"}'::json, '{"reason": null}'::json)
) v (seq, kind, name, input, output)
"""
