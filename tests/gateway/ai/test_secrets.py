"""A provider's key goes to its provider, and nowhere else."""

from __future__ import annotations

import asyncio
import io
import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg
import httpx
import pytest
from aiohttp import web
from tests.conftest import Engines
from tests.gateway.ai.conftest import CLAUDE, GEMINI, GPT, Lab, Labs
from tests.gateway.ai.faces import CHAT, FACES, MESSAGES, RESPONSES, Face
from tests.test_canaries import Aviary, dump, everything_readable, logged, relay_all

from agentos.kernel.bus import Bus
from agentos.kernel.database import Database
from agentos.testing import Fault
from agentos.testing.vendors import AnthropicServer, OpenAIServer

__all__ = ["logged"]  # a fixture of the tests of other secrets

READABLE = (
    "/api/models",
    "/api/models/providers",
    "/api/models/fallback-chain",
    "/api/models/prices",
    "/api/budgets",
    "/api/usage",
    "/api/usage/calls?limit=200",
    "/api/usage/export.csv",
    "/api/ai/openai/v1/models",
    "/api/ai/anthropic/v1/models",
)


@dataclass
class Parrot:
    """A provider that repeats the key it is sent in everything that goes wrong."""

    url: str = ""
    status: int = 500
    form: str = "json"
    seen: set[str] = field(default_factory=set)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        key = (
            request.headers.get("x-api-key")
            or request.headers.get("x-goog-api-key")
            or request.headers.get("Authorization", "").removeprefix("Bearer ")
        )
        self.seen.add(key)
        told = f"Your key {key} (in a URL: {quote(key, safe='')}) is no good here: Bearer {key}"
        match self.form:
            case "json":
                error = {"message": told, "type": "some_error", "code": "odd", "status": "ODD"}
                return web.json_response(
                    {"type": "error", "error": error},
                    status=self.status,
                    headers={
                        "x-echo": quote(key),
                        "www-authenticate": f'Bearer realm="{quote(key)}"',
                    },
                )
            case "text":
                return web.Response(text=told, status=self.status)
            case "html":
                return web.Response(
                    text=f"<html>{told}</html>", status=self.status, content_type="text/html"
                )
            case "redirect":
                return web.Response(
                    status=302, headers={"Location": f"{self.url}/{quote(key, safe='')}"}
                )
            case "late":
                said = {"id": "x", "choices": [{"index": 0, "delta": {"content": "Well, "}}]}
                lines = [said, {"error": {"message": told, "code": 500}}]
                return web.Response(
                    text="".join(f"data: {json.dumps(line)}\n\n" for line in lines),
                    content_type="text/event-stream",
                )
            case "nonsense":
                return web.Response(text=json.dumps(told)[:-3])
            case _:
                event = {
                    "type": "error",
                    "error": {"type": "api_error", "code": 500, "message": told, "status": "X"},
                }
                return web.Response(
                    text=f"event: error\ndata: {json.dumps(event)}\n\n",
                    content_type="text/event-stream",
                )


@pytest.fixture
async def parrot() -> AsyncIterator[Parrot]:
    bird = Parrot()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", bird.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    bird.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield bird
    await runner.cleanup()


def new_key() -> str:
    """With what has to be escaped in JSON and in URLs."""
    return f'Ca"n+ary/%{secrets.token_hex(12)}'


FORMS = [
    ("json", status) for status in (400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 503, 529)
]
FORMS += [("text", 400), ("text", 500), ("html", 502), ("redirect", 302), ("nonsense", 200)]
FORMS += [("stream", 200)]


async def test_no_provider_key_comes_out(
    lab: Lab,
    labs: Labs,
    parrot: Parrot,
    platform_db: Database,
    bus: Bus,
    superuser: asyncpg.Connection[Any],
    engines: Engines,
    tmp_path: Path,
    logged: io.StringIO,
) -> None:
    aviary = Aviary()
    targets = {
        "anthropic": CLAUDE,
        "openai": GPT,
        "google": GEMINI,
        "mistral": "m",
        "groq": "m",
        "openrouter": "m",
        "ollama": "m",
        "custom": "m",
    }
    for number, (form, status) in enumerate(FORMS):
        parrot.form, parrot.status = form, status
        # One that differs each time, and one whose answers pass through every face.
        for kind in {sorted(targets)[number % len(targets)], ("openai", "anthropic")[number % 2]}:
            # Each time a new one: what was learnt of the last one's health goes with it.
            label = f"{kind}-{number}"
            key = aviary.add(label, new_key())
            body = {"kind": kind, "name": label, "key": key, "base_url": parrot.url}
            made = await lab.person.client.post("/api/models/providers", json=body)
            assert made.status_code == 201, made.text
            aviary.watch_answer(made)
            path = f"/api/models/providers/{made.json()['id']}"
            tests = [
                lab.person.client.post(f"{path}/test"),
                lab.person.client.get(f"{path}/models"),
            ]
            calls = [
                face.call(lab.models, f"{label}/{targets[kind]}", stream=stream)
                for face in FACES
                for stream in (False, True)
            ]
            for answer in await asyncio.gather(*tests, *calls):
                assert answer.status_code != 500, answer.text
                aviary.watch_answer(answer)
            wrong = await lab.person.client.patch(path, json={"key": [key], "bas_url": key})
            assert wrong.status_code == 422
            aviary.watch_answer(wrong)
    assert parrot.seen == set(aviary.values.values())

    async with AnthropicServer(key=aviary.add("good", new_key()), models=[CLAUDE]) as good:
        await lab.connect("anthropic", good)
        for fault in (None, Fault.cut(2), Fault.stream_error(2), Fault.malformed(2), Fault.auth()):
            for face in FACES:
                if fault is not None:
                    good.queue(fault)
                aviary.watch_answer(await face.call(lab.models, f"anthropic/{CLAUDE}", stream=True))
        (request, *_) = [request for request in good.requests if request.method == "POST"]
        assert request.headers["x-api-key"] == aviary.values["good"]

    await lab.gateway.models.router.escrow.flush()
    await relay_all(platform_db, bus, superuser)
    stranger = await labs.tenant()
    for client in (lab.person.client, lab.models, stranger.person.client):
        for answer in await everything_readable(client):
            aviary.watch_answer(answer)
        for path in READABLE:
            aviary.watch_answer(await client.get(path))
    for table, contents in (await dump(superuser)).items():
        aviary.watch(f"the table {table}", contents)
    assert (
        await superuser.fetchval("select count(*) from model_calls where outcome = 'failed'") > 50
    )
    aviary.watch("the log", logged.getvalue())
    assert logged.getvalue().count('"event": "request"') > 100
    for file in [file for place in (tmp_path,) for file in place.rglob("*")]:
        if file.is_file():
            aviary.watch(f"the file {file.name}", file.read_bytes().decode("latin-1"))
    for file in engines.data_dir.rglob("*.log"):
        aviary.watch(f"the log {file.name}", file.read_bytes().decode("utf-8", "replace"))
    assert aviary.escaped == []


async def test_an_error_in_the_middle_of_a_translated_stream(lab: Lab, parrot: Parrot) -> None:
    parrot.form = "late"
    aviary = Aviary()
    key = aviary.add("late", new_key())
    body = {"kind": "custom", "name": "late", "base_url": parrot.url, "key": key}
    assert (await lab.person.client.post("/api/models/providers", json=body)).is_success
    for face in (RESPONSES, MESSAGES):
        answer = await face.call(lab.models, "late/m", stream=True)
        assert face.read(answer, stream=True) == "Well, "
        assert "is no good here" in str(face.error(answer))
        aviary.watch_answer(answer)
    assert aviary.escaped == []


async def test_a_key_does_not_follow_a_redirect(lab: Lab, parrot: Parrot) -> None:
    parrot.form = "redirect"
    async with OpenAIServer() as elsewhere:
        body = {"kind": "custom", "name": "moved", "key": "secret-key", "base_url": parrot.url}
        assert (await lab.person.client.post("/api/models/providers", json=body)).is_success
        parrot.url = elsewhere.url
        for face in FACES:
            assert (await face.call(lab.models, "moved/m", stream=False)).is_error
        assert elsewhere.requests == []


async def test_a_guess_is_not_confirmed_by_a_mask(labs: Labs, parrot: Parrot) -> None:
    # A provider of one tenant can say whatever it likes. If secrets of other tenants were masked
    # in that, it would be told which guesses are right.
    owner, stranger = await labs.tenant(), await labs.tenant()
    stored = await owner.person.client.put("/api/vault/WEAK", json={"value": "correcthorse"})
    assert stored.is_success
    app = web.Application()

    async def guess(_: web.Request) -> web.Response:
        error = {"message": "Is it correcthorse or batterystaple?", "type": "invalid"}
        return web.json_response({"error": error}, status=400)

    app.router.add_post("/chat/completions", guess)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    body = {"kind": "custom", "name": "oracle", "base_url": url, "key": "unrelated"}
    assert (await stranger.person.client.post("/api/models/providers", json=body)).is_success
    for face in FACES:
        answer = await face.call(stranger.models, "oracle/m", stream=False)
        assert ("correcthorse" in answer.text, "batterystaple" in answer.text) == (True, True)
    await runner.cleanup()


async def test_other_tenants_cannot_use_a_key(labs: Labs, openai_server: OpenAIServer) -> None:
    owner, stranger = await labs.tenant(), await labs.tenant()
    await owner.connect("openai", openai_server)
    answers = [await _call(stranger, face) for face in FACES]
    assert [answer.status_code for answer in answers] == [404] * 3
    assert openai_server.requests == []
    assert (await _call(owner, CHAT)).status_code == 200


async def _call(lab: Lab, face: Face) -> httpx.Response:
    return await face.call(lab.models, f"openai/{GPT}", stream=False)
