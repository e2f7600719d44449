"""The parts of a keeper that need no team that runs."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import mkdtemp
from uuid import UUID, uuid4

import pytest
from tests.conftest import Engines
from tests.execution.crews.kept_lab import CLAUDE_CODE, Crew, KeptLab, open_lab

from agentos.contracts.crew import Answer, Beat, McpStatus
from agentos.execution.crews.keeping import claims, mail, words
from agentos.execution.crews.keeping.claims import Claim, Lost
from agentos.execution.crews.keeping.links import addresses_of, link
from agentos.execution.crews.keeping.repeating import Repeating
from agentos.execution.crews.keeping.trouble import next_step


@pytest.fixture
async def lab(engines: Engines) -> AsyncIterator[KeptLab]:
    async with open_lab(engines) as lab:
        yield lab


async def _worker(lab: KeptLab) -> UUID:
    """A worker that lives, by its row."""
    worker = uuid4()
    await lab.rows(
        "insert into workers (id, place, pid, pid_started, capacity) values ($1, 'x', 1, 1, 1)",
        worker,
    )
    return worker


async def _claim(lab: KeptLab, worker: UUID, room: int = 10) -> list[Claim]:
    return await claims.claim(lab.gateway.parts.platform_db, worker, room)


# Claims ---------------------------------------------------------------------------------------------


async def test_each_team_is_claimed_by_one_worker(lab: KeptLab) -> None:
    crews = [await lab.crew(CLAUDE_CODE) for _ in range(6)]
    await lab.crew(CLAUDE_CODE, deploy=False)
    workers = [await _worker(lab) for _ in range(3)]
    taken = await asyncio.gather(*(_claim(lab, worker, 4) for worker in workers))
    assert sorted(c.team_id for each in taken for c in each) == sorted(c.id for c in crews)
    assert max(map(len, taken)) <= 4
    assert await _claim(lab, workers[0]) == []


async def test_a_dead_workers_team_is_claimed_with_a_higher_fence(lab: KeptLab) -> None:
    crew = await lab.crew(CLAUDE_CODE)
    first, second = await _worker(lab), await _worker(lab)
    (old,) = await _claim(lab, first)
    await lab.rows("delete from workers where id = $1", first)
    (new,) = await _claim(lab, second)
    assert new.fence == old.fence + 1
    async with lab.gateway.parts.db.transaction(tenant_id=crew.person.tenant_id) as tx:
        assert (await claims.wanted(tx, new)).deployed
        for write in (
            claims.wanted(tx, old),
            claims.hold(tx, old),
            mail.put_back(tx, old),
            claims.applied(tx, old, 1, None, lab.gateway.parts.clock.now()),
        ):
            with pytest.raises(Lost):
                await write


async def test_a_stopped_team_that_is_not_down_yet_is_claimed(lab: KeptLab) -> None:
    """Its worker died between the wish and the deed."""
    crew = await lab.crew(CLAUDE_CODE)
    await lab.rows("update teams set deployed = false, owner = $1 where id = $2", uuid4(), crew.id)
    assert [c.team_id for c in await _claim(lab, await _worker(lab))] == [crew.id]


async def test_a_glance_tells_what_changed(lab: KeptLab) -> None:
    crew, worker = await lab.crew(CLAUDE_CODE), await _worker(lab)
    db = lab.gateway.parts.platform_db
    (claim,) = await _claim(lab, worker)
    first = await claims.glance(db, worker)
    assert first == await claims.glance(db, worker)
    await crew.send("say Hello.")
    second = await claims.glance(db, worker)
    assert second[crew.id].last_position == first[crew.id].last_position + 1
    await claims.disown(db, worker, [(crew.id, claim.fence - 1)])
    assert await claims.glance(db, worker) == second, "another claim's team is not let go"
    await claims.disown(db, worker, [(crew.id, claim.fence)])
    assert await claims.glance(db, worker) == {}


# Mail -----------------------------------------------------------------------------------------------


async def _taken(lab: KeptLab, crew: Crew, claim: Claim) -> mail.Mail | None:
    parts = lab.gateway.parts
    async with parts.db.transaction(tenant_id=crew.person.tenant_id) as tx:
        return await mail.next_mail(tx, lab.pulse.outbox, claim, parts.clock.now())


async def test_mail_comes_in_order_and_again_until_it_has_ended(lab: KeptLab) -> None:
    crew = await lab.crew(CLAUDE_CODE)
    (claim,) = await _claim(lab, await _worker(lab))
    assert await _taken(lab, crew, claim) is None
    ids = [await crew.send(f"say {n}") for n in range(3)]
    for message_id in ids:
        for attempt in (1, 2):
            found = await _taken(lab, crew, claim)
            assert found is not None
            assert (str(found.id), found.attempt) == (message_id, attempt)
        ended = "update team_messages set state = 'answered' where id = $1"
        await lab.rows(ended, UUID(message_id))
    assert await _taken(lab, crew, claim) is None


async def test_two_keepers_never_have_the_same_mail(lab: KeptLab) -> None:
    crew = await lab.crew(CLAUDE_CODE)
    first = await _worker(lab)
    (old,) = await _claim(lab, first)
    await crew.send("say Hello.")
    await lab.rows("delete from workers where id = $1", first)
    (new,) = await _claim(lab, await _worker(lab))
    with pytest.raises(Lost):
        await _taken(lab, crew, old)
    assert await _taken(lab, crew, new) is not None


async def test_a_message_is_taken_up_only_if_an_agent_had_it(lab: KeptLab) -> None:
    crew = await lab.crew(CLAUDE_CODE)
    (claim,) = await _claim(lab, await _worker(lab))
    had, never = await crew.send("say 1"), await crew.send("say 2")
    await _taken(lab, crew, claim)
    async with lab.gateway.parts.db.transaction(tenant_id=crew.person.tenant_id) as tx:
        await mail.put_back(tx, claim)
    assert (await crew.message(had))["state"] == "queued"
    async with lab.gateway.parts.db.transaction(tenant_id=crew.person.tenant_id) as tx:
        for message_id in (had, never):
            await mail.take_up(tx, claim, UUID(message_id))
    assert (await crew.message(had))["state"] == "running"
    assert (await crew.message(never))["state"] == "queued"


# Trouble and words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("crashes", "repairs", "step"),
    [
        (1, 0, "again"),
        (2, 2, "again"),
        (3, 0, "repair"),
        (4, 1, "renew"),
        (3, 2, "give_up"),
        (9, 3, "give_up"),
    ],
)
def test_what_is_done_about_crashes(crashes: int, repairs: int, step: str) -> None:
    assert next_step(crashes, repairs) == step


def test_words_of_a_sandbox_are_bounded() -> None:
    beat = Beat(
        boot="b",
        state="idle",
        version=1,
        conversation="c" * 1000,
        mcp=tuple(McpStatus("n\0" * 1000 + str(n), "s", "e" * 5000) for n in range(100)),
    )
    assert words.conversation_of(beat) is None
    servers = words.servers_of(beat)
    assert len(servers) <= 50
    assert all("\0" not in name and len(name) <= 200 for name in servers)
    assert all(len(each["error"]) <= words.MOST_REASON for each in servers.values())
    long = Answer(
        message_id=uuid4(), state="failed", text="t" * (9 * 1024 * 1024), error="e" * 9999
    )
    assert len(words.text_of(long)) == 8 * 1024 * 1024
    assert words.error_of(long) == ("e" * 4000, None)


# Links ------------------------------------------------------------------------------------------------


@pytest.fixture
def socket() -> Iterator[Path]:
    """A short path: unix sockets have little room for one."""
    place = Path(mkdtemp(prefix="aos-l-", dir="/tmp"))
    yield place / "out.sock"
    shutil.rmtree(place)


async def _echoing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says back what it hears until the other side has no more, then says goodbye."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write(b"goodbye")
    writer.close()


def test_addresses_of_urls() -> None:
    assert addresses_of("nats://one:4333, nats://two") == [("one", 4333), ("two", 4222)]
    assert addresses_of("https://gate.example") == [("gate.example", 443)]


async def test_a_link_leads_on_both_ways_to_the_first_that_answers(socket: Path) -> None:
    server = await asyncio.start_server(_echoing, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    closed = await asyncio.start_server(_echoing, "127.0.0.1", 0)
    gone = closed.sockets[0].getsockname()[1]
    closed.close()
    await closed.wait_closed()
    sent = bytes(range(256)) * 40_000
    async with link(socket, [("127.0.0.1", gone), ("127.0.0.1", port)], None):
        assert socket.stat().st_mode & 0o777 == 0o600  # noqa: ASYNC240 - at once
        reader, writer = await asyncio.open_unix_connection(socket)
        heard = asyncio.create_task(reader.read())
        writer.write(sent)
        writer.write_eof()
        async with asyncio.timeout(20):
            assert await heard == sent + b"goodbye"
        writer.close()
    assert not socket.exists()  # noqa: ASYNC240 - at once
    server.close()


async def test_a_link_to_nowhere_ends_what_connects(socket: Path) -> None:
    async with link(socket, [("127.0.0.1", 1)], None):
        reader, writer = await asyncio.open_unix_connection(socket)
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        writer.close()


async def test_a_link_that_is_closed_ends_its_connections(socket: Path) -> None:
    server = await asyncio.start_server(_echoing, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with link(socket, [("127.0.0.1", port)], None):
        reader, writer = await asyncio.open_unix_connection(socket)
        writer.write(b"hello")
        async with asyncio.timeout(20):
            assert await reader.readexactly(5) == b"hello"
    async with asyncio.timeout(20):
        assert await reader.read() == b""
    writer.close()
    server.close()


async def test_a_sandbox_cannot_use_up_the_workers_sockets(socket: Path) -> None:
    server = await asyncio.start_server(_echoing, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with link(socket, [("127.0.0.1", port)], None):
        open_ = []
        for _ in range(128):
            reader, writer = await asyncio.open_unix_connection(socket)
            writer.write(b"x")
            async with asyncio.timeout(20):
                assert await reader.readexactly(1) == b"x"
            open_.append(writer)
        reader, writer = await asyncio.open_unix_connection(socket)
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        for each in (*open_, writer):
            each.close()
    server.close()


# Those who join -------------------------------------------------------------------------------------


async def test_those_who_join_together_are_repeated_to_together() -> None:
    calls: asyncio.Queue[None] = asyncio.Queue()

    async def repeat() -> None:
        calls.put_nowait(None)

    repeating = Repeating(repeat)
    async with asyncio.timeout(20):
        for _ in range(3):
            for _ in range(100):
                repeating.ask()
            # The next ones ask in the pause that follows, and are not forgotten.
            await calls.get()
        assert repeating._task is not None
        await asyncio.wait({repeating._task})
        assert calls.empty()
        repeating.ask()
        await calls.get()
        repeating.ask()
        await repeating.close()
    assert calls.empty()
