"""A credential that stops being good ends the streams it has open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.gateway.ai.books import PATIENCE, finished_calls, nothing_is_held
from tests.gateway.ai.conftest import CLAUDE, Lab
from tests.gateway.ai.faces import FACES, MESSAGES, Face, events

from agentos.kernel.clock import MovableClock
from agentos.kernel.settings import Settings
from agentos.tenancy.principals import Scope
from agentos.testing import Fault, Reply
from agentos.testing.vendors import AnthropicServer

# A piece every tenth of a second: longer than anybody here waits.
SLOW = Reply(text="word " * 400, chunks=400, delay=0.1)
SILENT = Fault.stall(after_chunks=5, reply=Reply(text="word " * 100, chunks=100))
MODELS = frozenset({Scope.MODELS_USE})


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Patient: only the credential ends a stream here."""
    return Settings(
        data_dir=tmp_path, signup="open", anonymous_requests_per_minute=100_000, secret_key=None
    )


async def read_until_it_ends(
    lab: Lab, credential: str, face: Face, spoil: Callable[[], Awaitable[None]]
) -> list[dict[str, Any]]:
    """The events of a stream whose credential is spoilt once it has begun to speak."""
    client = await lab.gateway.client(credential)
    lines: list[str] = []
    spoilt = False
    async with (
        asyncio.timeout(PATIENCE),
        client.stream("POST", face.path, json=face.ask(CLAUDE, True)) as answer,
    ):
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            lines.append(line)
            if "word" in line and not spoilt:
                spoilt = True
                await spoil()
    return events("\n".join(lines))


def check(face: Face, seen: list[dict[str, Any]]) -> None:
    """Text came, then one error as the last event, which says what is wrong."""
    assert any(face.delta(event) for event in seen[:-1])
    assert face.is_error(seen[-1]), seen[-1]
    assert not any(face.is_error(event) for event in seen[:-1])


def message_of(face: Face, event: dict[str, Any]) -> str:
    error = event if face.name == "responses" else event["error"]
    told: str = error["message"]
    return told


@pytest.mark.parametrize("step", [SLOW, SILENT], ids=["speaking", "silent"])
async def test_a_revoked_key(
    lab: Lab,
    superuser: asyncpg.Connection[Any],
    anthropic_server: AnthropicServer,
    step: Reply | Fault,
) -> None:
    await lab.connect("anthropic", anthropic_server)
    for number, face in enumerate(FACES, 1):
        made = await lab.person.client.post(
            "/api/keys", json={"name": face.name, "scopes": ["models:use"]}
        )
        assert made.status_code == 201, made.text
        path = f"/api/keys/{made.json()['id']}"

        async def revoke(path: str = path) -> None:
            assert (await lab.person.client.delete(path)).status_code == 204

        anthropic_server.queue(step)
        seen = await read_until_it_ends(lab, made.json()["key"], face, revoke)
        check(face, seen)
        assert "revoked" in message_of(face, seen[-1])
        await anthropic_server.wait_cancelled(number)
    for call in await finished_calls(lab, len(FACES)):
        assert (call["outcome"], call["estimated"]) == ("cancelled", True)
        assert call["output_tokens"] > 0
    await nothing_is_held(superuser, lab)


async def test_a_service_token_that_expires(
    lab: Lab, clock: MovableClock, anthropic_server: AnthropicServer
) -> None:
    await lab.connect("anthropic", anthropic_server)
    for number, face in enumerate(FACES, 1):
        token = lab.gateway.tokens.service(
            lab.person.tenant_id, "worker", MODELS, timedelta(minutes=5)
        )

        async def wait() -> None:
            clock.advance(timedelta(minutes=6))

        anthropic_server.queue(SLOW)
        seen = await read_until_it_ends(lab, token, face, wait)
        check(face, seen)
        assert "expired" in message_of(face, seen[-1])
        await anthropic_server.wait_cancelled(number)


async def test_a_key_that_loses_its_scope(
    lab: Lab, superuser: asyncpg.Connection[Any], anthropic_server: AnthropicServer
) -> None:
    await lab.connect("anthropic", anthropic_server)
    for number, face in enumerate(FACES, 1):
        key = await lab.gateway.api_key(lab.person.tenant_id, MODELS)

        async def take_away(last_four: str = key[-4:]) -> None:
            await superuser.execute(
                "update api_keys set scopes = '{events:read}' where last_four = $1", last_four
            )

        anthropic_server.queue(SLOW)
        seen = await read_until_it_ends(lab, key, face, take_away)
        check(face, seen)
        assert "models:use" in message_of(face, seen[-1])
        await anthropic_server.wait_cancelled(number)


async def test_the_streams_of_other_keys_go_on(
    lab: Lab, superuser: asyncpg.Connection[Any], anthropic_server: AnthropicServer
) -> None:
    await lab.connect("anthropic", anthropic_server)
    doomed = await lab.gateway.api_key(lab.person.tenant_id, MODELS)
    anthropic_server.queue(
        Fault.stall(after_chunks=5, reply=Reply(text="word " * 10, chunks=10)), SLOW
    )
    other = asyncio.create_task(MESSAGES.call(lab.models, CLAUDE, stream=True))
    await anthropic_server.wait_stalled()

    async def revoke() -> None:
        await superuser.execute("delete from api_keys where last_four = $1", doomed[-4:])

    check(MESSAGES, await read_until_it_ends(lab, doomed, MESSAGES, revoke))
    anthropic_server.release()
    answer = await other
    assert MESSAGES.read(answer, stream=True) == "word " * 10
    assert MESSAGES.error(answer) is None
