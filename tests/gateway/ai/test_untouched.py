"""Where caller and provider speak the same, bytes pass as they are, both ways."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.gateway.ai.conftest import CLAUDE, GPT, Lab
from tests.gateway.ai.faces import CHAT, MESSAGES, RESPONSES, Face

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@dataclass
class RawServer:
    """Answers every request with the bytes it was given, in the pieces it was given."""

    url: str = ""
    pieces: list[bytes] = field(default_factory=list)
    content_type: str = "application/json"
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.read())
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        response = web.StreamResponse(
            headers={
                "Content-Type": self.content_type,
                "Set-Cookie": "session=provider",
                "X-Provider-Secret": "inside",
            }
        )
        await response.prepare(request)
        for piece in self.pieces:
            await response.write(piece)
        await response.write_eof()
        return response


@pytest.fixture
async def raw() -> AsyncIterator[RawServer]:
    server = RawServer()
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


@pytest.fixture
async def connected(lab: Lab, raw: RawServer) -> Lab:
    """Both vendors at the same server."""
    for kind, url in (("anthropic", raw.url), ("openai", f"{raw.url}/v1")):
        body = {"kind": kind, "base_url": url, "key": f"key-of-{kind}"}
        answer = await lab.person.client.post("/api/models/providers", json=body)
        assert answer.status_code == 201, answer.text
    return lab


CHAT_ANSWER = (
    b'{\r\n  "id":"x" , "choices":[{"message":{"role":"assistant","content":"\\u00e9\\/ok",'
    b'"new_thing":[1,2.50,{}]},"index":0,"finish_reason":"stop"}],"model":"gpt-5.2",\t'
    b'"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"novel":null},"zz":1e5}\n'
)
RESPONSES_ANSWER = (
    b' {"id":"resp_1","object":"response","status":"completed","output":[{"type":"mystery",'
    b'"deep":{"a":[null]}}],"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}, "n":0.10}'
)
MESSAGES_ANSWER = (
    b'{"type":"message","id":"msg","role":"assistant","content":[{"type":"never_seen","x":1}],'
    b'"stop_reason":"end_turn","model":"claude","usage":{"input_tokens":3,"output_tokens":2}}  \n'
)
CHAT_STREAM = (
    b": hello, I am a comment\n\n"
    b'data: {"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\r\n\r\n'
    b'data:{"id":"x","choices":[{"index":0,"delta":{"content":"sch\xc3\xb6n"}}]}\n\n'
    b"event: unknown.event\nid: 7\nretry: 3000\n"
    b'data: {"choices":[{"index":0,"delta":{"hologram":"???"}}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
    b"data: [DONE]\n\n"
    b": the end\n\n"
)
RESPONSES_STREAM = (
    b'event: response.created\r\ndata: {"type":"response.created","response":{"id":"r"}}\r\n\r\n'
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta",'
    b'"output_index":0,"content_index":0,"item_id":"m","delta":"hi"}\n\n'
    b'event: response.brand_new\ndata: {"type":"response.brand_new","x":[1, 2]}\n\n'
    b": ping\n\n"
    b'event: response.completed\ndata: {"type":"response.completed","response":{"id":"r",'
    b'"status":"completed","output":[],"usage":{"input_tokens":3,"output_tokens":2,'
    b'"total_tokens":5}}}\n\n'
)
MESSAGES_STREAM = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","role":"assistant",'
    b'"content":[],"model":"claude","usage":{"input_tokens":3,"output_tokens":1}}}\n\n'
    b'event: ping\r\ndata: {"type": "ping"}\r\n\r\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"text","text":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":"hi \xf0\x9f\xa6\x89"}}\n\n'
    b'event: from_the_future\ndata: {"type":"from_the_future","usage_of":"nothing"}\n\n'
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},'
    b'"usage":{"output_tokens":2}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)
WHOLE = {"chat": CHAT_ANSWER, "responses": RESPONSES_ANSWER, "messages": MESSAGES_ANSWER}
STREAM = {"chat": CHAT_STREAM, "responses": RESPONSES_STREAM, "messages": MESSAGES_STREAM}
SAME_FACES = [(CHAT, GPT), (RESPONSES, GPT), (MESSAGES, CLAUDE)]


def odd_body(face: Face, model: str, chance: random.Random, *, stream: bool) -> bytes:
    """A request with fields that nobody knows, in an odd order, with odd white space."""
    image: Any
    if face is MESSAGES:
        image = {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
        }
    elif face is CHAT:
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    else:
        image = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}
    said = "".join(chance.choices('añ日🦉\\"/\u2028\n\t {}[]:,', k=chance.randrange(40)))
    turns = [{"role": "user", "content": [image, {"type": "text", "text": said}]}]
    fields: dict[str, Any] = {
        "model": model,
        "max_completion_tokens" if face is CHAT else "max_tokens": 90,
        "input" if face is RESPONSES else "messages": turns,
        "tools": [{"name": "f", "type": "custom", "parameters": {"type": "object", "x": 1.50}}],
        "something_new": {"nested": [1, None, {"model": "decoy", "stream": 7}], "é": 1e-7},
        "temperature": 0.70,
        "metadata": {"user_id": said[:10]},
    }
    if stream:
        fields["stream"] = True
        if face is CHAT:
            fields["stream_options"] = {"include_usage": True, "more": 1}
    names = list(fields)
    chance.shuffle(names)

    def space() -> str:
        return "".join(chance.choices(" \n\r\t", k=chance.randrange(3)))

    ascii_only = chance.random() < 0.5
    members = [
        f"{space()}{json.dumps(name)}{space()}:{space()}"
        f"{json.dumps(fields[name], ensure_ascii=ascii_only, indent=chance.choice([None, 1]))}"
        for name in names
    ]
    return f"{space()}{{{','.join(members)}{space()}}}{space()}".encode()


@pytest.mark.parametrize(("face", "model"), SAME_FACES, ids=lambda each: getattr(each, "name", ""))
async def test_requests_arrive_as_they_were_sent(
    connected: Lab, raw: RawServer, face: Face, model: str
) -> None:
    chance = random.Random(7)
    for turn in range(30):
        stream = bool(turn % 2)
        raw.pieces = [STREAM[face.name] if stream else WHOLE[face.name]]
        raw.content_type = "text/event-stream" if stream else "application/json"
        body = odd_body(face, model, chance, stream=stream)
        answer = await connected.models.post(face.path, content=body)
        assert answer.status_code == 200, answer.text
        assert raw.bodies[-1] == body


@pytest.mark.parametrize(("face", "model"), SAME_FACES, ids=lambda each: getattr(each, "name", ""))
async def test_a_prefixed_name_changes_the_name_alone(
    connected: Lab, raw: RawServer, face: Face, model: str
) -> None:
    chance = random.Random(11)
    prefixed = f"{'anthropic' if face is MESSAGES else 'openai'}/{model}"
    raw.pieces = [WHOLE[face.name]]
    for _ in range(30):
        body = odd_body(face, prefixed, chance, stream=False)
        answer = await connected.models.post(face.path, content=body)
        assert answer.status_code == 200, answer.text
        sent, came = _members(body), _members(raw.bodies[-1])
        assert came.pop("model") == json.dumps(model).encode()
        del sent["model"]
        # Every other value byte for byte, and in the same order.
        assert list(came.items()) == list(sent.items())


def _members(body: bytes) -> dict[str, bytes]:
    raws = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return {name: bytes(value).strip() for name, value in raws.items()}


@pytest.mark.parametrize(("face", "model"), SAME_FACES, ids=lambda each: getattr(each, "name", ""))
async def test_answers_arrive_as_they_were_sent(
    connected: Lab, raw: RawServer, face: Face, model: str
) -> None:
    chance = random.Random(13)
    raw.pieces = [WHOLE[face.name][:20], WHOLE[face.name][20:]]
    answer = await face.call(connected.models, model, stream=False)
    assert answer.content == WHOLE[face.name]
    raw.content_type = "text/event-stream"
    body = face.ask(model, True) | (
        {"stream_options": {"include_usage": True}} if face is CHAT else {}
    )
    told = STREAM[face.name]
    for _ in range(15):
        cuts = sorted(chance.sample(range(1, len(told)), 9))
        raw.pieces = [told[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
        answer = await connected.models.post(face.path, json=body)
        assert answer.content == told
        assert answer.headers["content-type"].startswith("text/event-stream")
    # And they were metered all the same.
    calls = await connected.calls()
    assert len(calls) == 16
    for call in calls:
        assert (call["outcome"], call["estimated"]) == ("answered", False)
        assert (call["input_tokens"], call["output_tokens"]) == (3, 2)


async def test_only_usage_that_was_not_asked_for_is_taken_out(
    connected: Lab, raw: RawServer
) -> None:
    raw.content_type, raw.pieces = "text/event-stream", [CHAT_STREAM]
    answer = await CHAT.call(connected.models, GPT, stream=True)
    assert b'"usage"' not in answer.content
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
    assert answer.content == CHAT_STREAM.replace(usage, b"")
    assert json.loads(raw.bodies[-1])["stream_options"] == {"include_usage": True}
    (call,) = await connected.calls()
    assert (call["input_tokens"], call["output_tokens"]) == (3, 2)


async def test_headers(connected: Lab, raw: RawServer) -> None:
    secret = connected.key
    client = await connected.gateway.client()
    for face, model in SAME_FACES:
        raw.pieces = [WHOLE[face.name]]
        answer = await client.post(
            face.path,
            json=face.ask(model, False),
            headers={
                "x-api-key": secret,
                "anthropic-version": "2023-06-01",
                "anthropic-beta": "one-2025,two-2026",
                "openai-beta": "assistants=v9",
                "cookie": f"agentos_access={secret}; theme=dark",
                "x-forwarded-for": "203.0.113.9",
                "forwarded": "for=203.0.113.9",
                "user-agent": "caller/1",
                "x-stainless-lang": "python",
                "referer": "https://intranet.example/",
                "te": "trailers",
                "connection": "keep-alive, x-hop",
                "x-hop": "1",
                "x-agentos-session": "0192f0c1-0000-7000-8000-000000000001",
            },
        )
        assert answer.status_code == 200, answer.text
        came = raw.headers[-1]
        # The wire's own headers arrive, and the provider's key.
        if face is MESSAGES:
            assert came.pop("anthropic-version") == "2023-06-01"
            assert came.pop("anthropic-beta") == "one-2025,two-2026"
            assert came.pop("x-api-key") == "key-of-anthropic"
        else:
            assert came.pop("authorization") == "Bearer key-of-openai"
        assert came.pop("content-type") == "application/json"
        wire = {"anthropic-version", "anthropic-beta", "openai-beta"}
        transport = {"host", "accept", "accept-encoding", "content-length", "traceparent"}
        assert set(came) <= wire | transport, came
        assert secret not in str(raw.headers)
        # Of the provider's headers, none comes back.
        assert not {"set-cookie", "x-provider-secret"} & set(answer.headers)


async def test_headers_of_one_vendor_do_not_reach_another(connected: Lab, raw: RawServer) -> None:
    raw.pieces = [CHAT_ANSWER]
    answer = await connected.models.post(
        MESSAGES.path,
        json=MESSAGES.ask(GPT, False),
        headers={"anthropic-version": "2023-06-01", "anthropic-beta": "secret-project"},
    )
    assert answer.status_code == 200, answer.text
    assert not any(name.startswith("anthropic") for name in raw.headers[-1])
