"""Limits make calls wait their turn; only who waits in vain is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.gateway.ai.books import agree, finished_calls, nothing_is_held
from tests.gateway.ai.conftest import CLAUDE, GPT, Lab
from tests.gateway.ai.faces import CHAT, FACES

from agentos.kernel.database import Database
from agentos.kernel.settings import Settings
from agentos.testing import Fault, Reply
from agentos.testing.vendors import AnthropicServer, OpenAIServer

ANSWERS_A_MOMENT_LATER = Fault.slow(0.02, reply=Reply(text="done"))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Patient, with providers and with queues; tests that are not say so."""
    return Settings(
        data_dir=tmp_path,
        signup="open",
        anonymous_requests_per_minute=100_000,
        secret_key=None,
        model_queue_seconds=20,
    )


class TestImpatient:
    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        return Settings(
            data_dir=tmp_path,
            signup="open",
            anonymous_requests_per_minute=100_000,
            secret_key=None,
            model_queue_seconds=0.2,
        )

    async def test_who_waits_in_vain_is_refused(
        self, lab: Lab, platform_db: Database, openai_server: OpenAIServer
    ) -> None:
        await lab.connect("openai", openai_server)
        await agree(platform_db, lab.person.tenant_id, concurrent_model_calls=1)
        openai_server.queue(Fault.stall(reply=Reply(text="at last")))
        first = asyncio.create_task(CHAT.call(lab.models, GPT, stream=False))
        await openai_server.wait_stalled()
        for face in FACES:
            answer = await face.call(lab.models, GPT, stream=False)
            assert answer.status_code == 429
            assert "too_many_model_calls" in answer.text
            assert int(answer.headers["retry-after"]) >= 1
        openai_server.release()
        assert CHAT.read(await first, stream=False) == "at last"
        assert len(openai_server.requests) == 1

    async def test_who_waits_in_vain_for_a_provider_is_refused(
        self, lab: Lab, openai_server: OpenAIServer
    ) -> None:
        connected = await lab.connect("openai", openai_server, requests_per_minute=1)
        assert (await CHAT.call(lab.models, GPT, stream=False)).status_code == 200
        for face in FACES:
            answer = await face.call(lab.models, GPT, stream=True)
            assert answer.status_code == 429
            assert "1 requests a minute" in answer.json()["error"]["message"]
            assert int(answer.headers["retry-after"]) >= 1
        assert len(openai_server.requests) == 1
        # It is our own limit: without it, nothing keeps the provider from being asked.
        path = f"/api/models/providers/{connected['id']}"
        update = await lab.person.client.patch(path, json={"requests_per_minute": None})
        assert update.status_code == 200, update.text
        assert (await CHAT.call(lab.models, GPT, stream=False)).status_code == 200


async def test_a_limit_of_ones_own_falls_back(
    lab: Lab, anthropic_server: AnthropicServer, openai_server: OpenAIServer
) -> None:
    await lab.connect("openai", openai_server, requests_per_minute=1)
    await lab.connect("anthropic", anthropic_server)
    await lab.chain(f"openai/{GPT}", f"anthropic/{CLAUDE}", on=("rate_limit",))
    served = [
        (await CHAT.call(lab.models, GPT, stream=False)).headers["x-agentos-provider"]
        for _ in range(3)
    ]
    assert served == ["openai", "anthropic", "anthropic"]


async def test_concurrent_calls_queue(
    lab: Lab,
    platform_db: Database,
    superuser: asyncpg.Connection[Any],
    openai_server: OpenAIServer,
) -> None:
    await lab.connect("openai", openai_server)
    await agree(platform_db, lab.person.tenant_id, concurrent_model_calls=3)
    openai_server.queue(*[ANSWERS_A_MOMENT_LATER] * 40)
    answers = await asyncio.gather(
        *(FACES[i % 3].call(lab.models, f"openai/{GPT}", stream=bool(i % 2)) for i in range(40))
    )
    assert [answer.status_code for answer in answers] == [200] * 40
    for i, answer in enumerate(answers):
        assert FACES[i % 3].read(answer, stream=bool(i % 2)) == "done"
    assert 1 < openai_server.most_open <= 3
    await finished_calls(lab, 40)
    await nothing_is_held(superuser, lab)


async def test_tenants_do_not_queue_behind_each_other(
    lab: Lab, platform_db: Database, openai_server: OpenAIServer
) -> None:
    await lab.connect("openai", openai_server)
    await agree(platform_db, lab.person.tenant_id, concurrent_model_calls=1)
    openai_server.queue(Fault.stall(reply=Reply(text="done")))
    first = asyncio.create_task(CHAT.call(lab.models, GPT, stream=False))
    await openai_server.wait_stalled()
    second = asyncio.create_task(CHAT.call(lab.models, GPT, stream=False))
    other = await lab.gateway.tenant()
    key = await lab.gateway.api_key(other.tenant_id)
    answer = await CHAT.call(await lab.gateway.client(key), "demo", stream=False)
    assert answer.status_code == 200
    assert not first.done()
    assert not second.done()
    openai_server.release()
    assert [(await each).status_code for each in (first, second)] == [200, 200]


async def test_a_providers_rate_is_kept_by_waiting(lab: Lab, openai_server: OpenAIServer) -> None:
    # Ten a second: the bucket holds as many as a minute has, so it is emptied first.
    connected = await lab.connect("openai", openai_server, requests_per_minute=600)
    limiter = lab.gateway.models.router.limiter
    bucket = f"{lab.person.tenant_id}:provider:{connected['id']}"
    await asyncio.gather(*(limiter.take(bucket, 600) for _ in range(600)))
    answers = await asyncio.gather(*(CHAT.call(lab.models, GPT, stream=False) for _ in range(8)))
    assert [answer.status_code for answer in answers] == [200] * 8
    came = sorted(request.at for request in openai_server.requests)
    # Eight at ten a second, of which the first few may come at once.
    assert came[-1] - came[0] > 0.3


async def test_the_tokens_of_a_month(
    lab: Lab, platform_db: Database, openai_server: OpenAIServer
) -> None:
    await lab.connect("openai", openai_server)
    openai_server.reply(Reply(text="ok", input_tokens=400, output_tokens=100))
    await agree(platform_db, lab.person.tenant_id, tokens_per_month=3000)
    statuses = [(await CHAT.call(lab.models, GPT, stream=False)).status_code for _ in range(8)]
    # Each takes 500 and has to have room for the 500 it may write, and for its prompt.
    assert statuses == [200] * 5 + [402] * 3
    refused = await CHAT.call(lab.models, GPT, stream=True)
    assert refused.json()["error"]["code"] == "tokens_exhausted"
    await agree(platform_db, lab.person.tenant_id, tokens_per_month=5000)
    assert (await CHAT.call(lab.models, GPT, stream=True)).status_code == 200
    assert sum(call["input_tokens"] + call["output_tokens"] for call in await lab.calls()) == 3000
