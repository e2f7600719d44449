"""What every provider has to do, through every face it can be called through.

The calls are made with the official SDKs of the faces, against servers that speak the vendors'
wire formats. A new provider is one more entry in the registry, and one more server.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import anthropic
import openai
import pytest
from tests.gateway.ai.books import finished_calls
from tests.gateway.ai.conftest import Lab, Labs
from tests.gateways import Gateway

from agentos.integrations.models.providers import PROVIDERS
from agentos.integrations.models.wires.base import WireName
from agentos.kernel.settings import Settings
from agentos.testing import SERVERS, Fault, Reply, ToolCall, VendorServer

TEXT = "Grüße aus Graz: it is 21 °C 🦉 and sunny."
THOUGHT = "what would they wear today"
CALLS = [ToolCall("weather", {"city": "Graz", "days": 3}), ToolCall("clock", {})]
TOOLS = {
    "weather": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
    "clock": {"type": "object", "properties": {}},
}
RESULTS = {"weather": "21 degrees and sunny", "clock": "twelve"}
# These say nothing about cached and reasoning tokens.
_NO_DETAILS = frozenset({"ollama"})
_WRITES_CACHE = frozenset({"anthropic"})
# What it thinks is part of its content, in its own way, which chat callers see as it comes.
_THINKS_IN_CONTENT = frozenset({"mistral"})


@dataclass
class Asked:
    """A tool call as the SDK of a face shows it."""

    id: str
    name: str
    arguments: Any


@dataclass
class Said:
    """What an SDK made of an answer."""

    text: str
    tools: list[Asked]
    finish: str
    input_tokens: int
    output_tokens: int
    # To be sent back as it is, with the results.
    turns: list[Any]


class Chat:
    name: ClassVar[str] = "chat"
    finish: ClassVar[dict[str, str]] = {"stop": "stop", "tool_use": "tool_calls"}

    def __init__(self, lab: Lab):
        url = f"{lab.gateway.url}/api/ai/openai/v1"
        self.client = openai.AsyncOpenAI(base_url=url, api_key=lab.key, max_retries=0)

    async def ask(self, model: str, turns: list[Any], *, tools: bool, stream: bool) -> Said:
        more: dict[str, Any] = {}
        if tools:
            more["tools"] = [
                {"type": "function", "function": {"name": name, "parameters": schema}}
                for name, schema in TOOLS.items()
            ]
        # Mistral takes no field it does not know, and this one is older than the other.
        more["max_tokens"] = 500
        if stream:
            async with self.client.chat.completions.stream(
                model=model, messages=turns, stream_options={"include_usage": True}, **more
            ) as events:
                answer: Any = await events.get_final_completion()
        else:
            answer = await self.client.chat.completions.create(model=model, messages=turns, **more)
        (choice,) = answer.choices
        asked = [
            Asked(call.id, call.function.name, json.loads(call.function.arguments))
            for call in choice.message.tool_calls or []
        ]
        message = {"role": "assistant", "content": choice.message.content}
        if asked:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
                }
                for call in asked
            ]
        usage = answer.usage
        return Said(
            choice.message.content or "",
            asked,
            choice.finish_reason,
            usage.prompt_tokens,
            usage.completion_tokens,
            [message],
        )

    def results(self, asked: list[Asked]) -> list[Any]:
        return [
            {"role": "tool", "tool_call_id": call.id, "content": RESULTS[call.name]}
            for call in asked
        ]


class Responses:
    name: ClassVar[str] = "responses"
    finish: ClassVar[dict[str, str]] = {"stop": "completed", "tool_use": "completed"}

    def __init__(self, lab: Lab):
        url = f"{lab.gateway.url}/api/ai/openai/v1"
        self.client = openai.AsyncOpenAI(base_url=url, api_key=lab.key, max_retries=0)

    async def ask(self, model: str, turns: list[Any], *, tools: bool, stream: bool) -> Said:
        more: dict[str, Any] = {"max_output_tokens": 500}
        if tools:
            more["tools"] = [
                {"type": "function", "name": name, "parameters": schema, "strict": False}
                for name, schema in TOOLS.items()
            ]
        if stream:
            async with self.client.responses.stream(model=model, input=turns, **more) as events:
                answer: Any = await events.get_final_response()
        else:
            answer = await self.client.responses.create(model=model, input=turns, **more)
        asked = [
            Asked(item.call_id, item.name, json.loads(item.arguments))
            for item in answer.output
            if item.type == "function_call"
        ]
        return Said(
            answer.output_text,
            asked,
            answer.status,
            answer.usage.input_tokens,
            answer.usage.output_tokens,
            [
                item.model_dump(exclude_none=True, exclude={"parsed_arguments"})
                for item in answer.output
            ],
        )

    def results(self, asked: list[Asked]) -> list[Any]:
        return [
            {"type": "function_call_output", "call_id": call.id, "output": RESULTS[call.name]}
            for call in asked
        ]


class Messages:
    name: ClassVar[str] = "messages"
    finish: ClassVar[dict[str, str]] = {"stop": "end_turn", "tool_use": "tool_use"}

    def __init__(self, lab: Lab):
        url = f"{lab.gateway.url}/api/ai/anthropic"
        self.client = anthropic.AsyncAnthropic(base_url=url, api_key=lab.key, max_retries=0)

    async def ask(self, model: str, turns: list[Any], *, tools: bool, stream: bool) -> Said:
        more: dict[str, Any] = {"max_tokens": 500}
        if tools:
            more["tools"] = [
                {"name": name, "input_schema": schema} for name, schema in TOOLS.items()
            ]
        if stream:
            async with self.client.messages.stream(model=model, messages=turns, **more) as events:
                answer: Any = await events.get_final_message()
        else:
            answer = await self.client.messages.create(model=model, messages=turns, **more)
        usage = answer.usage
        return Said(
            "".join(part.text for part in answer.content if part.type == "text"),
            [Asked(p.id, p.name, p.input) for p in answer.content if p.type == "tool_use"],
            answer.stop_reason,
            # Anthropic counts what the cache did apart.
            usage.input_tokens
            + (usage.cache_read_input_tokens or 0)
            + (usage.cache_creation_input_tokens or 0),
            usage.output_tokens,
            [{"role": "assistant", "content": [_block(part) for part in answer.content]}],
        )

    def results(self, asked: list[Asked]) -> list[Any]:
        content = [
            {"type": "tool_result", "tool_use_id": call.id, "content": RESULTS[call.name]}
            for call in asked
        ]
        return [{"role": "user", "content": content}]


def _block(part: Any) -> dict[str, Any]:
    fields: dict[str, Any] = part.model_dump(exclude_none=True)
    return {name: value for name, value in fields.items() if name not in ("parsed_output",)}


Face = Chat | Responses | Messages
QUESTION = [{"role": "user", "content": "How is it in Graz?"}]


@dataclass
class Bench:
    """One provider, connected, and the three faces."""

    kind: str
    lab: Lab
    server: VendorServer
    provider_id: UUID
    faces: list[Face]

    @property
    def model(self) -> str:
        return f"{self.kind}/{self.server.models[0]}"

    def thought(self, face: Face) -> str:
        """What the model thinks before it answers."""
        return "" if face.name == "chat" and self.kind in _THINKS_IN_CONTENT else THOUGHT

    def forget_health(self) -> None:
        self.lab.gateway.models.router.health.succeeded(self.provider_id)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """What is silent for half a second has timed out, and nobody queues."""
    return Settings(
        data_dir=tmp_path,
        signup="open",
        anonymous_requests_per_minute=100_000,
        secret_key=None,
        model_timeout_seconds=0.5,
        model_queue_seconds=0.1,
    )


@pytest.fixture(params=sorted(PROVIDERS))
async def bench(request: pytest.FixtureRequest, gateway: Gateway) -> AsyncIterator[Bench]:
    kind: str = request.param
    lab = await Labs(gateway).tenant()
    async with SERVERS[kind]() as server:
        connected = await lab.connect(kind, server)
        faces: list[Face] = [Chat(lab), Responses(lab), Messages(lab)]
        yield Bench(kind, lab, server, UUID(connected["id"]), faces)
        for face in faces:
            await face.client.close()


def test_every_provider_has_a_server() -> None:
    assert set(SERVERS) == set(PROVIDERS)


async def test_text_and_usage(bench: Bench) -> None:
    details = bench.kind not in _NO_DETAILS
    written = 12 if bench.kind in _WRITES_CACHE else 0
    plain = Reply(
        text=TEXT,
        input_tokens=1200,
        cached_tokens=200,
        cache_write_tokens=written,
        output_tokens=34,
        chunks=7,
    )
    thoughts = []
    for face in bench.faces:
        thought = bench.thought(face)
        bench.server.reply(replace(plain, thinking=thought))
        thoughts += [len(thought.split())] * 2
        for stream in (False, True):
            said = await face.ask(bench.model, QUESTION, tools=False, stream=stream)
            assert said.text == TEXT, (face.name, stream)
            assert said.tools == []
            assert said.finish == face.finish["stop"]
            assert (said.input_tokens, said.output_tokens) == (1200, 34), (face.name, stream)
    calls = await finished_calls(bench.lab, 6)
    for call, thought_tokens in zip(calls, thoughts, strict=True):
        assert (call["outcome"], call["estimated"]) == ("answered", False), call
        assert (call["input_tokens"], call["output_tokens"]) == (1200, 34), call
        assert call["cache_read_tokens"] == (200 if details else 0), call
        assert call["cache_write_tokens"] == written, call
        assert call["reasoning_tokens"] == (thought_tokens if details else 0), call
        assert (call["provider"], call["model"]) == (bench.kind, bench.server.models[0])
    # A machine of one's own is free; what is custom costs what nobody knows.
    costs = {call["cost_micros"] for call in calls}
    if bench.kind == "ollama":
        assert costs == {0}
    elif bench.kind == "custom":
        assert costs == {None}


async def test_tools(bench: Bench) -> None:
    for face in bench.faces:
        for stream in (False, True):
            where = (face.name, stream)
            bench.server.queue(
                Reply(tool_calls=CALLS, thinking=bench.thought(face)), Reply(text=TEXT)
            )
            said = await face.ask(bench.model, QUESTION, tools=True, stream=stream)
            assert [(call.name, call.arguments) for call in said.tools] == [
                (call.name, call.arguments) for call in CALLS
            ], where
            assert said.finish == face.finish["tool_use"], where
            first, second = (call.id for call in said.tools)
            assert first, where
            assert first != second, where
            turns = [*QUESTION, *said.turns, *face.results(said.tools)]
            after = await face.ask(bench.model, turns, tools=True, stream=stream)
            assert after.text == TEXT, where
            sent = bench.server.requests[-1].body.decode()
            assert all(result in sent for result in RESULTS.values()), where
            # Results come in the order of the calls, whatever links the two.
            assert sent.index(RESULTS["weather"]) < sent.index(RESULTS["clock"]), where
    await finished_calls(bench.lab, 12)


ERRORS: list[tuple[Fault, int]] = [
    (Fault.auth(), 403),
    (Fault.no_credit(), 403),
    (Fault.context_length(), 400),
    (Fault.model_not_found(), 404),
    (Fault.overload(), 503),
    (Fault.server_error(), 503),
    (Fault.html(), 503),
    (Fault.cut(), 503),
    (Fault.malformed(), 503),
    (Fault.rate_limit(retry_after=40), 429),
]


async def refused(
    face: Face, model: str, *, stream: bool
) -> openai.APIStatusError | anthropic.APIStatusError:
    try:
        await face.ask(model, QUESTION, tools=False, stream=stream)
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        return error
    raise AssertionError("it was answered")


async def test_errors(bench: Bench) -> None:
    for fault, status in ERRORS:
        for face in bench.faces:
            expected = 529 if status == 503 and face.name == "messages" else status
            for stream in (False, True):
                bench.forget_health()
                bench.server.queue(fault)
                error = await refused(face, bench.model, stream=stream)
                where = (fault.kind, face.name, stream, error.message)
                assert error.status_code == expected, where
                assert bench.model in error.message, where
                if status == 429:
                    assert error.response.headers["retry-after"] == "40", where
    bench.forget_health()
    bench.server.queue(Fault.stall())
    assert (await refused(bench.faces[2], bench.model, stream=True)).status_code == 504
    calls = await finished_calls(bench.lab, len(ERRORS) * 6 + 1)
    assert {call["outcome"] for call in calls} == {"failed"}
    # Nobody charges for what they refused.
    assert {call["output_tokens"] for call in calls} == {0}


async def test_a_stream_that_breaks_off(bench: Bench) -> None:
    reply = Reply(text="one two three four five six", chunks=6)
    faults = [
        Fault.cut(after_chunks=3, reply=reply),
        Fault.stream_error(after_chunks=3, reply=reply),
    ]
    for fault in faults:
        for face in bench.faces:
            bench.forget_health()
            bench.server.queue(fault)
            # RuntimeError: a stream of responses that ends without its last event.
            with pytest.raises((openai.APIError, anthropic.APIError, RuntimeError)):
                await face.ask(bench.model, QUESTION, tools=False, stream=True)
    calls = await finished_calls(bench.lab, len(faults) * len(bench.faces))
    for call in calls:
        assert call["outcome"] == "failed", call
        assert call["output_tokens"] > 0, call


async def test_cancellation(bench: Bench) -> None:
    fault = Fault.stall(after_chunks=4, reply=Reply(text="one two three four five", chunks=5))
    paths = {
        "chat": "/api/ai/openai/v1/chat/completions",
        "responses": "/api/ai/openai/v1/responses",
        "messages": "/api/ai/anthropic/v1/messages",
    }
    for number, face in enumerate(bench.faces, 1):
        bench.server.queue(fault)
        turns = "input" if face.name == "responses" else "messages"
        body = {"model": bench.model, turns: QUESTION, "max_tokens": 50, "stream": True}
        async with bench.lab.models.stream("POST", paths[face.name], json=body) as answer:
            assert answer.status_code == 200
            lines = answer.aiter_lines()
            while "four" not in await anext(lines):
                pass
        cancelled = await bench.server.wait_cancelled(number)
        assert cancelled.chunks == 4
        await finished_calls(bench.lab, number)
    for call in await finished_calls(bench.lab, 3):
        assert (call["outcome"], call["estimated"]) == ("cancelled", True)
        assert call["output_tokens"] > 0


async def test_lists_keys_and_the_smaller_calls(bench: Bench) -> None:
    lab, server = bench.lab, bench.server
    chat, _, messages = bench.faces
    assert isinstance(chat, Chat)
    assert isinstance(messages, Messages)
    listed = {model.id async for model in await chat.client.models.list()}
    generating = {name for name in server.models if bench.kind != "google" or "embed" not in name}
    assert listed == {"auto", "demo", *(f"{bench.kind}/{name}" for name in generating)}
    assert {model.id async for model in await messages.client.models.list()} == listed

    tried = await lab.person.client.post(f"/api/models/providers/{bench.provider_id}/test")
    assert tried.json()["ok"] is True
    assert tried.json()["models"] == len(generating)
    if server.key:
        body = {"kind": bench.kind, "name": "wrong", "base_url": server.url, "key": "nonsense-key"}
        made = await lab.person.client.post("/api/models/providers", json=body)
        failed = await lab.person.client.post(f"/api/models/providers/{made.json()['id']}/test")
        assert failed.json()["ok"] is False
        assert failed.json()["error_class"] == "auth"
        assert "nonsense-key" not in failed.text
    else:
        assert not PROVIDERS[bench.kind].needs_key

    counted = await messages.client.messages.count_tokens(
        model=bench.model, messages=[{"role": "user", "content": "How is it in Graz?"}]
    )
    assert counted.input_tokens > 0
    model = next((name for name in server.models if "embed" in name), server.models[0])
    if WireName.EMBEDDINGS in PROVIDERS[bench.kind].paths:
        answer = await chat.client.embeddings.create(
            model=f"{bench.kind}/{model}", input=["a cat", "a dog"]
        )
        assert len(answer.data) == 2
        (call,) = await finished_calls(lab, 1)
        assert (call["input_tokens"], call["output_tokens"]) == (4, 0)
    else:
        with pytest.raises(openai.NotFoundError):
            await chat.client.embeddings.create(model=f"{bench.kind}/{model}", input="a cat")
