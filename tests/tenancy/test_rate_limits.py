from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from tests.conftest import SECRET_KEY
from tests.gateways import Gateway, running_gateway

from agentos.kernel.bus import Bus
from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database
from agentos.kernel.ids import TenantId
from agentos.kernel.settings import Settings
from agentos.tenancy import rate_limits
from agentos.tenancy.plans import PLANS
from agentos.tenancy.rate_limits import RateLimited, RateLimiter

ANONYMOUS = 5


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, anonymous_requests_per_minute=ANONYMOUS, secret_key=None)


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases do not run out while a slow machine runs a test."""
    monkeypatch.setattr(rate_limits, "_LEASE_SECONDS", 3600.0)


@pytest.fixture(autouse=True)
async def no_refill(superuser: asyncpg.Connection[Any]) -> None:
    """Buckets that never fill up again: what is granted is then exact, however long it takes."""
    await superuser.execute(
        """alter function take_tokens rename to take_tokens_in_time;
           create function take_tokens(bucket text, want integer, capacity float8, per_second float8)
           returns table (granted integer, remaining float8) language sql as
           $$ select * from take_tokens_in_time(bucket, want, capacity, 0) $$"""
    )


async def spend(limiter: RateLimiter, times: int, per_minute: int, bucket: str = "b") -> int:
    """Asks this many times at once, and says how often it was allowed."""

    async def once() -> bool:
        try:
            await limiter.take(bucket, per_minute)
        except RateLimited:
            return False
        return True

    return sum(await asyncio.gather(*(once() for _ in range(times))))


# The limiter ---------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", ["free", "pro"])
async def test_a_burst_gets_exactly_what_the_plan_allows(db: Database, plan: str) -> None:
    limit = PLANS[plan].requests_per_minute
    limiter = RateLimiter(db)
    # In waves, so that many ask at once while there is no lease.
    allowed = [await spend(limiter, limit // 10, limit) for _ in range(12)]
    assert sum(allowed) == limit
    assert allowed[-1] == 0


@pytest.mark.parametrize("limit", [1, 7, 49, 99])
async def test_small_limits_are_exact(db: Database, limit: int) -> None:
    assert await spend(RateLimiter(db), limit * 2, limit) == limit


async def test_two_processes_share_one_limit(db: Database, platform_db: Database) -> None:
    limit, lease = 600, 600 // rate_limits._LEASE_PART
    one, other = RateLimiter(db), RateLimiter(db)
    allowed = 0
    for _ in range(40):
        allowed += await spend(one, 10, limit) + await spend(other, 10, limit)
    assert limit - lease <= allowed <= limit
    # What the one holds back, it gives out itself.
    allowed += await spend(one, lease, limit) + await spend(other, lease, limit)
    assert allowed == limit


async def test_a_burst_in_one_process_leaves_the_rest_to_the_others(db: Database) -> None:
    limit, lease = 600, 600 // rate_limits._LEASE_PART
    one, other = RateLimiter(db), RateLimiter(db)
    assert await spend(one, 50, limit) == 50
    assert await spend(other, limit, limit) >= limit - 50 - lease


async def test_what_is_not_used_in_time_is_not_lost(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits, "_LEASE_SECONDS", -1.0)
    limiter = RateLimiter(db)
    allowed = 0
    for _ in range(130):
        allowed += await spend(limiter, 1, 100)
    assert allowed == 100


async def test_buckets_do_not_touch_each_other(db: Database) -> None:
    limiter = RateLimiter(db)
    assert await spend(limiter, 20, 10, "one") == 10
    assert await spend(limiter, 20, 10, "other") == 10


@pytest.mark.parametrize("limit", [0, 2**53])
async def test_the_limits_at_the_ends_work(db: Database, limit: int) -> None:
    assert await spend(RateLimiter(db), 5, limit) == min(limit, 5)


async def test_the_bucket_fills_up_again(db: Database, superuser: asyncpg.Connection[Any]) -> None:
    async def take() -> tuple[int, float]:
        row = await superuser.fetchrow("select * from take_tokens_in_time('b', 5, 10, 0.1)")
        assert row is not None
        return row["granted"], row["remaining"]

    assert (await take())[0] == 5
    assert (await take())[0] == 5
    assert (await take())[0] == 0
    await superuser.execute("update rate_buckets set at = at - interval '30 seconds'")
    granted, remaining = await take()
    assert granted == 3
    assert remaining < 1
    # Never fuller than full, and a clock that went back takes nothing away.
    await superuser.execute("update rate_buckets set at = at - interval '1 day'")
    assert (await take()) == (5, 5)
    await superuser.execute("update rate_buckets set at = at + interval '1 day'")
    assert (await take()) == (5, 0)


# The edge ------------------------------------------------------------------------------------


async def limited_to(gateway: Gateway, tenant_id: TenantId, requests: int) -> None:
    async with gateway.parts.platform_db.transaction() as tx:
        await tx.execute(
            "update tenants set limits = $2 where id = $1",
            tenant_id,
            {"requests_per_minute": requests},
        )


async def test_an_answer_says_how_much_is_left(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    await limited_to(gateway, owner.tenant_id, 10)
    for left in (9, 8, 7):
        answer = await owner.client.get("/api/auth/me")
        assert answer.headers["ratelimit-limit"] == "10"
        assert answer.headers["ratelimit-remaining"] == str(left)
        assert answer.headers["ratelimit-reset"] == str((10 - left) * 6)


async def test_too_many_are_told_when_to_come_back(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    await limited_to(gateway, owner.tenant_id, 10)
    answers = await asyncio.gather(*(owner.client.get("/api/auth/me") for _ in range(15)))
    assert Counter(answer.status_code for answer in answers) == {200: 10, 429: 5}
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["code"] == "rate_limited"
    assert refused.headers["retry-after"] == "6"
    assert refused.headers["ratelimit-limit"] == "10"
    assert refused.headers["ratelimit-remaining"] == "0"


async def test_a_limit_of_nothing_refuses_everything(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    await limited_to(gateway, owner.tenant_id, 0)
    assert (await owner.client.get("/api/auth/me")).status_code == 429


async def test_each_principal_has_a_limit_of_its_own(gateway: Gateway) -> None:
    owner, stranger = await gateway.tenant(), await gateway.tenant()
    await limited_to(gateway, owner.tenant_id, 3)
    robot = await gateway.client(await gateway.api_key(owner.tenant_id))
    for client in (owner.client, robot):
        answers = [await client.get("/api/auth/me") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert (await stranger.client.get("/api/auth/me")).status_code == 200


async def test_two_gateways_share_the_limit(
    gateway: Gateway,
    settings: Settings,
    clock: MovableClock,
    db: Database,
    platform_db: Database,
    bus: Bus,
) -> None:
    owner = await gateway.tenant()
    await limited_to(gateway, owner.tenant_id, 20)
    async with running_gateway(
        settings, SECRET_KEY, clock=clock, db=db, platform_db=platform_db, bus=bus
    ) as second:
        clients = (owner.client, await second.client(owner.token))
        answers = await asyncio.gather(
            *(client.get("/api/auth/me") for _ in range(20) for client in clients)
        )
    assert Counter(answer.status_code for answer in answers) == {200: 20, 429: 20}


# People who have not signed in ---------------------------------------------------------------


async def sign_out(client: httpx.AsyncClient, forwarded_for: str | None = None) -> int:
    """A public request that does nothing."""
    headers = {} if forwarded_for is None else {"X-Forwarded-For": forwarded_for}
    answer = await client.post("/api/auth/logout", json={"refresh_token": "x"}, headers=headers)
    return answer.status_code


async def test_an_address_has_a_limit_before_signing_in(gateway: Gateway) -> None:
    client, other = await gateway.client(), await gateway.client()
    assert [await sign_out(client) for _ in range(ANONYMOUS)] == [401] * ANONYMOUS
    assert await sign_out(other) == 429
    # Whoever has signed in has another bucket.
    owner = await gateway.tenant()
    assert (await owner.client.get("/api/auth/me")).status_code == 200


async def test_a_credential_does_not_help_before_signing_in(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    answers = [await sign_out(owner.client) for _ in range(ANONYMOUS + 1)]
    assert answers == [401] * ANONYMOUS + [429]


async def test_a_caller_cannot_choose_its_address(gateway: Gateway) -> None:
    client = await gateway.client()
    answers = [await sign_out(client, f"10.0.0.{n}") for n in range(ANONYMOUS + 1)]
    assert answers == [401] * ANONYMOUS + [429]


@pytest.fixture
async def behind_proxy(
    settings: Settings, clock: MovableClock, db: Database, platform_db: Database, bus: Bus
) -> AsyncIterator[Gateway]:
    configured = settings.model_copy(update={"trusted_proxies": ["127.0.0.1"]})
    async with running_gateway(
        configured, SECRET_KEY, clock=clock, db=db, platform_db=platform_db, bus=bus
    ) as running:
        yield running


async def test_a_trusted_proxy_names_the_address(behind_proxy: Gateway) -> None:
    client = await behind_proxy.client()
    # Only what the proxy itself has added, the last one, counts; the rest the caller may have sent.
    for n in range(ANONYMOUS):
        assert await sign_out(client, f"1.2.3.{n}, 10.0.0.1") == 401
    assert await sign_out(client, "9.9.9.9, 10.0.0.1") == 429
    assert await sign_out(client, "10.0.0.1, 10.0.0.2") == 401
    assert await sign_out(client) == 401


async def test_a_proxy_that_names_nonsense_breaks_nothing(behind_proxy: Gateway) -> None:
    client = await behind_proxy.client()
    for nonsense in ("x" * 20_000, ",", "\xff", "::1%eth0"):
        answer = await client.post(
            "/api/auth/logout",
            json={"refresh_token": "x"},
            headers=[(b"X-Forwarded-For", nonsense.encode("latin-1"))],
        )
        assert answer.status_code == 401, nonsense[:10]
