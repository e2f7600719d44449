"""Native agents on the router: real pydantic-ai agents, on vendors' wires and the built-in model."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import asyncpg
import httpx2
import openai
import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.exceptions import ModelRequestTimeout, UsageLimitExceeded
from pydantic_ai.messages import ModelMessage, UserPromptPart
from pydantic_ai.messages import ModelRequest as AskedOf
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModelSettings
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits
from tests.gateway.ai.conftest import CLAUDE, GEMINI, GPT, Lab, Labs
from tests.gateways import Gateway

from agentos.integrations.models.failures import ModelCallFailed
from agentos.integrations.models.native import AnswerBrokeOff, RouterModel, router_model
from agentos.integrations.models.native.sdk import RouterTransport
from agentos.integrations.models.routing import FaceNotServed, ModelNotFound
from agentos.kernel.database import Database
from agentos.kernel.errors import AgentOSError, Conflict
from agentos.kernel.ids import uuid7
from agentos.tenancy.ledger.calls import FinishedCall, Reservation, Spender
from agentos.tenancy.ledger.errors import BudgetExhausted
from agentos.testing import Fault, Reply
from agentos.testing.scripts import ToolCall
from agentos.testing.vendors import AnthropicServer, GoogleServer, OpenAIServer
from agentos.testing.vendors.base import VendorServer

PRINCIPAL = ("service", "worker-1")
TEXT = "one two three four five six seven eight"
SLOWLY = Reply(text=TEXT, chunks=8)
DEMO = "demo"
NAMES = {
    "openai": f"openai/{GPT}",
    "anthropic": f"anthropic/{CLAUDE}",
    "google": f"google/{GEMINI}",
}
# One that is called on its own wire with either SDK, and one that has to be translated.
EVERY_WIRE = pytest.mark.parametrize("kind", ["openai", "anthropic", "google"])
EITHER_SDK = pytest.mark.parametrize("kind", ["openai", "anthropic"])

Ask = Callable[[Agent[None, str]], Awaitable[str]]


async def run(agent: Agent[None, str]) -> str:
    return (await agent.run("Hello")).output


async def run_stream(agent: Agent[None, str]) -> str:
    async with agent.run_stream("Hello") as result:
        return await result.get_output()


EITHER_WAY = pytest.mark.parametrize("ask", [run, run_stream], ids=["whole", "stream"])


@dataclass
class Vendors:
    """A tenant that has connected every vendor, each a server on this machine."""

    lab: Lab
    servers: dict[str, VendorServer]

    @property
    def spender(self) -> Spender:
        return Spender(self.lab.person.tenant_id)

    async def model(self, kind: str, spender: Spender | None = None, **more: Any) -> RouterModel:
        name = NAMES.get(kind, kind)
        router = self.lab.gateway.models.router
        return await router_model(
            router, name, spender or self.spender, principal=PRINCIPAL, **more
        )

    async def agent(self, kind: str) -> Agent[None, str]:
        return Agent(await self.model(kind))

    async def budget(self, micros: int) -> None:
        answer = await self.lab.person.client.put(
            "/api/budgets", json={"scope": "tenant", "cap_micros": micros}
        )
        assert answer.status_code == 200, answer.text


@pytest.fixture
async def vendors(gateway: Gateway) -> AsyncIterator[Vendors]:
    lab = await Labs(gateway).tenant()
    async with (
        OpenAIServer(models=[GPT]) as openai_server,
        AnthropicServer(models=[CLAUDE]) as anthropic_server,
        GoogleServer(models=[GEMINI]) as google_server,
    ):
        servers = {"openai": openai_server, "anthropic": anthropic_server, "google": google_server}
        for kind, server in servers.items():
            server.reply(SLOWLY)
            await lab.connect(kind, server)
        yield Vendors(lab, servers)


@dataclass
class Books:
    """The ledger, seen from behind."""

    gateway: Gateway
    superuser: asyncpg.Connection[Any]

    async def chains(self) -> list[list[str]]:
        """The entries of every call, oldest first; asserts that nothing is held."""
        await self.gateway.models.router.escrow.flush()
        rows = await self.superuser.fetch(
            """select array_agg(kind order by at, kind) as kinds, sum(held_micros) as micros,
                      sum(held_tokens) as tokens
               from ledger_entries group by call_id order by call_id"""
        )
        assert [(row["micros"], row["tokens"]) for row in rows] == [(0, 0)] * len(rows)
        return [row["kinds"] for row in rows]


@pytest.fixture
def books(gateway: Gateway, superuser: asyncpg.Connection[Any]) -> Books:
    return Books(gateway, superuser)


# What agents do


@EVERY_WIRE
async def test_an_answer(vendors: Vendors, kind: str) -> None:
    vendors.servers[kind].queue(Reply(text="Hello yourself.", input_tokens=12, output_tokens=3))
    result = await (await vendors.agent(kind)).run("Hello")
    assert result.output == "Hello yourself."
    assert (result.usage.input_tokens, result.usage.output_tokens) == (12, 3)
    (call,) = await vendors.lab.calls()
    assert (call["provider"], call["asked_model"], call["outcome"]) == (
        kind,
        NAMES[kind],
        "answered",
    )
    assert (call["principal_kind"], call["principal_id"]) == PRINCIPAL
    assert (call["input_tokens"], call["output_tokens"]) == (12, 3)
    assert call["cost_micros"] > 0


@EITHER_SDK
async def test_calls_are_not_translated_where_they_need_not_be(vendors: Vendors, kind: str) -> None:
    await (await vendors.agent(kind)).run("Hello")
    (request,) = vendors.servers[kind].requests
    assert request.path == {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}[kind]
    (call,) = await vendors.lab.calls()
    assert call["face"] == {"openai": "openai.chat", "anthropic": "anthropic.messages"}[kind]


@pytest.mark.parametrize("kind", ["openai", "anthropic", "google", DEMO])
async def test_a_streamed_answer(vendors: Vendors, kind: str) -> None:
    agent = await vendors.agent(kind)
    async with agent.run_stream(f"```demo\nrepeat 8 {TEXT}\n```") as result:
        pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
    assert len(pieces) > 1
    assert "".join(pieces) == (" ".join([TEXT] * 8) if kind == DEMO else TEXT)
    (call,) = await vendors.lab.calls()
    assert (call["outcome"], call["streamed"], call["estimated"]) == ("answered", True, False)
    assert call["input_tokens"] == result.usage.input_tokens
    assert call["output_tokens"] == result.usage.output_tokens


@EITHER_WAY
@pytest.mark.parametrize("kind", ["openai", "anthropic", "google", DEMO])
async def test_tools(vendors: Vendors, kind: str, ask: Ask) -> None:
    if kind != DEMO:
        vendors.servers[kind].queue(
            Reply(tool_calls=[ToolCall("weather", {"city": "Bern"})]), Reply(text="It is sunny.")
        )
    asked: list[str] = []
    script = """```demo
call weather {"city": "Bern"}
say It is
result
```"""
    agent = Agent(await vendors.model(kind), system_prompt=script)

    @agent.tool_plain
    def weather(city: str) -> str:
        asked.append(city)
        return "sunny."

    assert " ".join((await ask(agent)).split()) == "It is sunny."
    assert asked == ["Bern"]
    assert [call["outcome"] for call in await vendors.lab.calls()] == ["answered", "answered"]


class City(BaseModel):
    name: str
    inhabitants: int


@pytest.mark.parametrize("kind", ["openai", "anthropic", "google", DEMO])
async def test_structured_output(vendors: Vendors, kind: str) -> None:
    if kind != DEMO:
        bern = {"name": "Bern", "inhabitants": 140_000}
        vendors.servers[kind].queue(Reply(tool_calls=[ToolCall("final_result", bern)]))
    agent = Agent(await vendors.model(kind), output_type=City)
    city = (await agent.run("Which city?")).output
    assert isinstance(city, City)
    assert city.name == ("Bern" if kind != DEMO else city.name)


@pytest.mark.parametrize("kind", ["openai", "anthropic", DEMO])
async def test_output_of_a_schema(vendors: Vendors, kind: str) -> None:
    if kind != DEMO:
        vendors.servers[kind].queue(Reply(text='{"name": "Bern", "inhabitants": 140000}'))
    agent = Agent(await vendors.model(kind), output_type=NativeOutput(City))
    assert isinstance((await agent.run("Which city?")).output, City)


async def test_a_model_is_known_by_its_own_name(vendors: Vendors) -> None:
    # What pydantic-ai knows of a model depends on its name, which callers may write in our ways.
    await vendors.lab.chain(NAMES["openai"], on=("overload",))
    for name in (GPT, NAMES["openai"], "auto"):
        profile = (await vendors.model(name)).profile
        assert profile.get("supports_thinking") is True, name
    assert (await vendors.model(DEMO)).system == "demo"


async def test_an_agent_with_a_model_class_of_its_own(vendors: Vendors) -> None:
    transport = RouterTransport(
        vendors.lab.gateway.models.router, vendors.spender, principal=PRINCIPAL
    )
    client = openai.AsyncOpenAI(
        api_key="none",
        base_url="http://router.invalid/v1",
        http_client=httpx2.AsyncClient(transport=transport),
        max_retries=0,
    )
    model: Model = OpenAIResponsesModel(DEMO, provider=OpenAIProvider(openai_client=client))
    assert "84" in (await Agent(model).run("What is 12*7?")).output
    with pytest.raises(FaceNotServed):
        await client.files.list()


async def test_tokens_are_counted(vendors: Vendors) -> None:
    agent = await vendors.agent("anthropic")
    limits = UsageLimits(count_tokens_before_request=True, input_tokens_limit=10_000)
    assert (await agent.run("Hello", usage_limits=limits)).output == TEXT
    paths = [request.path for request in vendors.servers["anthropic"].requests]
    assert paths == ["/v1/messages/count_tokens", "/v1/messages"]
    assert len(await vendors.lab.calls()) == 1


async def test_tokens_of_those_who_do_not_count_are_estimated(vendors: Vendors) -> None:
    agent = await vendors.agent("openai")
    limits = UsageLimits(count_tokens_before_request=True, input_tokens_limit=10_000)
    assert (await agent.run("Hello", usage_limits=limits)).output == TEXT
    assert len(vendors.servers["openai"].requests) == 1
    tight = UsageLimits(count_tokens_before_request=True, input_tokens_limit=1)
    with pytest.raises(UsageLimitExceeded):
        await agent.run("Hello " * 100, usage_limits=tight)


@EITHER_WAY
async def test_claude_is_given_back_what_it_thought(vendors: Vendors, ask: Ask) -> None:
    call = ToolCall("weather", {"city": "Bern"})
    vendors.servers["anthropic"].queue(
        Reply(thinking="Where is that?", tool_calls=[call]), Reply(text="Sunny.")
    )
    agent = Agent(await vendors.model("anthropic"), model_settings={"thinking": "low"})

    @agent.tool_plain
    def weather(city: str) -> str:
        return f"sunny in {city}"

    assert await ask(agent) == "Sunny."
    first, second = (request.json for request in vendors.servers["anthropic"].requests)
    assert first["thinking"] == second["thinking"] == {"type": "adaptive"}
    thought, use = second["messages"][1]["content"]
    assert (thought["type"], thought["thinking"]) == ("thinking", "Where is that?")
    assert thought["signature"]
    assert (use["type"], use["name"], use["input"]) == ("tool_use", "weather", {"city": "Bern"})


@EITHER_WAY
async def test_what_only_the_vendors_sdk_can_write(
    vendors: Vendors, books: Books, ask: Ask
) -> None:
    settings = AnthropicModelSettings(anthropic_metadata={"user_id": "u"}, max_tokens=100)
    agent = Agent(await vendors.model("anthropic"), model_settings=settings)
    assert await ask(agent) == TEXT
    (request,) = vendors.servers["anthropic"].requests
    assert request.json["metadata"] == {"user_id": "u"}
    assert await books.chains() == [["reserve", "settle"]]


# Who pays


async def test_calls_are_booked_on_team_and_session(vendors: Vendors, books: Books) -> None:
    spender = Spender(vendors.lab.person.tenant_id, team_id=uuid7(), session_id=uuid7())
    await Agent(await vendors.model("openai", spender)).run("Hello")
    (call,) = await vendors.lab.calls()
    assert (call["team_id"], call["session_id"]) == (str(spender.team_id), str(spender.session_id))
    assert await books.chains() == [["reserve", "settle"]]


@EITHER_WAY
async def test_calls_can_be_booked_with_what_they_led_to(
    vendors: Vendors, books: Books, db: Database, ask: Ask
) -> None:
    await vendors.lab.chain(NAMES["openai"], NAMES["anthropic"], on=("overload",))
    vendors.servers["openai"].queue(Fault.overload())
    ended: list[tuple[Reservation, FinishedCall]] = []
    model = await vendors.model("openai", book=lambda *call: ended.append(call))
    assert await ask(Agent(model)) == TEXT
    assert [call.outcome for _, call in ended] == ["failed", "answered"]
    assert await vendors.lab.calls() == [], "nobody else booked them"
    escrow = vendors.lab.gateway.models.router.escrow
    async with db.transaction(tenant_id=vendors.spender.tenant_id) as tx:
        for reservation, call in ended:
            await escrow.settle_in(tx, reservation, call)
    assert await books.chains() == [["reserve", "settle"]] * 2
    assert [call["outcome"] for call in await vendors.lab.calls()] == ["failed", "answered"]


# What goes wrong


@EITHER_WAY
@EITHER_SDK
async def test_the_chain_takes_over(vendors: Vendors, kind: str, ask: Ask) -> None:
    other = {"openai": "anthropic", "anthropic": "openai"}[kind]
    await vendors.lab.chain(NAMES[kind], NAMES[other], on=("overload",))
    vendors.servers[kind].queue(Fault.overload())
    vendors.servers[other].reply(Reply(text="I am the other."))
    assert await ask(await vendors.agent(kind)) == "I am the other."
    failed, answered = await vendors.lab.calls()
    assert (failed["provider"], failed["error_class"]) == (kind, "overload")
    assert (answered["provider"], answered["attempts"]) == (other, 2)


@EITHER_WAY
@EITHER_SDK
async def test_a_provider_that_fails(vendors: Vendors, books: Books, kind: str, ask: Ask) -> None:
    vendors.servers[kind].queue(Fault.overload())
    with pytest.raises(ModelCallFailed) as failed:
        await ask(await vendors.agent(kind))
    assert failed.value.error_class == "overload"
    assert NAMES[kind] in failed.value.message
    assert len(vendors.servers[kind].requests) == 1, "no SDK tries again by itself"
    assert await books.chains() == [["reserve", "settle"]]


@pytest.mark.parametrize(
    ("fault", "error_class"),
    [
        (Fault.rate_limit(retry_after=60), "rate_limit"),
        (Fault.auth(), "auth"),
        (Fault.context_length(), "context_length"),
        (Fault.model_not_found(), "not_found"),
        (Fault.server_error(), "overload"),
        (Fault.html(), "overload"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_how_a_provider_fails(vendors: Vendors, fault: Fault, error_class: str) -> None:
    vendors.servers["openai"].queue(fault)
    ended: list[FinishedCall] = []
    model = await vendors.model("openai", book=lambda _, call: ended.append(call))
    with pytest.raises(ModelCallFailed) as failed:
        await Agent(model).run("Hello")
    assert failed.value.error_class == error_class
    assert [(call.outcome, call.error_class) for call in ended] == [("failed", error_class)]


@EITHER_WAY
@EITHER_SDK
async def test_a_budget_that_is_too_small(
    vendors: Vendors, books: Books, kind: str, ask: Ask
) -> None:
    await vendors.budget(10)
    with pytest.raises(BudgetExhausted):
        await ask(await vendors.agent(kind))
    assert vendors.servers[kind].requests == []
    assert await books.chains() == []


async def test_a_model_that_is_not_there(vendors: Vendors) -> None:
    with pytest.raises(ModelNotFound):
        await vendors.model("nobody/nothing")


@EITHER_WAY
@EITHER_SDK
async def test_a_model_that_is_no_longer_there(vendors: Vendors, kind: str, ask: Ask) -> None:
    agent = await vendors.agent(kind)
    listed = (await vendors.lab.person.client.get("/api/models/providers")).json()["items"]
    (provider,) = [item["id"] for item in listed if item["kind"] == kind]
    answer = await vendors.lab.person.client.delete(f"/api/models/providers/{provider}")
    assert answer.status_code == 204
    with pytest.raises(ModelNotFound):
        await ask(agent)


@EVERY_WIRE
@pytest.mark.parametrize("fault", [Fault.cut, Fault.stream_error], ids=["cut", "error"])
async def test_an_answer_that_breaks_off(
    vendors: Vendors, books: Books, kind: str, fault: Callable[..., Fault]
) -> None:
    vendors.servers[kind].queue(fault(after_chunks=3, reply=SLOWLY))
    said: list[str] = []

    async def read(agent: Agent[None, str]) -> None:
        async with agent.run_stream("Hello") as result:
            async for piece in result.stream_text(delta=True, debounce_by=None):
                said.append(piece)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(AnswerBrokeOff) as broken:
        await read(await vendors.agent(kind))
    assert not broken.value.message.startswith("status_code")
    assert (NAMES[kind] in broken.value.message) == (fault == Fault.cut), "else it is the vendor's"
    assert TEXT.startswith("".join(said))
    assert len(vendors.servers[kind].requests) == 1
    (call,) = await vendors.lab.calls()
    assert call["outcome"] != "answered"
    assert await books.chains() == [["reserve", "settle"]]


@EITHER_SDK
async def test_an_answer_that_breaks_off_unseen(vendors: Vendors, kind: str) -> None:
    # With enough tokens to write, pydantic-ai streams from Anthropic also what it needs whole.
    vendors.servers[kind].queue(Fault.cut(after_chunks=3, reply=SLOWLY))
    with pytest.raises(AnswerBrokeOff if kind == "anthropic" else ModelCallFailed):
        await (await vendors.agent(kind)).run("Hello")


@EITHER_WAY
async def test_a_timeout_of_the_agents_own(vendors: Vendors, books: Books, ask: Ask) -> None:
    vendors.servers["openai"].queue(Fault.stall(after_chunks=3, reply=SLOWLY))
    agent = Agent(await vendors.model("openai"), model_settings={"request_timeout": 0.2})
    with pytest.raises(ModelRequestTimeout):
        await ask(agent)
    await vendors.servers["openai"].wait_open(0)
    assert len(await books.chains()) == 1


@EITHER_SDK
async def test_errors_of_others_stay_theirs(vendors: Vendors, kind: str) -> None:
    async def act(agent: Agent[None, str]) -> None:
        async with agent.run_stream("Hello"):
            try:
                raise Conflict()
            except AgentOSError as error:
                raise ZeroDivisionError from error

    with pytest.raises(ZeroDivisionError):
        await act(await vendors.agent(kind))


# Leaving early


@EITHER_WAY
@EVERY_WIRE
async def test_cancelling_the_agent_cancels_the_call(
    vendors: Vendors, books: Books, kind: str, ask: Ask
) -> None:
    server = vendors.servers[kind]
    server.queue(Fault.stall(after_chunks=3 if ask is run_stream else 0, reply=SLOWLY))
    task = asyncio.create_task(_text(ask(await vendors.agent(kind))))
    await server.wait_stalled()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.wait_cancelled()
    (call,) = await vendors.lab.calls()
    assert (call["outcome"], call["estimated"]) == ("cancelled", True)
    assert await books.chains() == [["reserve", "settle"]]


@EVERY_WIRE
async def test_leaving_a_stream_cancels_the_call(vendors: Vendors, books: Books, kind: str) -> None:
    server = vendors.servers[kind]
    server.queue(Fault.stall(after_chunks=3, reply=SLOWLY))
    async with (await vendors.agent(kind)).run_stream("Hello") as result:
        async for piece in result.stream_text(delta=True, debounce_by=None):
            assert TEXT.startswith(piece)
            break
    await server.wait_cancelled()
    (call,) = await vendors.lab.calls()
    assert call["outcome"] == "cancelled"
    assert await books.chains() == [["reserve", "settle"]]


@EVERY_WIRE
async def test_stopping_a_stream_cancels_the_call_at_once(vendors: Vendors, kind: str) -> None:
    server = vendors.servers[kind]
    server.queue(Fault.stall(after_chunks=3, reply=SLOWLY))
    ended: list[tuple[Reservation, FinishedCall]] = []
    model = await vendors.model(kind, book=lambda *call: ended.append(call))
    messages: list[ModelMessage] = [AskedOf([UserPromptPart("Hello")])]
    async with model.request_stream(messages, None, ModelRequestParameters()) as stream:
        async for _ in stream:
            await stream.cancel()
            await server.wait_cancelled()
            break
        assert [call.outcome for _, call in ended] == ["cancelled"]
        assert stream.get().state == "interrupted"
    assert len(ended) == 1, "booked once"


async def _text(answer: Awaitable[str]) -> str:
    return await answer


# What it takes to start


@pytest.mark.parametrize("module", ["agentos.gateway.app", "agentos.cli.main"])
def test_starting_does_not_load_what_agents_need(module: str) -> None:
    # Each takes between half a second and two, and tens of megabytes.
    heavy = {"pydantic_ai", "openai", "anthropic", "genai_prices"}
    loaded = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert heavy.isdisjoint(loaded.stdout.split())


def test_agents_need_no_sdk() -> None:
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, agentos.integrations.models.native; print(*sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"openai", "anthropic"}.isdisjoint(loaded.stdout.split())
