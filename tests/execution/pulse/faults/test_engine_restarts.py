"""Sessions survive a restart of PostgreSQL and of NATS in the middle of their runs."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest
from tests.conftest import SECRET_KEY, TEMPLATE, Engines, LoopThread, _make_template
from tests.execution.pulse.conftest import Lab, script
from tests.execution.pulse.faults.books import check_books, check_journal
from tests.execution.pulse.faults.processes import Crew, until

from agentos.kernel.bus_credentials import BusAuthority
from agentos.kernel.crypto import derive
from agentos.kernel.engines.account import engine_account
from agentos.kernel.engines.nats import EmbeddedNats
from agentos.kernel.engines.postgres import EmbeddedPostgres

STEPS = 4


@pytest.fixture
def engine_loop() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.close()


@pytest.fixture
def engines(engine_loop: LoopThread) -> Iterator[Engines]:
    """Engines of this test's own: others must not feel that they are stopped."""
    place = Path(tempfile.mkdtemp(prefix="aos-", dir="/tmp"))
    place.chmod(0o711)
    account, authority = engine_account(), BusAuthority(derive(SECRET_KEY, "bus"))
    notices: list[str] = []
    postgres = EmbeddedPostgres(
        place, superuser_password="test", account=account, on_notice=notices.append, fsync=False
    )
    nats = EmbeddedNats(place, authority, account=account, on_notice=notices.append)
    engines = Engines(place, postgres, nats, authority)
    try:
        engine_loop.run(postgres.start())
        engine_loop.run(nats.start())
        engine_loop.run(_make_template(engines))
        yield engines
    finally:
        engine_loop.run(postgres.stop())
        engine_loop.run(nats.stop())
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
async def database(engines: Engines) -> str:
    """Nothing is dropped in the end: the engine itself goes."""
    admin = await asyncpg.connect(engines.postgres.superuser_dsn())
    await admin.execute(f"create database test template {TEMPLATE} owner agentos_owner")
    await admin.close()
    return "test"


async def test_sessions_go_on_after_restarts(
    lab: Lab, crew: Crew, engines: Engines, engine_loop: LoopThread, database: str
) -> None:
    prices = {"provider": "demo", "model": "demo", "input": 10**6, "output": 10**6}
    await lab.client.put("/api/models/prices", json=prices)
    lines = [f'call shell {{"command": "sleep 0.4; echo {n} >> notes"}}' for n in range(STEPS)]
    prompt = script(*"\nthen\n".join([*lines, "say Done."]).split("\n"))
    for _ in range(2):
        await crew.start()
    ids = [await lab.create(prompt) for _ in range(4)]

    await steps_taken(lab, ids, 1)
    await asyncio.to_thread(engine_loop.run, engines.nats.stop())
    await steps_taken(lab, ids, 2)
    await asyncio.to_thread(engine_loop.run, engines.nats.start())
    await asyncio.to_thread(engine_loop.run, engines.postgres.stop())
    await asyncio.to_thread(engine_loop.run, engines.postgres.start())
    lab.superuser = crew.superuser = await asyncpg.connect(engines.dsn("postgres", database))
    ids.append(await lab.create(prompt))

    for session_id in ids:
        ended = await lab.ended(session_id)
        assert (ended["state"], ended["result"]["text"]) == ("COMPLETE", "Done."), ended["error"]
        path = f"/api/sessions/{session_id}/files/content"
        notes = (await lab.client.get(path, params={"path": "notes"})).text
        assert notes == "".join(f"{n}\n" for n in range(STEPS))
        journal = await check_journal(lab.superuser, session_id)
        assert [row["status"] for row in journal if row["kind"] == "tool"] == ["done"] * STEPS
    await crew.dismiss()
    await check_books(lab.superuser)
    await lab.superuser.close()


async def steps_taken(lab: Lab, ids: list[UUID], steps: int) -> None:
    """Once one of the sessions has used so many tools."""

    async def are_taken() -> bool:
        return max([(await lab.kinds(i)).count("tool") for i in ids]) >= steps

    await until(are_taken)
