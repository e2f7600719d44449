"""Every provider of the registry against a local server that speaks its vendor's wire format."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, get_args
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from agentos.integrations.models.aiohttp_upstream import AiohttpUpstream
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.providers import PROVIDERS
from agentos.integrations.models.providers.anthropic import ANTHROPIC
from agentos.integrations.models.providers.asking import masked
from agentos.integrations.models.providers.base import Connection, ModelInfo, ProviderFailed
from agentos.integrations.models.providers.google import GOOGLE
from agentos.integrations.models.providers.ollama import OLLAMA
from agentos.integrations.models.providers.openai import OPENAI
from agentos.integrations.models.providers.openrouter import OPENROUTER
from agentos.integrations.models.schemas import ProviderKind
from agentos.integrations.models.upstream import UpstreamLost, UpstreamTimeout
from agentos.integrations.models.wires.base import WireName
from agentos.testing import Fault
from agentos.testing.vendors import SERVERS

CONNECTABLE = sorted(set(get_args(ProviderKind)))
KEYED = [kind for kind in CONNECTABLE if PROVIDERS[kind].needs_key]


@pytest.fixture
async def upstream() -> AsyncIterator[AiohttpUpstream]:
    client = AiohttpUpstream()
    yield client
    await client.close()


def test_the_schema_names_exactly_what_can_be_connected() -> None:
    assert set(CONNECTABLE) == set(PROVIDERS) - {"demo"}
    assert all(kind == provider.kind for kind, provider in PROVIDERS.items())


# Against the vendors' servers


@pytest.mark.parametrize("kind", CONNECTABLE)
async def test_a_good_key_lists_the_models(kind: str, upstream: AiohttpUpstream) -> None:
    async with SERVERS[kind]() as server:
        connection = Connection(server.url, server.key or None)
        found = await PROVIDERS[kind].models(upstream, connection)
        asked = server.requests
    expected = set(server.models)
    if kind == "google":  # the list leaves out what does not generate text
        expected = {name for name in expected if "embedding" not in name}
    assert {info.id for info in found} == expected
    assert all(request.method == "GET" for request in asked)


@pytest.mark.parametrize("kind", KEYED)
async def test_a_wrong_key_is_told_apart(kind: str, upstream: AiohttpUpstream) -> None:
    wrong = "sk-not-the-right-one-4f1c"
    async with SERVERS[kind]() as server:
        with pytest.raises(ProviderFailed) as failed:
            await PROVIDERS[kind].models(upstream, Connection(server.url, wrong))
    assert failed.value.failure.error_class is ErrorClass.AUTH
    assert failed.value.failure.message
    assert wrong not in failed.value.failure.message


FAULTS = [
    (Fault.rate_limit(7), ErrorClass.RATE_LIMIT),
    (Fault.overload(), ErrorClass.OVERLOAD),
    (Fault.server_error(), ErrorClass.OVERLOAD),
    (Fault.auth(), ErrorClass.AUTH),
    (Fault.html(502), ErrorClass.OVERLOAD),
    (Fault.html(404), ErrorClass.NOT_FOUND),
    (Fault.refuse(), ErrorClass.OVERLOAD),
    (Fault.malformed(), ErrorClass.OVERLOAD),
]


@pytest.mark.parametrize("kind", CONNECTABLE)
@pytest.mark.parametrize(("fault", "expected"), FAULTS, ids=lambda value: str(value)[:40])
async def test_every_fault_has_its_class(
    kind: str, fault: Fault, expected: ErrorClass, upstream: AiohttpUpstream
) -> None:
    async with SERVERS[kind]() as server:
        server.queue(*[fault] * 6, on="models")  # a lost connection is tried again
        with pytest.raises(ProviderFailed) as failed:
            await PROVIDERS[kind].models(upstream, Connection(server.url, server.key or None))
    assert failed.value.failure.error_class is expected
    assert failed.value.failure.message


async def test_nobody_there(upstream: AiohttpUpstream) -> None:
    async with SERVERS["ollama"]() as server:
        url = server.url
    with pytest.raises(ProviderFailed) as failed:
        await OLLAMA.models(upstream, Connection(url, None))
    assert failed.value.failure.error_class is ErrorClass.OVERLOAD


# Against answers written out here


@dataclass
class CannedAnswer:
    status: int
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def header(self, name: str) -> str | None:
        return self.headers.get(name)

    async def body(self, most: int) -> bytes:
        assert len(self.content) <= most
        return self.content

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.content


class CannedUpstream:
    """Answers by path and remembers what it was asked."""

    def __init__(self, *answers: CannedAnswer | Exception):
        self.answers = list(answers)
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    @asynccontextmanager
    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[CannedAnswer]:
        assert (method, body) == ("GET", None)
        assert timeout is not None
        self.asked.append((url, dict(headers)))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        yield answer

    async def close(self) -> None:
        return None


def ok(document: Any) -> CannedAnswer:
    return CannedAnswer(200, msgspec.json.encode(document))


async def test_anthropic_pages_are_all_read() -> None:
    upstream = CannedUpstream(
        ok(
            {
                "data": [
                    {"id": "claude-a", "max_input_tokens": 200_000, "lifecycle": "active"},
                    {"id": "claude-0", "lifecycle": "retired"},
                ],
                "has_more": True,
                "last_id": "claude/0&x",
            }
        ),
        ok({"data": [{"id": "claude-b"}], "has_more": False, "last_id": "claude-b"}),
    )
    found = await ANTHROPIC.models(upstream, Connection("https://api.anthropic.com", "k3y"))
    assert found == [ModelInfo("claude-a", 200_000), ModelInfo("claude-b")]
    (first, headers), (second, _) = upstream.asked
    assert first == "https://api.anthropic.com/v1/models?limit=1000"
    assert parse_qs(urlsplit(second).query) == {"limit": ["1000"], "after_id": ["claude/0&x"]}
    assert headers == {"x-api-key": "k3y", "anthropic-version": "2023-06-01"}


async def test_google_pages_are_all_read() -> None:
    upstream = CannedUpstream(
        ok(
            {
                "models": [
                    {
                        "name": "models/gemini-a",
                        "inputTokenLimit": 1_048_576,
                        "supportedGenerationMethods": ["generateContent"],
                    },
                    {
                        "name": "models/text-embedding-004",
                        "supportedGenerationMethods": ["embedContent"],
                    },
                ],
                "nextPageToken": "a+b",
            }
        ),
        ok({"models": [{"name": "models/gemini-b"}]}),
    )
    found = await GOOGLE.models(upstream, Connection("https://g.example/v1beta", "k3y"))
    assert found == [ModelInfo("gemini-a", 1_048_576), ModelInfo("gemini-b")]
    (_, headers), (second, _) = upstream.asked
    assert parse_qs(urlsplit(second).query)["pageToken"] == ["a+b"]
    assert headers == {"x-goog-api-key": "k3y"}


async def test_a_list_without_end_is_left() -> None:
    page = {"data": [{"id": "claude-a"}], "has_more": True, "last_id": "claude-a"}
    upstream = CannedUpstream(*[ok(page)] * 100)
    await ANTHROPIC.models(upstream, Connection("https://a.example", "k"))
    assert len(upstream.asked) == 20


async def test_openrouter_asks_about_the_key_because_its_list_is_public() -> None:
    bad = CannedAnswer(401, b'{"error":{"message":"User not found.","code":401}}')
    upstream = CannedUpstream(bad, ok({"data": [{"id": "openai/gpt-4o"}]}))
    with pytest.raises(ProviderFailed) as failed:
        await OPENROUTER.models(upstream, Connection("https://o.example/api/v1", "k3y"))
    assert failed.value.failure.error_class is ErrorClass.AUTH
    assert [url for url, _ in upstream.asked] == ["https://o.example/api/v1/key"]

    good = CannedUpstream(
        ok({"data": {"label": "x"}}), ok({"data": [{"id": "a/b", "context_length": 8192}]})
    )
    found = await OPENROUTER.models(good, Connection("https://o.example/api/v1", "k3y"))
    assert found == [ModelInfo("a/b", 8192)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>hello</html>",
        b"[]",
        b"null",
        b'{"data": 3}',
        b'{"data": ["gpt-4o"]}',
        b'{"data": [{"id": 4}]}',
        b'{"data": [{}]}',
        b"\xff\xfe",
    ],
)
async def test_something_else_at_the_address(content: bytes) -> None:
    upstream = CannedUpstream(CannedAnswer(200, content))
    with pytest.raises(ProviderFailed, match="does not speak"):
        await OPENAI.models(upstream, Connection("https://x.example", "k"))


async def test_no_models_is_an_answer() -> None:
    upstream = CannedUpstream(ok({"models": None}))
    assert await OLLAMA.models(upstream, Connection("http://127.0.0.1:11434", None)) == []
    assert upstream.asked == [("http://127.0.0.1:11434/api/tags", {})]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UpstreamTimeout(), ErrorClass.TIMEOUT),
        (TimeoutError(), ErrorClass.TIMEOUT),
        (UpstreamLost("ClientConnectorError"), ErrorClass.OVERLOAD),
    ],
)
async def test_silence_and_loss(error: Exception, expected: ErrorClass) -> None:
    with pytest.raises(ProviderFailed) as failed:
        await OPENAI.models(CannedUpstream(error), Connection("https://x.example", "k"))
    assert failed.value.failure.error_class is expected


async def test_a_key_that_a_provider_repeats_is_masked() -> None:
    key = 'sk-"quoted\\4f1c'
    said = msgspec.json.encode({"error": {"message": f"Bad key {key} given", "code": "x"}})
    upstream = CannedUpstream(CannedAnswer(401, said, {"retry-after": "12"}))
    with pytest.raises(ProviderFailed) as failed:
        await OPENAI.models(upstream, Connection("https://x.example", key))
    assert failed.value.failure.message == "Bad key ••• given"
    assert failed.value.failure.status == 401
    assert failed.value.failure.retry_after == 12
    assert key not in repr(failed.value) + repr(Connection("https://x.example", key))


def test_masking_knows_no_other_secret() -> None:
    assert masked("other-secret and my+key, my%2Bkey", "my+key") == "other-secret and •••, •••"
    assert masked("nothing", None) == "nothing"


# Where and how


def test_addresses() -> None:
    google = Connection("https://g.example/v1beta", "k")
    generate = WireName.GENERATE
    assert GOOGLE.url(google, generate, "gemini-2.5-pro", stream=False) == (
        "https://g.example/v1beta/models/gemini-2.5-pro:generateContent"
    )
    assert GOOGLE.url(google, generate, "models/gemini-2.5-pro", stream=True) == (
        "https://g.example/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
    )
    # A name cannot lead anywhere else with the key.
    assert GOOGLE.url(google, generate, "../../x?y#{z}", stream=False) == (
        "https://g.example/v1beta/models/..%2F..%2Fx%3Fy%23%7Bz%7D:generateContent"
    )
    local = Connection("http://127.0.0.1:11434", None)
    assert OLLAMA.url(local, WireName.CHAT, "m", stream=True) == (
        "http://127.0.0.1:11434/v1/chat/completions"
    )
    assert OLLAMA.headers(local) == {}
    assert OLLAMA.headers(Connection("http://x", "k")) == {"Authorization": "Bearer k"}


@pytest.mark.parametrize("kind", CONNECTABLE)
def test_every_wire_has_an_address_under_the_base(kind: str) -> None:
    provider = PROVIDERS[kind]
    connection = Connection("https://base.example/p", "k3y")
    assert provider.paths
    for wire in provider.paths:
        for stream in (False, True):
            url = provider.url(connection, wire, "some-model", stream=stream)
            assert url.startswith("https://base.example/p/")
    assert any("k3y" in value for value in provider.headers(connection).values())
    assert (provider.base_url is None) == (kind == "custom")
    assert not (provider.base_url or "").endswith("/")


@pytest.mark.parametrize(
    ("model", "owners"),
    [
        ("claude-sonnet-4-5", {"anthropic"}),
        ("gpt-5.2", {"openai"}),
        ("o3", {"openai"}),
        ("o4-mini", {"openai"}),
        ("chatgpt-4o-latest", {"openai"}),
        ("text-embedding-3-small", {"openai"}),
        ("ft:gpt-4o-mini:acme::abc", {"openai"}),
        ("gemini-2.5-pro", {"google"}),
        ("models/gemini-2.5-pro", {"google"}),
        ("mistral-large-latest", {"mistral"}),
        ("open-mixtral-8x7b", {"mistral"}),
        ("codestral-2508", {"mistral"}),
        ("llama-3.3-70b-versatile", {"groq"}),
        ("meta-llama/llama-3.3-70b-instruct:free", {"openrouter"}),
        ("llama3.2:latest", {"ollama"}),
        ("mistral:7b", {"ollama"}),
        ("ollama3", set()),
        ("o", set()),
        ("demo", {"demo"}),
    ],
)
def test_names_look_like_their_providers(model: str, owners: set[str]) -> None:
    assert {p.kind for p in PROVIDERS.values() if p.owns(model)} == owners & set(PROVIDERS)
