from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import httpx
import pytest
from tests.gateways import Gateway, Person

from agentos.kernel.clock import MovableClock
from agentos.kernel.ids import uuid7
from agentos.tenancy.principals import Scope

KEY = {"Idempotency-Key": "once"}


async def create_key(
    client: httpx.AsyncClient, name: str = "ci", headers: dict[str, str] | None = None
) -> httpx.Response:
    return await client.post("/api/keys", json={"name": name}, headers=headers or KEY)


async def key_names(person: Person) -> list[str]:
    answer = await person.client.get("/api/keys")
    return [item["name"] for item in answer.json()["items"]]


def essence(answer: httpx.Response) -> tuple[Any, ...]:
    own = {"x-request-id", "date", "idempotency-replayed"}
    headers = {
        name: value
        for name, value in answer.headers.items()
        if name not in own and not name.startswith("ratelimit-")
    }
    return answer.status_code, answer.content, headers


async def test_twenty_at_once_have_one_effect_and_one_answer(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    answers = await asyncio.gather(*(create_key(owner.client) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {201}
    first = essence(answers[0])
    assert all(essence(answer) == first for answer in answers)
    replayed = [answer.headers.get("idempotency-replayed") for answer in answers]
    assert sorted(map(str, replayed)) == ["None", *["true"] * 19]
    assert len({answer.headers["x-request-id"] for answer in answers}) == 20
    assert await key_names(owner) == ["ci"]


async def test_an_answer_without_a_body_is_given_again(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    made = (await create_key(owner.client)).json()
    headers = {"Idempotency-Key": "another"}
    first = await owner.client.delete(f"/api/keys/{made['id']}", headers=headers)
    again = await owner.client.delete(f"/api/keys/{made['id']}", headers=headers)
    assert first.status_code == again.status_code == 204
    assert again.headers["idempotency-replayed"] == "true"
    # Without the key the second would have found nothing to revoke.
    assert (await owner.client.delete(f"/api/keys/{made['id']}")).status_code == 404


@pytest.mark.parametrize("change", ["body", "path", "query", "method"])
async def test_the_key_of_another_request_is_refused(gateway: Gateway, change: str) -> None:
    owner = await gateway.tenant()
    await create_key(owner.client)
    body = {"name": "other" if change == "body" else "ci"}
    answer = await owner.client.request(
        "PATCH" if change == "method" else "POST",
        f"/api/tenants/{owner.tenant_id}" if change in ("path", "method") else "/api/keys",
        params={"a": "b"} if change == "query" else None,
        json=body,
        headers=KEY,
    )
    if change == "path":  # there is no such method; nothing was begun, so nothing is compared
        assert answer.status_code == 405
    else:
        assert answer.status_code == 422
        assert answer.json()["code"] == "idempotency_key_reused"
    assert await key_names(owner) == ["ci"]


async def test_the_key_is_of_one_principal_in_one_tenant(gateway: Gateway) -> None:
    owner, stranger = await gateway.tenant(), await gateway.tenant()
    robot = await gateway.client(await gateway.api_key(owner.tenant_id))
    # Whoever issues a service token names it, so it may be named like a person.
    namesake = await gateway.client(
        gateway.tokens.service(
            owner.tenant_id, str(owner.user_id), frozenset(Scope), timedelta(minutes=5)
        )
    )
    made = [
        (await create_key(client)).json()["key"]
        for client in (owner.client, robot, namesake, stranger.client)
    ]
    assert len(set(made)) == 4
    # One was made for the robot to use.
    assert len(await key_names(owner)) == 4
    assert len(await key_names(stranger)) == 1


async def test_a_failed_request_is_not_remembered(
    gateway: Gateway, superuser: asyncpg.Connection[Any]
) -> None:
    owner = await gateway.tenant()
    refused = await owner.client.post(
        "/api/keys", json={"name": "late", "expires_at": "2001-01-01T00:00:00Z"}, headers=KEY
    )
    assert refused.status_code == 422
    unreadable = await owner.client.post("/api/keys", json={"name": 7}, headers=KEY)
    assert unreadable.status_code == 422
    assert await superuser.fetchval("select count(*) from idempotency_keys") == 0
    assert (await create_key(owner.client)).status_code == 201


async def test_what_waits_for_a_failing_first_is_done_itself(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    missing = f"/api/keys/{uuid7()}"
    answers = await asyncio.gather(*(owner.client.delete(missing, headers=KEY) for _ in range(10)))
    assert [answer.status_code for answer in answers] == [404] * 10
    assert not any("idempotency-replayed" in answer.headers for answer in answers)


async def test_the_stored_answer_is_encrypted(
    gateway: Gateway, superuser: asyncpg.Connection[Any]
) -> None:
    owner = await gateway.tenant()
    made = await create_key(owner.client)
    row = await superuser.fetchrow("select * from idempotency_keys")
    assert row is not None
    assert row["status"] == 201
    stored = b"".join(value for value in row.values() if isinstance(value, bytes))
    for secret in (made.json()["key"], made.json()["id"], "once"):
        assert secret.encode() not in stored
        assert secret not in str(row)
    await superuser.execute(
        "update idempotency_keys set response = set_byte(response, 20, get_byte(response, 20) # 1)"
    )
    assert (await create_key(owner.client)).status_code == 500


async def test_a_key_is_forgotten_after_its_life(gateway: Gateway, clock: MovableClock) -> None:
    owner = await gateway.tenant()
    robot = await gateway.client(await gateway.api_key(owner.tenant_id))
    first = await create_key(robot)
    clock.advance(timedelta(hours=gateway.parts.settings.idempotency_hours))
    assert (await create_key(robot)).content == first.content
    clock.advance(timedelta(seconds=1))
    second = await create_key(robot)
    assert second.status_code == 201
    assert second.json()["id"] != first.json()["id"]
    assert (await create_key(robot)).content == second.content
    # A new life: another request may have it now.
    clock.advance(timedelta(days=2))
    assert (await create_key(robot, name="other")).status_code == 201


async def test_a_key_counts_only_where_something_changes(
    gateway: Gateway, superuser: asyncpg.Connection[Any]
) -> None:
    owner = await gateway.tenant()
    for _ in range(2):
        answer = await owner.client.get("/api/keys", headers=KEY)
        assert answer.status_code == 200
        assert "idempotency-replayed" not in answer.headers
    assert await superuser.fetchval("select count(*) from idempotency_keys") == 0


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there", "caf\u00e9"])
async def test_a_malformed_key_is_refused(gateway: Gateway, key: str) -> None:
    owner = await gateway.tenant()
    answer = await owner.client.post(
        "/api/keys", json={"name": "ci"}, headers=[(b"Idempotency-Key", key.encode("latin-1"))]
    )
    assert answer.status_code == 422
    assert answer.json()["code"] == "bad_idempotency_key"
    assert await key_names(owner) == []


async def test_a_platform_admins_request_is_repeated_safely(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    admin = await gateway.member(owner.tenant_id, platform_admin=True)
    body = {"name": "New", "slug": "new", "owner_email": "new@example.com"}
    answers = [
        await admin.client.post("/api/platform/tenants", json=body, headers=KEY) for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].content == answers[1].content


async def test_a_body_that_is_cut_off_changes_nothing(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    host, port = gateway.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    body = b'{"name": "ci"}'
    writer.write(
        b"POST /api/keys HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
        b"Idempotency-Key: once\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s"
        % (owner.token.encode(), len(body) + 100, body)
    )
    await writer.drain()
    # Another request on the same server has been answered, so the first has been looked at.
    assert await key_names(owner) == []
    writer.close()
    await writer.wait_closed()
    assert (await create_key(owner.client, name="whole")).status_code == 201
    assert await key_names(owner) == ["whole"]
