"""Refresh tokens against a model: one live generation a sign-in, any reuse ends it, nothing else
does; a browser may bring the token it has just traded once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.conftest import SECRET_KEY, Engines

from agentos.control.auth import service
from agentos.gateway.app import create_gateway
from agentos.gateway.parts import Parts
from agentos.kernel.bus import Bus
from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database
from agentos.kernel.ids import uuid7
from agentos.kernel.objects import ObjectStore
from agentos.kernel.schema import PLATFORM_ROLE, RUNTIME_ROLE
from agentos.kernel.settings import Settings
from agentos.tenancy.tokens import Tokens
from agentos.tenancy.vault.keyring import open_keyring

LIFE = timedelta(days=30)
MOMENT = timedelta(seconds=20)

# Why a sign-in ended, as the audit log says it.
REUSED = "user.refresh_token_reused"
SIGNED_OUT = "user.signed_out"

# Of each sign-in: its generation, whether it is over, its expiry, what is on record of it.
Facts = dict[UUID, tuple[int, bool, datetime, list[str]]]


@dataclass
class Login:
    """What the model knows of one sign-in."""

    id: UUID
    expires_at: datetime
    generation: int = 1
    rotated_at: datetime | None = None
    ended: str | None = None


@dataclass(frozen=True)
class Token:
    login: Login
    generation: int
    expires_at: datetime
    text: str = field(repr=False)


@dataclass
class Api:
    """The gateway without its sockets, in an event loop that the synchronous machine can drive."""

    runner: asyncio.Runner
    client: httpx.AsyncClient
    db: Database
    platform_db: Database
    clock: MovableClock
    tokens: Tokens

    def post(self, path: str, count: int = 1, **body: str) -> list[httpx.Response]:
        async def send() -> list[httpx.Response]:
            return await asyncio.gather(*(self.client.post(path, json=body) for _ in range(count)))

        return self.runner.run(send())

    def refresh_in_browser(self, token: str) -> httpx.Response:
        async def send() -> httpx.Response:
            # The machine keeps the cookies, not the client.
            self.client.cookies.clear()
            return await self.client.post(
                "/api/auth/refresh?cookie=true",
                json={},
                headers={"Origin": "http://test", "Cookie": f"agentos_refresh={token}"},
            )

        return self.runner.run(send())

    def make_user(self, email: str) -> UUID:
        async def make() -> UUID:
            user_id, tenant_id = uuid7(), uuid7()
            async with self.platform_db.transaction() as tx:
                await tx.execute(
                    "insert into users (id, email, name, password_hash) values ($1, $2, 'P', '')",
                    user_id,
                    email,
                )
                await tx.execute(
                    "insert into tenants (id, name, slug) values ($1, 'T', $2)",
                    tenant_id,
                    tenant_id.hex,
                )
                await tx.execute(
                    "insert into members (tenant_id, user_id, role) values ($1, $2, 'owner')",
                    tenant_id,
                    user_id,
                )
            return user_id

        return self.runner.run(make())

    def logins(self, user_id: UUID) -> Facts:
        async def read() -> Facts:
            async with self.platform_db.transaction() as tx:
                rows = await tx.fetch(
                    """select l.id, generation, revoked_at is not null, expires_at,
                              array(select action from audit_log a
                                    where a.target_id = l.id::text order by a.id)
                       from logins l where user_id = $1""",
                    user_id,
                )
            return {row[0]: (row[1], row[2], row[3], row[4]) for row in rows}

        return self.runner.run(read())


class RefreshMachine(RuleBasedStateMachine):
    tokens = Bundle("tokens")

    def __init__(self, api: Api):
        super().__init__()
        self.api = api
        self.logins: dict[UUID, Login] = {}

    @property
    def now(self) -> datetime:
        return self.api.clock.now()

    @initialize(target=tokens)
    def begin(self) -> Token:
        self.email = f"{uuid7().hex}@example.com"
        self.user_id = self.api.make_user(self.email)
        return self.sign_in_again()

    @rule(target=tokens)
    def sign_in(self) -> Token:
        return self.sign_in_again()

    def sign_in_again(self) -> Token:
        (answer,) = self.api.post("/api/auth/token", email=self.email, password="any")
        assert answer.status_code == 200, answer.text
        claims = self.api.tokens.read_refresh(answer.json()["refresh_token"])
        login = Login(claims.login_id, self.now + LIFE)
        self.logins[login.id] = login
        return self.issued(login, answer)

    def issued(self, login: Login, answer: httpx.Response) -> Token:
        text = answer.json()["refresh_token"] or answer.cookies["agentos_refresh"]
        claims = self.api.tokens.read_refresh(text)
        assert (claims.login_id, claims.generation) == (login.id, login.generation)
        return Token(login, login.generation, self.whole(login.expires_at), text)

    def whole(self, moment: datetime) -> datetime:
        """A token says its expiry in whole seconds."""
        return moment.replace(microsecond=0)

    def expected(self, token: Token) -> str | None:
        """The error that this token gets now; None if it is the live one."""
        login = token.login
        if token.expires_at <= self.now:
            return "token_expired"
        if login.ended or login.expires_at <= self.now:
            return "sign_in_ended"
        return None if token.generation == login.generation else "refresh_token_reused"

    @rule(target=tokens, token=tokens)
    def refresh(self, token: Token) -> Token:
        error = self.expected(token)
        event(f"refresh: {error}")
        (answer,) = self.api.post("/api/auth/refresh", refresh_token=token.text)
        if error is None:
            return self.rotated(token.login, answer)
        assert (answer.status_code, answer.json()["code"]) == (401, error)
        if error == "refresh_token_reused":
            token.login.ended = REUSED
        return token

    def rotated(self, login: Login, answer: httpx.Response) -> Token:
        assert answer.status_code == 200, answer.text
        login.generation += 1
        login.rotated_at = self.now
        login.expires_at = self.now + LIFE
        return self.issued(login, answer)

    @rule(target=tokens, token=tokens)
    def refresh_in_browser(self, token: Token) -> Token:
        login, error = token.login, self.expected(token)
        just_traded = (
            error == "refresh_token_reused"
            and token.generation == login.generation - 1
            and login.rotated_at is not None
            and self.now - login.rotated_at <= MOMENT
        )
        event(f"refresh in a browser: {'just traded' if just_traded else error}")
        answer = self.api.refresh_in_browser(token.text)
        if error is None:
            return self.rotated(login, answer)
        if just_traded:
            assert answer.status_code == 200, answer.text
            # The copy has a life of its own, but the sign-in no longer one.
            return replace(self.issued(login, answer), expires_at=self.whole(self.now + LIFE))
        assert (answer.status_code, answer.json()["code"]) == (401, error)
        if error == "refresh_token_reused":
            login.ended = REUSED
        return token

    @rule(target=tokens, token=tokens)
    def refresh_twice_at_once(self, token: Token) -> Token:
        error = self.expected(token)
        event(f"refresh twice: {error}")
        answers = self.api.post("/api/auth/refresh", count=2, refresh_token=token.text)
        codes = {answer.json().get("code") for answer in answers}
        if error is None:
            (won,) = [answer for answer in answers if answer.status_code == 200]
            assert codes == {None, "refresh_token_reused"}
            successor = self.rotated(token.login, won)
            token.login.ended = REUSED
            return successor
        if error == "refresh_token_reused":
            # The slower one may find it ended already.
            assert error in codes
            assert codes <= {error, "sign_in_ended"}
            token.login.ended = REUSED
        else:
            assert codes == {error}
        return token

    @rule(token=tokens)
    def sign_out(self, token: Token) -> None:
        (answer,) = self.api.post("/api/auth/logout", refresh_token=token.text)
        if token.expires_at <= self.now:
            assert answer.status_code == 401
            return
        assert answer.status_code == 204
        token.login.ended = token.login.ended or SIGNED_OUT

    @rule(token=tokens, spoilt=st.sampled_from(["", "x", "."]))
    def try_a_forgery(self, token: Token, spoilt: str) -> None:
        forged = token.text[:-2] + spoilt
        (answer,) = self.api.post("/api/auth/refresh", refresh_token=forged)
        assert (answer.status_code, answer.json()["code"]) == (401, "token_invalid")

    @rule(hours=st.sampled_from([0.001, 0.006, 1, 24, 24 * 16, 24 * 30]))
    def time_passes(self, hours: float) -> None:
        self.api.clock.advance(timedelta(hours=hours))

    @invariant()
    def the_database_agrees(self) -> None:
        if not self.logins:
            return
        assert self.api.logins(self.user_id) == {
            login.id: (
                login.generation,
                login.ended is not None,
                login.expires_at,
                ["user.signed_in", *([login.ended] if login.ended else [])],
            )
            for login in self.logins.values()
        }


@asynccontextmanager
async def _open_api(
    runner: asyncio.Runner, engines: Engines, database: str, settings: Settings
) -> AsyncIterator[Api]:
    clock = MovableClock()
    db = await Database.connect(engines.dsn(RUNTIME_ROLE, database), size=4, name="test")
    platform_db = await Database.connect(engines.dsn(PLATFORM_ROLE, database), size=2, name="test")
    bus = await Bus.connect(engines.nats.url, engines.authority.platform_credentials(), name="test")
    parts = Parts(
        settings=settings,
        secret_key=SECRET_KEY,
        clock=clock,
        db=db,
        platform_db=platform_db,
        bus=bus,
        objects=ObjectStore.open(None, settings.data_dir),
        keyring=open_keyring(settings),
    )
    transport = httpx.ASGITransport(create_gateway(parts))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        tokens = Tokens(SECRET_KEY, clock, timedelta(minutes=15))
        yield Api(runner, client, db, platform_db, clock, tokens)
    await bus.close()
    await platform_db.close()
    await db.close()


@pytest.fixture
def api(
    engines: Engines, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Api]:
    async def verify_nothing(_stored: str | None, _password: str) -> bool:
        return True

    # Argon2 is slow on purpose, and passwords are not what this is about.
    monkeypatch.setattr(service, "verify_password", verify_nothing)
    configured = Settings(
        data_dir=tmp_path,
        anonymous_requests_per_minute=10_000_000,
        secret_key=None,
        refresh_token_days=LIFE.days,
    )
    with asyncio.Runner() as runner:
        opened = _open_api(runner, engines, database, configured)
        yield runner.run(opened.__aenter__())
        runner.run(opened.__aexit__(None, None, None))


def test_refresh_tokens_do_what_the_model_does(api: Api) -> None:
    run_state_machine_as_test(
        lambda: RefreshMachine(api),  # type: ignore[arg-type]  # any factory will do
        settings=settings(
            max_examples=25,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
