"""Budgets through HTTP: never a micro-dollar over the cap, and on again once it is raised."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from tests.gateway.ai.books import PATIENCE, cap, eventually, nothing_is_held, price
from tests.gateway.ai.conftest import CLAUDE, GPT, Lab
from tests.gateway.ai.faces import CHAT, FACES, MESSAGES

from agentos.execution.relay import Relay
from agentos.kernel.bus import Bus
from agentos.kernel.database import Database
from agentos.testing import Reply
from agentos.testing.vendors import AnthropicServer, CustomServer, OpenAIServer

# A micro-dollar a token.
RATES = {"input": 1_000_000, "output": 1_000_000}


@pytest.fixture
async def relay(platform_db: Database, bus: Bus) -> AsyncIterator[None]:
    """Publishes events while a test runs, as a worker does."""
    running = asyncio.create_task(Relay(platform_db, bus).run())
    yield
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def budget_events(lab: Lab, *expected: str) -> list[dict[str, Any]]:
    """The budget's events, once the last of the expected ones is there."""
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = await lab.person.client.get("/api/events", params={"limit": 200})
            assert answer.status_code == 200, answer.text
            found = [e for e in answer.json()["items"] if e["type"].startswith("budget.")]
            if [event["type"] for event in found] == list(expected):
                return found
            await asyncio.sleep(0.05)


@pytest.mark.usefixtures("relay")
async def test_calls_stop_at_the_cap_and_go_on_when_it_is_raised(
    lab: Lab, superuser: asyncpg.Connection[Any], openai_server: OpenAIServer
) -> None:
    await lab.connect("openai", openai_server)
    await price(lab, "openai", GPT, **RATES)
    openai_server.reply(Reply(text="ok", input_tokens=100, output_tokens=500))
    budget_id = await cap(lab, 5000)
    statuses: list[int] = []
    while len(statuses) < 20:
        answer = await CHAT.call(lab.models, GPT, stream=len(statuses) % 2 == 0)
        statuses.append(answer.status_code)
        if answer.status_code != 200:
            break
    assert statuses[-1] == 402
    assert answer.json()["error"]["code"] == "budget_exhausted"
    # 600 each. The next one might have cost 500 and as many as its prompt has bytes.
    assert statuses.count(200) == 8
    await lab.gateway.models.router.escrow.flush()
    read = (await lab.person.client.get(f"/api/budgets/{budget_id}")).json()
    assert (read["spent_micros"], read["state"]) == (4800, "exhausted")
    assert sum(call["cost_micros"] for call in await lab.calls()) == 4800

    await cap(lab, 5500)
    # At once: not after some time that would have to pass.
    assert (await CHAT.call(lab.models, GPT, stream=False)).status_code == 200
    await nothing_is_held(superuser, lab)
    events = await budget_events(
        lab,
        "budget.set",
        "budget.warned",
        "budget.exhausted",
        "budget.set",
        "budget.resumed",
    )
    warned = next(event for event in events if event["type"] == "budget.warned")
    assert warned["data"]["cap_micros"] == 5000
    assert 4000 <= warned["data"]["spent_micros"] <= 4800


@pytest.mark.parametrize("scope", ["tenant", "team", "session"])
async def test_many_at_once_never_go_over(
    lab: Lab, superuser: asyncpg.Connection[Any], openai_server: OpenAIServer, scope: str
) -> None:
    await lab.connect("openai", openai_server)
    await price(lab, "openai", GPT, **RATES)
    openai_server.reply(Reply(text="ok", input_tokens=50, output_tokens=450))
    subject = None if scope == "tenant" else uuid4()
    headers = {} if subject is None else {f"x-agentos-{scope}": str(subject)}
    await cap(lab, 4321, scope, subject)
    statuses: list[int] = []

    async def call(number: int) -> None:
        face = FACES[number % 3]
        answer = await lab.models.post(
            face.path, json=face.ask(GPT, bool(number % 2)), headers=headers
        )
        statuses.append(answer.status_code)

    await asyncio.gather(*(call(number) for number in range(30)))
    assert set(statuses) == {200, 402}
    spent = sum(call["cost_micros"] for call in await lab.calls())
    assert spent == statuses.count(200) * 500
    assert 0 < spent <= 4321
    await nothing_is_held(superuser, lab)
    if subject is not None:
        # The cap is that one's alone.
        assert (await CHAT.call(lab.models, GPT, stream=False)).status_code == 200


async def test_an_unknown_price(lab: Lab) -> None:
    async with CustomServer() as server:
        await lab.connect("custom", server, name="lab")
        for stream in (False, True):
            answer = await CHAT.call(lab.models, "lab/custom-model", stream=stream)
            assert answer.status_code == 200
        calls = await lab.calls()
        assert [call["cost_micros"] for call in calls] == [None, None]
        assert [call["rated_micros"] for call in calls] == [None, None]
        usage = (await lab.person.client.get("/api/usage", params={"by": "model"})).json()
        assert usage["totals"]["cost_micros"] is None
        assert usage["totals"]["unpriced_calls"] == 2
        assert usage["unknown_prices"] is True
        estimate = await lab.person.client.post(
            "/api/models/estimate", json={"model": "lab/custom-model", "input_tokens": 10}
        )
        assert estimate.json()["cost_micros"] is None

        await cap(lab, 1_000_000_000)

        async def is_known() -> bool:
            answer = await CHAT.call(lab.models, "lab/custom-model", stream=False)
            return answer.status_code != 200

        # A first budget is known everywhere within a second.
        await eventually(is_known)
        asked = len(server.requests)
        for face in FACES:
            refused = await face.call(lab.models, "lab/custom-model", stream=False)
            assert refused.status_code == 402
            assert "price_unknown" in refused.text
            assert "agentos models prices set" in refused.json()["error"]["message"]
        assert len(server.requests) == asked
        # What is known goes on.
        assert (await CHAT.call(lab.models, "demo", stream=False)).status_code == 200


async def test_cost_is_exact_and_agrees_with_the_estimate(
    lab: Lab, anthropic_server: AnthropicServer
) -> None:
    await lab.connect("anthropic", anthropic_server)
    await price(
        lab,
        "anthropic",
        CLAUDE,
        input=3_000_001,
        output=15_000_003,
        cache_read=300_007,
        cache_write=3_750_009,
    )
    anthropic_server.reply(
        Reply(
            text="ok",
            input_tokens=1234,
            cached_tokens=200,
            cache_write_tokens=34,
            output_tokens=77,
        )
    )
    for face in FACES:
        for stream in (False, True):
            assert (await face.call(lab.models, CLAUDE, stream=stream)).status_code == 200
    exact = -(-(1000 * 3_000_001 + 200 * 300_007 + 34 * 3_750_009 + 77 * 15_000_003) // 1_000_000)
    calls = await lab.calls()
    assert len(calls) == 6
    for call in calls:
        assert call["estimated"] is False
        tokens = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
        assert [call[name] for name in tokens] == [1234, 200, 34, 77]
        assert call["cost_micros"] == exact
        assert call["rated_micros"] == -(-exact * 115 // 100)

    anthropic_server.reply(Reply(text="ok", input_tokens=5000, output_tokens=321))
    await MESSAGES.call(lab.models, CLAUDE, stream=False)
    estimate = await lab.person.client.post(
        "/api/models/estimate",
        json={"model": CLAUDE, "input_tokens": 5000, "max_tokens": 321},
    )
    last = (await lab.calls())[-1]
    assert estimate.json()["cost_micros"] == last["cost_micros"]
    assert estimate.json()["rated_micros"] == last["rated_micros"]
    assert estimate.json()["price_source"] == "own"


async def test_the_catalogue_prices_what_has_no_price_of_ones_own(
    lab: Lab, openai_server: OpenAIServer
) -> None:
    await lab.connect("openai", openai_server)
    openai_server.reply(Reply(text="ok", input_tokens=10_000, output_tokens=400))
    await CHAT.call(lab.models, GPT, stream=True)
    (call,) = await lab.calls()
    estimate = await lab.person.client.post(
        "/api/models/estimate", json={"model": GPT, "input_tokens": 10_000, "max_tokens": 400}
    )
    assert estimate.json()["price_source"] == "catalogue"
    assert call["cost_micros"] == estimate.json()["cost_micros"] > 0
