"""Connections are shared by all tenants; nothing of one request may be left for the next."""

from __future__ import annotations

import asyncio
import functools
import random
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import asyncpg
import httpx
import pytest

from agentos.gateway.app import create_gateway
from agentos.kernel.database import Database
from tests.gateways import Gateway, Person

TENANTS = 24
REQUESTS = 2_400
AT_ONCE = 100
_MARKS = re.compile(r"mark-[0-9a-f]{32}")


@dataclass(frozen=True)
class Customer:
    """A tenant whose mark is in the name of everything it has."""

    person: Person
    mark: str
    client: httpx.AsyncClient

    def check(self, answer: httpx.Response) -> int:
        """How many things of others an answer shows."""
        return len(set(_MARKS.findall(answer.text)) - {self.mark})


async def customers(gateway: Gateway, count: int) -> list[Customer]:
    made = []
    for _ in range(count):
        person = await gateway.tenant()
        mark = f"mark-{person.tenant_id.hex}"
        for path, body in (
            (f"/api/tenants/{person.tenant_id}", {"name": mark, "slug": mark}),
            ("/api/keys", {"name": mark}),
            ("/api/invitations", {"email": f"{mark}@example.com"}),
        ):
            method = "PATCH" if "tenants" in path else "POST"
            answer = await person.client.request(method, path, json=body)
            assert answer.is_success, answer.text
        made.append(Customer(person, mark, person.client))
    return made


Act = Callable[[Customer, Customer], Coroutine[Any, Any, httpx.Response]]


def _get(path: str) -> Act:
    async def act(who: Customer, _: Customer) -> httpx.Response:
        return await who.client.get(path)

    return act


async def _make_key(who: Customer, _: Customer) -> httpx.Response:
    return await who.client.post("/api/keys", json={"name": who.mark})


async def _rename(who: Customer, _: Customer) -> httpx.Response:
    settings = {"settings": {who.mark: random.random()}}
    return await who.client.patch(f"/api/tenants/{who.person.tenant_id}", json=settings)


async def _invalid(who: Customer, _: Customer) -> httpx.Response:
    return await who.client.post("/api/keys", json={"name": 7})


async def _foreign_read(who: Customer, other: Customer) -> httpx.Response:
    return await who.client.get(f"/api/tenants/{other.person.tenant_id}")


async def _foreign_delete(who: Customer, other: Customer) -> httpx.Response:
    return await who.client.delete(f"/api/members/{other.person.user_id}")


async def _failing_statement(who: Customer, other: Customer) -> httpx.Response:
    """Fails in the database, in the middle of its transaction."""
    taken = {"slug": other.mark}
    return await who.client.patch(f"/api/tenants/{who.person.tenant_id}", json=taken)


async def _keyed(who: Customer, _: Customer) -> httpx.Response:
    # The same key for all tenants.
    return await who.client.post(
        "/api/keys", json={"name": who.mark}, headers={"Idempotency-Key": "shared"}
    )


READS: list[Act] = [
    _get("/api/auth/me"),
    _get("/api/keys?limit=5"),
    _get("/api/members"),
    _get("/api/invitations"),
    _get("/api/tenants"),
    _get("/api/plan"),
    _get("/api/audit?limit=5"),
]
ACTS: dict[str, list[Act]] = {
    "read": READS * 2,
    "write": [_make_key, _rename, _keyed] * 2,
    "error": [_invalid, _foreign_read, _foreign_delete, _failing_statement],
}


async def _cancelled(
    act: Act, who: Customer, other: Customer, after: float
) -> httpx.Response | None:
    """The client gives up, wherever the request is then."""
    try:
        async with asyncio.timeout(after):
            return await act(who, other)
    except TimeoutError:
        return None


async def _hung_up(gateway: Gateway, who: Customer) -> None:
    """A client that is gone before the answer."""
    host, port = gateway.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    body = b'{"name": "%s"}' % who.mark.encode()
    writer.write(
        b"POST /api/keys HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer %s\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        % (who.person.token.encode(), len(body), body)
    )
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def assert_pool_is_clean(db: Database, superuser: asyncpg.Connection[Any]) -> None:
    async with AsyncExitStack() as stack:
        # All of them: each is held while the next is asked for.
        for _ in range(db.size):
            connection = await stack.enter_async_context(db.connection())
            assert not connection.is_in_transaction()
            left = await connection.fetchrow(
                """select coalesce(current_setting('app.tenant_id', true), '') as tenant,
                          coalesce(current_setting('app.user_id', true), '') as person,
                          coalesce(current_setting('app.email', true), '') as email,
                          (select count(*) from tenants) as tenants,
                          (select count(*) from api_keys) as keys"""
            )
            assert left is not None
            assert tuple(left) == ("", "", "", 0, 0)
            assert await connection.fetchval("show lock_timeout") == "0"
    open_transactions = await superuser.fetchval(
        """select count(*) from pg_stat_activity
           where datname = current_database() and state like 'idle in transaction%'"""
    )
    assert open_transactions == 0
    locks = await superuser.fetchval(
        """select count(*) from pg_locks where locktype = 'advisory'
           and database = (select oid from pg_database where datname = current_database())"""
    )
    assert locks == 0


async def test_no_answer_shows_anything_of_another_tenant(
    gateway: Gateway, db: Database, superuser: asyncpg.Connection[Any]
) -> None:
    everybody = await customers(gateway, TENANTS)
    dice = random.Random(7)
    room = asyncio.Semaphore(AT_ONCE)
    statuses: Counter[int | str] = Counter()
    foreign = 0

    async def request(number: int) -> None:
        nonlocal foreign
        who, other = dice.sample(everybody, 2)
        kind = dice.choices(["read", "write", "error", "cancel", "hang up"], [50, 20, 15, 10, 5])[0]
        act = dice.choice(ACTS.get(kind, READS + ACTS["write"]))
        async with room:
            if kind == "hang up":
                await _hung_up(gateway, who)
                statuses["hung up"] += 1
                return
            patience = dice.uniform(0.0005, 0.05) if kind == "cancel" else 60
            answer = await _cancelled(act, who, other, patience)
        if answer is None:
            statuses["cancelled"] += 1
            return
        statuses[answer.status_code] += 1
        foreign += who.check(answer)

    await asyncio.gather(*(request(number) for number in range(REQUESTS)))
    assert foreign == 0
    assert not [status for status in statuses if isinstance(status, int) and status >= 500]
    # The test is about nothing unless all of these happened.
    assert statuses[200] > REQUESTS / 3
    assert statuses[201] > 100
    assert statuses[404] > 50
    assert statuses[409] > 20
    assert statuses["cancelled"] > 50
    assert statuses["hung up"] > 50
    await assert_pool_is_clean(db, superuser)
    for customer in everybody:
        names = await superuser.fetch(
            "select name from api_keys where tenant_id = $1", customer.person.tenant_id
        )
        assert {row["name"] for row in names} == {customer.mark}


class Breaker:
    """Cancels a task in the middle of its nth call to the database."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self._task: asyncio.Task[httpx.Response] | None = None
        self._left = 0
        for name in ("execute", "_execute"):
            self._watch(monkeypatch, name)

    def _watch(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        original = getattr(asyncpg.Connection, name)

        @functools.wraps(original)
        async def watched(*args: Any, **kwargs: Any) -> Any:
            task = asyncio.current_task()
            if task is not None and task is self._task:
                self._left -= 1
                if self._left == 0:
                    # Soon: by then the query has been sent, and its answer is awaited.
                    asyncio.get_running_loop().call_soon(task.cancel)
            return await original(*args, **kwargs)

        monkeypatch.setattr(asyncpg.Connection, name, watched)

    async def run(self, work: Coroutine[Any, Any, httpx.Response], at: int) -> bool:
        """Whether there was an nth call to be cancelled in."""
        self._left = at
        self._task = asyncio.create_task(work)
        await asyncio.wait([self._task])
        return self._task.cancelled()


@pytest.mark.parametrize("act", [_rename, _failing_statement, _keyed, READS[1], _foreign_read])
async def test_a_request_cancelled_anywhere_leaves_a_clean_connection(
    gateway: Gateway,
    db: Database,
    superuser: asyncpg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    act: Act,
) -> None:
    one, other = await customers(gateway, 2)
    app = create_gateway(gateway.parts)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=gateway.url) as client:
        client.headers["Authorization"] = f"Bearer {one.person.token}"
        inside = Customer(one.person, one.mark, client)
        breaker = Breaker(monkeypatch)
        calls = 0
        while await breaker.run(act(inside, other), calls + 1):
            calls += 1
            # Whatever was cancelled, the next tenant on the same connection sees only its own.
            answer = await READS[1](other, one)
            assert answer.status_code == 200
            assert other.check(answer) == 0
    await app.close()
    monkeypatch.undo()
    assert calls >= 3, "begin, a statement and commit, or more"
    await assert_pool_is_clean(db, superuser)
