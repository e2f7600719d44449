from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest
from tests.conftest import SECRET_KEY
from tests.gateways import Gateway, Person, running_gateway
from tests.neighbours import THINGS, Neighbour
from tests.test_every_route import OPERATIONS, Operation, fitting_body

from agentos.control.platform.demo import Demo
from agentos.control.tenants import repository as tenants
from agentos.gateway.edge import SECURITY_HEADERS
from agentos.kernel.bus import Bus
from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database, Transaction
from agentos.kernel.errors import NotFound, Unavailable
from agentos.kernel.ids import uuid7
from agentos.kernel.settings import Settings
from agentos.tenancy.principals import Role

OTHER_ORIGIN = "https://app.example"


# Headers -------------------------------------------------------------------------------------


async def answers_of_all_kinds(gateway: Gateway) -> AsyncIterator[httpx.Response]:
    owner = await gateway.tenant()
    anonymous = await gateway.client()
    yield await owner.client.get("/api/auth/me")
    yield await owner.client.post("/api/keys", json={"name": "ci"})
    yield await owner.client.delete(f"/api/auth/logins/{owner.login_id}")
    yield await anonymous.get("/api/openapi.json")
    yield await anonymous.get("/api/auth/me")
    yield await anonymous.post("/api/auth/refresh", json={"refresh_token": "x"})
    person = await gateway.tenant()
    yield await person.client.get(f"/api/tenants/{uuid7()}")
    yield await person.client.get("/api/tenants/nonsense")
    yield await person.client.get("/api/nothing")
    yield await person.client.put("/api/keys")
    yield await person.client.get("/api/platform/tenants")
    yield await person.client.post("/api/keys", content=b"{")
    yield await person.client.post("/api/keys", content=bytes(2_000_000))
    yield await anonymous.get("/health/live")
    yield await anonymous.get("/nothing.txt")


async def test_every_answer_has_a_request_id_and_the_security_headers(gateway: Gateway) -> None:
    seen = set()
    async for answer in answers_of_all_kinds(gateway):
        request_id = answer.headers["x-request-id"]
        assert request_id not in seen
        seen.add(request_id)
        for name, value in SECURITY_HEADERS:
            assert answer.headers[name.decode()] == value.decode(), answer.url
        assert "server" not in answer.headers
        if answer.is_error:
            assert answer.json()["request_id"] == request_id
    assert len(seen) == 15


async def test_a_callers_request_id_is_not_taken_over(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    answer = await owner.client.get("/api/auth/me", headers={"X-Request-Id": "mine"})
    assert answer.headers.get_list("x-request-id") != ["mine"]
    assert len(answer.headers.get_list("x-request-id")) == 1


# Routes --------------------------------------------------------------------------------------


async def test_an_unknown_route_is_only_shown_to_those_who_may_look(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    known = await owner.client.get("/api/nothing")
    assert known.status_code == 404
    assert known.json()["code"] == "no_such_route"
    anonymous = await gateway.client()
    assert (await anonymous.get("/api/nothing")).status_code == 401


async def test_a_wrong_method_names_the_right_ones(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    answer = await owner.client.put("/api/keys")
    assert answer.status_code == 405
    assert answer.json()["code"] == "method_not_allowed"
    assert set(answer.headers["allow"].replace(" ", "").split(",")) <= {"GET", "POST"}


# Size ----------------------------------------------------------------------------------------


async def in_pieces(size: int) -> AsyncIterator[bytes]:
    yield b'{"name": "'
    for _ in range(size // 65536 + 1):
        yield b"x" * 65536
    yield b'"}'


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("declared", [False, True])
async def test_a_body_that_is_too_large_is_refused(
    gateway: Gateway, declared: bool, keyed: bool
) -> None:
    owner = await gateway.tenant()
    limit = gateway.parts.settings.max_request_bytes
    answer = await owner.client.post(
        "/api/keys",
        content=b"x" * (limit + 1) if declared else in_pieces(limit),
        headers={"Idempotency-Key": "k"} if keyed else {},
    )
    assert answer.status_code == 413
    assert answer.json()["code"] == "request_too_large"
    assert answer.json()["limit"] == limit


async def test_only_storing_an_object_may_be_large(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    size = gateway.parts.settings.max_request_bytes + 1
    stored = await owner.client.put("/api/objects/large", content=bytes(size))
    assert stored.status_code == 201, stored.text
    refused = await owner.client.request(
        "DELETE", "/api/objects/large", content=bytes(size), headers={"Idempotency-Key": "k"}
    )
    assert refused.status_code == 413


# Browsers ------------------------------------------------------------------------------------


async def test_without_configuration_no_other_origin_may_read(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    answer = await owner.client.get("/api/auth/me", headers={"Origin": OTHER_ORIGIN})
    assert not [name for name in answer.headers if name.startswith("access-control-")]
    preflight = await owner.client.options(
        "/api/keys", headers={"Origin": OTHER_ORIGIN, "Access-Control-Request-Method": "POST"}
    )
    assert not [name for name in preflight.headers if name.startswith("access-control-")]
    assert preflight.is_error


@pytest.fixture
async def open_to_other(
    settings: Settings, clock: MovableClock, db: Database, platform_db: Database, bus: Bus
) -> AsyncIterator[Gateway]:
    configured = settings.model_copy(update={"cors_origins": [OTHER_ORIGIN]})
    async with running_gateway(
        configured, SECRET_KEY, clock=clock, db=db, platform_db=platform_db, bus=bus
    ) as running:
        yield running


async def test_a_configured_origin_may_read_and_others_may_not(open_to_other: Gateway) -> None:
    owner = await open_to_other.tenant()
    for origin in (OTHER_ORIGIN, "https://evil.example"):
        answer = await owner.client.get("/api/auth/me", headers={"Origin": origin})
        allowed = answer.headers.get("access-control-allow-origin")
        assert allowed == (OTHER_ORIGIN if origin == OTHER_ORIGIN else None)
        preflight = await owner.client.options(
            "/api/keys",
            headers={
                "Origin": origin,
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization,idempotency-key",
            },
        )
        assert preflight.is_success == (origin == OTHER_ORIGIN)


async def test_a_cookie_counts_only_from_our_own_pages(open_to_other: Gateway) -> None:
    gateway = open_to_other
    owner = await gateway.tenant()
    browser = await gateway.client(Cookie=f"theme=dark; agentos_access={owner.token}")
    assert (await browser.get("/api/auth/me")).json()["id"] == str(owner.user_id)
    refused: list[dict[str, str]] = [
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": gateway.url.replace("127.0.0.1", "127.0.0.1.evil.example")},
        {"Origin": gateway.url + "0"},
    ]
    for headers in refused:
        answer = await browser.post("/api/keys", json={"name": "ci"}, headers=headers)
        assert answer.status_code == 401, headers
        assert answer.json()["code"] == "foreign_origin"
    for origin in (gateway.url, OTHER_ORIGIN):
        made = await browser.post("/api/keys", json={"name": "ci"}, headers={"Origin": origin})
        assert made.status_code == 201, origin


async def test_a_header_goes_before_a_cookie(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    client = await gateway.client("nonsense", Cookie=f"agentos_access={owner.token}")
    assert (await client.get("/api/auth/me")).status_code == 401


# One request, one transaction ----------------------------------------------------------------


async def records(superuser: asyncpg.Connection[Any], request_id: str) -> tuple[int, int]:
    """How many audit rows and events a request has left."""
    audits = await superuser.fetchval(
        """select (select count(*) from audit_log where request_id = $1)
                + (select count(*) from platform_audit_log where request_id = $1)""",
        request_id,
    )
    # An event carries no request; what was written in one transaction shares its xmin.
    events = await superuser.fetchval(
        """select count(*) from outbox where xmin in
               (select xmin from audit_log where request_id = $1)""",
        request_id,
    )
    return audits, events


@pytest.mark.parametrize("keyed", [False, True])
async def test_a_failing_commit_is_not_a_success(
    gateway: Gateway,
    superuser: asyncpg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    keyed: bool,
) -> None:
    owner = await gateway.tenant()
    headers = {"Idempotency-Key": "k"} if keyed else {}
    kept = tenants.update

    async def update_and_die(tx: Transaction, tenant_id: UUID, **values: Any) -> asyncpg.Record:
        row = await kept(tx, tenant_id, **values)
        pid = await tx.value("select pg_backend_pid()")
        tx.after_commit(lambda: pytest.fail("it was not committed"))
        dying.append(pid)
        return row

    dying: list[int] = []
    monkeypatch.setattr(tenants, "update", update_and_die)
    end = Transaction.execute

    async def execute(self: Transaction, query: str, *args: Any) -> int:
        count = await end(self, query, *args)
        # The last statement of the route, or of the edge that keeps the answer.
        last = "update idempotency_keys" if keyed else "insert into outbox"
        if dying and last in query:
            await superuser.execute("select pg_terminate_backend($1, 5000)", dying.pop())
        return count

    monkeypatch.setattr(Transaction, "execute", execute)
    path = f"/api/tenants/{owner.tenant_id}"
    answer = await owner.client.patch(path, json={"name": "New"}, headers=headers)
    monkeypatch.undo()
    assert answer.status_code == 503, answer.text
    assert answer.json()["code"] == "database_unavailable"
    assert answer.headers["retry-after"]
    assert await records(superuser, answer.headers["x-request-id"]) == (0, 0)
    assert (await owner.client.get(path)).json()["name"] != "New"
    again = await owner.client.patch(path, json={"name": "New"}, headers=headers)
    assert again.status_code == 200, again.text


async def test_an_unexpected_error_says_nothing_and_leaves_nothing(
    gateway: Gateway, superuser: asyncpg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await gateway.tenant()
    kept = tenants.update

    async def update_and_break(tx: Transaction, tenant_id: UUID, **values: Any) -> asyncpg.Record:
        await kept(tx, tenant_id, **values)
        raise ZeroDivisionError("the password is hunter2")

    monkeypatch.setattr(tenants, "update", update_and_break)
    path = f"/api/tenants/{owner.tenant_id}"
    for headers in ({}, {"Idempotency-Key": "k"}):
        answer = await owner.client.patch(path, json={"name": "New"}, headers=headers)
        assert answer.status_code == 500
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] == "internal"
        assert "hunter2" not in answer.text
        assert "ZeroDivision" not in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert await records(superuser, answer.headers["x-request-id"]) == (0, 0)
    monkeypatch.undo()
    assert (await owner.client.get(path)).json()["name"] != "New"


async def test_a_refused_request_leaves_nothing(
    gateway: Gateway, superuser: asyncpg.Connection[Any]
) -> None:
    owner = await gateway.tenant(plan="free")
    refused = [
        await owner.client.patch(f"/api/members/{owner.user_id}", json={"role": "member"}),
        await owner.client.post("/api/invitations", json={"email": "a@example.com"}),
        await owner.client.delete(f"/api/keys/{uuid7()}"),
    ]
    assert [answer.status_code for answer in refused] == [409, 402, 404]
    for answer in refused:
        assert await records(superuser, answer.headers["x-request-id"]) == (0, 0)
    assert await superuser.fetchval("select count(*) from audit_log") == 0
    assert await superuser.fetchval("select count(*) from outbox") == 0


async def test_a_connection_lost_after_the_commit_is_no_failure(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = asyncpg.Pool.release

    async def lose(pool: asyncpg.Pool[Any], connection: Any) -> None:
        await release(pool, connection)
        raise asyncpg.InterfaceError("connection is closed")

    monkeypatch.setattr(asyncpg.Pool, "release", lose)
    async with db.transaction() as tx:
        assert await tx.value("select 1") == 1
    with pytest.raises(NotFound):
        async with db.transaction() as tx:
            raise NotFound


async def test_what_fails_after_the_commit_is_no_failure(db: Database) -> None:
    ran: list[str] = []

    async def broken() -> None:
        raise Unavailable()

    async with db.transaction() as tx:
        tx.after_commit(broken)
        tx.after_commit(lambda: ran.append("second"))
    assert ran == ["second"]


# Every mutation is on record -----------------------------------------------------------------

WITHOUT_EVENT = {
    # A person's own sign-ins are no events of their tenant: other members are not told of them.
    "POST /api/auth/token",
    "POST /api/auth/demo",
    "POST /api/auth/logout",
    "DELETE /api/auth/logins/{login_id}",
    "POST /api/auth/password",
    # Workers ask for these all the time; nothing is there afterwards that could be read again.
    "POST /api/service-tokens",
    # It is announced when a worker takes it up again, which is when it goes on.
    "POST /api/sessions/{session_id}/resume",
}
# What changes nothing that lasts, or that belongs to no tenant.
WITHOUT_RECORD = {
    "POST /api/auth/refresh": "goes on with a sign-in that is on record",
    "POST /api/events/ticket": "is good for one connection, for seconds",
    "POST /api/models/estimate": "only reckons",
    "POST /api/models/providers/{provider_id}/test": "only asks the provider",
    "POST /api/chains/check": "only says whether it is valid",
    "POST /api/schedules/preview": "only says when it would fire",
}

Call = Callable[[Operation, "Cast"], Awaitable[httpx.Response]]
PASSWORD = "correct horse battery staple"


class Cast:
    """Somebody who may do everything, with things to do it to."""

    def __init__(self, gateway: Gateway, admin: Person, refresh_token: str):
        self.gateway = gateway
        self.admin = admin
        self.things = Neighbour(admin, gateway)
        self.refresh_token = refresh_token

    async def send(self, operation: Operation, body: Any = ..., **names: str) -> httpx.Response:
        path = operation.path.format(**names)
        return await operation.send(self.admin.client, path=path, body=body)


async def _as_described(operation: Operation, cast: Cast) -> httpx.Response:
    return await cast.send(operation)


async def _new_tenant(operation: Operation, cast: Cast) -> httpx.Response:
    """With a slug and an address that nobody has yet."""
    names = {"slug": uuid7().hex, "tenant_slug": uuid7().hex, "email": f"{uuid7().hex}@example.com"}
    fresh = {key: value for key, value in names.items() if key in operation.body}
    return await cast.send(operation, operation.body | fresh)


async def _sign_in(operation: Operation, cast: Cast) -> httpx.Response:
    return await cast.send(operation, {"email": "ada@example.com", "password": PASSWORD})


async def _sign_in_to_demo(operation: Operation, cast: Cast) -> httpx.Response:
    """At a gateway of the same installation that has a demo: this person's."""
    parts = cast.gateway.parts
    demo = Demo("ada@example.com", PASSWORD, "")
    async with running_gateway(
        parts.settings,
        SECRET_KEY,
        clock=parts.clock,
        db=parts.db,
        platform_db=parts.platform_db,
        bus=parts.bus,
        demo=demo,
    ) as other:
        return await operation.send(await other.client(Origin=other.url))


async def _accept(operation: Operation, cast: Cast) -> httpx.Response:
    invited = await cast.admin.client.post("/api/invitations", json={"email": "new@example.com"})
    body = {"token": invited.json()["token"], "password": PASSWORD, "name": "New"}
    return await cast.send(operation, body)


async def _with_refresh_token(operation: Operation, cast: Cast) -> httpx.Response:
    return await cast.send(operation, {"refresh_token": cast.refresh_token})


async def _end_login(operation: Operation, cast: Cast) -> httpx.Response:
    logins = (await cast.admin.client.get("/api/auth/logins")).json()
    other = next(login["id"] for login in logins if login["id"] != str(cast.admin.login_id))
    return await cast.send(operation, login_id=other)


async def _change_password(operation: Operation, cast: Cast) -> httpx.Response:
    body = {"current_password": PASSWORD, "new_password": PASSWORD[::-1]}
    return await cast.send(operation, body)


async def _change_tenant(operation: Operation, cast: Cast) -> httpx.Response:
    return await cast.send(operation, tenant_id=await cast.things.tenant())


async def _on_member(operation: Operation, cast: Cast) -> httpx.Response:
    member = await cast.gateway.member(cast.admin.tenant_id)
    return await cast.send(operation, user_id=str(member.user_id))


async def _on_invitation(operation: Operation, cast: Cast) -> httpx.Response:
    return await cast.send(operation, invitation_id=await cast.things.invitation())


async def _on_key(operation: Operation, cast: Cast) -> httpx.Response:
    return await cast.send(operation, key_id=await cast.things.key())


async def _on_secret(operation: Operation, cast: Cast) -> httpx.Response:
    return await cast.send(operation, name=await cast.things.secret())


async def _on_object(operation: Operation, cast: Cast) -> httpx.Response:
    return await cast.send(operation, key=await cast.things.object())


async def _rotate(operation: Operation, cast: Cast) -> httpx.Response:
    await cast.things.secret()
    return await cast.send(operation)


async def _on_provider(operation: Operation, cast: Cast) -> httpx.Response:
    return await cast.send(operation, provider_id=await cast.things.provider())


async def _change_provider(operation: Operation, cast: Cast) -> httpx.Response:
    body = {"requests_per_minute": 7}
    return await cast.send(operation, body, provider_id=await cast.things.provider())


async def _set_chain(operation: Operation, cast: Cast) -> httpx.Response:
    return await cast.send(operation, {"targets": ["demo/demo"]})


async def _set_price(operation: Operation, cast: Cast) -> httpx.Response:
    body = {"provider": "demo", "model": uuid7().hex, "input": 1, "output": 2}
    return await cast.send(operation, body)


async def _on_price(operation: Operation, cast: Cast) -> httpx.Response:
    return await cast.send(operation, price_id=await cast.things.price())


async def _estimate(operation: Operation, cast: Cast) -> httpx.Response:
    return await cast.send(operation, {"model": "demo", "input_tokens": 1, "max_tokens": 1})


async def _on_budget(operation: Operation, cast: Cast) -> httpx.Response:
    return await cast.send(operation, budget_id=await cast.things.budget())


async def _on_thing(operation: Operation, cast: Cast) -> httpx.Response:
    """On a new thing of the kind that its path names."""
    path = operation.path_of(await THINGS[operation.path][0](cast.things))
    return await operation.send(cast.admin.client, path=path)


async def _fitting(operation: Operation, cast: Cast) -> httpx.Response:
    return await cast.send(operation, await fitting_body(operation, cast.things))


async def _rename_team(operation: Operation, cast: Cast) -> httpx.Response:
    return await cast.send(operation, {"name": uuid7().hex}, team_id=await cast.things.team())


# In this order; a mutation that is not here fails the walk.
CALLS: dict[str, Call] = {
    "POST /api/auth/token": _sign_in,
    "POST /api/auth/demo": _sign_in_to_demo,
    "POST /api/auth/register": _new_tenant,
    "POST /api/auth/accept-invitation": _accept,
    "POST /api/auth/refresh": _with_refresh_token,
    "POST /api/auth/logout": _with_refresh_token,
    "DELETE /api/auth/logins/{login_id}": _end_login,
    "POST /api/auth/password": _change_password,
    "PATCH /api/tenants/{tenant_id}": _change_tenant,
    "PATCH /api/members/{user_id}": _on_member,
    "DELETE /api/members/{user_id}": _on_member,
    "POST /api/invitations": _as_described,
    "DELETE /api/invitations/{invitation_id}": _on_invitation,
    "POST /api/keys": _as_described,
    "DELETE /api/keys/{key_id}": _on_key,
    "POST /api/service-tokens": _as_described,
    "POST /api/vault/rotate": _rotate,
    "PUT /api/vault/{name}": _on_secret,
    "DELETE /api/vault/{name}": _on_secret,
    "PUT /api/objects/{key}": _on_object,
    "DELETE /api/objects/{key}": _on_object,
    "POST /api/models/estimate": _estimate,
    "POST /api/models/providers": _as_described,
    "PATCH /api/models/providers/{provider_id}": _change_provider,
    "POST /api/models/providers/{provider_id}/test": _on_provider,
    "DELETE /api/models/providers/{provider_id}": _on_provider,
    "PUT /api/models/fallback-chain": _set_chain,
    "DELETE /api/models/fallback-chain": _as_described,
    "PUT /api/models/prices": _set_price,
    "DELETE /api/models/prices/{price_id}": _on_price,
    "PUT /api/budgets": _as_described,
    "DELETE /api/budgets/{budget_id}": _on_budget,
    "POST /api/sessions": _as_described,
    "POST /api/sessions/{session_id}/run": _on_thing,
    "POST /api/sessions/{session_id}/pause": _on_thing,
    "POST /api/sessions/{session_id}/resume": _on_thing,
    "POST /api/sessions/{session_id}/cancel": _on_thing,
    "POST /api/sessions/{session_id}/continue": _on_thing,
    "POST /api/sessions/{session_id}/checkpoints": _on_thing,
    "POST /api/sessions/{session_id}/rollback": _on_thing,
    "POST /api/sessions/{session_id}/fork": _on_thing,
    "POST /api/checkpoints/{checkpoint_id}/restore": _on_thing,
    "POST /api/approvals/{approval_id}/approve": _on_thing,
    "POST /api/approvals/{approval_id}/reject": _on_thing,
    "POST /api/chains": _as_described,
    "POST /api/chains/check": _as_described,
    "POST /api/chains/{chain_id}/run": _on_thing,
    "POST /api/chains/{chain_id}/cancel": _on_thing,
    "POST /api/chains/{chain_id}/retry": _on_thing,
    "PUT /api/tools/policies": _as_described,
    "DELETE /api/tools/policies/{policy_id}": _on_thing,
    "POST /api/teams": _fitting,
    "POST /api/teams/import": _fitting,
    "PATCH /api/teams/{team_id}": _rename_team,
    "DELETE /api/teams/{team_id}": _on_thing,
    "PUT /api/teams/{team_id}/leader": _on_thing,
    "PUT /api/teams/{team_id}/workers/{name}": _on_thing,
    "DELETE /api/teams/{team_id}/workers/{name}": _on_thing,
    "POST /api/teams/{team_id}/deploy": _on_thing,
    "POST /api/teams/{team_id}/stop": _on_thing,
    "POST /api/teams/{team_id}/restart": _on_thing,
    "POST /api/team-templates/{template_id}/create": _on_thing,
    "POST /api/teams/{team_id}/messages": _on_thing,
    "POST /api/teams/{team_id}/messages/{message_id}/cancel": _on_thing,
    "POST /api/schedules": _fitting,
    "POST /api/schedules/preview": _as_described,
    "PATCH /api/schedules/{schedule_id}": _on_thing,
    "DELETE /api/schedules/{schedule_id}": _on_thing,
    "POST /api/schedules/{schedule_id}/pause": _on_thing,
    "POST /api/schedules/{schedule_id}/resume": _on_thing,
    "POST /api/schedules/{schedule_id}/run": _on_thing,
    "POST /api/webhooks": _fitting,
    "PATCH /api/webhooks/{webhook_id}": _on_thing,
    "DELETE /api/webhooks/{webhook_id}": _on_thing,
    "POST /api/webhooks/{webhook_id}/rotate": _on_thing,
    "POST /api/hooks/{token}": _on_thing,
    "POST /api/post-actions": _fitting,
    "PATCH /api/post-actions/{post_action_id}": _on_thing,
    "DELETE /api/post-actions/{post_action_id}": _on_thing,
    "POST /api/platform/tenants": _new_tenant,
    "PATCH /api/platform/tenants/{tenant_id}": _change_tenant,
    "POST /api/events/ticket": _as_described,
}


async def test_every_mutation_is_on_record_and_announced(
    gateway: Gateway, superuser: asyncpg.Connection[Any]
) -> None:
    anonymous = await gateway.client()
    registered = await anonymous.post(
        "/api/auth/register",
        json={
            "email": "ada@example.com",
            "name": "Ada",
            "password": PASSWORD,
            "tenant_name": "Ada",
            "tenant_slug": "ada",
        },
    )
    pair = registered.json()
    await superuser.execute("update users set platform_admin = true")
    await superuser.execute("update tenants set plan = 'pro'")
    person = gateway.tokens.read_access(pair["access_token"])
    admin = Person(
        person.tenant_id,
        person.user_id,
        person.login_id,
        "ada@example.com",
        pair["access_token"],
        await gateway.client(pair["access_token"]),
    )
    # The walk signs out with this one, not with the one it works as.
    signed_in = await anonymous.post(
        "/api/auth/token", json={"email": "ada@example.com", "password": PASSWORD}
    )
    cast = Cast(gateway, admin, signed_in.json()["refresh_token"])
    mutations = {op.name: op for op in OPERATIONS if op.method != "GET"}
    assert set(mutations) <= set(CALLS)
    for name, operation in mutations.items():
        answer = await CALLS[name](operation, cast)
        assert answer.is_success, (name, answer.text)
        audits, events = await records(superuser, answer.headers["x-request-id"])
        if name in WITHOUT_RECORD:
            assert (audits, events) == (0, 0), name
            continue
        assert audits >= 1, name
        assert (events >= 1) == (name not in WITHOUT_EVENT), name
        row = await superuser.fetchrow(
            "select * from audit_log where request_id = $1 limit 1", answer.headers["x-request-id"]
        )
        assert row is not None
        assert row["actor_id"], name
        assert row["action"], name


async def test_requests_at_once_do_not_share_a_request_id(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    answers = await asyncio.gather(
        *(owner.client.post("/api/invitations", json={"email": "x"}) for _ in range(20))
    )
    assert len({answer.headers["x-request-id"] for answer in answers}) == 20
    admin = await gateway.member(owner.tenant_id, role=Role.ADMIN)
    for answer in answers:
        assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert (await admin.client.get("/api/auth/me")).status_code == 200
