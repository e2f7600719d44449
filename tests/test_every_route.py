"""Walks the OpenAPI document, so that no new route can forget who may call it and what it tells."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import jwt
import pytest

from agentos.gateway.app import create_api
from agentos.kernel.clock import MovableClock
from agentos.kernel.ids import LoginId, TenantId, UserId, uuid7
from agentos.tenancy.principals import Role, Scope
from tests.gateways import Gateway
from tests.neighbours import THINGS, Name, Neighbour, path_values
from tests.test_rls_catalogue import GLOBAL_TABLES

# What works without a credential: ways in, and probes.
PUBLIC = {
    "GET /api/auth/options",
    "POST /api/auth/token",
    "POST /api/auth/demo",
    "POST /api/auth/register",
    "POST /api/auth/accept-invitation",
    "POST /api/auth/refresh",
    "POST /api/auth/logout",
    "GET /health/live",
    "GET /health/ready",
}
# What a credential may do that may do nothing else.
NEEDS_NO_SCOPE = {
    "GET /api/auth/me": "everybody may know who they are",
}
# What changes nothing, although it is no GET.
READS = {
    "POST /api/events/ticket": "only opens the stream that events:read may read anyway",
    "POST /api/schedules/preview": "only says when a schedule would fire",
}
# The token in its path is its credential, for whoever has it: many senders can set no header.
HOOK = "POST /api/hooks/{token}"
# These streams do not end by themselves; `Operation.send` only reads their beginning.
ENDLESS = {
    "GET /api/events/stream",
    "GET /api/sessions/{session_id}/live",
    "GET /api/teams/{team_id}/chat",
}


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    parameters: tuple[dict[str, Any], ...]
    body: Any
    content: bytes | None
    schema: dict[str, Any] | None

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def path_parameters(self) -> list[str]:
        return [p["name"] for p in self.parameters if p["in"] == "path"]

    def example_path(self) -> str:
        values = {p["name"]: _example(p["schema"]) for p in self.parameters if p["in"] == "path"}
        return self.path.format(**values)

    def path_of(self, name: Name) -> str:
        """The path of one thing; it may go on to a part of it, which all such things have."""
        return self.path.format(**path_values(self.path, name))

    def example_query(self) -> dict[str, Any]:
        return {
            p["name"]: _example(p["schema"])
            for p in self.parameters
            if p["in"] == "query" and p.get("required")
        }

    async def send(
        self,
        client: httpx.AsyncClient,
        *,
        path: str | None = None,
        body: Any = ...,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """Sends a valid request, but for what is given; checks what holds for every answer."""
        request = client.build_request(
            self.method,
            path or self.example_path(),
            params=self.example_query() | (query or {}),
            json=(self.body if body is ... else body) if self.schema is not None else None,
            content=self.content,
            headers=headers,
        )
        answer = await client.send(request, stream=self.name in ENDLESS)
        if answer.status_code >= 400:
            await answer.aread()
            assert_is_problem(self.name, answer)
        await answer.aclose()
        return answer


def assert_is_problem(name: str, answer: httpx.Response) -> None:
    assert answer.status_code < 500, (name, answer.text)
    assert answer.headers["content-type"] == "application/problem+json", name
    problem = answer.json()
    assert problem["status"] == answer.status_code, name
    assert problem["code"], name
    assert problem["detail"], name
    assert problem["type"] == f"urn:agentos:error:{problem['code']}"
    assert problem["request_id"] == answer.headers["x-request-id"], name


def _example(schema: dict[str, Any]) -> Any:
    """A valid value, from the schema's own examples."""
    schema = _resolved(schema)
    if schema.get("examples"):
        return schema["examples"][0]
    if "default" in schema:
        return schema["default"]
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return _example(schema["anyOf"][0])
    if schema["type"] == "object":
        required = schema.get("required", [])
        properties = schema.get("properties", {})
        return {
            key: _example(value)
            for key, value in properties.items()
            if key in required or value.get("examples")
        }
    if schema["type"] == "string":
        if schema.get("format") == "uuid":
            return str(uuid7())
        return "example".ljust(schema.get("minLength", 0), "x")
    return {"integer": 1, "number": 1.5, "boolean": True, "array": []}[schema["type"]]


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        resolved: dict[str, Any] = document()["components"]["schemas"][name]
        return resolved
    return schema


def _body_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """What describes a body that is given; some may be left out."""
    return _resolved(next(iter(schema.get("anyOf", [schema]))))


@cache
def document() -> dict[str, Any]:
    return create_api().openapi()


def operations() -> Iterator[Operation]:
    for path, methods in document()["paths"].items():
        for method, described in methods.items():
            content = described.get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema")
            yield Operation(
                method.upper(),
                path,
                tuple(described.get("parameters", [])),
                _example(schema) if schema else None,
                b"example" if "application/octet-stream" in content else None,
                _body_schema(schema) if schema else None,
            )


OPERATIONS = tuple(operations())
PROTECTED = tuple(op for op in OPERATIONS if op.name not in PUBLIC)
# What a credential in a header opens.
SCOPED = tuple(op for op in PROTECTED if op.name != HOOK)


def test_exactly_these_operations_are_public() -> None:
    public = {
        f"{method.upper()} {path}"
        for path, methods in document()["paths"].items()
        for method, described in methods.items()
        if described.get("security") == []
    }
    assert public == PUBLIC
    assert all(op.path.startswith("/api/") for op in PROTECTED)


# Who is refused ------------------------------------------------------------------------------


async def test_nothing_works_without_a_valid_credential(
    gateway: Gateway, clock: MovableClock, superuser: asyncpg.Connection[Any]
) -> None:
    owner = await gateway.tenant()
    service = gateway.tokens.service
    refresh = gateway.tokens.refresh
    soon = clock.now() + timedelta(seconds=30)
    expired = [
        await gateway.api_key(owner.tenant_id, expires_at=soon),
        owner.token,
        service(owner.tenant_id, "worker", frozenset(Scope), timedelta(seconds=30)),
    ]
    clock.advance(timedelta(seconds=gateway.parts.settings.access_token_seconds))
    member = await gateway.member(owner.tenant_id, role=Role.OWNER)
    signed_out = await gateway.member(owner.tenant_id, role=Role.OWNER)
    removed = await gateway.member(owner.tenant_id, role=Role.OWNER)
    revoked = await gateway.api_key(owner.tenant_id)
    await superuser.execute("update api_keys set revoked_at = now() where expires_at is null")
    await superuser.execute(
        "update logins set revoked_at = now() where id = $1", signed_out.login_id
    )
    await superuser.execute("delete from members where user_id = $1", removed.user_id)
    stranger = await gateway.tenant()
    bad = {
        "no credential": None,
        "nonsense": "nonsense",
        "not a bearer": "Basic dXNlcjpwYXNz",
        "expired API key": expired[0],
        "expired access token": expired[1],
        "expired service token": expired[2],
        "revoked API key": revoked,
        "unknown API key": revoked[:-4] + "0000",
        "API key of another tenant's name": revoked.replace(
            owner.tenant_id.hex, stranger.tenant_id.hex
        ),
        "token of an ended sign-in": signed_out.token,
        "token of somebody who was removed": removed.token,
        "token for a tenant one is not in": gateway.tokens.access(
            member.user_id, stranger.tenant_id, member.login_id
        ),
        "token with somebody else's sign-in": gateway.tokens.access(
            member.user_id, member.tenant_id, stranger.login_id
        ),
        "refresh token": refresh(
            member.user_id, member.tenant_id, member.login_id, 1, clock.now() + timedelta(days=1)
        ),
        "unsigned": jwt.encode(
            {"sub": str(member.user_id), "exp": 4102444800}, "", "none", {"typ": "access"}
        ),
        "signed by somebody else": jwt.encode(
            {"sub": str(member.user_id), "exp": 4102444800}, "k" * 32, "HS256", {"typ": "access"}
        ),
    }
    client = await gateway.client()
    for kind, credential in bad.items():
        headers = {}
        if credential is not None:
            headers["Authorization"] = credential if " " in credential else f"Bearer {credential}"
        answers = await asyncio.gather(*(op.send(client, headers=headers) for op in PROTECTED))
        for operation, answer in zip(PROTECTED, answers, strict=True):
            assert answer.status_code == 401, (operation.name, kind, answer.text)
            assert answer.headers["www-authenticate"] == "Bearer"
            assert credential is None or credential not in answer.text
    assert (await member.client.get("/api/auth/me")).status_code == 200


async def test_a_key_without_scopes_can_do_nothing(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    client = await gateway.client(await gateway.api_key(owner.tenant_id, frozenset()))
    for operation in SCOPED:
        answer = await operation.send(client)
        expected = 200 if operation.name in NEEDS_NO_SCOPE else 403
        assert answer.status_code == expected, (operation.name, answer.text)


async def test_reading_scopes_change_nothing(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    reading = frozenset(scope for scope in Scope if scope.endswith(":read"))
    client = await gateway.client(await gateway.api_key(owner.tenant_id, reading))
    for operation in SCOPED:
        if operation.method != "GET" and operation.name not in READS:
            answer = await operation.send(client)
            assert answer.status_code == 403, (operation.name, answer.text)


async def test_platform_routes_are_for_platform_admins(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    admin = await gateway.member(owner.tenant_id, role=Role.MEMBER, platform_admin=True)
    others = [
        owner.client,
        (await gateway.member(owner.tenant_id, role=Role.ADMIN)).client,
        (await gateway.member(owner.tenant_id)).client,
        # Also in the admin's tenant: what an admin may do, a key of theirs may not.
        await gateway.client(await gateway.api_key(owner.tenant_id)),
        await gateway.client(
            gateway.tokens.service(
                owner.tenant_id, str(admin.user_id), frozenset(Scope), timedelta(minutes=5)
            )
        ),
    ]
    platform = [op for op in PROTECTED if op.path.startswith("/api/platform/")]
    assert platform
    for operation in platform:
        path = operation.path.format(tenant_id=owner.tenant_id)
        for client in others:
            answer = await operation.send(client, path=path)
            assert answer.status_code == 403, operation.name
        allowed = await operation.send(admin.client, path=path)
        assert allowed.is_success, (operation.name, allowed.text)


# What a foreign id tells ---------------------------------------------------------------------


# Storing under a name makes one's own thing, whether or not a neighbour has one of that name.
STORES = {"PUT /api/vault/{name}": 200, "PUT /api/objects/{key}": 201}
# Templates belong to nobody.
EVERYBODYS = {"POST /api/team-templates/{template_id}/create"}


def test_the_walk_knows_every_parameter() -> None:
    assert {op.path for op in OPERATIONS if op.path_parameters} == set(THINGS)


def told(answer: httpx.Response, name: Name) -> tuple[Any, ...]:
    """Everything an answer says, without what differs from one request to the next."""
    headers = {
        key: value
        for key, value in answer.headers.items()
        if key not in ("date", "x-request-id") and not key.startswith("ratelimit-")
    }
    if not answer.is_error:
        body = answer.json()
        headers.pop("content-length", None)
        own = ("id", "created_at", "updated_at")
        shown = {key: "own" if key in own else value for key, value in body.items()}
        return answer.status_code, headers, repr(shown).replace(str(name), "name")
    request_id = answer.headers["x-request-id"].encode()
    return answer.status_code, headers, answer.content.replace(request_id, b"")


@asynccontextmanager
async def untouched(
    superuser: asyncpg.Connection[Any], tenant_id: UUID, *but: str
) -> AsyncIterator[None]:
    """Fails if the block changed anything of this tenant, but for these tables."""
    tables = [
        row["table_name"]
        for row in await superuser.fetch(
            "select table_name from information_schema.columns "
            "where table_schema = 'public' and column_name = 'tenant_id'"
        )
        # The meter writes the neighbour's own requests down a second later.
        if row["table_name"] not in {*GLOBAL_TABLES, "meters", *but}
    ]

    async def contents() -> dict[str, Any]:
        return {
            table: await superuser.fetchval(
                f"select string_agg(t::text, '' order by t::text) from {table} t where tenant_id = $1",
                tenant_id,
            )
            for table in tables
        }

    before = await contents()
    yield
    assert await contents() == before


async def test_a_foreign_id_is_answered_like_a_missing_one(
    gateway: Gateway, superuser: asyncpg.Connection[Any]
) -> None:
    owner, neighbour = await gateway.tenant(), Neighbour(await gateway.tenant(), gateway)
    robot = await gateway.client(await gateway.api_key(owner.tenant_id))
    for operation in SCOPED:
        if not operation.path_parameters or operation.name in EVERYBODYS:
            continue
        make, missing = THINGS[operation.path]
        for client in (owner.client, robot):
            theirs = await make(neighbour)
            answers = []
            async with untouched(superuser, neighbour.person.tenant_id):
                for name in (theirs, missing()):
                    path = operation.path_of(name)
                    answers.append(told(await operation.send(client, path=path), name))
            assert answers[0] == answers[1], operation.name
            status = answers[0][0]
            if operation.path.startswith("/api/platform/"):
                assert status == 403, operation.name
            elif operation.name in STORES:
                assert status == STORES[operation.name], operation.name
            else:
                # 403 where only people have such things, whosever it is.
                expected = {404} if client is owner.client else {404, 403}
                assert status in expected, (operation.name, answers)


async def test_a_message_is_found_only_with_its_own_team(gateway: Gateway) -> None:
    own = Neighbour(await gateway.tenant(), gateway)
    theirs = await Neighbour(await gateway.tenant(), gateway).ended_message()
    team, message = await own.ended_message()
    mixed = [(team, theirs[1]), (theirs[0], message), (await own.team(), message)]
    for operation in (op for op in SCOPED if "message_id" in op.path_parameters):
        missing = operation.path_of((team, str(uuid7())))
        expected = told(await operation.send(own.person.client, path=missing), "")
        assert expected[0] == 404, operation.name
        for names in mixed:
            answer = await operation.send(own.person.client, path=operation.path_of(names))
            if operation.name.endswith("/cancel") and names[0] == theirs[0]:
                assert answer.json()["code"] == "team_not_found"
            else:
                assert told(answer, "") == expected, (operation.name, names)


async def test_the_token_in_its_path_is_the_credential_of_a_webhook(gateway: Gateway) -> None:
    hook = next(op for op in PROTECTED if op.name == HOOK)
    neighbour, stranger = Neighbour(await gateway.tenant(), gateway), await gateway.tenant()
    right = await neighbour.hook()
    wrong = [
        right[:-4] + "0000",
        right.replace(neighbour.person.tenant_id.hex, stranger.tenant_id.hex),
        str(THINGS[hook.path][1]()),
        right.replace("whk_", "sk_"),
        "nonsense",
    ]
    # Whatever else they send: it neither opens a webhook nor keeps it closed.
    clients = [
        await gateway.client(),
        await gateway.client("nonsense"),
        await gateway.client(await gateway.api_key(stranger.tenant_id, frozenset())),
        neighbour.person.client,
    ]
    for client in clients:
        answer = await hook.send(client, path=hook.path_of(right))
        assert answer.status_code == 202, answer.text
        refused = [await hook.send(client, path=hook.path_of(token)) for token in wrong]
        assert [answer.status_code for answer in refused] == [401] * len(wrong)
        # Those with the shape of a webhook's token are refused alike.
        assert len({str(told(answer, "")) for answer in refused[:3]}) == 1
        assert all(right[5:] not in answer.text for answer in refused)


async def test_the_token_of_a_webhook_opens_nothing_else(gateway: Gateway) -> None:
    neighbour = Neighbour(await gateway.tenant(), gateway)
    client = await gateway.client(await neighbour.hook())
    for operation in SCOPED:
        answer = await operation.send(client)
        assert answer.status_code == 403, (operation.name, answer.text)


async def test_the_neighbours_own_things_are_there(gateway: Gateway) -> None:
    """The walk above would prove nothing if its things could not be found at all."""
    neighbour = Neighbour(await gateway.tenant(), gateway)
    for operation in PROTECTED:
        if operation.path_parameters and not operation.path.startswith("/api/platform/"):
            make, _ = THINGS[operation.path]
            path = operation.path_of(await make(neighbour))
            answer = await operation.send(neighbour.person.client, path=path)
            # Their only owner cannot leave, and ending this sign-in would end the test.
            if operation.path != "/api/members/{user_id}" and "logins" not in operation.path:
                assert answer.is_success, (operation.name, answer.text)
            else:
                assert answer.status_code != 404, operation.name
                neighbour = replace(neighbour, person=await gateway.tenant())


# Which credential does what -------------------------------------------------------------------

# What sessions and their tools are used with, and teams.
PULSE = ("/api/sessions", "/api/checkpoints", "/api/approvals", "/api/chains", "/api/tools")
CREWS = ("/api/team", "/api/schedules", "/api/webhooks", "/api/runs", "/api/post-actions")
AGENTS = tuple(op for op in SCOPED if op.path.startswith((*PULSE, *CREWS)))
# Where it is not one scope by the path: whoever makes something of their own to act needs the right
# to act like that, and post-actions and runs belong to a schedule or to a webhook.
SCOPES = {
    "POST /api/sessions/{session_id}/fork": {Scope.SESSIONS_READ, Scope.SESSIONS_WRITE},
    "POST /api/schedules": {Scope.SCHEDULES_WRITE, Scope.SESSIONS_WRITE},
    "POST /api/schedules/preview": {Scope.SCHEDULES_READ},
    "POST /api/webhooks": {Scope.WEBHOOKS_WRITE, Scope.SESSIONS_WRITE},
    "GET /api/post-actions": {Scope.SCHEDULES_READ, Scope.WEBHOOKS_READ},
}


def needed(operation: Operation) -> frozenset[Scope]:
    """The scopes that an operation of sessions or teams takes, no more and no fewer."""
    if operation.name in SCOPES:
        return frozenset(SCOPES[operation.name])
    reads, parts = operation.method == "GET", operation.path.split("/")[2:]
    if parts[0] == "approvals" and not reads:
        return frozenset({Scope.APPROVALS_WRITE})
    noun = {
        "tools": "tools",
        "teams": "messages" if {"messages", "chat"} & set(parts) else "teams",
        "team-templates": "teams",
        "schedules": "schedules",
        "runs": "schedules",
        "post-actions": "schedules",
        "webhooks": "webhooks",
    }.get(parts[0], "sessions")
    return frozenset({Scope(f"{noun}:{'read' if reads else 'write'}")})


async def fitting_body(operation: Operation, neighbour: Neighbour) -> Any:
    """The example, with what has to be there or must not: a thing it names, a name that is taken."""
    if operation.name == "POST /api/post-actions":
        return operation.body | {"schedule_id": await neighbour.schedule()}
    if operation.method == "POST" and operation.path in NAMED:
        return operation.body | {"name": uuid7().hex}
    return operation.body


# No two things of a tenant have the same name here.
NAMED = {"/api/teams", "/api/teams/import", "/api/schedules", "/api/webhooks"}


async def test_operations_of_agents_take_their_scopes_and_no_others(
    gateway: Gateway, superuser: asyncpg.Connection[Any]
) -> None:
    neighbour = Neighbour(await gateway.tenant(), gateway)
    tenant_id = neighbour.person.tenant_id
    with_scopes: dict[frozenset[Scope], httpx.AsyncClient] = {}
    for operation in AGENTS:
        path, body = None, await fitting_body(operation, neighbour)
        if operation.path_parameters:
            path = operation.path_of(await THINGS[operation.path][0](neighbour))
        scopes = needed(operation)
        for held in [*(frozenset(Scope) - {scope} for scope in scopes), scopes]:
            if held not in with_scopes:
                key = await gateway.api_key(tenant_id, held)
                with_scopes[held] = await gateway.client(key)
        for scope in scopes:
            # A key's last use is written down beside the request.
            async with untouched(superuser, tenant_id, "api_keys"):
                client = with_scopes[frozenset(Scope) - {scope}]
                answer = await operation.send(client, path=path, body=body)
            assert answer.status_code == 403, (operation.name, scope, answer.text)
        answer = await operation.send(with_scopes[scopes], path=path, body=body)
        assert answer.is_success, (operation.name, answer.text)


async def test_a_foreign_id_in_a_filter_or_a_body_finds_nothing(gateway: Gateway) -> None:
    owner, neighbour = await gateway.tenant(), Neighbour(await gateway.tenant(), gateway)
    approval, chain = await neighbour.approval(), await neighbour.chain()
    team, schedule = await neighbour.team(), await neighbour.schedule()
    webhook = await neighbour.webhook()
    about = (await neighbour.person.client.get(f"/api/approvals/{approval}")).json()
    for path, query in (
        ("/api/sessions", {"parent_id": about["session_id"]}),
        ("/api/sessions", {"chain_id": chain}),
        ("/api/approvals", {"session_id": about["session_id"], "state": "all"}),
        ("/api/approvals", {"team_id": team, "state": "all"}),
        ("/api/schedules", {"team_id": team}),
        ("/api/webhooks", {"team_id": team}),
        ("/api/post-actions", {"schedule_id": schedule}),
        ("/api/post-actions", {"webhook_id": webhook}),
    ):
        answer = await owner.client.get(path, params=query)
        assert (answer.status_code, answer.json()["items"]) == (200, []), path
    own = Neighbour(owner, gateway)
    rollback = f"/api/sessions/{await own.ended_session()}/rollback"
    messages = f"/api/teams/{await own.team()}/messages"
    stored = await neighbour.person.client.put("/api/objects/file", content=b"theirs")
    asked = {"name": "n", "prompt": "p"}
    called = {"name": "n", "url": "https://example.com"}

    def attached(object_id: str) -> dict[str, Any]:
        return {"text": "t", "attachments": [{"object_id": object_id, "name": "file"}]}

    bodies: list[tuple[str, str, Callable[[str], dict[str, Any]], int]] = [
        (rollback, await neighbour.checkpoint(), lambda each: {"checkpoint_id": each}, 404),
        (messages, stored.json()["id"], attached, 422),
        (
            "/api/schedules",
            team,
            lambda each: {**asked, "team_id": each, "every_seconds": 60},
            404,
        ),
        ("/api/webhooks", team, lambda each: {**asked, "team_id": each}, 404),
        ("/api/post-actions", schedule, lambda each: {**called, "schedule_id": each}, 404),
        ("/api/post-actions", webhook, lambda each: {**called, "webhook_id": each}, 404),
    ]
    for path, theirs, body, status in bodies:
        foreign = [theirs, str(uuid7())]
        answers = [await owner.client.post(path, json=body(each)) for each in foreign]
        assert [answer.status_code for answer in answers] == [status] * 2, (path, answers[0].text)
        assert told(answers[0], foreign[0]) == told(answers[1], foreign[1])


# What an error tells -------------------------------------------------------------------------

CANARY = "c4n4ry-7f3d9b"
# Parameters that an error quotes, because a list of names needs to say which one is meant.
QUOTED = {"types"}
# Fields that an error quotes the beginning of: it says which expression of many is wrong.
QUOTED_BODY = {("POST /api/chains", "output"), ("POST /api/chains/check", "output")}


def _spoilt(operation: Operation) -> Iterator[Any]:
    """Bodies that are wrong in one place, with the canary in it."""
    yield CANARY
    yield [CANARY]
    assert operation.schema is not None
    for key in operation.schema.get("properties", {}):
        if (operation.name, key) not in QUOTED_BODY:
            for value in ({"x": CANARY}, [CANARY, {"x": CANARY}], CANARY * 100, f"{CANARY}\x00"):
                yield copy.deepcopy(operation.body) | {key: value}


def _holding(schema: dict[str, Any], text: str) -> Iterator[Any]:
    """Values as the schema wants them, but for this text in the place of one of their texts."""
    schema = _resolved(schema)
    for choice in schema.get("anyOf", schema.get("oneOf", [])):
        yield from _holding(choice, text)
    kind = schema.get("type")
    if kind == "object":
        yield from _holding_object(schema, text)
    elif kind == "array":
        yield from ([held] for held in _holding(schema["items"], text))
    elif kind == "string" and not {"const", "enum", "format"} & set(schema):
        yield text
    elif kind is None and not {"anyOf", "oneOf", "const", "enum"} & set(schema):
        yield from (text, [text], {text: text})


def _holding_object(schema: dict[str, Any], text: str) -> Iterator[Any]:
    properties = schema.get("properties", {})
    least = {key: _example(properties[key]) for key in schema.get("required", [])}
    for key, inner in properties.items():
        yield from (least | {key: held} for held in _holding(inner, text))
        if "discriminator" in inner.get("items", {}):
            yield least | {key: [{"kind": text}]}
    free = schema.get("additionalProperties", False)
    for inner in [*schema.get("patternProperties", {}).values(), *([free] if free else [])]:
        inside = {} if inner is True else inner
        for held in _holding(inside, text):
            yield {"example": held}
            yield {text: held}


async def test_an_error_never_repeats_what_was_sent(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    admin = await gateway.member(owner.tenant_id, role=Role.OWNER, platform_admin=True)
    refused = 0
    for operation in OPERATIONS:
        queries = [p["name"] for p in operation.parameters if p["in"] == "query"]
        sent = [
            operation.send(admin.client, query={name: CANARY})
            for name in queries
            if name not in QUOTED
        ]
        sent += [
            operation.send(admin.client, headers={"Idempotency-Key": CANARY * 30}),
        ]
        if operation.path_parameters:
            path = operation.path.format(**dict.fromkeys(operation.path_parameters, f"{CANARY}!"))
            sent.append(operation.send(admin.client, path=path))
        if operation.schema is not None:
            sent += [operation.send(admin.client, body=body) for body in _spoilt(operation)]
        for answer in await asyncio.gather(*sent):
            if answer.is_error:
                refused += 1
                shown = answer.text + repr(answer.headers)
                assert CANARY not in shown, (operation.name, answer.text)
    assert refused > 200


def _deep(operation: Operation, text: str) -> Iterator[bytes]:
    """Bodies with this text in every place where one can be, in turn."""
    if operation.schema is not None:
        for body in _holding(operation.schema, text):
            # In ASCII, because half of a surrogate pair has no other form.
            yield json.dumps(operation.body | body).encode()


async def _send_bodies(
    operation: Operation, neighbour: Neighbour, bodies: Iterator[bytes]
) -> list[httpx.Response]:
    path = operation.path
    if operation.path_parameters:
        path = operation.path_of(await THINGS[path][0](neighbour))
    client, json_type = neighbour.person.client, {"Content-Type": "application/json"}
    turns = asyncio.Semaphore(6)

    async def send(body: bytes) -> httpx.Response:
        async with turns:
            return await client.request(operation.method, path, content=body, headers=json_type)

    return await asyncio.gather(*(send(body) for body in bodies))


async def test_what_is_wrong_deep_inside_is_quoted_shortly_if_at_all(gateway: Gateway) -> None:
    """A name that does not exist may be quoted; what has not the right shape never is."""
    neighbour = Neighbour(await gateway.tenant(), gateway)
    refused = 0
    for operation in AGENTS:
        for text in (CANARY, CANARY * 300):
            for answer in await _send_bodies(operation, neighbour, _deep(operation, text)):
                if answer.is_error:
                    refused += 1
                    assert_is_problem(operation.name, answer)
                    assert len(answer.text) < 2_000, (operation.name, answer.text)
                    quotable = answer.json()["code"] != "invalid"
                    assert quotable or CANARY not in answer.text, (operation.name, answer.text)
    assert refused > 100


UNSTORABLE = {"NUL": "a\0b", "NUL at the end": "ab\0", "half of a pair": "\ud83d"}
ODD = "\U0001f9ff \u202e\u2028 e\u0301 \uffff \ufeff"


async def test_text_that_cannot_be_stored_is_refused_in_every_field(gateway: Gateway) -> None:
    neighbour = Neighbour(await gateway.tenant(), gateway)
    for operation in AGENTS:
        for kind, text in UNSTORABLE.items():
            for answer in await _send_bodies(operation, neighbour, _deep(operation, text)):
                told_by = (operation.name, kind, answer.request.content[:500], answer.text)
                assert answer.status_code in (400, 404, 409, 422), told_by
                assert_is_problem(operation.name, answer)


async def test_unusual_text_makes_nothing_fail(gateway: Gateway) -> None:
    neighbour = Neighbour(await gateway.tenant(), gateway)
    for operation in AGENTS:
        for answer in await _send_bodies(operation, neighbour, _deep(operation, ODD)):
            assert answer.status_code < 500, (operation.name, answer.text)


async def test_an_unknown_field_is_named_but_not_if_it_is_a_secret(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    secret = await gateway.api_key(owner.tenant_id)
    for name in ("nmae", secret, "x" * 5000):
        answer = await owner.client.post("/api/keys", json={"name": "ci", name: 1})
        assert answer.status_code == 422
        assert secret not in answer.text
        assert len(answer.text) < 2000
        assert ("nmae" in answer.text) == (name == "nmae")


@pytest.mark.parametrize("kind", ["user", "tenant", "login"])
async def test_a_token_of_what_is_gone_is_refused(gateway: Gateway, kind: str) -> None:
    person = await gateway.tenant()
    ids = {"user": person.user_id, "tenant": person.tenant_id, "login": person.login_id}
    ids[kind] = uuid7()
    token = gateway.tokens.access(
        UserId(ids["user"]), TenantId(ids["tenant"]), LoginId(ids["login"])
    )
    client = await gateway.client(token)
    assert (await client.get("/api/auth/me")).status_code == 401
