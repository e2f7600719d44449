"""A caller who leaves: the provider hears of it, and what was used is settled, once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from tests.gateway.ai.books import agree, cap, finished_calls, nothing_is_held
from tests.gateway.ai.conftest import CLAUDE, GEMINI, Lab
from tests.gateway.ai.faces import CHAT, FACES, MESSAGES, Face

from agentos.gateway.ai import exchange
from agentos.kernel.database import Database
from agentos.kernel.settings import Settings
from agentos.testing import Fault, Reply
from agentos.testing.vendors import AnthropicServer, GoogleServer
from agentos.testing.vendors.base import VendorServer

LONG = Reply(text=" ".join(f"word{i}" for i in range(40)), chunks=20)
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Patient: who stays silent here does so until the caller has gone."""
    return Settings(
        data_dir=tmp_path, signup="open", anonymous_requests_per_minute=100_000, secret_key=None
    )


async def leave_early(lab: Lab, face: Face, server: VendorServer, model: str, stream: bool) -> None:
    """Asks, and hangs up once the provider has come to its stall."""
    stalled = asyncio.create_task(server.wait_stalled())
    call = asyncio.create_task(face.call(lab.models, model, stream=stream))
    await stalled
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


@STREAMED
@pytest.mark.parametrize(("kind", "model"), [("anthropic", CLAUDE), ("google", GEMINI)])
async def test_before_the_first_byte(
    lab: Lab,
    platform_db: Database,
    superuser: asyncpg.Connection[Any],
    anthropic_server: AnthropicServer,
    google_server: GoogleServer,
    kind: str,
    model: str,
    stream: bool,
) -> None:
    server: VendorServer = anthropic_server if kind == "anthropic" else google_server
    await lab.connect(kind, server)
    await cap(lab, 1_000_000_000)
    # One at a time: a slot that stayed taken would stop the next one.
    await agree(platform_db, lab.person.tenant_id, concurrent_model_calls=1)
    for number, face in enumerate(FACES, 1):
        server.queue(Fault.stall(reply=LONG))
        await leave_early(lab, face, server, model, stream)
        await server.wait_cancelled(number)
        await finished_calls(lab, number)
    server.reply(Reply(text="still here"))
    answer = await CHAT.call(lab.models, model, stream=stream)
    assert CHAT.read(answer, stream=stream) == "still here"
    *left, answered = await finished_calls(lab, len(FACES) + 1)
    assert answered["outcome"] == "answered"
    for call in left:
        assert (call["outcome"], call["error_class"]) == ("cancelled", None)
        assert call["estimated"] is True
        assert call["streamed"] is stream
        # The provider may have read it all; it has written nothing.
        assert 0 < call["input_tokens"] < 200
        assert call["output_tokens"] == 0
        assert call["cost_micros"] > 0
    await nothing_is_held(superuser, lab)


@pytest.mark.parametrize(("kind", "model"), [("anthropic", CLAUDE), ("google", GEMINI)])
async def test_in_the_middle_of_a_stream(
    lab: Lab,
    platform_db: Database,
    superuser: asyncpg.Connection[Any],
    anthropic_server: AnthropicServer,
    google_server: GoogleServer,
    kind: str,
    model: str,
) -> None:
    server: VendorServer = anthropic_server if kind == "anthropic" else google_server
    await lab.connect(kind, server)
    await cap(lab, 1_000_000_000)
    await agree(platform_db, lab.person.tenant_id, concurrent_model_calls=1)
    for number, face in enumerate(FACES, 1):
        server.queue(Fault.stall(after_chunks=10, reply=LONG))
        async with lab.models.stream("POST", face.path, json=face.ask(model, True)) as answer:
            assert answer.status_code == 200
            lines = answer.aiter_lines()
            while "word18" not in await anext(lines):
                pass
        cancelled = await server.wait_cancelled(number)
        assert cancelled.chunks == 10
        await finished_calls(lab, number)
    for call in await finished_calls(lab, len(FACES)):
        assert (call["outcome"], call["error_class"]) == ("cancelled", None)
        assert call["estimated"] is True
        assert call["input_tokens"] > 0
        # Ten of twenty pieces, of two words each.
        assert 10 <= call["output_tokens"] <= 60
        assert call["cost_micros"] > 0
        assert call["first_byte_ms"] is not None
    await nothing_is_held(superuser, lab)


async def test_in_the_middle_of_a_whole_answer(
    lab: Lab, superuser: asyncpg.Connection[Any], anthropic_server: AnthropicServer
) -> None:
    await lab.connect("anthropic", anthropic_server)
    for number, face in enumerate(FACES, 1):
        # Half of the body is there.
        anthropic_server.queue(Fault.stall(after_chunks=1, reply=LONG))
        await leave_early(lab, face, anthropic_server, CLAUDE, stream=False)
        await anthropic_server.wait_cancelled(number)
    for call in await finished_calls(lab, len(FACES)):
        assert (call["outcome"], call["estimated"]) == ("cancelled", True)
        assert call["input_tokens"] > 0
    await nothing_is_held(superuser, lab)


async def test_in_the_opening_of_a_stream(
    lab: Lab, superuser: asyncpg.Connection[Any], anthropic_server: AnthropicServer
) -> None:
    # The stream has begun, but said nothing: it is held back, because it could go elsewhere.
    await lab.connect("anthropic", anthropic_server)
    anthropic_server.queue(Fault.stall(after_events=2, reply=LONG))
    await leave_early(lab, MESSAGES, anthropic_server, CLAUDE, stream=True)
    await anthropic_server.wait_cancelled()
    (call,) = await finished_calls(lab, 1)
    assert (call["outcome"], call["estimated"]) == ("cancelled", True)
    # What its opening said.
    assert call["input_tokens"] == 2
    await nothing_is_held(superuser, lab)


async def test_while_waiting_for_a_turn(
    lab: Lab,
    platform_db: Database,
    superuser: asyncpg.Connection[Any],
    anthropic_server: AnthropicServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Looked for at once, so that it is noticed before the turn comes.
    monkeypatch.setattr(exchange, "_WATCH_AFTER_SECONDS", 0)
    await lab.connect("anthropic", anthropic_server)
    await agree(platform_db, lab.person.tenant_id, concurrent_model_calls=1)
    anthropic_server.queue(Fault.stall(reply=LONG))
    first = asyncio.create_task(CHAT.call(lab.models, CLAUDE, stream=False))
    await anthropic_server.wait_stalled()
    waiting = asyncio.create_task(CHAT.call(lab.models, CLAUDE, stream=False))
    await come_and_go(lab)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await come_and_go(lab)
    anthropic_server.release()
    assert (await first).status_code == 200
    assert (await CHAT.call(lab.models, CLAUDE, stream=False)).status_code == 200
    # Nothing was asked for the one that left, so there is nothing to book.
    assert [call["outcome"] for call in await finished_calls(lab, 2)] == ["answered"] * 2
    await nothing_is_held(superuser, lab)


async def come_and_go(lab: Lab) -> None:
    """A call without a turn. Once it is answered, what was sent before it has arrived, too."""
    body = {"model": CLAUDE, "messages": [{"role": "user", "content": "x"}]}
    answer = await lab.models.post("/api/ai/anthropic/v1/messages/count_tokens", json=body)
    assert answer.status_code == 200


async def test_the_demo_model_stops_as_well(
    lab: Lab, platform_db: Database, superuser: asyncpg.Connection[Any]
) -> None:
    await agree(platform_db, lab.person.tenant_id, concurrent_model_calls=1)
    body = {
        "model": "demo",
        "max_tokens": 500,
        "stream": True,
        "messages": [{"role": "user", "content": "```demo\nrepeat 9 tick\nwait 5000\nsay x\n```"}],
    }
    async with lab.models.stream("POST", MESSAGES.path, json=body) as answer:
        assert answer.status_code == 200
        lines = answer.aiter_lines()
        while "tick" not in await anext(lines):
            pass
    (call,) = await finished_calls(lab, 1)
    assert (call["provider"], call["outcome"], call["cost_micros"]) == ("demo", "cancelled", 0)
    assert call["duration_ms"] < 5000
    assert call["output_tokens"] > 0
    await nothing_is_held(superuser, lab)


async def test_a_caller_who_never_sends_the_body(lab: Lab) -> None:
    async def never_ending() -> Any:
        yield b'{"model": "demo", '
        raise httpx.WriteError("gone")

    with pytest.raises(httpx.WriteError):
        await lab.models.post(CHAT.path, content=never_ending())
    assert (await CHAT.call(lab.models, "demo", stream=False)).status_code == 200
    await finished_calls(lab, 1)
