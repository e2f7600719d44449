"""Teams of real agent CLIs whose worker, bus or database goes away while they answer."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from tests.conftest import SECRET_KEY, Engines, _make_template
from tests.execution.crews.kept_lab import (
    CLAUDE_CODE,
    OPENCODE,
    PATIENCE,
    Crew,
    KeptLab,
    open_lab,
)
from tests.execution.crews.kept_suite import agents

from agentos.kernel.bus_credentials import BusAuthority
from agentos.kernel.crypto import derive
from agentos.kernel.engines.account import engine_account
from agentos.kernel.engines.nats import EmbeddedNats
from agentos.kernel.engines.postgres import EmbeddedPostgres

__all__ = ["agents"]

pytestmark = pytest.mark.asyncio(loop_scope="module")

BOTH = pytest.mark.parametrize("provider", ["claude-code", "opencode"])


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def own_engines() -> AsyncIterator[Engines]:
    """A database and a bus that tests may stop and start."""
    data_dir = Path(tempfile.mkdtemp(prefix="aos-f-", dir="/tmp"))
    data_dir.chmod(0o711)  # noqa: ASYNC240 - at once
    account, authority = engine_account(), BusAuthority(derive(SECRET_KEY, "bus"))
    notices: list[str] = []
    postgres = EmbeddedPostgres(
        data_dir,
        superuser_password="test",
        account=account,
        on_notice=notices.append,
        fsync=False,
    )
    nats = EmbeddedNats(data_dir, authority, account=account, on_notice=notices.append)
    engines = Engines(data_dir, postgres, nats, authority)
    try:
        await asyncio.gather(postgres.start(), nats.start())
        await _make_template(engines)
        yield engines
    finally:
        await nats.stop()
        await postgres.stop()
        shutil.rmtree(data_dir, ignore_errors=True)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(own_engines: Engines, agents: Path) -> AsyncIterator[KeptLab]:
    async with open_lab(own_engines, agents=agents) as lab:
        yield lab


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def workers(lab: KeptLab) -> AsyncIterator[AsyncExitStack]:
    """The workers that are there; one test takes one away, and brings another."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(lab.worker())
        yield stack


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def crews(lab: KeptLab, workers: AsyncExitStack) -> dict[str, Crew]:
    """Two tenants' teams of the same name, side by side."""
    crews = {kit.provider: await lab.crew(kit) for kit in (CLAUDE_CODE, OPENCODE)}
    for crew in crews.values():
        await crew.until("running")
    return crews


async def _answered_once(crew: Crew, message_id: str) -> dict[str, object]:
    read = await crew.ended(message_id)
    assert read["state"] == "answered", read
    assert read["answer"] in read["text"]
    finished = await crew.events("message.finished")
    assert [event["message_id"] for event in finished].count(message_id) == 1
    return read


async def test_teams_of_the_same_name_are_apart(crews: dict[str, Crew]) -> None:
    one, other = crews.values()
    answers = await asyncio.gather(
        one.answer(one.kit.shell("echo one > mine.txt; ls"), "result"),
        other.answer(other.kit.shell("echo other > mine.txt; ls"), "result"),
    )
    assert all("mine.txt" in answer for answer in answers)
    assert (one.workspace / "mine.txt").read_text() == "one\n"
    assert (other.workspace / "mine.txt").read_text() == "other\n"
    assert one.workspace.stat().st_uid == one.workspace.parent.stat().st_uid or (
        one.workspace.stat().st_uid != other.workspace.stat().st_uid
    )


@BOTH
async def test_the_bus_is_restarted_while_a_team_answers(
    crews: dict[str, Crew], own_engines: Engines, provider: str
) -> None:
    crew = crews[provider]
    message_id, go = await crew.begun()
    await own_engines.nats.stop()
    go.touch()
    await own_engines.nats.start()
    read = await _answered_once(crew, message_id)
    assert read["attempt"] == 1, "the agent went on"
    assert await crew.answer("say After that.") == "After that."


@BOTH
async def test_the_database_is_restarted_while_a_team_answers(
    crews: dict[str, Crew], own_engines: Engines, provider: str
) -> None:
    crew = crews[provider]
    message_id, go = await crew.begun()
    await own_engines.postgres.stop()
    go.touch()
    await own_engines.postgres.start()
    await _answered_once(crew, message_id)
    assert await crew.answer("say After that.") == "After that."


@BOTH
async def test_the_worker_is_gone_while_a_team_answers(
    lab: KeptLab, crews: dict[str, Crew], workers: AsyncExitStack, provider: str
) -> None:
    """As after `kill -9`: it says nothing to anybody, and its teams end with it."""
    crew = crews[provider]
    message_id, go = await crew.begun()
    before = await lab.value("select owner from teams where id = $1", crew.id)
    await lab.rows("delete from workers where id = $1", before)
    await workers.enter_async_context(lab.worker())
    async with asyncio.timeout(PATIENCE):
        while (await crew.message(message_id))["attempt"] == 1:  # noqa: ASYNC110 - the API is asked
            await asyncio.sleep(0.05)
    go.touch()
    await _answered_once(crew, message_id)
    assert await lab.value("select owner from teams where id = $1", crew.id) != before
    assert await crew.answer("say After that.") == "After that."
