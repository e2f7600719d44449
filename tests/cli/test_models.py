"""`agentos models` against a real gateway and servers of the vendors' kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.gateways import Gateway

from agentos.cli.models import _micros, _money
from agentos.kernel.errors import Invalid
from agentos.kernel.settings import Settings
from agentos.testing.vendors import AnthropicServer, OllamaServer

from .conftest import Cli, FakeGateway, Request

KEY = "sk-ant-cli-canary-4f1c"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, ollama_url="http://127.0.0.1:9")


@pytest.fixture
async def owner(cli: Cli, gateway: Gateway) -> Cli:
    person = await gateway.tenant()
    key = await gateway.api_key(person.tenant_id)
    return Cli(cli.env | {"AGENTOS_URL": gateway.url, "AGENTOS_API_KEY": key})


async def test_empty_tables_say_what_to_do(owner: Cli) -> None:
    providers = await owner("models", "providers", "list")
    assert "agentos models providers add" in providers.out
    assert "ollama serve" in (await owner("models", "providers", "detect")).out
    assert "agentos models chain set" in (await owner("models", "chain", "show")).out
    assert "agentos models prices set" in (await owner("models", "prices", "list")).out
    listed = await owner("models", "list")
    assert listed.out.splitlines()[1].split() == ["demo/demo", "free", "free", "free", "32000"]
    assert "unavailable" in (await owner("models", "list", "--json")).json


async def test_providers(owner: Cli) -> None:
    async with AnthropicServer(key=KEY) as server:
        made = await owner(
            *("models", "providers", "add", "anthropic", "--key-stdin", "--base-url", server.url),
            "--json",
            stdin=f"{KEY}\n",
        )
        assert (made.json["name"], made.json["last_four"]) == ("anthropic", "4f1c")
        tried = await owner("models", "providers", "test", "anthropic")
        assert tried.out.startswith(f"anthropic works: {len(server.models)} models")
        listed = await owner("models", "list", "--provider", "anthropic")
        assert "anthropic/claude-sonnet-4-5" in listed.out
        assert "$3.00" in listed.out
        demo = await owner("models", "list", "--provider", "demo", "--json")
        assert [item["id"] for item in demo.json["items"]] == ["demo/demo"]

        changed = await owner(
            *("models", "providers", "update", made.json["id"], "--key-from-env", "NEW"),
            "--requests-per-minute",
            "7",
            NEW="sk-ant-wrong-99aa",
        )
        assert changed.out == "Changed anthropic.\n"
        shown = await owner("models", "providers", "list")
        assert "99aa" in shown.out
        failed = await owner("models", "providers", "test", "anthropic", code=1)
        assert "does not work (auth)" in failed.out
        assert "providers update" in failed.out
        again = await owner("models", "providers", "test", "anthropic", "--json", code=1)
        assert again.json["ok"] is False
    note = await owner("models", "list")
    assert "demo/demo" in note.out
    assert "anthropic is missing here" in note.err
    await owner("models", "providers", "update", "anthropic", "--requests-per-minute", "0")
    (row,) = (await owner("models", "providers", "list", "--json")).json
    assert row["requests_per_minute"] is None
    removed = await owner("models", "providers", "remove", "anthropic")
    assert removed.out == "Removed anthropic.\n"
    missing = await owner("models", "providers", "remove", "anthropic", code=5)
    assert "providers list" in missing.err
    trail = json.dumps((await owner("audit", "list", "--json")).json)
    assert KEY not in trail


async def test_a_key_is_never_an_argument(owner: Cli) -> None:
    where = await owner("models", "providers", "add", "openai", code=2)
    assert "--key-stdin" in where.err
    unset = await owner("models", "providers", "add", "openai", "--key-from-env", "NONE", code=2)
    assert "NONE is not set" in unset.err
    await owner("models", "providers", "add", "openai", "--key", KEY, code=2)


async def test_ollama_needs_none(owner: Cli) -> None:
    async with OllamaServer() as server:
        url = ("--base-url", server.url)
        await owner("models", "providers", "add", "ollama", "--name", "local", *url)
        assert "local works" in (await owner("models", "providers", "test", "local")).out
        moved = await owner("models", "providers", "update", "local", *url, "--json")
        assert moved.json["last_four"] is None
    twice = await owner("models", "providers", "add", "ollama", "--name", "local", code=6)
    assert "already" in twice.err


async def test_a_local_ollama_is_shown_with_what_to_do(cli: Cli, fake: FakeGateway) -> None:
    found = {"kind": "ollama", "base_url": "http://127.0.0.1:11434", "models": ["a", "b"]}
    fake.handler = lambda _: (200, {"items": [found]})
    cli = Cli(cli.env | {"AGENTOS_URL": fake.url, "AGENTOS_API_KEY": "sk_x"})
    shown = await cli("models", "providers", "detect")
    assert "agentos models providers add ollama" in shown.out
    assert (await cli("models", "providers", "detect", "--json")).json == [found]


async def test_removing_a_key(cli: Cli, fake: FakeGateway) -> None:
    known = {"id": "1", "name": "custom", "kind": "custom", "last_four": "4f1c"}

    def answer(request: Request) -> tuple[int, object]:
        listing = request.method == "GET"
        return 200, {"items": [known], "next_cursor": None} if listing else known

    fake.handler = answer
    cli = Cli(cli.env | {"AGENTOS_URL": fake.url, "AGENTOS_API_KEY": "sk_x"})
    await cli("models", "providers", "update", "custom", "--remove-key")
    assert fake.seen[-1].json == {"key": None}
    # A new address takes the key with it only if it is given again.
    moved = ("models", "providers", "update", "custom", "--base-url", "http://x.example")
    await cli(*moved, "--key-stdin", stdin=f"{KEY}\n")
    assert fake.seen[-1].json == {"base_url": "http://x.example", "key": KEY}
    assert "--key-stdin" in (await cli(*moved, code=2)).err


async def test_chain(owner: Cli) -> None:
    done = await owner("models", "chain", "set", "demo/demo", "demo/other", "--on", "auth")
    assert done.out == "demo/demo → demo/other, after auth.\n"
    assert "demo/other" in (await owner("models", "chain", "show")).out
    shown = (await owner("models", "chain", "show", "--json")).json
    assert shown["fall_back_on"] == ["auth"]
    refused = await owner("models", "chain", "set", "demo/demo", "nobody/x", code=2)
    assert "Target 2" in refused.err
    await owner("models", "chain", "clear")
    assert (await owner("models", "chain", "show", "--json")).json["targets"] == []


async def test_prices_and_estimates(owner: Cli) -> None:
    free = await owner("models", "estimate", "demo", "--input-tokens", "10")
    assert "up to $0.00" in free.out
    done = await owner(
        *("models", "prices", "set", "demo/demo", "--input", "$2.50", "--output", "10"),
        "--json",
    )
    assert (done.json["input"], done.json["output"]) == (2_500_000, 10_000_000)
    assert "$2.50" in (await owner("models", "prices", "list")).out
    cost = await owner(
        *("models", "estimate", "demo/demo", "--text", "-", "--max-tokens", "100"), stdin="x" * 400
    )
    assert cost.out == (
        "100 tokens in and up to 100 out at demo/demo: up to $0.00125, "
        "$0.001438 as AgentOS charges it.\n"
    )
    asked = await owner("models", "estimate", "demo", "--text", "hi", "--json")
    assert asked.json["price_source"] == "own"
    await owner("models", "estimate", "demo", code=2)
    await owner("models", "estimate", "nothing-like-it", "--input-tokens", "1", code=5)
    removed = await owner("models", "prices", "remove", "demo/demo")
    assert removed.out == "Removed the price of demo/demo.\n"
    await owner("models", "prices", "remove", "demo/demo", code=5)
    await owner("models", "prices", "set", "demo", "--input", "1", "--output", "1", code=2)
    await owner("models", "prices", "set", "demo/x", "--input", "cheap", "--output", "1", code=2)


async def test_an_unknown_price_says_how_to_set_it(owner: Cli) -> None:
    url = "http://127.0.0.1:9"
    await owner("models", "providers", "add", "custom", "--base-url", url)
    shown = await owner("models", "estimate", "custom/x", "--input-tokens", "5")
    assert "not known" in shown.out
    assert "agentos models prices set custom/x" in shown.out


@pytest.mark.parametrize(
    ("text", "micros"), [("3", 3_000_000), ("$0.075", 75_000), ("0", 0), ("0.000001", 1)]
)
def test_dollars_become_whole_micros(text: str, micros: int) -> None:
    assert _micros(text) == micros


@pytest.mark.parametrize("text", ["", "-1", "nan", "inf", "0.0000001", "1,5", "x"])
def test_what_is_no_price(text: str) -> None:
    with pytest.raises(Invalid):
        _micros(text)


@pytest.mark.parametrize(
    ("micros", "text"), [(0, "$0.00"), (3_000_000, "$3.00"), (75_000, "$0.075"), (1, "$0.000001")]
)
def test_micros_become_dollars(micros: int, text: str) -> None:
    assert _money(micros) == text
