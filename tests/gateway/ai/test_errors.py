"""Errors in the dialect of the SDK that made the call, with what to do about them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from tests.gateway.ai.books import agree, cap, price
from tests.gateway.ai.conftest import CLAUDE, GPT, Lab
from tests.gateway.ai.faces import FACES, Face

from agentos.kernel.clock import MovableClock
from agentos.kernel.database import Database
from agentos.kernel.settings import Settings
from agentos.tenancy.principals import Scope
from agentos.testing import Fault, Reply
from agentos.testing.vendors import AnthropicServer, OpenAIServer

SdkError = openai.APIStatusError | anthropic.APIStatusError


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Small and impatient."""
    return Settings(
        data_dir=tmp_path,
        signup="open",
        anonymous_requests_per_minute=100_000,
        secret_key=None,
        max_model_request_bytes=4096,
        model_timeout_seconds=1,
        model_queue_seconds=0.3,
    )


class Sdks:
    """The official SDKs, pointed at the gateway with one key."""

    def __init__(self, url: str, key: str):
        self.openai = openai.AsyncOpenAI(
            base_url=f"{url}/api/ai/openai/v1", api_key=key, max_retries=0
        )
        self.anthropic = anthropic.AsyncAnthropic(
            base_url=f"{url}/api/ai/anthropic", api_key=key, max_retries=0
        )

    async def ask(self, face: str, model: str, text: str = "tell me", stream: bool = False) -> Any:
        """One call, read to its end."""
        match face:
            case "chat":
                answer: Any = await self.openai.chat.completions.create(
                    model=model,
                    messages=[{"role": "user", "content": text}],
                    max_completion_tokens=100,
                    stream=stream,
                )
            case "responses":
                answer = await self.openai.responses.create(
                    model=model, input=text, max_output_tokens=100, stream=stream
                )
            case _:
                answer = await self.anthropic.messages.create(
                    model=model,
                    messages=[{"role": "user", "content": text}],
                    max_tokens=100,
                    stream=stream,
                )
        return [event async for event in answer] if stream else answer

    async def refused(self, face: str, model: str, **more: Any) -> SdkError:
        own: type[SdkError] = (
            anthropic.APIStatusError if face == "messages" else openai.APIStatusError
        )
        try:
            await self.ask(face, model, **more)
        except own as error:
            check(error.response)
            return error
        raise AssertionError("it was answered")

    async def close(self) -> None:
        await self.openai.close()
        await self.anthropic.close()


def check(answer: Any) -> str:
    """What every error has: the dialect's shape, a code, an id, a message; never a 500.

    The answer is of httpx, or of whatever an SDK has in its place.
    """
    assert answer.status_code != 500, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    body = answer.json()
    error = body["error"]
    if "/anthropic/" in str(answer.request.url):
        assert body["type"] == "error"
        assert set(error) >= {"type", "message"}
    else:
        assert set(error) == {"message", "type", "param", "code"}
    assert error["code"]
    message: str = error["message"]
    assert message.strip()
    return message


@pytest.fixture
async def sdks(lab: Lab) -> AsyncIterator[Sdks]:
    made = Sdks(lab.gateway.url, lab.key)
    yield made
    await made.close()


def name(error: SdkError) -> str:
    return type(error).__name__


# What is wrong with the call


async def test_a_model_that_is_not_there(sdks: Sdks) -> None:
    for model in ("gpt-99", "nowhere/model", "anthropic/claude-sonnet-5-5", "demo/"):
        for face in FACES:
            for stream in (False, True):
                error = await sdks.refused(face.name, model, stream=stream)
                assert name(error) == "NotFoundError"
                assert "model_not_found" in error.response.text
                assert model in error.message
                assert "agentos models list" in error.message


@pytest.mark.parametrize(
    "model", ["demo/a\x00b", "demo/a\r\nset-cookie: x=y", "demo/" + "x" * 1000, "\ud7ff\x01"]
)
async def test_a_name_that_no_model_has(lab: Lab, sdks: Sdks, model: str) -> None:
    for face in FACES:
        error = await sdks.refused(face.name, model)
        assert name(error) == "NotFoundError"
        assert "set-cookie" not in error.response.headers
    # It would have been kept out of the books by a name that PostgreSQL cannot store.
    assert await lab.calls() == []


async def test_a_key_that_is_not_good(lab: Lab, clock: MovableClock) -> None:
    expired = lab.gateway.tokens.service(
        lab.person.tenant_id, "worker", frozenset(Scope), timedelta(minutes=1)
    )
    clock.advance(timedelta(minutes=2))
    for key in ("sk-wrong", lab.key[:-4] + "0000", expired):
        sdks = Sdks(lab.gateway.url, key)
        for face in FACES:
            error = await sdks.refused(face.name, "demo")
            assert name(error) == "AuthenticationError"
            assert error.status_code == 401
        await sdks.close()
    anonymous = await lab.gateway.client()
    for face in FACES:
        message = check(await anonymous.post(face.path, json=face.ask("demo", False)))
        assert "agentos keys create" in message


async def test_a_key_without_the_scope(lab: Lab) -> None:
    key = await lab.gateway.api_key(lab.person.tenant_id, frozenset({Scope.MODELS_READ}))
    sdks = Sdks(lab.gateway.url, key)
    for face in FACES:
        for stream in (False, True):
            error = await sdks.refused(face.name, "demo", stream=stream)
            assert name(error) == "PermissionDeniedError"
            assert "models:use" in error.message
    await sdks.close()


async def test_a_body_that_is_too_large(lab: Lab, sdks: Sdks) -> None:
    for face in FACES:
        error = await sdks.refused(face.name, "demo", text="x" * 5000)
        assert error.status_code == 413
        if face.name == "messages":
            assert name(error) == "ContentTooLargeError"
            assert error.response.json()["error"]["type"] == "request_too_large"
        assert "4,096 bytes" in error.message

        # Without a length, it is known as soon as it has come too far.
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(10):
                yield b" " * 1000

        answer = await lab.models.post(face.path, content=pieces())
        assert answer.status_code == 413
        check(answer)
    assert await lab.calls() == []


MALFORMED = [
    b"",
    b"{",
    b"not json",
    b"[]",
    b"null",
    b'"model"',
    b"\xff\xfe",
    b'{"model": "demo"',
    b'{"model": "\xff", "messages": []}',
    b'{"model": "demo", "messages": [' + b"[" * 1500 + b"]" * 1500 + b"]}",
    b"{}",
    b'{"messages": [], "input": [], "max_tokens": 1}',
    b'{"model": "", "messages": [], "input": "x", "max_tokens": 1}',
    b'{"model": 7, "messages": [], "input": "x", "max_tokens": 1}',
    b'{"model": null, "messages": [], "input": "x", "max_tokens": 1}',
    b'{"model": "demo", "messages": "hello", "input": 7, "max_tokens": 1}',
    b'{"model": "demo", "messages": [7], "input": [7], "max_tokens": 1}',
    b'{"model": "demo", "messages": [{"role": "owl", "content": 7}], "max_tokens": 1,'
    b' "input": [{"role": "owl", "content": 7}]}',
    b'{"model": "demo", "messages": [{"role": "user", "content": "x"}], "input": "x",'
    b' "max_tokens": "many", "max_output_tokens": "many"}',
    b'{"model": "demo", "messages": [{"role": "user", "content": "x"}], "input": "x",'
    b' "max_tokens": -1, "max_output_tokens": -1}',
    b'{"model": "demo", "messages": [{"role": "user", "content": "x"}], "input": "x",'
    b' "max_tokens": 1, "stream": "yes"}',
    b'{"model": "demo", "messages": [{"role": "user", "content": "x"}], "input": "x",'
    b' "max_tokens": 1, "tools": "all"}',
]


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)
async def test_a_request_that_is_none(lab: Lab, face: Face) -> None:
    for body in MALFORMED:
        answer = await lab.models.post(face.path, content=body)
        assert answer.status_code == 400, (body, answer.text)
        check(answer)
        assert answer.json()["error"]["type"] == "invalid_request_error"
    # Some get as far as the model; it has used nothing then.
    assert {(call["outcome"], call["input_tokens"]) for call in await lab.calls()} <= {
        ("failed", 0)
    }


@pytest.mark.parametrize("path", ["openai/v1/embeddings", "anthropic/v1/messages/count_tokens"])
async def test_a_request_of_the_smaller_paths_that_is_none(lab: Lab, path: str) -> None:
    for body in MALFORMED[:15]:
        answer = await lab.models.post(f"/api/ai/{path}", content=body)
        assert answer.status_code == 400, (body, answer.text)
        check(answer)


async def test_max_tokens_is_missing(lab: Lab) -> None:
    body = {"model": "demo", "messages": [{"role": "user", "content": "x"}]}
    answer = await lab.models.post("/api/ai/anthropic/v1/messages", json=body)
    assert answer.status_code == 400
    assert "max_tokens" in check(answer)


async def test_paths_and_methods_that_are_not_there(lab: Lab) -> None:
    for method, path, status in (
        ("POST", "openai/v1/completions", 404),
        ("POST", "openai/v1", 404),
        ("POST", "anthropic/v1/complete", 404),
        ("POST", "other/v1/messages", 404),
        ("GET", "openai/v1/chat/completions", 404),
        ("PUT", "anthropic/v1/messages", 404),
        ("DELETE", "openai/v1/models/demo", 404),
        ("GET", "openai/v1/models/none", 404),
        ("GET", "anthropic/v1/models/none/at/all", 404),
    ):
        answer = await lab.models.request(method, f"/api/ai/{path}", json={})
        assert answer.status_code == status, (method, path, answer.text)
        check(answer)


async def test_attribution_that_is_no_id(lab: Lab) -> None:
    for face in FACES:
        for header in ("x-agentos-team", "x-agentos-session"):
            answer = await lab.models.post(
                face.path, json=face.ask("demo", False), headers={header: "mine"}
            )
            assert answer.status_code == 400
            assert header in check(answer)


# What may not be used now


async def test_too_many_requests(lab: Lab, platform_db: Database, sdks: Sdks) -> None:
    await agree(platform_db, lab.person.tenant_id, requests_per_minute=1)
    key = await lab.gateway.api_key(lab.person.tenant_id)
    limited = Sdks(lab.gateway.url, key)
    await limited.ask("chat", "demo")
    for face in FACES:
        error = await limited.refused(face.name, "demo")
        assert name(error) == "RateLimitError"
        assert error.status_code == 429
        assert int(error.response.headers["retry-after"]) >= 1
    await limited.close()


async def test_a_budget_that_is_used_up(lab: Lab, sdks: Sdks) -> None:
    await price(lab, "demo", "demo", input=1_000_000, output=1_000_000)
    await cap(lab, 1)
    for face in FACES:
        for stream in (False, True):
            error = await sdks.refused(face.name, "demo", stream=stream)
            assert error.status_code == 402
            assert "budget_exhausted" in error.response.text
            assert "agentos budgets set" in error.message


async def test_the_tokens_of_the_plan_are_used_up(
    lab: Lab, platform_db: Database, sdks: Sdks
) -> None:
    await agree(platform_db, lab.person.tenant_id, tokens_per_month=50)
    for face in FACES:
        error = await sdks.refused(face.name, "demo")
        assert error.status_code == 402
        assert "tokens_exhausted" in error.response.text
        assert "plan" in error.message


# What goes wrong at the provider

PROVIDER_FAULTS: list[tuple[Fault, str, str]] = [
    (Fault.auth(), "PermissionDeniedError", "agentos models providers update"),
    (Fault.no_credit(), "PermissionDeniedError", "agentos models providers update"),
    (Fault.context_length(), "BadRequestError", "larger context"),
    (Fault.model_not_found(), "NotFoundError", "agentos models list"),
    (Fault.overload(), "overload", "agentos models chain set"),
    (Fault.server_error(), "overload", "agentos models chain set"),
    (Fault.html(), "overload", "agentos models chain set"),
    (Fault.stall(), "timeout", "agentos models chain set"),
    (Fault.rate_limit(retry_after=40), "RateLimitError", "agentos models chain set"),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_failures_of_the_provider(
    lab: Lab,
    sdks: Sdks,
    anthropic_server: AnthropicServer,
    openai_server: OpenAIServer,
    stream: bool,
) -> None:
    for fault, expected, advice in PROVIDER_FAULTS:
        for face in FACES:
            # A new connection for each: what one learns of a provider's health stays with it.
            label = f"p-{fault.kind.replace('_', '-')}-{face.name}"
            server = openai_server if face.name == "messages" else anthropic_server
            model = GPT if face.name == "messages" else CLAUDE
            await lab.connect(server.vendor, server, name=label)
            server.queue(fault)
            error = await sdks.refused(face.name, f"{label}/{model}", stream=stream)
            assert advice in error.message, error.message
            assert f"{label}/{model}" in error.message
            anthropics = face.name == "messages"
            if expected == "overload":
                assert error.status_code == (529 if anthropics else 503)
                kind = "OverloadedError" if anthropics else "InternalServerError"
                assert name(error) == kind
            elif expected == "timeout":
                assert error.status_code == 504
            else:
                assert name(error) == expected
            if expected == "RateLimitError":
                assert error.response.headers["retry-after"] == "40"
            if fault == Fault.context_length():
                # What programs look for, to send less: the code at OpenAI, the words at Anthropic.
                if anthropics:
                    assert "prompt is too long" in error.message
                else:
                    assert isinstance(error, openai.APIStatusError)
                    assert error.code == "context_length_exceeded"


async def test_a_failure_in_the_middle_of_a_stream(
    lab: Lab, sdks: Sdks, anthropic_server: AnthropicServer
) -> None:
    await lab.connect("anthropic", anthropic_server)
    broken = Fault.cut(after_chunks=3, reply=Reply(text="one two three four five", chunks=5))
    for face in FACES:
        anthropic_server.queue(broken)
        try:
            events = await sdks.ask(face.name, CLAUDE, stream=True)
        except (openai.APIError, anthropic.APIError) as error:
            told = error.message
        else:
            # Of responses, the SDK hands errors on as events.
            told = events[-1].message
        assert "broke off" in told


async def test_a_provider_that_is_not_there(lab: Lab, sdks: Sdks) -> None:
    body = {"kind": "custom", "name": "gone", "base_url": "http://127.0.0.1:9/v1"}
    assert (await lab.person.client.post("/api/models/providers", json=body)).status_code == 201
    for face in FACES:
        error = await sdks.refused(face.name, "gone/model")
        assert error.status_code == (529 if face.name == "messages" else 503)
        assert "gone/model" in error.message


async def test_nothing_of_the_request_is_needed_to_say_what_is_wrong(lab: Lab) -> None:
    # Errors must not carry a prompt into logs and traces of whoever shows them.
    secret = "my diary says"
    for face in FACES:
        body = face.ask("demo", False) | {"tools": secret}
        answer = await lab.models.post(face.path, content=json.dumps(body))
        assert answer.status_code == 400
        assert secret not in answer.text
