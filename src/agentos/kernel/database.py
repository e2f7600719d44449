"""PostgreSQL through asyncpg: a pool for one role, and transactions that say who is asking."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from agentos.kernel.errors import AgentOSError, Unavailable

_log = logging.getLogger(__name__)

AfterCommit = Callable[[], Awaitable[None] | None]

# What a lost or refused connection looks like; all of them mean "try again in a moment".
_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a query on a connection that has just failed
    OSError,
    TimeoutError,
)
# A process that is stopped in a transaction (SIGSTOP, a suspended machine) would hold its locks for
# as long as it is: on accounts, on the queue. After this long the server ends the transaction.
_MOST_IDLE_SECONDS = 10


class DatabaseUnavailable(Unavailable):
    """The database is not answering right now."""

    code = "database_unavailable"


class _ReportingLoss:
    """Turns a lost connection into DatabaseUnavailable. Wraps only calls to the driver.

    A class without state, because every query goes through it: a generator would cost as much
    as the rest of `Transaction`.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        # A ValueError is a bad argument, not a bad connection.
        if isinstance(error, _LOST) and not isinstance(error, ValueError):
            raise DatabaseUnavailable() from error


reporting_loss = _ReportingLoss()


class Transaction:
    """One open transaction: everything done through it happens together or not at all."""

    def __init__(self, connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record]):
        self._connection = connection
        self._after_commit: list[AfterCommit] = []
        self.kept_on_error = False

    async def fetch(self, query: str, *args: Any) -> list[asyncpg.Record]:
        with reporting_loss:
            return await self._connection.fetch(query, *args)

    async def row(self, query: str, *args: Any) -> asyncpg.Record | None:
        with reporting_loss:
            return await self._connection.fetchrow(query, *args)

    async def value(self, query: str, *args: Any) -> Any:
        with reporting_loss:
            return await self._connection.fetchval(query, *args)

    async def execute(self, query: str, *args: Any) -> int:
        """Runs a statement and returns how many rows it touched."""
        with reporting_loss:
            status = await self._connection.execute(query, *args)
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def set(self, name: str, value: str) -> None:
        """Sets a variable that row-level security reads, until the transaction ends."""
        await self.execute("select set_config($1, $2, true)", name, value)

    def after_commit(self, action: AfterCommit) -> None:
        """Runs `action` once the transaction has committed; never if it rolls back."""
        self._after_commit.append(action)

    def keep_on_error(self) -> None:
        """Commits although the caller gets an error: the change is the answer to it."""
        self.kept_on_error = True

    async def _committed(self) -> None:
        await run_after_commit(self._after_commit)


async def run_after_commit(actions: Iterable[AfterCommit]) -> None:
    """What is committed has succeeded, whatever becomes of what follows it."""
    for action in actions:
        try:
            waiting = action()
            if waiting is not None:
                await waiting
        except AgentOSError as error:
            _log.warning("an action after the commit failed: %s", error.code)


class Database:
    """A pool of connections that all log in as the same role."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record]):
        self._pool = pool

    @classmethod
    async def connect(cls, dsn: str, *, size: int, name: str) -> Database:
        with reporting_loss:
            pool = await asyncpg.create_pool(
                dsn,
                min_size=1,
                max_size=size,
                # Nothing may outlive a transaction here, so there is nothing to reset between
                # two uses; asyncpg still rolls back what a cancelled task left open.
                reset=_nothing,
                init=_use_json,
                timeout=5,
                command_timeout=30,
                max_inactive_connection_lifetime=60,
                server_settings={
                    "application_name": name,
                    "jit": "off",
                    "timezone": "UTC",
                    "idle_in_transaction_session_timeout": f"{_MOST_IDLE_SECONDS}s",
                },
            )
        return cls(pool)

    async def close(self) -> None:
        try:
            await asyncio.wait_for(self._pool.close(), 5)
        except TimeoutError:
            self._pool.terminate()

    @property
    def idle(self) -> int:
        return self._pool.get_idle_size()

    @property
    def size(self) -> int:
        return self._pool.get_size()

    @asynccontextmanager
    async def transaction(
        self,
        *,
        tenant_id: UUID | None = None,
        user_id: UUID | None = None,
    ) -> AsyncIterator[Transaction]:
        """A transaction that row-level security sees as this tenant and user."""
        async with self.connection() as connection:
            transaction = Transaction(connection)
            # All of it: whoever is cancelled in the middle of BEGIN may have begun.
            try:
                with reporting_loss:
                    # One round trip for all. Only UUIDs are ever written into this statement.
                    await connection.execute(_begin(tenant_id, user_id))
                yield transaction
                with reporting_loss:
                    await connection.execute("commit")
            except BaseException:
                await _roll_back(connection)
                raise
        await transaction._committed()

    async def fetch(self, query: str, *args: Any) -> list[asyncpg.Record]:
        """One statement that is a transaction of its own. Row-level security sees nobody.

        What it is to see, the statement sets itself, as the functions of the schema do.
        """
        async with self.connection() as connection:
            with reporting_loss:
                return await connection.fetch(query, *args)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.pool.PoolConnectionProxy[asyncpg.Record]]:
        """A bare connection, for what is not a transaction (advisory locks, catalogues)."""
        with reporting_loss:
            # The usual case needs no timer: somebody has to wait only when all are in use.
            waits = self._pool.get_idle_size() == 0
            connection = await self._pool.acquire(timeout=10 if waits else None)
        try:
            yield connection
        finally:
            # The pool throws away what it cannot take back. That the connection is lost by now
            # says nothing about what was done on it, which may be committed.
            with suppress(*_LOST):
                await self._pool.release(connection)


def _begin(tenant_id: UUID | None, user_id: UUID | None) -> str:
    statement = "begin"
    if tenant_id is not None:
        statement += f";set local app.tenant_id='{UUID(int=tenant_id.int)}'"
    if user_id is not None:
        statement += f";set local app.user_id='{UUID(int=user_id.int)}'"
    return statement


async def _roll_back(connection: asyncpg.pool.PoolConnectionProxy[asyncpg.Record]) -> None:
    # A connection lost by now has rolled back by itself; the pool may have taken it back already,
    # and then even asking whether it is closed fails.
    with suppress(*_LOST):
        if not connection.is_closed():
            # Also if no transaction seems to be open: whoever is cancelled in the middle of BEGIN
            # has not heard yet that it has begun.
            await connection.execute("rollback")


async def _nothing(_: object) -> None:
    return None


async def _use_json(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        encoder=lambda value: b"\x01" + msgspec.json.encode(value),
        decoder=lambda data: msgspec.json.decode(data[1:]),
        format="binary",
    )
