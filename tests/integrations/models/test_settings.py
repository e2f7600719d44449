"""Providers, prices and estimates through a real gateway, against servers of the vendors' kind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx
import pytest
from tests.gateways import Gateway, Person

from agentos.kernel.ids import uuid7
from agentos.kernel.settings import Settings
from agentos.tenancy.principals import Role, Scope
from agentos.testing import Fault
from agentos.testing.vendors import AnthropicServer, CustomServer, OllamaServer, OpenAIServer

PROVIDERS = "/api/models/providers"
PRICES = "/api/models/prices"
KEY = "sk-test-settings-canary-4f1c"


@pytest.fixture
async def owner(gateway: Gateway) -> Person:
    return await gateway.tenant()


@pytest.fixture
async def openai() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer(key=KEY) as server:
        yield server


async def connect(person: Person, **body: Any) -> dict[str, Any]:
    answer = await person.client.post(PROVIDERS, json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


class TestConnecting:
    async def test_a_provider_is_connected_changed_and_removed(
        self, owner: Person, superuser: asyncpg.Connection[Any]
    ) -> None:
        made = await connect(owner, kind="anthropic", key=f"  {KEY}\n", requests_per_minute=50)
        assert {
            key: made[key] for key in made if key not in ("id", "created_at", "updated_at")
        } == {
            "name": "anthropic",
            "kind": "anthropic",
            "base_url": None,
            "last_four": "4f1c",
            "requests_per_minute": 50,
            "created_by": made["created_by"],
        }
        one = f"{PROVIDERS}/{made['id']}"
        assert (await owner.client.get(one)).json() == made
        assert (await owner.client.get(PROVIDERS)).json() == {"items": [made], "next_cursor": None}

        changed = await owner.client.patch(
            one, json={"key": "sk-a-new-key-99aa", "requests_per_minute": None}
        )
        assert (changed.json()["last_four"], changed.json()["requests_per_minute"]) == (
            "99aa",
            None,
        )
        assert (await owner.client.patch(one, json={})).json()["last_four"] == "99aa"

        assert (await owner.client.delete(one)).status_code == 204
        assert (await owner.client.get(one)).status_code == 404
        assert (await owner.client.delete(one)).status_code == 404
        assert await superuser.fetchval("select count(*) from vault_secrets") == 0

    async def test_the_key_is_nowhere(
        self, owner: Person, superuser: asyncpg.Connection[Any], capfd: pytest.CaptureFixture[str]
    ) -> None:
        made = await connect(owner, kind="openai", key=KEY, base_url="http://127.0.0.1:9/v1")
        one = f"{PROVIDERS}/{made['id']}"
        await owner.client.post(f"{one}/test")
        shown = [(await owner.client.get(path)).text for path in (PROVIDERS, one, "/api/models")]
        await owner.client.patch(one, json={"key": KEY, "base_url": None})
        await owner.client.delete(one)
        told = [
            await superuser.fetch(f"select t::text from {table} t")
            for table in ("audit_log", "outbox", "events", "model_providers", "idempotency_keys")
        ]
        shown.append(capfd.readouterr().err)
        assert KEY not in str(shown) + str(told)

    async def test_what_happened_is_recorded(
        self, owner: Person, superuser: asyncpg.Connection[Any]
    ) -> None:
        made = await connect(owner, kind="groq", name="fast", key=KEY)
        await owner.client.put(
            PRICES, json={"provider": "fast", "model": "m", "input": 1, "output": 2}
        )
        await owner.client.patch(f"{PROVIDERS}/{made['id']}", json={"requests_per_minute": 5})
        await owner.client.delete(f"{PROVIDERS}/{made['id']}")
        rows = await superuser.fetch("select action, before, after from audit_log order by id")
        assert [row["action"] for row in rows] == [
            "secret.stored",
            "model.provider_connected",
            "model.price_set",
            "model.provider_updated",
            "secret.deleted",
            "model.price_removed",
            "model.provider_removed",
        ]
        events = await superuser.fetch("select type, data from outbox order by id")
        assert [row["type"] for row in events] == [row["action"] for row in rows]
        told = {row["type"]: json.loads(row["data"]) for row in events}
        assert told["model.provider_connected"] == {
            "provider_id": made["id"],
            "name": "fast",
            "kind": "groq",
        }
        assert told["model.provider_updated"]["changed"] == ["requests_per_minute"]
        assert told["model.price_removed"] == {"provider": "fast", "model": "m"}

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            ({"kind": "openai"}, "provider_key_missing"),
            ({"kind": "custom"}, "base_url_missing"),
            ({"kind": "custom", "base_url": "ftp://x"}, "bad_base_url"),
            ({"kind": "custom", "base_url": "http://u:p@x.example"}, "bad_base_url"),
            ({"kind": "ollama", "base_url": "http://169.254.169.254"}, "host_not_allowed"),
            ({"kind": "demo"}, "invalid_request"),
            ({"kind": "nonsense"}, "invalid_request"),
            ({"kind": "ollama", "name": "demo"}, "invalid_request"),
            ({"kind": "ollama", "name": "a/b"}, "invalid_request"),
            ({"kind": "ollama", "name": "A"}, "invalid_request"),
            ({"kind": "openai", "key": ""}, "invalid_request"),
            ({"kind": "openai", "key": "a\r\nx-evil: 1"}, "invalid_request"),
            ({"kind": "openai", "key": "ключ"}, "invalid_request"),
            ({"kind": "openai", "key": "k" * 5000}, "invalid_request"),
            ({"kind": "ollama", "requests_per_minute": 0}, "invalid_request"),
        ],
    )
    async def test_what_is_wrong_is_said(
        self, owner: Person, body: dict[str, Any], expected: str
    ) -> None:
        answer = await owner.client.post(PROVIDERS, json=body)
        assert answer.status_code == 422, answer.text
        if expected != "invalid_request":
            assert answer.json()["code"] == expected
        assert (await owner.client.get(PROVIDERS)).json()["items"] == []

    async def test_names_are_unique(self, owner: Person) -> None:
        await connect(owner, kind="openai", key=KEY)
        again = await owner.client.post(PROVIDERS, json={"kind": "openai", "key": KEY})
        assert code(again) == (409, "provider_name_taken")
        await connect(owner, kind="openai", key=KEY, name="openai-eu")

    async def test_a_secret_of_the_vault_is_not_replaced(self, owner: Person) -> None:
        mine = await owner.client.put("/api/vault/provider-openai", json={"value": "precious-1234"})
        assert mine.status_code == 200
        answer = await owner.client.post(PROVIDERS, json={"kind": "openai", "key": KEY})
        assert code(answer) == (409, "provider_name_taken")
        made = await connect(owner, kind="custom", name="x", base_url="http://127.0.0.1:9")
        await owner.client.put("/api/vault/provider-x", json={"value": "precious-1234"})
        answer = await owner.client.patch(f"{PROVIDERS}/{made['id']}", json={"key": KEY})
        assert code(answer) == (409, "provider_name_taken")
        # Removing the provider leaves alone what was never its own.
        assert (await owner.client.delete(f"{PROVIDERS}/{made['id']}")).status_code == 204
        assert (await owner.client.get("/api/vault/provider-x")).json()["version"] == 1

    async def test_the_plan_limits_providers_even_at_once(self, gateway: Gateway) -> None:
        owner = await gateway.tenant(plan="free")
        bodies = [{"kind": "ollama", "name": f"o{n}"} for n in range(4)]
        answers = await asyncio.gather(
            *(owner.client.post(PROVIDERS, json=body) for body in bodies)
        )
        assert sorted(answer.status_code for answer in answers) == [201, 402, 402, 402]
        refused = next(answer for answer in answers if answer.status_code == 402)
        assert refused.json()["limit"] == "model_providers"
        # The built-in model does not count.
        listed = (await owner.client.get("/api/models")).json()
        assert [item["id"] for item in listed["items"]] == ["demo/demo"]

    async def test_members_may_look_but_not_change(self, gateway: Gateway, owner: Person) -> None:
        made = await connect(owner, kind="ollama")
        member = await gateway.member(owner.tenant_id, role=Role.MEMBER)
        one = f"{PROVIDERS}/{made['id']}"
        assert (await member.client.get(one)).status_code == 200
        for answer in (
            await member.client.post(PROVIDERS, json={"kind": "ollama"}),
            await member.client.patch(one, json={}),
            await member.client.delete(one),
            await member.client.post(f"{one}/test"),
        ):
            assert answer.status_code == 403

    async def test_who_may_change_models_needs_no_scope_of_the_vault(
        self, gateway: Gateway, owner: Person
    ) -> None:
        scopes = frozenset({Scope.MODELS_WRITE, Scope.MODELS_READ})
        client = await gateway.client(await gateway.api_key(owner.tenant_id, scopes))
        made = await client.post(PROVIDERS, json={"kind": "openai", "key": KEY})
        assert made.status_code == 201
        assert (await client.get("/api/vault")).status_code == 403
        assert (await client.delete(f"{PROVIDERS}/{made.json()['id']}")).status_code == 204

    async def test_another_tenants_provider_is_not_there(
        self, gateway: Gateway, owner: Person
    ) -> None:
        made = await connect(owner, kind="openai", key=KEY)
        stranger = await gateway.tenant()
        for provider_id in (made["id"], str(uuid7())):
            one = f"{PROVIDERS}/{provider_id}"
            for answer in (
                await stranger.client.get(one),
                await stranger.client.patch(one, json={"key": "sk-stolen-0000"}),
                await stranger.client.delete(one),
                await stranger.client.post(f"{one}/test"),
                await stranger.client.get(f"{one}/models"),
            ):
                assert answer.status_code == 404
        assert (await owner.client.get(f"{PROVIDERS}/{made['id']}")).json()["last_four"] == "4f1c"


class TestMoving:
    async def test_a_key_does_not_follow_to_a_new_address(
        self, owner: Person, openai: OpenAIServer
    ) -> None:
        """Who may change an address could otherwise send the key to a server of their own."""
        made = await connect(owner, kind="openai", key=KEY, base_url=openai.url)
        one = f"{PROVIDERS}/{made['id']}"
        moved = {"base_url": "http://127.0.0.1:9/v1"}
        assert code(await owner.client.patch(one, json=moved)) == (422, "provider_key_needed_again")
        back = await owner.client.patch(one, json={"base_url": None})
        assert code(back) == (422, "provider_key_needed_again")
        same = await owner.client.patch(one, json={"base_url": openai.url + "/"})
        assert same.status_code == 200
        both = await owner.client.patch(one, json=moved | {"key": KEY})
        assert both.json()["base_url"] == "http://127.0.0.1:9/v1"

    async def test_a_key_that_is_needed_cannot_be_removed(self, owner: Person) -> None:
        made = await connect(owner, kind="openai", key=KEY)
        answer = await owner.client.patch(f"{PROVIDERS}/{made['id']}", json={"key": None})
        assert code(answer) == (422, "provider_key_missing")

    async def test_a_key_that_is_not_needed_can(self, owner: Person) -> None:
        made = await connect(owner, kind="custom", base_url="http://127.0.0.1:9", key=KEY)
        one = f"{PROVIDERS}/{made['id']}"
        assert (await owner.client.patch(one, json={"key": None})).json()["last_four"] is None
        assert (await owner.client.get("/api/vault")).json()["items"] == []
        moved = await owner.client.patch(one, json={"base_url": "http://127.0.0.1:10"})
        assert moved.status_code == 200


class TestTrying:
    async def test_a_key_that_works(self, owner: Person, openai: OpenAIServer) -> None:
        made = await connect(owner, kind="openai", key=KEY, base_url=openai.url)
        answer = (await owner.client.post(f"{PROVIDERS}/{made['id']}/test")).json()
        assert (answer["ok"], answer["models"]) == (True, len(openai.models))
        assert answer["error_class"] is None
        assert openai.requests[-1].headers["authorization"] == f"Bearer {KEY}"

    async def test_a_key_that_does_not_is_an_answer_with_advice(
        self, owner: Person, openai: OpenAIServer
    ) -> None:
        wrong = "sk-wrong-key-0000000000"
        made = await connect(owner, kind="openai", key=wrong, base_url=openai.url)
        one = f"{PROVIDERS}/{made['id']}"
        answer = await owner.client.post(f"{one}/test")
        assert answer.status_code == 200
        told = answer.json()
        assert (told["ok"], told["models"], told["error_class"]) == (False, None, "auth")
        assert "providers update" in told["advice"]
        assert wrong not in answer.text
        # The next test asks again, whatever the last one said.
        await owner.client.patch(one, json={"key": KEY})
        assert (await owner.client.post(f"{one}/test")).json()["ok"] is True

    async def test_a_provider_that_is_away(self, owner: Person) -> None:
        made = await connect(owner, kind="ollama", base_url="http://127.0.0.1:9")
        told = (await owner.client.post(f"{PROVIDERS}/{made['id']}/test")).json()
        assert (told["ok"], told["error_class"]) == (False, "overload")
        models = (await owner.client.get(f"{PROVIDERS}/{made['id']}/models")).json()
        assert models["items"] == []
        assert [item["provider"] for item in models["unavailable"]] == ["ollama"]

    async def test_a_key_that_is_lost(self, owner: Person, openai: OpenAIServer) -> None:
        made = await connect(owner, kind="openai", key=KEY, base_url=openai.url)
        await owner.client.delete("/api/vault/provider-openai")
        one = f"{PROVIDERS}/{made['id']}"
        told = (await owner.client.post(f"{one}/test")).json()
        assert (told["ok"], told["error_class"]) == (False, "auth")
        assert "vault" in told["message"]
        for path in (f"{one}/models", "/api/models"):
            unavailable = (await owner.client.get(path)).json()["unavailable"]
            assert [item["provider"] for item in unavailable] == ["openai"]
        # Giving the key again mends it.
        assert (await owner.client.patch(one, json={"key": KEY})).status_code == 200
        assert (await owner.client.post(f"{one}/test")).json()["ok"] is True


class TestModels:
    async def test_all_providers_and_their_prices(
        self, owner: Person, openai: OpenAIServer
    ) -> None:
        async with (
            AnthropicServer(key=KEY) as anthropic,
            OllamaServer() as ollama,
            CustomServer(key=KEY, models=["own-model", "other-model"]) as custom,
        ):
            await connect(owner, kind="openai", key=KEY, base_url=openai.url)
            await connect(owner, kind="anthropic", key=KEY, base_url=anthropic.url)
            await connect(owner, kind="ollama", base_url=ollama.url)
            await connect(owner, kind="custom", key=KEY, base_url=custom.url)
            price = {"provider": "custom", "model": "own-model", "input": 10, "output": 20}
            assert (await owner.client.put(PRICES, json=price)).status_code == 200
            answer = (await owner.client.get("/api/models")).json()
        assert answer["unavailable"] == []
        found = {item["id"]: item for item in answer["items"]}
        assert found["demo/demo"]["price_source"] == "free"
        assert found["ollama/llama3.2:latest"]["price_source"] == "free"
        assert found["ollama/llama3.2:latest"]["input_price"] == 0
        assert found["anthropic/claude-sonnet-4-5"] == {
            "id": "anthropic/claude-sonnet-4-5",
            "provider": "anthropic",
            "model": "claude-sonnet-4-5",
            "input_price": 3_000_000,
            "output_price": 15_000_000,
            "price_source": "catalogue",
            "context_window": 200_000,
        }
        assert (
            found["custom/own-model"]["price_source"],
            found["custom/own-model"]["input_price"],
            found["custom/own-model"]["output_price"],
        ) == ("own", 10, 20)
        unknown = found["custom/other-model"]
        assert (unknown["price_source"], unknown["input_price"], unknown["output_price"]) == (
            None,
            None,
            None,
        )

    async def test_one_that_fails_does_not_fail_the_rest(
        self, owner: Person, openai: OpenAIServer
    ) -> None:
        openai.queue(Fault.rate_limit(), on="models")
        await connect(owner, kind="openai", key=KEY, base_url=openai.url)
        answer = (await owner.client.get("/api/models")).json()
        assert [item["id"] for item in answer["items"]] == ["demo/demo"]
        (missing,) = answer["unavailable"]
        assert (missing["provider"], missing["error_class"]) == ("openai", "rate_limit")
        assert missing["message"]

    async def test_a_list_is_remembered(self, owner: Person, openai: OpenAIServer) -> None:
        made = await connect(owner, kind="openai", key=KEY, base_url=openai.url)
        one = f"{PROVIDERS}/{made['id']}/models"
        answers = await asyncio.gather(*(owner.client.get("/api/models") for _ in range(5)))
        assert len({answer.text for answer in answers}) == 1
        ids = [item["model"] for item in (await owner.client.get(one)).json()["items"]]
        assert ids == sorted(openai.models)
        assert len(openai.requests) == 1

    async def test_who_may_use_models_may_see_them(self, gateway: Gateway, owner: Person) -> None:
        key = await gateway.api_key(owner.tenant_id, frozenset({Scope.MODELS_USE}))
        assert (await (await gateway.client(key)).get("/api/models")).status_code == 200
        other = await gateway.api_key(owner.tenant_id, frozenset({Scope.USAGE_READ}))
        assert (await (await gateway.client(other)).get("/api/models")).status_code == 403


class TestPrices:
    async def test_set_replace_list_remove(self, owner: Person) -> None:
        body = {"provider": "demo", "model": "demo", "input": 3_000_000, "output": 15_000_000}
        first = (await owner.client.put(PRICES, json=body)).json()
        assert (first["cache_read"], first["cache_write"]) == (3_000_000, 3_000_000)
        again = body | {"cache_read": 0, "input": 1}
        second = (await owner.client.put(PRICES, json=again)).json()
        assert second["id"] == first["id"]
        assert (second["input"], second["cache_read"], second["cache_write"]) == (1, 0, 1)
        assert (await owner.client.get(PRICES)).json()["items"] == [second]
        one = f"{PRICES}/{first['id']}"
        assert (await owner.client.delete(one)).status_code == 204
        assert (await owner.client.delete(one)).status_code == 404
        assert (await owner.client.get(PRICES)).json()["items"] == []

    @pytest.mark.parametrize(
        "wrong",
        [
            {"provider": "nobody"},
            {"input": -1},
            {"output": 10**13},
            {"model": ""},
            {"model": "a\nb"},
            {"cache_read": "cheap"},
        ],
    )
    async def test_what_is_wrong_is_refused(self, owner: Person, wrong: dict[str, Any]) -> None:
        body = {"provider": "demo", "model": "demo", "input": 1, "output": 1} | wrong
        assert (await owner.client.put(PRICES, json=body)).status_code == 422

    async def test_another_tenants_price_is_not_there(
        self, gateway: Gateway, owner: Person
    ) -> None:
        body = {"provider": "demo", "model": "demo", "input": 1, "output": 1}
        price_id = (await owner.client.put(PRICES, json=body)).json()["id"]
        stranger = await gateway.tenant()
        assert (await stranger.client.delete(f"{PRICES}/{price_id}")).status_code == 404
        assert len((await owner.client.get(PRICES)).json()["items"]) == 1


class TestEstimates:
    async def test_from_the_catalogue(self, owner: Person) -> None:
        await connect(owner, kind="anthropic", key=KEY)
        body = {"model": "claude-sonnet-4-5", "input_tokens": 100_000, "max_tokens": 100_000}
        answer = (await owner.client.post("/api/models/estimate", json=body)).json()
        assert answer == {
            "model": "claude-sonnet-4-5",
            "provider": "anthropic",
            "input_tokens": 100_000,
            "output_tokens": 100_000,
            "cost_micros": 1_800_000,
            "rated_micros": 2_070_000,
            "price_source": "catalogue",
        }

    async def test_own_prices_win_at_once(self, owner: Person) -> None:
        ask = {"model": "demo/demo", "text": "x" * 401, "max_tokens": 10}
        free = (await owner.client.post("/api/models/estimate", json=ask)).json()
        assert (free["input_tokens"], free["cost_micros"], free["price_source"]) == (101, 0, "free")
        price = {"provider": "demo", "model": "demo", "input": 1_000_000, "output": 2_000_000}
        await owner.client.put(PRICES, json=price)
        own = (await owner.client.post("/api/models/estimate", json=ask)).json()
        assert (own["cost_micros"], own["rated_micros"], own["price_source"]) == (121, 140, "own")

    async def test_an_unknown_price_stays_unknown(self, owner: Person) -> None:
        await connect(owner, kind="custom", base_url="http://127.0.0.1:9")
        ask = {"model": "custom/x", "messages": [{"role": "user", "content": "hello"}]}
        answer = (await owner.client.post("/api/models/estimate", json=ask)).json()
        assert (answer["cost_micros"], answer["rated_micros"]) == (None, None)
        assert answer["price_source"] is None
        assert answer["input_tokens"] > 0

    async def test_a_model_nobody_has(self, owner: Person) -> None:
        ask = {"model": "gpt-5", "input_tokens": 1}
        answer = await owner.client.post("/api/models/estimate", json=ask)
        assert code(answer) == (404, "model_not_found")
        assert "gpt-5" not in answer.text

    @pytest.mark.parametrize("more", [{}, {"text": "a", "input_tokens": 1}])
    async def test_one_way_to_say_how_much(self, owner: Person, more: dict[str, Any]) -> None:
        ask = {"model": "demo/demo"} | more
        answer = await owner.client.post("/api/models/estimate", json=ask)
        assert answer.status_code == 422


class TestDetecting:
    @pytest.fixture
    async def ollama(self) -> AsyncIterator[OllamaServer]:
        async with OllamaServer() as server:
            yield server

    @pytest.fixture
    def settings(self, settings: Settings, ollama: OllamaServer) -> Settings:
        return settings.model_copy(update={"ollama_url": ollama.url})

    async def test_a_local_ollama_is_found_and_connected(
        self, owner: Person, ollama: OllamaServer
    ) -> None:
        for _ in range(3):
            answer = (await owner.client.get(f"{PROVIDERS}/detected")).json()
            assert answer["items"] == [
                {"kind": "ollama", "base_url": ollama.url, "models": list(ollama.models)}
            ]
        assert len(ollama.requests) == 1
        made = await connect(owner, kind="ollama")
        assert made["base_url"] == ollama.url
        assert (await owner.client.post(f"{PROVIDERS}/{made['id']}/test")).json()["ok"] is True


class TestNothingThere:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"ollama_url": "http://127.0.0.1:9"})

    async def test_no_ollama_is_an_empty_list(self, owner: Person) -> None:
        assert (await owner.client.get(f"{PROVIDERS}/detected")).json() == {"items": []}


class TestPublicHostsOnly:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"model_hosts": "public"})

    async def test_local_addresses_are_refused(self, owner: Person) -> None:
        for body in (
            {"kind": "ollama"},
            {"kind": "custom", "base_url": "http://10.0.0.1/v1"},
            {"kind": "openai", "key": KEY, "base_url": "http://localhost:8000"},
        ):
            answer = await owner.client.post(PROVIDERS, json=body)
            assert code(answer) == (422, "host_not_allowed")
        assert (await owner.client.get(f"{PROVIDERS}/detected")).json() == {"items": []}
        await connect(owner, kind="openai", key=KEY)
