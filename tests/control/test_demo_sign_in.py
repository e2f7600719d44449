"""The demo's door without a key: who finds it, and who finds a wall."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import httpx
import pytest
from starlette.requests import Request
from tests.conftest import SECRET_KEY
from tests.gateways import Gateway, running_gateway

from agentos import __version__
from agentos.control.auth.demo import DemoEntrance, asks_from_this_machine
from agentos.control.platform.demo import Demo, ensure_demo
from agentos.kernel.bus import Bus
from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database
from agentos.kernel.outbox import Outbox
from agentos.kernel.settings import Settings

Open = Callable[..., Awaitable[Gateway]]


@pytest.fixture
async def demo(platform_db: Database, clock: MovableClock) -> Demo:
    made = await ensure_demo(platform_db, SECRET_KEY, Outbox(lambda: None), clock)
    assert made is not None
    return made


@pytest.fixture
async def open_gateway(
    settings: Settings,
    clock: MovableClock,
    db: Database,
    platform_db: Database,
    bus: Bus,
    demo: Demo,
) -> AsyncIterator[Open]:
    """A gateway with the demo, by settings like these."""
    async with AsyncExitStack() as stack:

        async def start(*, with_demo: bool = True, **changed: object) -> Gateway:
            running = running_gateway(
                settings.model_copy(update=changed),
                SECRET_KEY,
                clock=clock,
                db=db,
                platform_db=platform_db,
                bus=bus,
                demo=demo if with_demo else None,
            )
            return await stack.enter_async_context(running)

        yield start


async def offered(gateway: Gateway, **headers: str) -> bool:
    answer = await (await gateway.client(**headers)).get("/api/auth/options")
    assert answer.status_code == 200, answer.text
    return bool(answer.json()["demo"])


async def sign_in(gateway: Gateway, **headers: str) -> httpx.Response:
    browser = await gateway.client(**{"Origin": gateway.url} | headers)
    return await browser.post("/api/auth/demo?cookie=true")


def assert_walled(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.json()["code"]) == (404, "demo_unavailable")
    assert "set-cookie" not in answer.headers


async def test_the_options_say_what_there_is(open_gateway: Open, gateway: Gateway) -> None:
    invited = await open_gateway(signup="invite")
    answer = await (await invited.client()).get("/api/auth/options")
    assert answer.json() == {"signup": "invite", "demo": True, "version": __version__}
    answer = await (await gateway.client()).get("/api/auth/options")
    assert answer.json() == {"signup": "open", "demo": False, "version": __version__}


async def test_one_click_signs_the_demo_owner_in(
    open_gateway: Open, demo: Demo, superuser: asyncpg.Connection[Any]
) -> None:
    gateway = await open_gateway()
    browser = await gateway.client(Origin=gateway.url)
    answer = await browser.post("/api/auth/demo?cookie=true")
    assert (answer.status_code, answer.json()["access_token"]) == (200, "")
    assert demo.password not in answer.text + str(answer.headers)
    who = (await browser.get("/api/auth/me")).json()
    assert (who["email"], who["role"], who["tenant_slug"]) == (demo.email, "owner", "demo")
    action = await superuser.fetchval(
        "select action from audit_log where request_id = $1", answer.headers["x-request-id"]
    )
    assert action == "user.signed_in"


async def test_it_goes_by_each_name_of_this_machine(open_gateway: Open) -> None:
    gateway = await open_gateway()
    port = gateway.url.rpartition(":")[2]
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", "localhost"):
        assert await offered(gateway, Host=host), host
        answer = await sign_in(gateway, Host=host, Origin=f"http://{host}")
        assert answer.status_code == 200, (host, answer.text)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example", "Origin": "http://evil.example"},
        {"Host": "localhost.evil.example", "Origin": "http://localhost.evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "127.0.0.1:1@evil.example"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"X-Forwarded-Host": "localhost"},
        {"Forwarded": "for=127.0.0.1"},
        {"X-Real-IP": "127.0.0.1"},
        {"Via": "1.1 proxy"},
    ],
)
async def test_nobody_elsewhere_gets_in(open_gateway: Open, headers: dict[str, str]) -> None:
    gateway = await open_gateway()
    assert not await offered(gateway, **headers)
    assert_walled(await sign_in(gateway, **headers))


@pytest.mark.parametrize(
    "origin", ["", "null", "https://evil.example", "http://localhost:1", "ftp://127.0.0.1"]
)
async def test_other_pages_do_not_get_in(open_gateway: Open, origin: str) -> None:
    # Not even those that may use the API otherwise.
    gateway = await open_gateway(cors_origins=["https://evil.example"])
    assert_walled(await sign_in(gateway, Origin=origin))


@pytest.mark.parametrize(
    "changed",
    [
        {"with_demo": False},
        {"host": "0.0.0.0"},
        {"host": "192.0.2.1"},
        {"public_url": "https://agentos.example"},
    ],
)
async def test_an_installation_for_others_has_no_such_door(
    open_gateway: Open, changed: dict[str, Any]
) -> None:
    gateway = await open_gateway(**changed)
    assert not await offered(gateway)
    assert_walled(await sign_in(gateway))


async def test_a_password_of_ones_own_locks_it(open_gateway: Open, demo: Demo) -> None:
    gateway = await open_gateway()
    browser = await gateway.client(Origin=gateway.url)
    assert (await browser.post("/api/auth/demo?cookie=true")).status_code == 200
    assert await offered(gateway)
    body = {"current_password": demo.password, "new_password": "one of my own making"}
    assert (await browser.post("/api/auth/password", json=body)).status_code == 204
    assert not await offered(gateway)
    assert_walled(await sign_in(gateway))


def _asked_by(client: tuple[str, int] | None, *headers: tuple[bytes, bytes]) -> bool:
    scope = {"type": "http", "client": client, "headers": list(headers)}
    return asks_from_this_machine(Request(scope))


def test_the_address_of_the_caller_counts() -> None:
    host = (b"host", b"localhost")
    for local in ("127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"):
        assert _asked_by((local, 1), host), local
    for other in ("192.0.2.7", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1", "nonsense"):
        assert not _asked_by((other, 1), host), other
    assert not _asked_by(None, host)
    assert not _asked_by(("127.0.0.1", 1))
    assert not _asked_by(("127.0.0.1", 1), host, (b"host", b"evil.example"))


def test_the_password_is_not_in_what_is_printed(settings: Settings) -> None:
    entrance = DemoEntrance.of(settings, "owner@demo.example", "hush")
    assert entrance is not None
    assert "hush" not in repr(entrance)
