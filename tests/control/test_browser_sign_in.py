"""Signing in with cookies: what a browser gets, and what other pages cannot make it do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from http.cookies import Morsel, SimpleCookie

import httpx
import pytest
from tests.conftest import SECRET_KEY
from tests.gateways import Gateway, running_gateway

from agentos.kernel.bus import Bus
from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database
from agentos.kernel.settings import Settings

PASSWORD = "correct horse battery staple"
ADA = {"email": "ada@example.com", "password": PASSWORD}
NEW = ADA | {"name": "Ada", "tenant_name": "Engines", "tenant_slug": "engines"}
FOREIGN: tuple[dict[str, str], ...] = (
    {},
    {"Origin": "null"},
    {"Origin": "https://evil.example"},
)


def cookies_of(answer: httpx.Response) -> dict[str, Morsel[str]]:
    """The cookies an answer sets, with all that it says of them."""
    found: dict[str, Morsel[str]] = {}
    for header in answer.headers.get_list("set-cookie"):
        found.update(SimpleCookie(header))
    return found


@pytest.fixture
async def ada(gateway: Gateway) -> httpx.AsyncClient:
    """A browser in which Ada has just registered."""
    browser = await gateway.client(Origin=gateway.url)
    answer = await browser.post("/api/auth/register?cookie=true", json=NEW)
    assert answer.status_code == 201, answer.text
    return browser


async def test_a_browser_never_sees_its_tokens(gateway: Gateway, ada: httpx.AsyncClient) -> None:
    for path, body in (("token", ADA), ("refresh", {}), ("refresh", {"tenant": "engines"})):
        answer = await ada.post(f"/api/auth/{path}?cookie=true", json=body)
        assert answer.status_code == 200, answer.text
        assert (answer.json()["access_token"], answer.json()["refresh_token"]) == ("", "")
        assert answer.headers["cache-control"] == "no-store"
        access, refresh = cookies_of(answer).values()
        assert (access.key, access["path"], access["max-age"]) == ("agentos_access", "/", "900")
        assert (refresh.key, refresh["path"]) == ("agentos_refresh", "/api/auth")
        assert refresh["max-age"] == str(30 * 86_400)
        for cookie in (access, refresh):
            assert (cookie["httponly"], cookie["samesite"], cookie["secure"]) == (True, "lax", "")
        claims = gateway.tokens.read_refresh(refresh.value)
        assert gateway.tokens.read_access(access.value).login_id == claims.login_id
    assert (await ada.get("/api/auth/me")).json()["email"] == ADA["email"]


async def test_without_cookies_nothing_changes_for_programs(
    gateway: Gateway, ada: httpx.AsyncClient
) -> None:
    program = await gateway.client()
    answer = await program.post("/api/auth/token", json=ADA)
    assert not cookies_of(answer)
    pair = answer.json()
    answer = await program.post("/api/auth/refresh", json={"refresh_token": pair["refresh_token"]})
    assert not cookies_of(answer)
    me = await gateway.client(answer.json()["access_token"])
    assert (await me.get("/api/auth/me")).json()["email"] == ADA["email"]


async def test_an_invitation_can_be_accepted_in_a_browser(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    invited = await owner.client.post("/api/invitations", json={"email": "grace@example.com"})
    browser = await gateway.client(Origin=gateway.url)
    body = {"token": invited.json()["token"], "password": PASSWORD, "name": "Grace"}
    answer = await browser.post("/api/auth/accept-invitation?cookie=true", json=body)
    assert (answer.status_code, answer.json()["access_token"]) == (201, "")
    assert (await browser.get("/api/auth/me")).json()["tenant_id"] == str(owner.tenant_id)


async def test_other_pages_cannot_sign_a_browser_in(
    gateway: Gateway, ada: httpx.AsyncClient
) -> None:
    owner = await gateway.tenant()
    invited = await owner.client.post("/api/invitations", json={"email": "grace@example.com"})
    token = invited.json()["token"]
    pair = (await (await gateway.client()).post("/api/auth/token", json=ADA)).json()
    tried = {
        "token": ADA,
        "register": NEW | {"email": "eve@example.com", "tenant_slug": "evil"},
        "accept-invitation": {"token": token, "password": PASSWORD, "name": "Eve"},
        "refresh": {"refresh_token": pair["refresh_token"]},
    }
    for headers in FOREIGN:
        browser = await gateway.client(**headers)
        for path, body in tried.items():
            answer = await browser.post(f"/api/auth/{path}?cookie=true", json=body)
            assert (answer.status_code, answer.json()["code"]) == (401, "foreign_origin"), path
            assert not cookies_of(answer)
    # None of it has happened.
    browser = await gateway.client(Origin=gateway.url)
    for path, body in tried.items():
        answer = await browser.post(f"/api/auth/{path}?cookie=true", json=body)
        assert answer.is_success, (path, answer.text)


async def test_other_pages_cannot_use_the_refresh_cookie(
    gateway: Gateway, ada: httpx.AsyncClient
) -> None:
    for headers in FOREIGN:
        other = await gateway.client(**headers)
        other.cookies = ada.cookies
        for path in ("refresh?cookie=true", "logout"):
            answer = await other.post(f"/api/auth/{path}", json={})
            assert (answer.status_code, answer.json()["code"]) == (401, "foreign_origin"), path
    assert (await ada.post("/api/auth/refresh?cookie=true", json={})).status_code == 200


async def test_the_cookie_never_becomes_a_token_in_an_answer(ada: httpx.AsyncClient) -> None:
    answer = await ada.post("/api/auth/refresh", json={})
    assert (answer.status_code, answer.json()["code"]) == (401, "no_refresh_token")


async def test_signing_out_ends_the_sign_in_and_drops_both_cookies(
    gateway: Gateway, ada: httpx.AsyncClient
) -> None:
    kept = dict(ada.cookies)
    answer = await ada.post("/api/auth/logout", json={})
    assert answer.status_code == 204
    dropped = cookies_of(answer)
    assert {name: (c["path"], c["max-age"]) for name, c in dropped.items()} == {
        "agentos_access": ("/", "0"),
        "agentos_refresh": ("/api/auth", "0"),
    }
    assert not dict(ada.cookies)
    back = await gateway.client(Origin=gateway.url)
    back.cookies.update(kept)
    answer = await back.post("/api/auth/refresh?cookie=true", json={})
    assert answer.json()["code"] == "sign_in_ended"
    # A browser whose sign-in has ended elsewhere can still forget it.
    assert (await back.post("/api/auth/logout", json={})).status_code == 204
    assert (await ada.post("/api/auth/logout", json={})).status_code == 204
    answer = await ada.post("/api/auth/refresh?cookie=true", json={})
    assert answer.json()["code"] == "no_refresh_token"


async def test_a_program_signs_out_without_touching_cookies(
    gateway: Gateway, ada: httpx.AsyncClient
) -> None:
    program = await gateway.client()
    pair = (await program.post("/api/auth/token", json=ADA)).json()
    answer = await program.post("/api/auth/logout", json={"refresh_token": pair["refresh_token"]})
    assert (answer.status_code, cookies_of(answer)) == (204, {})
    assert (await program.post("/api/auth/logout", json={"refresh_token": "x"})).status_code == 401


# Tabs of one browser ---------------------------------------------------------------------------


async def refreshed(gateway: Gateway, token: str) -> httpx.Response:
    tab = await gateway.client(Origin=gateway.url, Cookie=f"agentos_refresh={token}")
    return await tab.post("/api/auth/refresh?cookie=true", json={})


def new_token(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return cookies_of(answer)["agentos_refresh"].value


async def test_tabs_may_refresh_at_the_same_moment(
    gateway: Gateway, ada: httpx.AsyncClient, clock: MovableClock
) -> None:
    first = ada.cookies["agentos_refresh"]
    second = new_token(await refreshed(gateway, first))
    clock.advance(timedelta(seconds=20))
    copy = new_token(await refreshed(gateway, first))
    # Whichever the browser has kept works; it is one more step, not two.
    generations = [gateway.tokens.read_refresh(token).generation for token in (second, copy)]
    assert generations == [2, 2]
    assert new_token(await refreshed(gateway, copy))


async def test_a_copy_that_comes_later_ends_the_sign_in(
    gateway: Gateway, ada: httpx.AsyncClient, clock: MovableClock
) -> None:
    first = ada.cookies["agentos_refresh"]
    second = new_token(await refreshed(gateway, first))
    stolen = new_token(await refreshed(gateway, first))
    third = new_token(await refreshed(gateway, second))
    clock.advance(timedelta(seconds=21))
    answer = await refreshed(gateway, stolen)
    assert (answer.status_code, answer.json()["code"]) == (401, "refresh_token_reused")
    assert (await refreshed(gateway, third)).json()["code"] == "sign_in_ended"


async def test_only_the_token_just_traded_has_a_moment_more(
    gateway: Gateway, ada: httpx.AsyncClient
) -> None:
    first = ada.cookies["agentos_refresh"]
    new_token(await refreshed(gateway, new_token(await refreshed(gateway, first))))
    answer = await refreshed(gateway, first)
    assert answer.json()["code"] == "refresh_token_reused"


async def test_a_token_in_the_body_has_no_moment_more(
    gateway: Gateway, ada: httpx.AsyncClient
) -> None:
    first = ada.cookies["agentos_refresh"]
    new_token(await refreshed(gateway, first))
    answer = await ada.post("/api/auth/refresh?cookie=true", json={"refresh_token": first})
    assert answer.json()["code"] == "refresh_token_reused"


# Behind a proxy --------------------------------------------------------------------------------


@pytest.fixture
async def behind_proxy(
    settings: Settings, clock: MovableClock, db: Database, platform_db: Database, bus: Bus
) -> AsyncIterator[Gateway]:
    seen = settings.model_copy(update={"public_url": "https://example.com/agentos"})
    async with running_gateway(
        seen, SECRET_KEY, clock=clock, db=db, platform_db=platform_db, bus=bus
    ) as running:
        yield running


async def test_cookies_stay_below_the_public_address(behind_proxy: Gateway) -> None:
    browser = await behind_proxy.client(Origin="https://example.com")
    answer = await browser.post("/api/auth/register?cookie=true", json=NEW)
    assert answer.status_code == 201, answer.text
    access, refresh = cookies_of(answer).values()
    assert (access["path"], access["secure"]) == ("/agentos/", True)
    assert (refresh["path"], refresh["secure"]) == ("/agentos/api/auth", True)
