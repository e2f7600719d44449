"""The official SDKs against the AI proxy, on the built-in model: the real wire protocols."""

from __future__ import annotations

import anthropic
import openai
import pytest
from tests.gateways import Gateway


def openai_client(gateway: Gateway, key: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=f"{gateway.url}/api/ai/openai/v1", api_key=key, max_retries=0
    )


def anthropic_client(gateway: Gateway, key: str) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        base_url=f"{gateway.url}/api/ai/anthropic", api_key=key, max_retries=0
    )


@pytest.fixture
async def key(gateway: Gateway) -> str:
    person = await gateway.tenant()
    return await gateway.api_key(person.tenant_id)


async def test_chat(gateway: Gateway, key: str) -> None:
    async with openai_client(gateway, key) as client:
        answer = await client.chat.completions.create(
            model="demo", messages=[{"role": "user", "content": "What is 12*7?"}]
        )
    assert "84" in (answer.choices[0].message.content or "")
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0


async def test_chat_stream(gateway: Gateway, key: str) -> None:
    async with openai_client(gateway, key) as client:
        stream = await client.chat.completions.create(
            model="demo", messages=[{"role": "user", "content": "What is 12*7?"}], stream=True
        )
        chunks = [chunk async for chunk in stream]
    assert "84" in "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


async def test_responses(gateway: Gateway, key: str) -> None:
    async with openai_client(gateway, key) as client:
        answer = await client.responses.create(model="demo", input="What is 12*7?")
        assert "84" in answer.output_text
        async with client.responses.stream(model="demo", input="What is 12*7?") as stream:
            final = await stream.get_final_response()
    assert final.output_text == answer.output_text


async def test_embeddings(gateway: Gateway, key: str) -> None:
    async with openai_client(gateway, key) as client:
        answer = await client.embeddings.create(model="demo", input=["a cat", "a dog"])
    assert [len(each.embedding) for each in answer.data] == [256, 256]


async def test_messages(gateway: Gateway, key: str) -> None:
    async with anthropic_client(gateway, key) as client:
        answer = await client.messages.create(
            model="demo", max_tokens=200, messages=[{"role": "user", "content": "What is 12*7?"}]
        )
        assert answer.content[0].type == "text"
        assert "84" in answer.content[0].text
        async with client.messages.stream(
            model="demo", max_tokens=200, messages=[{"role": "user", "content": "What is 12*7?"}]
        ) as stream:
            assert await stream.get_final_text() == answer.content[0].text
        counted = await client.messages.count_tokens(
            model="demo", messages=[{"role": "user", "content": "What is 12*7?"}]
        )
    assert counted.input_tokens == answer.usage.input_tokens


async def test_models(gateway: Gateway, key: str) -> None:
    async with openai_client(gateway, key) as client:
        assert "demo" in [model.id async for model in client.models.list()]
        assert (await client.models.retrieve("demo")).id == "demo"
    async with anthropic_client(gateway, key) as other:
        assert "demo" in [model.id async for model in other.models.list()]
