"""What a tenant decides about tools: who may, what wins, and what is on record."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any
from uuid import uuid4

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import TenantWork
from tests.gateways import Gateway

from agentos.integrations.tools.base import Repeat, Tier, ToolSpec
from agentos.integrations.tools.built_in import built_in_tools
from agentos.integrations.tools.policies import service
from agentos.integrations.tools.policies.deciding import Decision, decide
from agentos.integrations.tools.policies.schemas import ToolPolicyPut
from agentos.integrations.tools.policies.service import TooManyToolPolicies
from agentos.tenancy.principals import Forbidden, Scope

ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY


def spec(name: str, tier: Tier = Tier.DANGEROUS) -> ToolSpec:
    return ToolSpec(name, "", {"type": "object"}, tier, Repeat.NEVER)


def test_the_defaults() -> None:
    assert decide({}, spec("a", Tier.SAFE)) == ALLOW
    assert decide({}, spec("a", Tier.DANGEROUS)) == ALLOW
    assert decide({}, spec("a", Tier.DESTRUCTIVE)) == ASK


def test_the_most_specific_policy_decides() -> None:
    policies = {
        "tier:dangerous": DENY,
        "mcp__*": ASK,
        "mcp__github__*": ALLOW,
        "mcp__github__delete": DENY,
        "tier:destructive": ALLOW,
    }
    assert decide(policies, spec("shell")) == DENY
    assert decide(policies, spec("mcp__jira__get")) == ASK
    assert decide(policies, spec("mcp__github__get")) == ALLOW
    assert decide(policies, spec("mcp__github__delete")) == DENY
    assert decide(policies, spec("http_send", Tier.DESTRUCTIVE)) == ALLOW
    assert decide(policies, spec("read_file", Tier.SAFE)) == ALLOW
    # A pattern is a beginning, and nothing else is special in it.
    assert decide({"a*": DENY}, spec("ba")) == ALLOW
    assert decide({"a": DENY}, spec("ab")) == ALLOW


@given(
    st.dictionaries(st.sampled_from(["tier:safe", "a*", "ab*", "ab"]), st.sampled_from(Decision)),
    st.sampled_from(["a", "ab", "abc", "b"]),
)
def test_what_does_not_fit_never_decides(policies: dict[str, Decision], name: str) -> None:
    order = {"a": ["a*"], "ab": ["ab", "ab*", "a*"], "abc": ["ab*", "a*"], "b": []}[name]
    fitting = [policies[s] for s in [*order, "tier:safe"] if s in policies]
    assert decide(policies, spec(name, Tier.SAFE)) == (fitting[0] if fitting else ALLOW)


async def _client(gateway: Gateway, *scopes: Scope) -> httpx.AsyncClient:
    tenant_id = (await gateway.tenant()).tenant_id
    return await gateway.client(await gateway.api_key(tenant_id, frozenset(scopes or Scope)))


async def _set(client: httpx.AsyncClient, subject: str, decision: str) -> dict[str, Any]:
    answer = await client.put(
        "/api/tools/policies", json={"subject": subject, "decision": decision}
    )
    assert answer.status_code == 200, answer.text
    policy: dict[str, Any] = answer.json()
    return policy


async def _decisions(client: httpx.AsyncClient) -> dict[str, str]:
    items = (await client.get("/api/tools")).json()["items"]
    return {item["name"]: item["decision"] for item in items}


async def test_the_tools_of_an_installation(gateway: Gateway) -> None:
    client = await _client(gateway)
    items = (await client.get("/api/tools")).json()["items"]
    assert [item["name"] for item in items] == list(built_in_tools())
    shell = items[0]
    assert (shell["tier"], shell["repeat"], shell["decision"]) == (
        "dangerous",
        "workspace",
        "allow",
    )
    assert shell["default"] is True
    assert shell["arguments"]["required"] == ["command"]
    assert "bash" in shell["description"]
    assert {item["name"] for item in items if not item["default"]} == {"http_fetch", "http_send"}


async def test_the_life_of_a_policy(gateway: Gateway) -> None:
    client = await _client(gateway)
    made = await _set(client, "http_send", "deny")
    assert made == {
        "id": made["id"],
        "subject": "http_send",
        "decision": "deny",
        "created_by": "test",
        "updated_at": made["updated_at"],
    }
    assert (await _decisions(client))["http_send"] == "deny"
    changed = await _set(client, "http_send", "allow")
    assert (changed["id"], changed["decision"]) == (made["id"], "allow")
    assert (await _set(client, "http_send", "allow")) == changed
    tier = await _set(client, "tier:dangerous", "ask")
    assert (await client.get("/api/tools/policies")).json() == {
        "items": [changed, tier],
        "next_cursor": None,
    }
    assert (await _decisions(client))["shell"] == "ask"
    path = f"/api/tools/policies/{made['id']}"
    assert (await client.delete(path)).status_code == 204
    assert (await client.delete(path)).status_code == 404
    assert (await _decisions(client))["http_send"] == "ask"
    log = (await client.get("/api/audit")).json()["items"]
    assert [(row["action"], row["before"], row["after"]) for row in log] == [
        ("tool.policy_removed", {"subject": "http_send", "decision": "allow"}, None),
        ("tool.policy_set", None, {"subject": "tier:dangerous", "decision": "ask"}),
        (
            "tool.policy_set",
            {"subject": "http_send", "decision": "deny"},
            {"subject": "http_send", "decision": "allow"},
        ),
        ("tool.policy_set", None, {"subject": "http_send", "decision": "deny"}),
    ]
    async with gateway.parts.platform_db.transaction() as tx:
        rows = await tx.fetch("select type, data from outbox order by id")
    told = [(row["type"], row["data"]) for row in rows if row["type"].startswith("tool.")]
    assert told == [
        ("tool.policy_set", {"subject": "http_send", "decision": "deny"}),
        ("tool.policy_set", {"subject": "http_send", "decision": "allow"}),
        ("tool.policy_set", {"subject": "tier:dangerous", "decision": "ask"}),
        ("tool.policy_removed", {"subject": "http_send"}),
    ]


@pytest.mark.parametrize(
    "body",
    [
        {"subject": "", "decision": "deny"},
        {"subject": "*", "decision": "deny"},
        {"subject": "a*b", "decision": "deny"},
        {"subject": "tier:unknown", "decision": "deny"},
        {"subject": "tier:*", "decision": "deny"},
        {"subject": "a b", "decision": "deny"},
        {"subject": "shell\n", "decision": "deny"},
        {"subject": "a" * 101, "decision": "deny"},
        {"subject": "shell", "decision": "maybe"},
        {"subject": "shell"},
        {"subject": "shell", "decision": "deny", "note": "x"},
    ],
)
async def test_what_is_not_a_policy(gateway: Gateway, body: dict[str, Any]) -> None:
    client = await _client(gateway)
    answer = await client.put("/api/tools/policies", json=body)
    if body["subject"] == "shell\n":  # surrounding space is taken off
        assert answer.json()["subject"] == "shell"
        return
    assert answer.status_code == 422, answer.text
    assert (await client.get("/api/tools/policies")).json()["items"] == []


async def test_who_may(gateway: Gateway) -> None:
    tenant_id = (await gateway.tenant()).tenant_id

    async def client(*scopes: Scope) -> httpx.AsyncClient:
        return await gateway.client(await gateway.api_key(tenant_id, frozenset(scopes)))

    reader, writer = await client(Scope.TOOLS_READ), await client(Scope.TOOLS_WRITE)
    body = {"subject": "shell", "decision": "deny"}
    assert (await reader.put("/api/tools/policies", json=body)).status_code == 403
    policy = (await writer.put("/api/tools/policies", json=body)).json()
    path = f"/api/tools/policies/{policy['id']}"
    assert (await writer.get("/api/tools")).status_code == 403
    assert (await writer.get("/api/tools/policies")).status_code == 403
    assert (await reader.get("/api/tools/policies")).json()["items"] == [policy]
    assert (await reader.delete(path)).status_code == 403
    stranger = await _client(gateway)
    assert (await stranger.get("/api/tools/policies")).json()["items"] == []
    assert (await _decisions(stranger))["shell"] == "allow"
    assert (await stranger.delete(path)).status_code == 404
    assert (await stranger.delete(f"/api/tools/policies/{uuid4()}")).status_code == 404
    await _set(stranger, "shell", "ask")
    assert (await _decisions(reader))["shell"] == "deny"
    assert (await writer.delete(path)).status_code == 204
    assert (await _decisions(stranger))["shell"] == "ask"


async def test_members_may_look_but_not_decide(tenant_work: TenantWork) -> None:
    async with tenant_work(role="member") as work:
        assert (await service.list_tools(work)).items
        with pytest.raises(Forbidden):
            await service.set_policy(work, ToolPolicyPut(subject="shell", decision=DENY))


async def test_sets_at_once_take_turns(gateway: Gateway) -> None:
    client = await _client(gateway)
    made = await asyncio.gather(
        *(_set(client, "shell", decision) for decision in ("allow", "ask", "deny", "allow", "ask"))
    )
    assert len({policy["id"] for policy in made}) == 1
    log = (await client.get("/api/audit?action=tool.policy_set")).json()["items"][::-1]
    for earlier, later in pairwise(log):
        assert later["before"] == earlier["after"]


async def test_pages(gateway: Gateway) -> None:
    client = await _client(gateway)
    names = [f"tool{n}" for n in range(5)]
    for name in names:
        await _set(client, name, "deny")
    first = (await client.get("/api/tools/policies?limit=3")).json()
    rest = (await client.get("/api/tools/policies", params={"cursor": first["next_cursor"]})).json()
    assert [item["subject"] for item in first["items"] + rest["items"]] == names


async def test_there_is_an_end_to_policies(
    tenant_work: TenantWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_MOST", 2)
    async with tenant_work() as work:
        for name in ("a", "b"):
            await service.set_policy(work, ToolPolicyPut(subject=name, decision=DENY))
        with pytest.raises(TooManyToolPolicies):
            await service.set_policy(work, ToolPolicyPut(subject="c", decision=DENY))
        await service.set_policy(work, ToolPolicyPut(subject="b", decision=ASK))
        assert await service.policies_of(work.tx, work.tenant_id) == {"a": DENY, "b": ASK}
