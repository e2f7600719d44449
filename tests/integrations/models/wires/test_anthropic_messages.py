from __future__ import annotations

import json
from typing import Any

import pytest

from agentos.integrations.models.conversation import (
    Answer,
    Conversation,
    Finish,
    Media,
    Message,
    OutputFormat,
    Part,
    Text,
    Thinking,
    Tool,
    ToolChoice,
    ToolResult,
    ToolUse,
    Usage,
)
from agentos.integrations.models.wires.anthropic_messages import MESSAGES
from agentos.integrations.models.wires.base import Glance, MalformedAnswer, MalformedRequest

HELLO: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
SAID = [Message("user", [Text("Hello")])]


def body(**fields: Any) -> bytes:
    request = {"model": "claude-sonnet-5", "max_tokens": 100, "messages": HELLO, **fields}
    return json.dumps({name: value for name, value in request.items() if value is not ...}).encode()


def saying(*blocks: dict[str, Any], role: str = "user") -> bytes:
    return body(messages=[{"role": role, "content": list(blocks)}])


# Glances


def test_glance() -> None:
    assert MESSAGES.glance(body()) == Glance("claude-sonnet-5", stream=False, max_output=100)
    assert MESSAGES.glance(body(stream=True, service_tier="auto")) == Glance(
        "claude-sonnet-5", stream=True, max_output=100, service_tier="auto"
    )


URL = {"type": "url", "url": "https://a.example/b"}
FILE = {"type": "file", "file_id": "file_1"}


@pytest.mark.parametrize(
    "request_body",
    [
        saying({"type": "image", "source": URL}),
        saying({"type": "document", "source": URL}),
        saying({"type": "document", "source": FILE}),
        body(mcp_servers=[{"type": "url", "url": "https://a.example"}]),
        body(container="container_1"),
        body(container={"skills": []}),
        body(tools=[{"type": "web_search_20260318", "name": "web_search"}]),
        body(
            tools=[
                {"name": "f", "input_schema": {}},
                {"type": "code_execution_20260521", "name": "c"},
            ]
        ),
    ],
)
def test_what_is_not_in_the_request_makes_it_open_ended(request_body: bytes) -> None:
    assert MESSAGES.glance(request_body).open_ended


@pytest.mark.parametrize(
    "request_body",
    [
        saying(
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
            }
        ),
        body(container=None, mcp_servers=[], tools=[]),
        # Tools are called with URLs all the time.
        saying(
            {"type": "tool_use", "id": "t", "name": "fetch", "input": {"url": "https://a.example"}},
            role="assistant",
        ),
        body(tools=[{"name": "f", "input_schema": {"properties": {"url": {"type": "string"}}}}]),
        body(tools=[{"type": "custom", "name": "f"}, {"type": "bash_20250124", "name": "bash"}]),
    ],
)
def test_what_is_in_the_request_does_not(request_body: bytes) -> None:
    assert not MESSAGES.glance(request_body).open_ended


@pytest.mark.parametrize(
    ("request_body", "said"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"5", "object"),
        (body(model=...), "model"),
        (body(model=["secret words"]), "model"),
        (body(model=" "), "model"),
        (body(messages=...), "messages"),
        (body(messages="secret words"), "messages"),
        (body(max_tokens=...), "max_tokens"),
        (body(max_tokens=None), "max_tokens"),
        (body(max_tokens=0), "max_tokens"),
        (body(max_tokens="secret words"), "max_tokens"),
        (body(stream=1), "stream"),
    ],
)
def test_malformed_requests_are_refused_by_field_and_never_quoted(
    request_body: bytes, said: str
) -> None:
    with pytest.raises(MalformedRequest) as refused:
        MESSAGES.glance(request_body)
    assert said in refused.value.message
    assert "secret words" not in refused.value.message


# What goes to the provider


def test_nothing_changes_if_nothing_has_to() -> None:
    request = body(stream=True)
    assert MESSAGES.for_provider(request, MESSAGES.glance(request), "claude-sonnet-5") is request


def test_only_the_model_changes_and_every_other_byte_stays() -> None:
    request = b'{"max_tokens": 1e1, "model":"anthropic/claude", "messages":[ {"role":"user", "content":"\\u00e9"} ]}'
    request = request.replace(b"1e1", b"10")
    changed = MESSAGES.for_provider(request, MESSAGES.glance(request), "claude")
    assert changed == (
        b'{"max_tokens":10,"model":"claude","messages":[ {"role":"user", "content":"\\u00e9"} ]}'
    )


def test_thinking_that_nobody_signed_does_not_go_to_claude() -> None:
    signed = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    unsigned = {"type": "thinking", "thinking": "hm", "signature": ""}
    text = {"type": "text", "text": "Hi"}
    request = body(
        messages=[
            *HELLO,
            {"role": "assistant", "content": [signed, unsigned, text]},
            {"role": "assistant", "content": [unsigned]},
            *HELLO,
        ]
    )
    changed = MESSAGES.for_provider(request, MESSAGES.glance(request), "claude-sonnet-5")
    assert json.loads(changed) == {
        **json.loads(request),
        "messages": [*HELLO, {"role": "assistant", "content": [signed, text]}, *HELLO],
    }


def test_thinking_that_google_signed_does_not_go_to_claude() -> None:
    signed = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    googles = {"type": "thinking", "thinking": "hm", "signature": "google:c2ln"}
    text = {"type": "text", "text": "google:"}
    content = [googles, signed, text]
    request = body(messages=[*HELLO, {"role": "assistant", "content": content}, *HELLO])
    changed = MESSAGES.for_provider(request, MESSAGES.glance(request), "claude-sonnet-5")
    assert json.loads(changed) == {
        **json.loads(request),
        "messages": [*HELLO, {"role": "assistant", "content": [signed, text]}, *HELLO],
    }


def test_thinking_that_google_signed_is_not_written_for_claude() -> None:
    said: list[Part] = [Thinking("hers", "google:c2ln"), Thinking("mine", "c2ln"), Text("Hi")]
    messages = [Message("user", [Text("x")]), Message("assistant", said)]
    written = MESSAGES.write_request(Conversation(model="m", messages=messages), "claude")
    assert b"mine" in written
    assert b"hers" not in written


def test_what_stays_is_not_touched_when_thinking_goes() -> None:
    request = (
        b'{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":['
        b'{"type":"thinking","thinking":"hm","signature":""},'
        b'{"type":"tool_use","id":"t","name":"f","input":{"a": 1.50e1, "b":"\\u00e9"}}]}]}'
    )
    changed = MESSAGES.for_provider(request, MESSAGES.glance(request), "m")
    assert changed == request.replace(b'{"type":"thinking","thinking":"hm","signature":""},', b"")


# Usage


def test_usage() -> None:
    answer = {
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 300,
            "cache_read_input_tokens": 2000,
            "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
            "output_tokens": 50,
            "output_tokens_details": {"thinking_tokens": 20},
            "service_tier": "standard",
        }
    }
    assert MESSAGES.usage(json.dumps(answer).encode()) == Usage(
        input=2310, output=50, cache_read=2000, cache_write=300, cache_write_long=200, reasoning=20
    )
    least = b'{"usage":{"input_tokens":1,"output_tokens":2,"cache_creation":null}}'
    assert MESSAGES.usage(least) == Usage(input=1, output=2)


@pytest.mark.parametrize("answer", [b"", b"{}", b'{"usage":null}', b"<html>"])
def test_no_usage(answer: bytes) -> None:
    assert MESSAGES.usage(answer) is None


# Requests, translated


def test_reading_a_request() -> None:
    request = {
        "model": "claude-sonnet-5",
        "max_tokens": 100,
        "system": [
            {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "Use tools."},
        ],
        "messages": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "text",
                        "text": "What is this?",
                        "cache_control": {"type": "ephemeral"},
                    },
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/webp", "data": "AAAA"},
                    },
                    {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}},
                    {
                        "type": "document",
                        "source": {
                            "type": "base64",
                            "media_type": "application/pdf",
                            "data": "BBBB",
                        },
                    },
                    {
                        "type": "document",
                        "source": {"type": "text", "media_type": "text/plain", "data": "a note"},
                    },
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                    {"type": "redacted_thinking", "data": "x"},
                    {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}},
                    {"type": "tool_use", "id": "toolu_2", "name": "hear", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [
                            {"type": "text", "text": "a cat"},
                            {
                                "type": "image",
                                "source": {
                                    "type": "base64",
                                    "media_type": "image/png",
                                    "data": "CC",
                                },
                            },
                        ],
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_2",
                        "content": "deaf",
                        "is_error": True,
                    },
                ],
            },
            {"role": "system", "content": "From now on, rhyme."},
            {"role": "user", "content": "So?"},
        ],
        "tools": [{"name": "look", "description": "Looks", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "stop_sequences": ["END"],
        "temperature": 0.5,
        "top_p": 0.9,
        "thinking": {"type": "enabled", "budget_tokens": 6000},
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        "stream": True,
        "metadata": {"user_id": "ignored"},
    }
    # JSON as the client wrote it, blanks included, is what the arguments are.
    raw = json.dumps(request).encode()
    assert MESSAGES.read_request(raw) == Conversation(
        model="claude-sonnet-5",
        system="Be brief.\n\nUse tools.\n\nFrom now on, rhyme.",
        messages=[
            Message(
                "user",
                [
                    Text("What is this?"),
                    Media("image/webp", data="AAAA"),
                    Media("image/png", url="https://a.example/b.png"),
                    Media("application/pdf", data="BBBB"),
                    Text("a note"),
                ],
            ),
            Message(
                "assistant",
                [
                    Thinking("hm", "c2ln"),
                    ToolUse("toolu_1", "look", '{"a": 1}'),
                    ToolUse("toolu_2", "hear", "{}"),
                ],
            ),
            Message(
                "user",
                [
                    ToolResult(
                        "toolu_1", [Text("a cat"), Media("image/png", data="CC")], name="look"
                    ),
                    ToolResult("toolu_2", [Text("deaf")], is_error=True, name="hear"),
                    Text("So?"),
                ],
            ),
        ],
        tools=[Tool("look", "Looks", {"type": "object"})],
        tool_choice=ToolChoice("any"),
        parallel_tools=False,
        max_tokens=100,
        temperature=0.5,
        top_p=0.9,
        stop=["END"],
        output_format=OutputFormat({"type": "object"}),
        reasoning_effort="medium",
        stream=True,
    )


@pytest.mark.parametrize(
    ("fields", "effort"),
    [
        ({}, None),
        ({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}, None),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "minimal"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "low"),
        ({"thinking": {"type": "enabled", "budget_tokens": 31999}}, "high"),
        ({"thinking": {"type": "adaptive"}}, None),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, "high"),
        ({"output_config": {"effort": "low"}}, "low"),
    ],
)
def test_how_hard_to_think(fields: dict[str, Any], effort: str | None) -> None:
    assert MESSAGES.read_request(body(**fields)).reasoning_effort == effort


def test_documents_made_of_texts() -> None:
    texts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    for content, said in (("one", "one"), (texts, "one\ntwo")):
        document = {"type": "document", "source": {"type": "content", "content": content}}
        assert MESSAGES.read_request(saying(document)).messages == [Message("user", [Text(said)])]
    image = {"type": "document", "source": {"type": "content", "content": [{"type": "image"}]}}
    with pytest.raises(MalformedRequest, match="images"):
        MESSAGES.read_request(saying(image))


def test_the_format_as_the_beta_named_it() -> None:
    request = body(output_format={"type": "json_schema", "schema": {"type": "object"}})
    assert MESSAGES.read_request(request).output_format == OutputFormat({"type": "object"})


@pytest.mark.parametrize(
    ("request_body", "named"),
    [
        (body(mcp_servers=[{}]), "`mcp_servers`"),
        (body(container="c"), "`container`"),
        (body(tools=[{"type": "web_search_20260318", "name": "web_search"}]), "web_search"),
        (body(tools=[{"type": "bash_20250124", "name": "bash"}]), "bash"),
        (saying({"type": "image", "source": FILE}), "keeps"),
        (saying({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}), "type"),
        (body(messages=[{"role": "nobody", "content": "x"}]), "role"),
    ],
)
def test_what_cannot_be_carried_over_is_named(request_body: bytes, named: str) -> None:
    with pytest.raises(MalformedRequest, match=named):
        MESSAGES.read_request(request_body)


def written(conversation: Conversation, model: str = "claude-sonnet-5") -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(MESSAGES.write_request(conversation, model))
    return decoded


def test_writing_a_request_that_came_from_another_wire() -> None:
    conversation = Conversation(
        model="gpt-4o",
        system="Be brief.",
        messages=[
            Message("user", [Text("Look"), Text("")]),
            Message("user", [Text("now")]),
            Message(
                "assistant",
                [
                    Thinking("hm"),
                    Text("I will"),
                    ToolUse("call.1", "look", '{"a": 1}'),
                    ToolUse("call_2", "look", ""),
                ],
            ),
            Message(
                "user",
                [
                    Text("Here."),
                    ToolResult("call.1", [Text("one"), Media("image/png", data="AAAA")]),
                    ToolResult("call_2", [Text("gone")], is_error=True),
                ],
            ),
            Message("assistant", [Text("")]),
        ],
        tools=[Tool("look", "Looks", {"properties": {}})],
        parallel_tools=False,
        stop=["END"],
        stream=True,
    )
    assert written(conversation) == {
        "model": "claude-sonnet-5",
        "system": "Be brief.",
        "max_tokens": 8192,
        "stream": True,
        "stop_sequences": ["END"],
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "Look"}, {"type": "text", "text": "now"}],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I will"},
                    {"type": "tool_use", "id": "call_1", "name": "look", "input": {"a": 1}},
                    {"type": "tool_use", "id": "call_2", "name": "look", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "call_1",
                        "content": [
                            {"type": "text", "text": "one"},
                            {
                                "type": "image",
                                "source": {
                                    "type": "base64",
                                    "media_type": "image/png",
                                    "data": "AAAA",
                                },
                            },
                        ],
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "call_2",
                        "content": [{"type": "text", "text": "gone"}],
                        "is_error": True,
                    },
                    {"type": "text", "text": "Here."},
                ],
            },
        ],
        "tools": [
            {
                "name": "look",
                "description": "Looks",
                "input_schema": {"type": "object", "properties": {}},
            }
        ],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    }


@pytest.mark.parametrize(
    ("messages", "roles"),
    [([], ["user"]), ([Message("assistant", [Text("Hi ")])], ["user", "assistant"])],
)
def test_the_user_begins(messages: list[Message], roles: list[str]) -> None:
    said = written(Conversation("m", messages))["messages"]
    assert [message["role"] for message in said] == roles
    if len(said) == 2:
        assert said[1]["content"] == [{"type": "text", "text": "Hi"}]


def test_json_without_a_schema_is_asked_for_in_words() -> None:
    request = written(Conversation("m", SAID, system="Be brief.", output_format=OutputFormat()))
    assert request["system"] == "Be brief.\n\nAnswer with one JSON object and nothing else."
    assert "output_config" not in request


def test_arguments_that_are_no_object_are_put_into_one() -> None:
    said = [Message("user", [Text("a")]), Message("assistant", [ToolUse("t", "f", "[1")])]
    block = written(Conversation("m", said))["messages"][1]["content"][0]
    assert block["input"] == {"arguments": "[1"}


@pytest.mark.parametrize(
    ("model", "most", "expected"),
    [
        # Told how hard to think
        (
            "claude-opus-4-8",
            None,
            {
                "thinking": {"type": "adaptive"},
                "output_config": {"effort": "medium"},
                "max_tokens": 8192,
            },
        ),
        # Told how many tokens to think
        (
            "claude-haiku-4-5",
            None,
            {"thinking": {"type": "enabled", "budget_tokens": 8192}, "max_tokens": 16384},
        ),
        (
            "claude-sonnet-4-20250514",
            5000,
            {"thinking": {"type": "enabled", "budget_tokens": 3976}, "max_tokens": 5000},
        ),
        # No room to think
        ("claude-haiku-4-5", 2000, {"max_tokens": 2000, "temperature": 0.5}),
    ],
)
def test_thinking(model: str, most: int | None, expected: dict[str, Any]) -> None:
    request = written(
        Conversation("m", SAID, max_tokens=most, reasoning_effort="medium", temperature=0.5), model
    )
    assert request == {
        "model": model,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        **expected,
    }


def test_no_thinking_within_a_budget_where_anthropic_forbids_it() -> None:
    tool = Tool("f", "", {"type": "object"})
    forced = Conversation(
        "m", SAID, tools=[tool], tool_choice=ToolChoice("any"), reasoning_effort="high"
    )
    assert "thinking" not in written(forced, "claude-haiku-4-5")
    midway = Conversation(
        "m",
        [
            *SAID,
            Message("assistant", [ToolUse("t", "f", "{}")]),
            Message("user", [ToolResult("t", [Text("x")])]),
        ],
        reasoning_effort="high",
    )
    assert "thinking" not in written(midway, "claude-haiku-4-5")
    assert written(midway, "claude-opus-5")["thinking"] == {"type": "adaptive"}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-3-5-sonnet-20241022", {"temperature": 1.0}),
        ("claude-opus-4-6", {"temperature": 1.0}),
        ("claude-opus-4-7", {}),
        ("claude-sonnet-5", {}),
        ("claude-opus-4-10", {}),
        ("kimi-k2", {"temperature": 1.0}),
    ],
)
def test_temperatures_go_to_models_that_take_one(model: str, expected: dict[str, float]) -> None:
    request = written(Conversation("m", SAID, temperature=1.7, top_p=0.5), model)
    assert {name: request[name] for name in ("temperature", "top_p") if name in request} == expected


def test_media() -> None:
    parts = [
        Media("image/png", url="https://a.example/b"),
        Media("application/pdf", url="https://a.example/c"),
        Media("application/pdf", data="AA"),
    ]
    assert written(Conversation("m", [Message("user", [*parts])]))["messages"][0]["content"] == [
        {"type": "image", "source": {"type": "url", "url": "https://a.example/b"}},
        {"type": "document", "source": {"type": "url", "url": "https://a.example/c"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"},
        },
    ]
    with pytest.raises(MalformedRequest, match="audio/wav"):
        written(Conversation("m", [Message("user", [Media("audio/wav", data="AA")])]))


# Answers, translated


def test_reading_an_answer() -> None:
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            {"type": "text", "text": "Let me look.", "citations": None},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    assert MESSAGES.read_answer(json.dumps(answer).encode()) == Answer(
        "msg_1",
        "claude-sonnet-5",
        [Thinking("hm", "c2ln"), Text("Let me look."), ToolUse("toolu_1", "look", '{"a": 1}')],
        Finish.TOOL_USE,
        Usage(input=1, output=2),
    )


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", Finish.STOP),
        ("stop_sequence", Finish.STOP),
        ("pause_turn", Finish.STOP),
        ("max_tokens", Finish.LENGTH),
        ("model_context_window_exceeded", Finish.LENGTH),
        ("refusal", Finish.FILTERED),
        ("something_new", Finish.STOP),
    ],
)
def test_why_an_answer_ended(reason: str, finish: Finish) -> None:
    answer = json.dumps({"id": "msg_1", "stop_reason": reason}).encode()
    assert MESSAGES.read_answer(answer).finish is finish


@pytest.mark.parametrize("answer", [b"", b"<html>", b"{}", b'{"id":"m","content":5}'])
def test_malformed_answers(answer: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        MESSAGES.read_answer(answer)
