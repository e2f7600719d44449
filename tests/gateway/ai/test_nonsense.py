"""Providers that answer nonsense: said clearly, booked soundly, never a 500."""

from __future__ import annotations

import gzip
import json
from typing import Any
from uuid import UUID

import asyncpg
from tests.gateway.ai.books import nothing_is_held
from tests.gateway.ai.conftest import CLAUDE, GPT, Lab
from tests.gateway.ai.faces import CHAT, FACES, MESSAGES
from tests.gateway.ai.test_untouched import (
    CHAT_ANSWER,
    CHAT_STREAM,
    MESSAGES_ANSWER,
    MESSAGES_STREAM,
    RawServer,
    connected,
    raw,
)

__all__ = ["connected", "raw"]  # fixtures


async def test_usage_that_cannot_be_true_is_estimated(
    connected: Lab, raw: RawServer, superuser: asyncpg.Connection[Any]
) -> None:
    numbers = [-5, 10**30, 10**18, 2**63]
    others = [1.5, "7", [], {}, True]
    for value in (*numbers, *others):
        told = json.dumps(value).encode()
        raw.content_type = "application/json"
        raw.pieces = [CHAT_ANSWER.replace(b'"prompt_tokens":3', b'"prompt_tokens":' + told)]
        answer = await CHAT.call(connected.models, GPT, stream=False)
        assert answer.content == raw.pieces[0]
        raw.pieces = [MESSAGES_ANSWER.replace(b'"output_tokens":2', b'"output_tokens":' + told)]
        answer = await MESSAGES.call(connected.models, CLAUDE, stream=False)
        assert answer.content == raw.pieces[0]
        raw.content_type = "text/event-stream"
        raw.pieces = [CHAT_STREAM.replace(b'"prompt_tokens":3', b'"prompt_tokens":' + told)]
        answer = await CHAT.call(connected.models, GPT, stream=True)
        assert "schön" in answer.text
        if value not in numbers:
            # Its opening tells usage as well, which then holds.
            continue
        raw.pieces = [MESSAGES_STREAM.replace(b'"output_tokens":2', b'"output_tokens":' + told)]
        answer = await MESSAGES.call(connected.models, CLAUDE, stream=True)
        assert answer.content == raw.pieces[0]
    calls = await connected.calls()
    # Every one is in the books.
    assert len(calls) == len(numbers) * 4 + len(others) * 3
    for call in calls:
        assert call["outcome"] == "answered"
        assert call["estimated"] is True, call
        assert 0 < call["input_tokens"] < 100, call
        # Of a stream that cannot be read, nobody can tell how much was written.
        assert (0 if call["streamed"] else 1) <= call["output_tokens"] <= 100, call
        assert 0 < call["cost_micros"] < 10_000
    await nothing_is_held(superuser, connected)


async def test_answers_that_are_none(
    connected: Lab, raw: RawServer, superuser: asyncpg.Connection[Any]
) -> None:
    health = connected.gateway.models.router.health
    listed = (await connected.person.client.get("/api/models/providers")).json()["items"]
    nonsense = [
        b"",
        b"null",
        b"[]",
        b"7",
        b"{",
        b"\xff\xfe\x00",
        gzip.compress(CHAT_ANSWER),
        b"data: {\n\n",
        b"data: " + b"x" * 100_000,
        b"event: message_start\n\n",
        b'{"choices": 7, "content": 7, "output": 7, "usage": 7}',
        b'data: {"choices": 7, "type": 7}\n\n',
    ]
    for body in nonsense:
        for face in FACES:
            for model in (CLAUDE, GPT):
                for stream in (False, True):
                    for each in listed:
                        health.succeeded(UUID(each["id"]))
                    raw.pieces = [body] if body else []
                    answer = await face.call(connected.models, model, stream=stream)
                    where = (body[:40], face.name, model, stream, answer.text[:200])
                    assert answer.status_code in (200, 503, 529), where
                    if answer.status_code == 200 and stream:
                        # It was not noticed before it was passed on; then the stream says so.
                        assert face.error(answer) is not None, where
    assert len(await connected.calls()) > 0
    await nothing_is_held(superuser, connected)
