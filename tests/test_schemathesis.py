"""Everything the OpenAPI document allows, and what it does not: no answer is a failure of ours."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from agentos.kernel.bus import Bus
from agentos.kernel.clock import SystemClock
from agentos.kernel.database import Database
from agentos.kernel.schema import PLATFORM_ROLE, RUNTIME_ROLE
from agentos.kernel.settings import Settings
from agentos.tenancy.principals import Role
from tests.conftest import SECRET_KEY, TEMPLATE, Engines, LoopThread
from tests.gateways import Gateway, running_gateway
from tests.neighbours import THINGS, Name, Neighbour, path_values
from tests.test_every_route import ENDLESS, document

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
# Always the same few, so that a run is short and repeats; SCHEMATHESIS_EXAMPLES=500 looks anew.
EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "0"))
_numbers = itertools.count()


@dataclass
class Served:
    """A gateway in a thread of its own, because schemathesis does not wait for others."""

    url: str
    credentials: list[str]
    names: dict[str, Name]


@pytest.fixture(scope="module")
def served(engines: Engines) -> Iterator[Served]:
    loop = LoopThread()
    with contextlib.ExitStack() as stack:
        stack.callback(loop.close)
        data_dir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aos-")))
        opened = _serve(engines, data_dir)
        yield loop.run(opened.__aenter__())
        loop.run(opened.__aexit__(None, None, None))


@contextlib.asynccontextmanager
async def _serve(engines: Engines, data_dir: Path) -> Any:
    name = f"schemathesis_{os.getpid()}_{next(_numbers)}"
    admin = await asyncpg.connect(engines.postgres.superuser_dsn())
    await admin.execute(f"create database {name} template {TEMPLATE} owner agentos_owner")
    db = await Database.connect(engines.dsn(RUNTIME_ROLE, name), size=8, name="test")
    platform_db = await Database.connect(engines.dsn(PLATFORM_ROLE, name), size=4, name="test")
    bus = await Bus.connect(engines.nats.url, engines.authority.platform_credentials(), name="test")
    configured = Settings(
        data_dir=data_dir,
        signup="open",
        anonymous_requests_per_minute=10_000_000,
        secret_key=None,
    )
    async with running_gateway(
        configured, SECRET_KEY, clock=SystemClock(), db=db, platform_db=platform_db, bus=bus
    ) as gateway:
        owner = await gateway.tenant(plan="enterprise")
        person = await gateway.member(owner.tenant_id, role=Role.OWNER, platform_admin=True)
        things = Neighbour(owner, gateway)
        yield Served(
            gateway.url,
            [person.token, await gateway.api_key(owner.tenant_id)],
            {path: await make(things) for path, (make, _) in THINGS.items()},
        )
    await bus.close()
    await platform_db.close()
    await db.close()
    await admin.execute(f"drop database {name} with (force)")
    await admin.close()


API = schemathesis.openapi.from_dict(document())
BY_LABEL = {
    result.ok().label: result.ok() for result in API.get_all_operations() if isinstance(result, Ok)
}


# How long a caller wants to wait for what does not come here: nobody works on it.
WAITS = {"wait", "seconds"}


def _do_not_wait(case: schemathesis.Case[Any]) -> None:
    for name in WAITS & set(case.query):
        with contextlib.suppress(TypeError, ValueError):
            if float(case.query[name]) > 0:
                case.query[name] = 0


@pytest.mark.parametrize("label", sorted(set(BY_LABEL) - ENDLESS))
def test_no_request_makes_the_gateway_fail(served: Served, label: str) -> None:
    operation = BY_LABEL[label]
    session = requests.Session()

    @settings(
        max_examples=EXAMPLES or 15,
        derandomize=not EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=st.one_of(
            operation.as_strategy(GenerationMode.POSITIVE),
            operation.as_strategy(GenerationMode.NEGATIVE),
        ),
        credential=st.sampled_from(served.credentials),
        # Else nearly all of them would end at "not found".
        existing=st.booleans(),
    )
    def check(case: schemathesis.Case[Any], credential: str, existing: bool) -> None:
        if existing and operation.path in served.names:
            case.path_parameters.update(path_values(operation.path, served.names[operation.path]))
        _do_not_wait(case)
        headers = {"Authorization": f"Bearer {credential}"}
        answer = case.call(base_url=served.url, session=session, headers=headers, timeout=30)
        case.validate_response(answer, checks=CHECKS, headers=headers)

    with session:
        check()


# By hand -------------------------------------------------------------------------------------


def assert_refused(kind: str, answer: httpx.Response, *statuses: int) -> None:
    assert answer.status_code in statuses, (kind, answer.text)
    assert answer.headers["content-type"] == "application/problem+json", kind
    assert answer.json()["code"], kind


NASTY_BODIES = {
    "nothing": (b"", 422),
    "not JSON": (b"{", 422),
    "a number": (b"7", 422),
    "null": (b"null", 422),
    "invalid UTF-8": (b'{"name": "\xff\xfe"}', 400),
    "UTF-16": ('{"name": "ci"}'.encode("utf-16-le")[:-1], 400),
    "NUL": (b'{"name": "a\\u0000b"}', 422),
    "raw NUL": (b'{"name": "a\x00b"}', 422),
    "lone surrogate": (b'{"name": "\\ud800"}', 422),
    "huge integer": (b'{"name": "ci", "expires_at": ' + b"9" * 400 + b"}", 422),
    "integer beyond Python's limit": (b'{"name": ' + b"9" * 5000 + b"}", 400),
    "infinity": (b'{"name": "ci", "expires_at": Infinity}', 422),
    "deep": (b'{"name": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
    "a moment beyond time": (b'{"name": "ci", "expires_at": "99999-01-01T00:00:00Z"}', 422),
    "many scopes": (b'{"name": "ci", "scopes": [' + b'"x",' * 5000 + b'"x"]}', 422),
}


async def test_a_nasty_body_is_refused(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    for kind, (body, status) in NASTY_BODIES.items():
        answer = await owner.client.post(
            "/api/keys", content=body, headers={"Content-Type": "application/json"}
        )
        assert_refused(kind, answer, status)


NASTY_SETTINGS = {
    "NUL": b'"a\\u0000b"',
    "NUL in a key": b'{"a\\u0000b": 1}',
    "lone surrogate": b'"\\ud800"',
    "not a number": b"NaN",
    "infinity": b"-Infinity",
    "deep": b"[" * 300 + b"]" * 300,
    "very deep": b"[" * 900 + b"]" * 900,
}


async def test_free_form_settings_are_stored_as_sent_or_refused(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    path = f"/api/tenants/{owner.tenant_id}"

    async def store(value: bytes) -> httpx.Response:
        return await owner.client.patch(
            path,
            content=b'{"settings": {"x": ' + value + b"}}",
            headers={"Content-Type": "application/json"},
        )

    for kind, value in NASTY_SETTINGS.items():
        assert_refused(kind, await store(value), 400, 422)
    assert (await owner.client.get(path)).json()["settings"] == {}
    for odd in (b"9" * 400, b"2.5", b"-0.0", b"[" * 15 + b"]" * 15, '"\U0001f9ff"'.encode()):
        answer = await store(odd)
        assert answer.status_code == 200, answer.text
        assert answer.json()["settings"] == {"x": json.loads(odd)}


async def test_another_content_type_is_refused(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    for content_type in ("text/plain", "application/xml", "", "a/b; c=\xff"):
        answer = await owner.client.post(
            "/api/keys",
            content=b'{"name": "ci"}',
            headers=[(b"Content-Type", content_type.encode("latin-1"))],
        )
        assert_refused(content_type, answer, 415, 422)


BAD_CURSORS = [
    "nonsense",
    "!",
    "\x00",
    "/w",
    "_____w",
    "MDAwMA",
    "AAAAAAAA",
    "7c6-gO2ggA",  # a lone surrogate
    "x" * 200,
]
LIMITS = ["0", "-1", "201", "1e3", "9" * 30, ""]


async def test_a_bad_page_is_refused(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    admin = await gateway.member(owner.tenant_id, role=Role.OWNER, platform_admin=True)
    things = Neighbour(owner, gateway)
    lists = [
        path.format(**path_values(path, await THINGS[path][0](things))) if path in THINGS else path
        for path, methods in document()["paths"].items()
        if any(p["name"] == "cursor" for p in methods.get("get", {}).get("parameters", []))
    ]
    assert len(lists) >= 21
    for path, cursor in itertools.product(lists, BAD_CURSORS):
        answer = await admin.client.get(path, params={"cursor": cursor})
        if path in ("/api/objects", "/api/vault") and answer.status_code == 200:
            # Names can be anything; after this one there is nothing.
            assert answer.json()["items"] == []
            continue
        assert_refused(f"{path} {cursor}", answer, 422)
        assert answer.json()["code"] in ("bad_cursor", "bad_input"), cursor
    for path, limit in itertools.product(lists, LIMITS):
        answer = await admin.client.get(path, params={"limit": limit})
        assert_refused(f"{path} {limit}", answer, 422)


async def raw(gateway: Gateway, request: bytes) -> tuple[int, bytes]:
    """Sends bytes that no client library would, and reads until the server closes."""
    host, port = gateway.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    await writer.drain()
    answer = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    await writer.wait_closed()
    return int(answer.split(b" ", 2)[1]), answer


def request_line(owner_token: str, *headers: str, method: str = "GET", body: bytes = b"") -> bytes:
    head = [
        f"{method} /api/auth/me HTTP/1.1",
        "Host: test",
        "Connection: close",
        f"Authorization: Bearer {owner_token}",
        *headers,
    ]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body


async def test_duplicate_headers_give_one_caller_or_none(gateway: Gateway) -> None:
    one, other = await gateway.tenant(), await gateway.tenant()
    status, answer = await raw(
        gateway, request_line(one.token, f"Authorization: Bearer {other.token}")
    )
    who = [str(person.user_id).encode() in answer for person in (one, other)]
    assert (status == 200 and sum(who) == 1) or (status == 401 and not any(who))
    status, _ = await raw(gateway, request_line(one.token, "Authorization: Bearer nonsense"))
    assert status == 401


AMBIGUOUS = [
    ("Content-Length: 5", "Content-Length: 6"),
    ("Content-Length: -1",),
    ("Content-Length: 5", "Transfer-Encoding: chunked"),
    ("Transfer-Encoding: chunked, identity",),
    ("X: a\x00b",),
    ("X" * 100_000 + ": y",),
]


async def test_a_request_that_could_be_read_in_two_ways_is_refused(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    for headers in AMBIGUOUS:
        request = request_line(owner.token, *headers, method="POST", body=b"0\r\n\r\nGET /")
        status, _ = await raw(gateway, request)
        assert 400 <= status < 500, headers


NASTY_TIMINGS: dict[str, dict[str, Any]] = {
    "an interval from the end of time": {"every_seconds": 60, "at": "9999-12-31T23:59:59Z"},
    "beyond the end of time elsewhere": {"at": "9999-12-31T23:59:59-14:00"},
    "before the beginning of time": {"every_seconds": 60, "at": "0001-01-01T00:00:00+14:00"},
    "two ways at once": {"cron": "* * * * *", "every_seconds": 60},
    "cron from a moment on": {"cron": "* * * * *", "at": "2100-01-01T00:00:00Z"},
    "a day that never comes": {"cron": "0 0 30 2 *"},
    "a file that is no time zone": {"cron": "* * * * *", "timezone": "../../../etc/passwd"},
}


async def test_a_nasty_timing_is_refused(gateway: Gateway) -> None:
    neighbour = Neighbour(await gateway.tenant(), gateway)
    client, path = neighbour.person.client, f"/api/schedules/{await neighbour.schedule()}"
    for kind, timing in NASTY_TIMINGS.items():
        body = {"name": "n", "session": {"prompt": "x"}, **timing}
        assert_refused(kind, await client.post("/api/schedules", json=body), 422)
        assert_refused(kind, await client.post("/api/schedules/preview", json=timing), 422)
        assert_refused(kind, await client.patch(path, json=timing), 422)


NASTY_PAYLOADS = {
    "not JSON": b"{",
    "not UTF-8": b"\xff",
    "lone surrogate": b'{"a": "\\ud800"}',
    "deep": b"[" * 100_000,
    "integer beyond Python's limit": b'{"a": ' + b"9" * 5000 + b"}",
    "beyond a double": b'{"a": 1e999}',
    "too long for a prompt": b'"' + b"x" * 60_000 + b'"',
}
ODD_PAYLOADS = [
    b"",
    b"null",
    b"7",
    b'{"a": [1]}',
    b'{"a": "\\u0000"}',
    b'{"a": ' + b"9" * 25 + b"}",
]


async def test_a_nasty_payload_is_refused_and_an_odd_one_is_not(gateway: Gateway) -> None:
    neighbour = Neighbour(await gateway.tenant(), gateway)
    made = await neighbour.person.client.post(
        "/api/webhooks",
        json={
            "name": "odd",
            "team_id": await neighbour.team(),
            "prompt": "Look: {{body}} {{a.0?}} {{a.%s?}}" % ("9" * 5000),
        },
    )
    client, json_type = await gateway.client(), {"Content-Type": "application/json"}
    for kind, body in NASTY_PAYLOADS.items():
        answer = await client.post(made.json()["path"], content=body, headers=json_type)
        assert_refused(kind, answer, 422)
    for body in ODD_PAYLOADS:
        answer = await client.post(made.json()["path"], content=body, headers=json_type)
        assert answer.status_code == 202, answer.text


NASTY_PATHS = [
    "/api/vault/%00",
    "/api/vault/%FF",
    "/api/objects/%00",
    "/api/objects/..%2f..%2fetc",
    "/api/%",
]


async def test_a_nasty_path_is_refused(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    for path, method in itertools.product(NASTY_PATHS, ("GET", "DELETE", "PUT")):
        answer = await owner.client.request(method, path, json={"value": "x" * 20})
        assert_refused(path, answer, 400, 404, 405, 422)
