from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
import pytest
from tests.gateways import Gateway, Person

from agentos.tenancy.principals import Role

CHAIN = "/api/models/fallback-chain"
PROVIDERS = "/api/models/providers"


@pytest.fixture
async def owner(gateway: Gateway) -> Person:
    """A tenant with two providers."""
    person = await gateway.tenant()
    for name in ("local", "spare"):
        made = await person.client.post(PROVIDERS, json={"kind": "ollama", "name": name})
        assert made.status_code == 201
    return person


async def test_set_read_clear(owner: Person, superuser: asyncpg.Connection[Any]) -> None:
    assert (await owner.client.get(CHAIN)).json() == {
        "targets": [],
        "fall_back_on": [],
        "updated_at": None,
    }
    targets = ["local/llama3.2", "spare/hf.co/a/b:q4", "demo/demo"]
    made = (await owner.client.put(CHAIN, json={"targets": targets})).json()
    assert made["targets"] == targets
    assert made["fall_back_on"] == ["overload", "rate_limit", "timeout"]
    other = {"targets": ["demo/demo"], "fall_back_on": ["auth", "context_length", "auth"]}
    changed = (await owner.client.put(CHAIN, json=other)).json()
    assert changed["fall_back_on"] == ["auth", "context_length"]
    assert (await owner.client.get(CHAIN)).json() == changed
    for _ in range(2):
        assert (await owner.client.delete(CHAIN)).status_code == 204
    assert (await owner.client.get(CHAIN)).json()["targets"] == []

    events = await superuser.fetch(
        "select data from outbox where type = 'model.fallback_chain_set' order by id"
    )
    assert [json.loads(row["data"])["targets"] for row in events] == [targets, ["demo/demo"], []]
    actions = await superuser.fetch(
        "select action, before, after from audit_log where target_kind = 'fallback_chain' order by id"
    )
    assert [row["action"] for row in actions] == [
        "model.fallback_chain_set",
        "model.fallback_chain_set",
        "model.fallback_chain_removed",
    ]


@pytest.mark.parametrize(
    "body",
    [
        {"targets": []},
        {"targets": ["local/a", "local/a"]},
        {"targets": ["nobody/a"]},
        {"targets": ["local"]},
        {"targets": ["local/"]},
        {"targets": ["/a"]},
        {"targets": [f"local/{number}" for number in range(11)]},
        {"targets": ["local/a"], "fall_back_on": []},
        {"targets": ["local/a"], "fall_back_on": ["not_found"]},
        {"targets": ["local/a"], "fall_back_on": ["invalid"]},
        {"targets": ["local/a\nb"]},
        {"targets": ["local/" + "a" * 300]},
    ],
)
async def test_a_bad_chain_is_refused(owner: Person, body: dict[str, Any]) -> None:
    answer = await owner.client.put(CHAIN, json=body)
    assert answer.status_code == 422, answer.text
    assert (await owner.client.get(CHAIN)).json()["targets"] == []


async def test_the_error_says_where(owner: Person) -> None:
    answer = await owner.client.put(CHAIN, json={"targets": ["local/a", "nobody/b"]})
    assert answer.json()["detail"] == "Target 2 names a provider that is not connected."


async def test_a_provider_in_the_chain_stays(owner: Person) -> None:
    ids = {row["name"]: row["id"] for row in (await owner.client.get(PROVIDERS)).json()["items"]}
    await owner.client.put(CHAIN, json={"targets": ["local/a", "demo/demo"]})
    refused = await owner.client.delete(f"{PROVIDERS}/{ids['local']}")
    assert (refused.status_code, refused.json()["code"]) == (409, "provider_in_chain")
    assert "chain" in refused.json()["hint"]
    assert (await owner.client.delete(f"{PROVIDERS}/{ids['spare']}")).status_code == 204
    await owner.client.delete(CHAIN)
    assert (await owner.client.delete(f"{PROVIDERS}/{ids['local']}")).status_code == 204


async def test_a_chain_never_names_a_provider_that_is_gone(owner: Person) -> None:
    """Setting the chain and removing the provider at once: one of them is refused."""
    for _ in range(5):
        (local, *_) = (await owner.client.get(PROVIDERS)).json()["items"]
        target = f"{local['name']}/a"
        chained, removed = await asyncio.gather(
            owner.client.put(CHAIN, json={"targets": [target]}),
            owner.client.delete(f"{PROVIDERS}/{local['id']}"),
        )
        assert (chained.status_code, removed.status_code) in {(200, 409), (422, 204)}
        await owner.client.delete(CHAIN)
        if removed.status_code == 204:
            again = await owner.client.post(
                PROVIDERS, json={"kind": "ollama", "name": local["name"]}
            )
            assert again.status_code == 201


async def test_members_may_look_but_not_change(gateway: Gateway, owner: Person) -> None:
    member = await gateway.member(owner.tenant_id, role=Role.MEMBER)
    assert (await member.client.get(CHAIN)).status_code == 200
    body = {"targets": ["demo/demo"]}
    assert (await member.client.put(CHAIN, json=body)).status_code == 403
    assert (await member.client.delete(CHAIN)).status_code == 403
    stranger = await gateway.tenant()
    await owner.client.put(CHAIN, json=body)
    assert (await stranger.client.get(CHAIN)).json()["targets"] == []
