"""Deleting a team voids its rights on the bus, on a real nats-server, whatever restarts."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest
from tests.conftest import Engines
from tests.execution.crews.kept_fakes import FakeRuntime, FakeSidecar
from tests.execution.crews.kept_lab import CLAUDE_CODE, KeptLab, cancelled, open_lab
from tests.execution.crews.team_lab import Teams, teams

from agentos.contracts.crew import SidecarCredentials
from agentos.execution.crews import revocations
from agentos.execution.crews.keeping import claims
from agentos.execution.crews.revocations import Revoker
from agentos.execution.worker import Worker
from agentos.kernel.bus import Bus, Message
from agentos.kernel.bus_credentials import REVOKED_FOR, TEAM_LIFE, BusAuthority, BusCredentials
from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database
from agentos.kernel.engines.account import engine_account
from agentos.kernel.engines.nats import EmbeddedNats
from agentos.kernel.errors import Unavailable
from agentos.kernel.ids import uuid7
from agentos.kernel.outbox import Outbox

__all__ = ["teams"]

PATIENCE = 20.0
# Counted, not timed: the client may swallow a cancellation while it connects.
_TIMES = 20
Team = dict[str, Any]


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Under /tmp and passable, because the engine runs as another account when we are root."""
    path = Path(tempfile.mkdtemp(prefix="aos-", dir="/tmp"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture
async def server(engines: Engines, data_dir: Path) -> AsyncIterator[EmbeddedNats]:
    """A server of its own, that a test may kill."""
    embedded = EmbeddedNats(
        data_dir, engines.authority, account=engine_account(), on_notice=lambda _: None
    )
    await embedded.start()
    yield embedded
    await embedded.stop()


@dataclass
class Client:
    """Whoever has a team's credentials, or a copy of them."""

    bus: Bus
    states: list[str]
    closed: asyncio.Event

    @classmethod
    async def join(cls, url: str, credentials: BusCredentials) -> Client:
        states: list[str] = []
        closed = asyncio.Event()

        def heard(state: str) -> None:
            states.append(state)
            if state == "closed":
                closed.set()

        return cls(
            await Bus.connect(url, credentials, name="t", on_state=heard, timeout=1), states, closed
        )

    async def dropped(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.closed.wait()


async def refused(url: str, credentials: BusCredentials) -> None:
    with pytest.raises(Unavailable, match="Authorization Violation"):
        await Client.join(url, credentials)


async def locked_out(url: str, credentials: BusCredentials) -> None:
    """Not let in any more, perhaps after having been let in by a server that did not know yet."""
    for _ in range(_TIMES):
        try:
            client = await Client.join(url, credentials)
        except Unavailable:
            break
        await client.dropped()
    await refused(url, credentials)


@dataclass
class World:
    """Teams of the gateway's tenant, and a bus of their own."""

    teams: Teams
    server: EmbeddedNats
    authority: BusAuthority
    platform_db: Database
    superuser: asyncpg.Connection[Any]
    clock: MovableClock
    stack: AsyncExitStack

    async def stopped_team(self, name: str = "Crew") -> Team:
        """A team that a worker has kept, and that was stopped."""
        team = await self.teams.cli(name, deploy=True)
        (claim,) = await claims.claim(self.platform_db, uuid7(), 8)
        await self.teams.post(team, "stop")
        async with self.platform_db.transaction() as tx:
            now, outbox = self.clock.now(), Outbox(lambda: None)
            await claims.set_status(tx, outbox, claim, "stopped", None, now)
            await claims.release(tx, claim)
        return team

    def credentials(self, team: Team) -> BusCredentials:
        tenant_id = str(self.teams.person.tenant_id)
        return self.authority.team_credentials(tenant_id, team["id"], TEAM_LIFE)

    async def join(self, team: Team) -> Client:
        client = await Client.join(self.server.url, self.credentials(team))
        self.stack.push_async_callback(client.bus.close)
        return client

    async def delete(self, team: Team) -> None:
        answer = await self.teams.client.delete(f"/api/teams/{team['id']}")
        assert answer.status_code == 204, answer.text

    async def rows(self) -> set[UUID]:
        found = await self.superuser.fetch("select team_id from bus_revocations")
        return {row["team_id"] for row in found}

    def revoker(self, *, embedded: bool = False) -> Revoker:
        return Revoker(
            self.platform_db,
            self.teams.gateway.parts.bus,
            self.server.url,
            self.authority,
            self.clock,
            self.server if embedded else None,
        )

    def start(self, *, embedded: bool = False) -> asyncio.Task[None]:
        task = asyncio.create_task(self.revoker(embedded=embedded).run())
        self.stack.push_async_callback(cancelled, task)
        return task

    async def platform(self) -> None:
        """Uses the bus as every process of an installation does."""
        credentials = self.authority.platform_credentials()
        bus = await Bus.connect(self.server.url, credentials, name="p")
        self.stack.push_async_callback(bus.close)

    async def system(self) -> Bus:
        bus = await Bus.connect(self.server.url, self.authority.system_credentials(), name="s")
        self.stack.push_async_callback(bus.close)
        return bus

    async def kill_server(self) -> None:
        """Kills it, and waits until its successor answers."""
        back = asyncio.Event()
        bus = await Bus.connect(
            self.server.url,
            self.authority.platform_credentials(),
            name="watch",
            on_state=lambda state: back.set() if state == "connected" else None,
        )
        back.clear()
        pid = self.server.process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            await back.wait()
        await bus.close()


@pytest.fixture
async def world(
    teams: Teams,
    server: EmbeddedNats,
    engines: Engines,
    platform_db: Database,
    superuser: asyncpg.Connection[Any],
    clock: MovableClock,
) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        yield World(teams, server, engines.authority, platform_db, superuser, clock, stack)


async def speaks(client: Client, world: World, team: Team) -> None:
    """What a team says to itself arrives."""
    heard = asyncio.Event()

    async def hear(_: Message) -> None:
        heard.set()

    subject = f"tenant.{world.teams.person.tenant_id}.team.{team['id']}.x"
    subscription = await client.bus.subscribe(subject, hear)
    await client.bus.publish(subject, b"x")
    async with asyncio.timeout(PATIENCE):
        await heard.wait()
    await subscription.unsubscribe()


async def test_a_deleted_team_is_dropped_and_nobody_else(world: World) -> None:
    gone, other = await world.stopped_team("Gone"), await world.stopped_team("Other")
    thief, neighbour = await world.join(gone), await world.join(other)
    world.start()
    await speaks(thief, world, gone)
    await world.delete(gone)
    await thief.dropped()
    await refused(world.server.url, world.credentials(gone))
    await speaks(neighbour, world, other)
    assert neighbour.states == ["connected"]


async def test_a_server_that_nobody_uses_takes_no_notice_and_is_told_again(world: World) -> None:
    team = await world.stopped_team()
    await world.delete(team)
    revoker, system = world.revoker(), await world.system()
    await revoker.look(system)
    thief = await world.join(team)
    await revoker.look(system)
    await thief.dropped()


async def test_credentials_minted_after_the_deletion_are_void_too(world: World) -> None:
    await world.platform()
    # As by a worker that has slept through losing the team.
    team = await world.stopped_team()
    await world.delete(team)
    await world.revoker().look(await world.system())
    (until,) = (await world.superuser.fetchrow("select until from bus_revocations")).values()  # type: ignore[union-attr]
    assert until == world.clock.now() + REVOKED_FOR
    await refused(world.server.url, world.credentials(team))


async def test_an_embedded_server_knows_it_when_it_comes_back(world: World) -> None:
    team = await world.stopped_team()
    thief = await world.join(team)
    revoking = world.start(embedded=True)
    await world.delete(team)
    await thief.dropped()
    await cancelled(revoking)
    await world.kill_server()
    await refused(world.server.url, world.credentials(team))


async def test_a_server_that_forgets_is_told_again(world: World) -> None:
    team = await world.stopped_team()
    thief = await world.join(team)
    world.start()
    await world.delete(team)
    await thief.dropped()
    await world.kill_server()
    await locked_out(world.server.url, world.credentials(team))


async def test_a_server_that_forgets_without_a_word_is_told_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.platform()
    monkeypatch.setattr(revocations, "_REPEAT_SECONDS", 0.0)
    team = await world.stopped_team()
    await world.delete(team)
    revoker, system = world.revoker(), await world.system()
    await revoker.look(system)
    await refused(world.server.url, world.credentials(team))
    # It reads its configuration again, which says nothing of it.
    pid = world.server.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGHUP)
    thief = await let_in(world, team)
    assert system.is_connected
    await revoker.look(system)
    await thief.dropped()


async def let_in(world: World, team: Team) -> Client:
    """In, once the server has forgotten."""
    for _ in range(_TIMES):
        with suppress(Unavailable):
            return await world.join(team)
    raise AssertionError("The server has not forgotten.")


async def test_a_new_worker_tells_what_happened_without_it(world: World) -> None:
    early, late = await world.stopped_team("Early"), await world.stopped_team("Late")
    revoking = world.start()
    await world.delete(early)
    await locked_out(world.server.url, world.credentials(early))
    await cancelled(revoking)
    await world.delete(late)
    await world.kill_server()
    thieves = [await world.join(early), await world.join(late)]
    world.start()
    for thief in thieves:
        await thief.dropped()


async def test_workers_tell_one_after_the_other(world: World) -> None:
    team = await world.stopped_team()
    thief = await world.join(team)
    await world.delete(team)
    revoker, system = world.revoker(), await world.system()
    await world.superuser.execute("select pg_advisory_lock($1)", revocations._LOCK)
    await revoker.look(system)
    # Whatever it had sent would have been answered by now.
    await speaks(thief, world, team)
    await world.superuser.execute("select pg_advisory_unlock($1)", revocations._LOCK)
    await revoker.look(system)
    await thief.dropped()


async def test_two_workers_revoke_together(world: World) -> None:
    gone = [await world.stopped_team(f"Gone {n}") for n in range(6)]
    other = await world.stopped_team("Other")
    neighbour = await world.join(other)
    thieves = [await world.join(team) for team in gone]
    for embedded in (True, False):
        world.start(embedded=embedded)
    await asyncio.gather(*(world.delete(team) for team in gone))
    await asyncio.gather(*(thief.dropped() for thief in thieves))
    await asyncio.gather(*(refused(world.server.url, world.credentials(team)) for team in gone))
    await speaks(neighbour, world, other)
    assert neighbour.states == ["connected"]


async def test_a_revocation_is_forgotten_after_its_time(world: World, data_dir: Path) -> None:
    await world.platform()
    early = await world.stopped_team("Early")
    await world.delete(early)
    world.clock.advance(timedelta(minutes=1))
    late = await world.stopped_team("Late")
    await world.delete(late)
    revoker, system = world.revoker(embedded=True), await world.system()
    await revoker.look(system)
    world.clock.advance(REVOKED_FOR - timedelta(minutes=1, microseconds=1))
    await revoker.look(system)
    assert await world.rows() == {UUID(early["id"]), UUID(late["id"])}
    world.clock.advance(timedelta(microseconds=1))
    await revoker.look(system)
    assert await world.rows() == {UUID(late["id"])}
    kept = msgspec.json.decode((data_dir / "nats" / "revocations.json").read_bytes())
    assert list(kept) == [world.credentials(late).public_key]
    # The clock that was moved is not the server's: these would have expired.
    await world.join(early)
    await refused(world.server.url, world.credentials(late))


async def test_only_a_deletion_revokes_and_only_what_was_issued(world: World) -> None:
    kept, running = await world.stopped_team("Kept"), await world.teams.cli("R", deploy=True)
    url = f"/api/teams/{running['id']}"
    assert (await world.teams.client.delete(url)).status_code == 409
    stranger = await world.teams.gateway.tenant()
    answer = await stranger.client.delete(f"/api/teams/{kept['id']}")
    assert answer.status_code == 404
    # These were never on the bus.
    await world.delete(await world.teams.cli("Never deployed"))
    await world.delete(await world.teams.create("Native", provider="native"))
    assert await world.rows() == set()
    await world.delete(kept)
    assert await world.rows() == {UUID(kept["id"])}


async def test_no_more_are_told_than_fit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.platform()
    monkeypatch.setattr(revocations, "MOST_REVOCATIONS", 1)
    early, late = await world.stopped_team("Early"), await world.stopped_team("Late")
    await world.delete(early)
    world.clock.advance(timedelta(minutes=1))
    await world.delete(late)
    await world.revoker().look(await world.system())
    await world.join(early)
    await refused(world.server.url, world.credentials(late))


@asynccontextmanager
async def whole_worker(lab: KeptLab, runtime: FakeRuntime) -> AsyncIterator[None]:
    parts = lab.gateway.parts
    worker = Worker(
        lab.settings,
        parts.platform_db,
        parts.bus,
        parts.objects,
        parts.clock,
        lab.pulse,
        lab.crew_parts(runtimes=runtime),
    )
    task = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        await cancelled(task)


async def test_what_was_taken_out_of_a_sandbox_is_void_once_its_team_is_deleted(
    engines: Engines,
) -> None:
    async with open_lab(engines) as lab, whole_worker(lab, runtime := FakeRuntime()):
        crew = await lab.crew(CLAUDE_CODE)
        async with FakeSidecar(crew).listening() as sidecar:
            await sidecar.ready()
            running = await runtime.lives(1)
            (room,) = (lab.settings.data_dir / "rooms").iterdir()
            stolen = msgspec.json.decode(
                (room / "credentials.json").read_bytes(), type=SidecarCredentials
            )
            await crew.call("POST", "/stop")
            running.ending.set()
            await crew.until("stopped")
        credentials = BusCredentials(
            public_key=stolen.public_key,
            inbox_prefix=stolen.inbox_prefix,
            expires_at=None,
            jwt=stolen.jwt,
            seed=stolen.seed,
        )
        thief = await Client.join(engines.nats.url, credentials)
        await crew.call("DELETE", expect=204)
        await thief.dropped()
        await refused(engines.nats.url, credentials)
