"""Real Postgres and NATS for every test, started once a run; a fresh database for each test."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import itertools
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import AsyncIterator, Coroutine, Generator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import asyncpg
import pytest

from agentos.kernel.bus import Bus
from agentos.kernel.bus_credentials import BusAuthority
from agentos.kernel.clock import MovableClock, SystemClock
from agentos.kernel.crypto import derive, derive_password
from agentos.kernel.database import Database
from agentos.kernel.engines.account import engine_account
from agentos.kernel.engines.nats import EmbeddedNats
from agentos.kernel.engines.postgres import EmbeddedPostgres
from agentos.kernel.ids import TenantId, UserId, uuid7
from agentos.kernel.outbox import Outbox
from agentos.kernel.schema import PLATFORM_ROLE, RUNTIME_ROLE, RolePasswords, ensure_roles, migrate
from agentos.kernel.settings import Settings
from agentos.tenancy.principals import ROLE_SCOPES, Principal, PrincipalKind, Role
from agentos.tenancy.work import Work
from tests.gateways import Gateway, running_gateway

SECRET_KEY = bytes(range(32))
TEMPLATE = "agentos_template"
# A run takes up to half of it: the log of the database and a few of them at once.
_ENOUGH_MEMORY = 2 * 1024**3


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Imports all tests without looking for garbage: what they make stays, so there is none.

    Looking through it again and again takes a quarter of the time that it takes to collect them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of other machines are not found: no test may reach a provider by accident."""
    real = socket.getaddrinfo

    def local(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        try:
            known = name in (None, "", "localhost") or not ipaddress.ip_address(name).is_global
        except ValueError:
            known = False
        if not known:
            raise socket.gaierror(socket.EAI_NONAME, "tests do not leave this machine")
        return real(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", local)


class LoopThread:
    """An event loop in a thread of its own, for engines that outlive a test's loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(90)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@dataclass
class Engines:
    data_dir: Path
    postgres: EmbeddedPostgres
    nats: EmbeddedNats
    authority: BusAuthority

    def dsn(self, role: str, database: str) -> str:
        if role == "postgres":
            return self.postgres.superuser_dsn(database)
        password = derive_password(SECRET_KEY, f"database role {role}")
        return self.postgres.dsn(role, password, database)


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    account = engine_account()
    data_dir = Path(tempfile.mkdtemp(prefix="aos-", dir=_quick_place()))
    # mkdtemp makes it 0700, which the account that runs the engines could not enter.
    data_dir.chmod(0o711)
    loop = LoopThread()
    authority = BusAuthority(derive(SECRET_KEY, "bus"))
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
        loop.run(postgres.start())
        loop.run(nats.start())
        loop.run(_make_template(engines))
        yield engines
    finally:
        loop.run(postgres.stop())
        loop.run(nats.stop())
        loop.close()
        shutil.rmtree(data_dir, ignore_errors=True)


def _quick_place() -> Path:
    """Where engines keep what only a test run needs: in memory, if there is enough of it.

    A database for each test means making and removing hundreds of files each time, which takes a
    disk ten times as long as all the rest of a small test.
    """
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK):
        room = os.statvfs(memory)
        if room.f_bavail * room.f_frsize >= _ENOUGH_MEMORY:
            return memory
    return Path("/tmp")


async def _make_template(engines: Engines) -> None:
    admin = engines.postgres.superuser_dsn()
    passwords = RolePasswords(
        runtime=derive_password(SECRET_KEY, f"database role {RUNTIME_ROLE}"),
        platform=derive_password(SECRET_KEY, f"database role {PLATFORM_ROLE}"),
    )
    await ensure_roles(admin, passwords)
    connection = await asyncpg.connect(admin)
    owner_password = derive_password(SECRET_KEY, "database role agentos_owner")
    await connection.execute(f"create role agentos_owner login password '{owner_password}'")
    await connection.execute(f"create database {TEMPLATE} owner agentos_owner")
    await connection.close()
    await migrate(engines.dsn("agentos_owner", TEMPLATE))


_numbers = itertools.count()


@pytest.fixture
async def database(engines: Engines) -> AsyncIterator[str]:
    """The name of a fresh database with the newest schema."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    admin = await asyncpg.connect(engines.postgres.superuser_dsn())
    # Copied as files: a template that nobody uses needs no write-ahead log.
    await admin.execute(
        f"create database {name} template {TEMPLATE} owner agentos_owner strategy file_copy"
    )
    yield name
    await admin.execute(f"drop database {name} with (force)")
    await admin.close()


@pytest.fixture
async def db(engines: Engines, database: str) -> AsyncIterator[Database]:
    """The runtime role's pool."""
    pool = await Database.connect(engines.dsn(RUNTIME_ROLE, database), size=8, name="test")
    yield pool
    await pool.close()


@pytest.fixture
async def platform_db(engines: Engines, database: str) -> AsyncIterator[Database]:
    """The platform role's pool."""
    pool = await Database.connect(engines.dsn(PLATFORM_ROLE, database), size=4, name="test")
    yield pool
    await pool.close()


@pytest.fixture
async def superuser(engines: Engines, database: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    """A connection that row-level security does not bind, to look behind the scenes."""
    connection = await asyncpg.connect(engines.dsn("postgres", database))
    yield connection
    await connection.close()


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


class TenantWork(Protocol):
    def __call__(
        self, *, plan: str = "free", role: str = "owner", tenant: UUID | None = None
    ) -> AbstractAsyncContextManager[Work]: ...


@pytest.fixture
def tenant_work(db: Database, superuser: asyncpg.Connection[Any]) -> TenantWork:
    """Work in a new tenant, or in a given one; committed when the block ends without an error."""

    @asynccontextmanager
    async def open_work(
        *, plan: str = "free", role: str = "owner", tenant: UUID | None = None
    ) -> AsyncIterator[Work]:
        tenant_id = TenantId(tenant or uuid7())
        user_id = UserId(uuid7())
        if tenant is None:
            await superuser.execute(
                "insert into tenants (id, name, slug, plan) values ($1, $2, $3, $4)",
                tenant_id,
                f"Tenant {tenant_id.hex[-6:]}",
                f"t-{tenant_id.hex}",
                plan,
            )
        principal = Principal(
            kind=PrincipalKind.USER,
            id=str(user_id),
            name="Test Person",
            tenant_id=tenant_id,
            scopes=ROLE_SCOPES[Role(role)],
            plan=plan,
            user_id=user_id,
            role=Role(role),
        )
        async with db.transaction(tenant_id=tenant_id, user_id=user_id) as tx:
            yield Work(tx, principal, Outbox(lambda: None), SystemClock(), request_id="test")

    return open_work


@pytest.fixture
async def bus(engines: Engines) -> AsyncIterator[Bus]:
    """A connection to NATS as the platform."""
    connection = await Bus.connect(
        engines.nats.url, engines.authority.platform_credentials(), name="test"
    )
    yield connection
    await connection.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of the gateway under test; a test that needs others overrides this fixture."""
    return Settings(
        data_dir=tmp_path, signup="open", anonymous_requests_per_minute=100_000, secret_key=None
    )


@pytest.fixture
async def gateway(
    settings: Settings, clock: MovableClock, db: Database, platform_db: Database, bus: Bus
) -> AsyncIterator[Gateway]:
    """A real server on a port of its own, with a clock that tests can move."""
    async with running_gateway(
        settings, SECRET_KEY, clock=clock, db=db, platform_db=platform_db, bus=bus
    ) as running:
        yield running
