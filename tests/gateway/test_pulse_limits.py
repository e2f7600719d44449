"""Sessions and chains at their limits: large bodies, long lists, odd numbers, repeated requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest
from tests.gateways import Gateway
from tests.neighbours import Neighbour

from agentos.kernel.ids import uuid7

_PROMPT = 400_000


async def post_raw(client: httpx.AsyncClient, path: str, body: bytes) -> httpx.Response:
    return await client.post(path, content=body, headers={"Content-Type": "application/json"})


async def test_one_key_makes_one_session_and_one_chain(
    gateway: Gateway, superuser: asyncpg.Connection[Any]
) -> None:
    owner = await gateway.tenant()
    bodies: dict[str, dict[str, Any]] = {
        "sessions": {"prompt": "Hello", "model": "demo"},
        "chains": {"name": "one", "nodes": {"a": {"prompt": "Hello", "model": "demo"}}},
    }
    for table, body in bodies.items():
        key = {"Idempotency-Key": table}
        answers = await asyncio.gather(
            *(owner.client.post(f"/api/{table}", json=body, headers=key) for _ in range(8))
        )
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert await superuser.fetchval(f"select count(*) from {table}") == 1
        other = await owner.client.post(f"/api/{table}", json=body | {"priority": 1}, headers=key)
        assert other.status_code in (409, 422), other.text
    assert await superuser.fetchval("select count(*) from sessions") == 1


async def test_sessions_made_at_once_do_not_wait_for_each_other(gateway: Gateway) -> None:
    """As many at once as there are connections, in a tenant whose models nobody knows yet."""
    owner = await gateway.tenant()
    body = {"prompt": "Hello", "model": "demo"}
    answers = await asyncio.gather(
        *(owner.client.post("/api/sessions", json=body) for _ in range(24))
    )
    assert {answer.status_code for answer in answers} == {201}


async def test_one_key_forks_and_decides_once(
    gateway: Gateway, superuser: asyncpg.Connection[Any]
) -> None:
    owner = await gateway.tenant()
    things, key = Neighbour(owner, gateway), {"Idempotency-Key": "once"}
    paths = [
        (f"/api/sessions/{await things.session()}/fork", {"seq": 1}),
        (f"/api/approvals/{await things.approval()}/approve", {}),
    ]
    for path, body in paths:
        first = await owner.client.post(path, json=body, headers=key)
        again = await owner.client.post(path, json=body, headers=key)
        assert first.is_success, first.text
        assert (again.status_code, again.content) == (first.status_code, first.content)
        key = {"Idempotency-Key": "twice"}
    forked = "select count(*) from sessions where forked_from is not null"
    assert await superuser.fetchval(forked) == 1


@pytest.mark.parametrize("letter", ["x", "\U0001f9ff"])
async def test_a_prompt_of_the_largest_size_is_taken(gateway: Gateway, letter: str) -> None:
    owner = await gateway.tenant()
    # Four bytes a letter: as many as fit the largest request.
    size = _PROMPT if letter == "x" else 250_000
    body = json.dumps({"prompt": letter * size, "model": "demo"}, ensure_ascii=False).encode()
    made = await post_raw(owner.client, "/api/sessions", body)
    assert made.status_code == 201, made.text[:300]
    session_id = made.json()["id"]
    step = (await owner.client.get(f"/api/sessions/{session_id}/steps/1")).json()
    assert step["output"]["text"] == letter * size
    listed = await owner.client.get(f"/api/sessions/{session_id}/steps")
    assert len(listed.content) < 100_000
    assert listed.json()["items"][0]["truncated"]


async def test_what_is_larger_is_refused(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    for path, body in (
        ("/api/sessions", {"prompt": "x" * (_PROMPT + 1), "model": "demo"}),
        ("/api/chains", {"name": "x", "nodes": {"a": {"prompt": "x" * (_PROMPT + 1)}}}),
    ):
        answer = await owner.client.post(path, json=body)
        assert answer.status_code == 422, path
        assert len(answer.text) < 2_000
    for path in ("/api/sessions", "/api/chains", "/api/chains/check"):
        limit = gateway.parts.settings.max_request_bytes
        answer = await owner.client.post(path, json={"prompt": "x" * limit})
        assert answer.status_code == 413, path
        assert answer.json()["code"] == "request_too_large"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_a_number_that_json_does_not_have_is_refused(gateway: Gateway, number: str) -> None:
    """It would be stored as null, and mean something else from then on."""
    owner = await gateway.tenant()
    gate = f'{{"kind": "time", "name": "t", "most_seconds": {number}}}'
    sessions = [
        f'{{"prompt": "x", "model": "demo", "gates": [{gate}]}}',
        f'{{"prompt": "x", "model": "demo", "output_schema": {{"maximum": {number}}}}}',
        f'{{"prompt": "x", "model": "demo", "temperature": {number}}}',
    ]
    nodes = '"name": "x", "nodes": {"a": {"prompt": "x", "model": "demo"}}'
    chains = [
        f'{{{nodes}, "inputs": {{"n": {{}}}}, "values": {{"n": {number}}}}}',
        f'{{{nodes}, "inputs": {{"n": {{"default": [{number}]}}}}}}',
        f'{{"name": "x", "nodes": {{"a": {{"prompt": "x", "for_each": [{number}]}}}}}}',
    ]
    for path, bodies in {
        "/api/sessions": sessions,
        "/api/chains": chains,
        "/api/chains/check": chains,
    }.items():
        for body in bodies:
            answer = await post_raw(owner.client, path, body.encode())
            assert answer.status_code == 422, (body, answer.text)
    yaml = b"name: x\nnodes: {a: {prompt: x}}\ninputs: {n: {default: .inf}}\n"
    answer = await owner.client.post(
        "/api/chains", content=yaml, headers={"Content-Type": "application/yaml"}
    )
    assert answer.status_code == 422
    assert answer.json()["code"] == "unreadable_chain"


async def test_a_chain_of_many_patterns_is_checked_in_one_go(gateway: Gateway) -> None:
    owner = await gateway.tenant()

    def chain(last: str) -> dict[str, Any]:
        def node(n: int) -> dict[str, Any]:
            matches = [last if (n, g) == (199, 19) else f"{n}-{g}" for g in range(20)]
            gates = [
                {"kind": "file", "name": f"g{g}", "path": "a", "matches": text}
                for g, text in enumerate(matches)
            ]
            return {"prompt": "x", "model": "demo", "gates": gates}

        return {"name": "x", "nodes": {f"n{n}": node(n) for n in range(200)}}

    checked = await owner.client.post("/api/chains/check", json=chain("fine"))
    assert checked.status_code == 200, checked.text[:500]
    wrong = await owner.client.post("/api/chains/check", json=chain("("))
    assert wrong.status_code == 422
    assert (wrong.json()["node"], wrong.json()["reason"]) == ("n199", "bad_pattern")
    assert "The gate g19" in wrong.json()["detail"]


async def test_a_name_that_comes_twice_among_very_many_is_found(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    names = ", ".join(f'"{n}": 1' for n in range(80_000))
    body = f'{{"name": "x", "nodes": {{}}, "values": {{{names}, "79999": 2}}}}'
    answer = await post_raw(owner.client, "/api/chains", body.encode())
    assert answer.json()["code"] == "duplicate_key", answer.text[:300]


# Long lists ----------------------------------------------------------------------------------

_MANY = 1_050


async def pages(client: httpx.AsyncClient, path: str, **query: str) -> list[list[Any]]:
    found, cursor = [], None
    while True:
        more: dict[str, str] = {} if cursor is None else {"cursor": cursor}
        answer = await client.get(path, params={"limit": "200", **query, **more})
        assert answer.status_code == 200, answer.text
        found.append(answer.json()["items"])
        cursor = answer.json()["next_cursor"]
        if cursor is None:
            return found


def by_id(item: dict[str, Any]) -> Any:
    return item["id"]


def by_seq(item: dict[str, Any]) -> Any:
    return item["seq"]


async def test_long_lists_come_in_pages(
    gateway: Gateway, superuser: asyncpg.Connection[Any]
) -> None:
    owner = await gateway.tenant()
    things = Neighbour(owner, gateway)
    session, chain = UUID(await things.session()), UUID(await things.chain())
    approval, policy = UUID(await things.approval()), UUID(await things.policy())
    checkpoint = UUID(await things.checkpoint())
    ids = [uuid7() for _ in range(_MANY)]
    for table, row in {
        "sessions": session,
        "chains": chain,
        "approvals": approval,
        "tool_policies": policy,
        "checkpoints": checkpoint,
    }.items():
        await superuser.execute(_COPIES[table], row, ids)
    await superuser.execute(_STEPS, session, _MANY)
    of_session = str(
        await superuser.fetchval("select session_id from checkpoints where id = $1", checkpoint)
    )
    lists: list[tuple[str, Callable[[dict[str, Any]], Any], bool]] = [
        ("/api/sessions", by_id, True),
        ("/api/chains", by_id, True),
        ("/api/approvals", by_id, False),
        ("/api/tools/policies", by_id, False),
        (f"/api/sessions/{session}/steps", by_seq, False),
        (f"/api/sessions/{of_session}/checkpoints", by_seq, False),
    ]
    for path, key, newest_first in lists:
        found = await pages(owner.client, path)
        assert max(map(len, found)) == 200, path
        order = [key(item) for items in found for item in items]
        assert len(order) >= _MANY, path
        assert len(set(order)) == len(order), path
        assert order == sorted(order, reverse=newest_first), path


def _copy(table: str, **changed: str) -> str:
    """Makes one row into many, each with an id of its own."""
    values = ", ".join(f"'{name}', {value}" for name, value in changed.items())
    return f"""
        insert into {table} select n.* from {table} t, unnest($2::uuid[]) with ordinality i (id, n),
            jsonb_populate_record(t, jsonb_build_object('id', i.id, {values})) n
        where t.id = $1"""


_COPIES = {
    "sessions": _copy("sessions", workspace_id="i.id"),
    "chains": _copy("chains", name="t.name"),
    "approvals": _copy("approvals", key="i.id"),
    "tool_policies": _copy("tool_policies", subject="i.id"),
    "checkpoints": _copy("checkpoints", seq="i.n + 10"),
}
_STEPS = """
    insert into steps (tenant_id, session_id, seq, parent, kind, name, status, fence, at)
    select tenant_id, session_id, seq + n, seq + n - 1, 'message', 'user', 'done', fence, at
    from steps, generate_series(1, $2::integer) n where session_id = $1 and seq = 1"""
