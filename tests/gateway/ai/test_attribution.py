"""Whose money a call was, and who answered it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from tests.gateway.ai.books import cap, price
from tests.gateway.ai.conftest import CLAUDE, GPT, Lab
from tests.gateway.ai.faces import CHAT, FACES

from agentos.tenancy.principals import Scope
from agentos.testing import Fault, Reply
from agentos.testing.vendors import AnthropicServer, OpenAIServer

SUMMED = (
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cost_micros",
    "rated_micros",
)


def summed(calls: list[dict[str, Any]]) -> dict[str, int]:
    totals = {name: sum(call[name] for call in calls) for name in SUMMED}
    failed = sum(call["outcome"] == "failed" for call in calls)
    return totals | {"calls": len(calls), "failed_calls": failed}


async def test_reports_are_the_sums_of_the_calls(
    lab: Lab, anthropic_server: AnthropicServer, openai_server: OpenAIServer
) -> None:
    await lab.connect("anthropic", anthropic_server)
    await lab.connect("openai", openai_server)
    await lab.chain(f"anthropic/{CLAUDE}", f"openai/{GPT}", on=("overload",))
    teams, sessions = [uuid4(), None], [uuid4(), uuid4(), None]
    number = 0
    for team in teams:
        for session in sessions:
            for model in (CLAUDE, GPT, "demo"):
                number += 1
                reply = Reply(
                    text="ok", input_tokens=100 + number, cached_tokens=7, output_tokens=number
                )
                anthropic_server.queue(Fault.overload() if number % 6 == 1 else reply)
                openai_server.reply(reply)
                headers = {"x-agentos-team": team, "x-agentos-session": session}
                face = FACES[number % 3]
                answer = await lab.models.post(
                    face.path,
                    json=face.ask(model, bool(number % 2)),
                    headers={name: str(id) for name, id in headers.items() if id is not None},
                )
                assert answer.status_code == 200, answer.text
    calls = await lab.calls()
    assert len(calls) > number
    keys: dict[str, Callable[[dict[str, Any]], str | None]] = {
        "team": lambda call: call["team_id"],
        "session": lambda call: call["session_id"],
        "model": lambda call: f"{call['provider']}/{call['model']}",
        "provider": lambda call: call["provider"],
        "day": lambda call: call["at"][:10],
    }
    for by, key in keys.items():
        expected: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
        for call in calls:
            expected[key(call)].append(call)
        report = (await lab.person.client.get("/api/usage", params={"by": by})).json()
        assert {row["key"]: _counts(row) for row in report["rows"]} == {
            name: summed(some) for name, some in expected.items()
        }
        assert _counts(report["totals"]) == summed(calls)
    for team in teams[:1]:
        report = (await lab.person.client.get("/api/usage", params={"team_id": str(team)})).json()
        own = [call for call in calls if call["team_id"] == str(team)]
        assert _counts(report["totals"]) == summed(own)


def _counts(row: dict[str, Any]) -> dict[str, int]:
    return {name: row[name] for name in (*SUMMED, "calls", "failed_calls")}


async def test_a_bound_token_books_where_it_was_made_for(lab: Lab) -> None:
    team, session, other = uuid4(), uuid4(), str(uuid4())
    bound: list[tuple[UUID | None, UUID | None]] = [(team, session), (team, None), (None, session)]
    for team_id, session_id in bound:
        token = lab.gateway.tokens.service(
            lab.person.tenant_id,
            "worker",
            frozenset({Scope.MODELS_USE}),
            timedelta(minutes=5),
            team_id=team_id,
            session_id=session_id,
        )
        client = await lab.gateway.client(token)
        for headers in ({}, {"x-agentos-team": other, "x-agentos-session": other}):
            answer = await client.post(CHAT.path, json=CHAT.ask("demo", False), headers=headers)
            assert answer.status_code == 200
    booked = [(call["team_id"], call["session_id"]) for call in await lab.calls()]
    text = [tuple(None if id is None else str(id) for id in pair) for pair in bound]
    assert booked == [pair for pair in text for _ in range(2)]


async def test_a_bound_token_cannot_get_around_its_budget(lab: Lab) -> None:
    session = uuid4()
    await price(lab, "demo", "demo", input=1_000_000, output=1_000_000)
    await cap(lab, 1, "session", session)
    token = lab.gateway.tokens.service(
        lab.person.tenant_id,
        "worker",
        frozenset({Scope.MODELS_USE}),
        timedelta(minutes=5),
        session_id=session,
    )
    client = await lab.gateway.client(token)
    for headers in ({}, {"x-agentos-session": str(uuid4())}):
        answer = await client.post(CHAT.path, json=CHAT.ask("demo", False), headers=headers)
        assert answer.status_code == 402


async def test_answers_say_who_served_them(
    lab: Lab, anthropic_server: AnthropicServer, openai_server: OpenAIServer
) -> None:
    await lab.connect("anthropic", anthropic_server, name="claude-one")
    await lab.connect("openai", openai_server)
    await lab.chain(f"claude-one/{CLAUDE}", f"openai/{GPT}", on=("overload",))
    for face in FACES:
        for stream in (False, True):
            answer = await face.call(lab.models, CLAUDE, stream=stream)
            assert _served(answer.headers) == ("claude-one", CLAUDE, "1")
            anthropic_server.queue(Fault.overload())
            answer = await face.call(lab.models, CLAUDE, stream=stream)
            assert _served(answer.headers) == ("openai", GPT, "2")
    ids = {call["id"] for call in await lab.calls()}
    assert len(ids) == 18
    for call in await lab.calls():
        assert (call["principal_kind"], call["asked_model"]) == ("api_key", CLAUDE)


def _served(headers: Any) -> tuple[str, str, str]:
    names = ("x-agentos-provider", "x-agentos-model", "x-agentos-attempts")
    provider, model, attempts = (headers[name] for name in names)
    return provider, model, attempts
