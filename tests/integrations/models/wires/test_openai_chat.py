from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from agentos.integrations.models.conversation import (
    Answer,
    Conversation,
    Finish,
    Media,
    Message,
    OutputFormat,
    Text,
    Thinking,
    Tool,
    ToolChoice,
    ToolResult,
    ToolUse,
    Usage,
)
from agentos.integrations.models.wires.base import Glance, MalformedAnswer, MalformedRequest
from agentos.integrations.models.wires.openai_chat import CHAT

HELLO: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "gpt-4o", "messages": HELLO, **fields}).encode()


# Glances


def test_glance_of_the_least_request() -> None:
    assert CHAT.glance(body()) == Glance("gpt-4o", stream=False, max_output=None)


def test_glance_of_everything_it_looks_at() -> None:
    request = body(
        stream=True, stream_options={"include_usage": True}, max_tokens=10, n=3, service_tier="flex"
    )
    assert CHAT.glance(request) == Glance(
        "gpt-4o", stream=True, max_output=30, wants_usage=True, service_tier="flex"
    )
    newer = CHAT.glance(body(max_completion_tokens=20, max_tokens=10))
    assert newer.max_output == 20


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stream_options": None},
        {"stream_options": {}},
        {"stream_options": {"include_usage": False}},
    ],
)
def test_streams_whose_caller_did_not_ask_for_usage(options: dict[str, Any]) -> None:
    assert not CHAT.glance(body(stream=True, **options)).wants_usage


@pytest.mark.parametrize(
    "fields",
    [
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}
                    ],
                }
            ]
        },
        {
            "messages": [
                {"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}
            ]
        },
        {"web_search_options": {}},
    ],
)
def test_what_is_not_in_the_request_makes_it_open_ended(fields: dict[str, Any]) -> None:
    assert CHAT.glance(body(**fields)).open_ended


def test_an_escaped_letter_may_hide_a_url() -> None:
    hidden = body().replace(b'"Hello"', b'[{"image_\\u0075rl":{"u\\u0072l":"https://a.example"}}]')
    assert CHAT.glance(hidden).open_ended


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
        [{"type": "text", "text": 'It says {"url":"https://a.example","file_id": 1}'}],
        "Smørrebrød \u2028 <b>&</b>",
    ],
)
def test_what_is_in_the_request_does_not(content: Any) -> None:
    assert not CHAT.glance(body(messages=[{"role": "user", "content": content}])).open_ended


@pytest.mark.parametrize(
    ("request_body", "said"),
    [
        (b"", "not JSON"),
        (b'{"model":"gpt-4o","messages":[', "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "object"),
        (b'{"messages":[]}', "model"),
        (body(model=7), "model"),
        (body(model=""), "model"),
        (b'{"model":"gpt-4o"}', "messages"),
        (body(messages="secret words"), "messages"),
        (body(messages={"secret words": 1}), "messages"),
        (body(messages=None), "messages"),
        (body(max_tokens="secret words"), "max_tokens"),
        (body(max_tokens=0), "max_tokens"),
        (body(max_completion_tokens=-1), "max_completion_tokens"),
        (body(n=0), "n"),
        (body(stream="secret words"), "stream"),
    ],
)
def test_malformed_requests_are_refused_by_field_and_never_quoted(
    request_body: bytes, said: str
) -> None:
    with pytest.raises(MalformedRequest) as refused:
        CHAT.glance(request_body)
    assert said in refused.value.message
    assert "secret words" not in refused.value.message


# What goes to the provider


def test_nothing_changes_if_nothing_has_to() -> None:
    for request in (body(), body(stream=True, stream_options={"include_usage": True})):
        assert CHAT.for_provider(request, CHAT.glance(request), "gpt-4o") is request


def test_only_the_model_changes_and_every_other_byte_stays() -> None:
    request = b'{ "model" : "openai/gpt-4o",\n "messages" : [ {"role":"user" , "content":"\\u00e9\\ud83d\\ude00 \\/"} ], "x": 1.50e1 }'
    changed = CHAT.for_provider(request, CHAT.glance(request), "gpt-4o")
    assert changed == (
        b'{"model":"gpt-4o","messages":[ {"role":"user" , "content":"\\u00e9\\ud83d\\ude00 \\/"} ],"x":1.50e1}'
    )


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}])
def test_usage_is_asked_for_in_every_stream(options: Any) -> None:
    request = body(stream=True, stream_options=options)
    changed = CHAT.for_provider(request, CHAT.glance(request), "gpt-4o")
    assert json.loads(changed) == {
        **json.loads(request),
        "stream_options": {"include_usage": True},
    }


def test_other_options_of_a_stream_are_kept() -> None:
    request = body(stream=True, stream_options={"include_obfuscation": False})
    changed = CHAT.for_provider(request, CHAT.glance(request), "gpt-4o")
    assert json.loads(changed)["stream_options"] == {
        "include_obfuscation": False,
        "include_usage": True,
    }


def test_mistral_is_not_asked_for_usage_because_it_refuses_the_question() -> None:
    plain = body(model="mistral-large-latest", stream=True)
    assert CHAT.for_provider(plain, CHAT.glance(plain), "mistral-large-latest") is plain
    asking = body(stream=True, stream_options={"include_usage": True})
    changed = json.loads(CHAT.for_provider(asking, CHAT.glance(asking), "codestral-2501"))
    assert "stream_options" not in changed
    assert changed["model"] == "codestral-2501"
    # Ollama serves models of that name too, and has to be asked.
    ollama = body(model="mistral:7b", stream=True)
    assert b"include_usage" in CHAT.for_provider(ollama, CHAT.glance(ollama), "mistral:7b")


# Usage


def test_usage() -> None:
    answer = {
        "id": "chatcmpl-1",
        "choices": [],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 50,
            "total_tokens": 150,
            "prompt_tokens_details": {
                "cached_tokens": 60,
                "audio_tokens": 0,
                "cache_write_tokens": 5,
            },
            "completion_tokens_details": {"reasoning_tokens": 30, "audio_tokens": 0},
        },
    }
    assert CHAT.usage(json.dumps(answer).encode()) == Usage(
        input=100, output=50, cache_read=60, cache_write=5, reasoning=30
    )


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4}, Usage(input=3, output=4)),
        (
            {"prompt_tokens": 3, "completion_tokens": None, "prompt_tokens_details": None},
            Usage(input=3),
        ),
        # Reasoning that only the total counts
        (
            {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 17},
            Usage(input=3, output=14),
        ),
    ],
)
def test_usage_as_others_tell_it(told: dict[str, Any], expected: Usage) -> None:
    assert CHAT.usage(json.dumps({"usage": told}).encode()) == expected


@pytest.mark.parametrize("answer", [b"", b"<html>", b"{}", b'{"usage":null}', b'{"usage":"much"}'])
def test_no_usage(answer: bytes) -> None:
    assert CHAT.usage(answer) is None


# Requests, translated


def test_reading_a_request() -> None:
    request = {
        "model": "gpt-4o",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": "data:image/webp;base64,AAAA"}},
                    {"type": "image_url", "image_url": {"url": "https://a.example/b.gif?c=d"}},
                    {
                        "type": "file",
                        "file": {
                            "filename": "a.pdf",
                            "file_data": "data:application/pdf;base64,BBBB",
                        },
                    },
                    {"type": "input_audio", "input_audio": {"data": "CCCC", "format": "mp3"}},
                ],
            },
            {"role": "developer", "content": [{"type": "text", "text": "Use tools."}]},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "hm",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "look", "arguments": '{"a": 1}'},
                    },
                    {
                        "id": "call_2",
                        "type": "function",
                        "function": {"name": "hear", "arguments": "{}"},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "a cat"},
            {
                "role": "tool",
                "tool_call_id": "call_2",
                "content": [{"type": "text", "text": "a dog"}],
            },
            {"role": "user", "content": "So?"},
            {"role": "assistant", "content": ""},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "description": "Looks",
                    "parameters": {"type": "object"},
                },
            },
            {"type": "function", "function": {"name": "hear"}},
        ],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "parallel_tool_calls": False,
        "max_completion_tokens": 5,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": "END",
        "seed": 7,
        "reasoning_effort": "xhigh",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "cat", "schema": {"type": "object"}, "strict": True},
        },
        "stream": True,
        "user": "ignored",
        "n": 1,
    }
    assert CHAT.read_request(json.dumps(request).encode()) == Conversation(
        model="gpt-4o",
        system="Be brief.\n\nUse tools.",
        messages=[
            Message(
                "user",
                [
                    Text("What is this?"),
                    Media("image/webp", data="AAAA"),
                    Media("image/gif", url="https://a.example/b.gif?c=d"),
                    Media("application/pdf", data="BBBB"),
                    Media("audio/mpeg", data="CCCC"),
                ],
            ),
            Message(
                "assistant",
                [
                    Thinking("hm"),
                    ToolUse("call_1", "look", '{"a": 1}'),
                    ToolUse("call_2", "hear", "{}"),
                ],
            ),
            Message(
                "user",
                [
                    ToolResult("call_1", [Text("a cat")], name="look"),
                    ToolResult("call_2", [Text("a dog")], name="hear"),
                    Text("So?"),
                ],
            ),
        ],
        tools=[
            Tool("look", "Looks", {"type": "object"}),
            Tool("hear", "", {"type": "object", "properties": {}}),
        ],
        tool_choice=ToolChoice("tool", "look"),
        parallel_tools=False,
        max_tokens=5,
        temperature=0.5,
        top_p=0.9,
        stop=["END"],
        seed=7,
        output_format=OutputFormat({"type": "object"}, "cat", strict=True),
        reasoning_effort="high",
        stream=True,
    )


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("any")),
        (None, None),
    ],
)
def test_tool_choices(choice: Any, expected: ToolChoice | None) -> None:
    assert CHAT.read_request(body(tool_choice=choice)).tool_choice == expected


def test_allowed_tools_are_the_only_ones() -> None:
    request = body(
        tools=[{"type": "function", "function": {"name": name}} for name in ("a", "b")],
        tool_choice={
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "required",
                "tools": [{"type": "function", "function": {"name": "b"}}],
            },
        },
    )
    read = CHAT.read_request(request)
    assert [tool.name for tool in read.tools] == ["b"]
    assert read.tool_choice == ToolChoice("any")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"n": 2}, "`n`"),
        ({"logprobs": True}, "`logprobs`"),
        ({"logit_bias": {"1": 5}}, "`logit_bias`"),
        ({"modalities": ["text", "audio"], "audio": {"voice": "a", "format": "wav"}}, "`audio`"),
        ({"web_search_options": {}}, "`web_search_options`"),
        ({"functions": [{"name": "f"}]}, "`functions`"),
        ({"tools": [{"type": "custom", "custom": {"name": "c"}}]}, "custom tool"),
        ({"tool_choice": {"type": "custom", "custom": {"name": "c"}}}, "custom tool"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}
                ]
            },
            "file",
        ),
        (
            {
                "messages": [
                    {
                        "role": "assistant",
                        "tool_calls": [
                            {"id": "c", "type": "custom", "custom": {"name": "a", "input": "b"}}
                        ],
                    }
                ]
            },
            "custom tool",
        ),
        ({"messages": [{"role": "nobody", "content": "x"}]}, "role"),
        ({"messages": [{"role": "user", "content": [{"type": "smell"}]}]}, "type"),
        ({"tool_choice": "sometimes"}, "tool_choice"),
    ],
)
def test_what_cannot_be_carried_over_is_named(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(MalformedRequest, match=named):
        CHAT.read_request(body(**fields))


def written(conversation: Conversation, model: str = "gpt-4o") -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(CHAT.write_request(conversation, model))
    return decoded


def test_writing_a_request_that_came_from_another_wire() -> None:
    conversation = Conversation(
        model="claude",
        system="Be brief.",
        messages=[
            Message("user", [Text("Look"), Text("")]),
            Message(
                "assistant",
                [
                    Thinking("hm", "sig"),
                    Text("I will"),
                    ToolUse("toolu_1", "look", ""),
                    ToolUse("toolu_2", "look", '{"a":2}'),
                ],
            ),
            Message(
                "user",
                [
                    Text("Here."),
                    ToolResult("toolu_1", [Text("one"), Media("image/png", data="AAAA")]),
                    ToolResult("toolu_2", [Text("gone")], is_error=True),
                ],
            ),
        ],
        tools=[Tool("look", "", {"type": "object"})],
        stream=True,
        max_tokens=9,
        output_format=OutputFormat(),
    )
    assert written(conversation) == {
        "model": "gpt-4o",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Look"},
            {
                "role": "assistant",
                "content": "I will",
                "tool_calls": [
                    {
                        "id": "toolu_1",
                        "type": "function",
                        "function": {"name": "look", "arguments": "{}"},
                    },
                    {
                        "id": "toolu_2",
                        "type": "function",
                        "function": {"name": "look", "arguments": '{"a":2}'},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "toolu_1", "content": "one"},
            {"role": "tool", "tool_call_id": "toolu_2", "content": "Error: gone"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Here."},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                ],
            },
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 9,
        "tools": [
            {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
        ],
        "response_format": {"type": "json_object"},
    }


def test_a_result_that_is_only_an_image_is_announced() -> None:
    result = ToolResult("t", [Media("image/png", data="AAAA")])
    messages = written(Conversation("m", [Message("user", [result])]))["messages"]
    assert messages[0]["content"] == "The result is in the next message."
    assert messages[1]["content"][0]["type"] == "image_url"


def test_what_reasoning_models_take_and_others_do_not() -> None:
    conversation = Conversation(
        "m",
        [Message("user", [Text("Hi")])],
        max_tokens=9,
        temperature=0.5,
        top_p=0.5,
        reasoning_effort="low",
    )
    for model in ("o3-mini", "gpt-5.1", "openai/gpt-oss-120b"):
        assert (
            written(conversation, model).items()
            >= {
                "max_completion_tokens": 9,
                "reasoning_effort": "low",
            }.items()
        )
        assert not {"temperature", "top_p", "max_tokens"} & written(conversation, model).keys()
    for model in ("gpt-4o", "llama3.2:3b", "mistral-large-latest"):
        assert written(conversation, model).items() >= {"max_tokens": 9, "temperature": 0.5}.items()
        assert "reasoning_effort" not in written(conversation, model)


def test_what_mistral_takes() -> None:
    conversation = Conversation(
        "m",
        [
            Message("assistant", [ToolUse("toolu_01", "f", "{}"), ToolUse("abcDEF123", "f", "{}")]),
            Message("user", [ToolResult("toolu_01", [Text("x")])]),
        ],
        seed=3,
        stream=True,
    )
    request = written(conversation, "mistral-large-latest")
    call, short = request["messages"][0]["tool_calls"]
    assert len(call["id"]) == 9
    assert call["id"].isalnum()
    assert request["messages"][1]["tool_call_id"] == call["id"]
    assert short["id"] == "abcDEF123"
    assert request["random_seed"] == 3
    assert "stream_options" not in request


@pytest.mark.parametrize(
    "part", [Media("application/pdf", url="https://a.example/b.pdf"), Media("video/mp4", data="AA")]
)
def test_media_that_chat_does_not_have(part: Media) -> None:
    with pytest.raises(MalformedRequest, match="cannot be carried over"):
        CHAT.write_request(Conversation("m", [Message("user", [part])]), "gpt-4o")


def test_sounds_and_documents() -> None:
    parts = [Media("audio/wav", data="AA"), Media("application/pdf", data="BB")]
    assert written(Conversation("m", [Message("user", [*parts])]))["messages"][0]["content"] == [
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        {
            "type": "file",
            "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,BB"},
        },
    ]


def test_tool_choice_is_not_sent_without_tools() -> None:
    request = written(Conversation("m", [], tool_choice=ToolChoice("auto"), parallel_tools=True))
    assert request == {"model": "gpt-4o", "messages": []}


# Answers, translated


def test_reading_an_answer() -> None:
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o-2024-11-20",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Let me look.",
                    "reasoning": "hm",
                    "refusal": None,
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "look", "arguments": '{"a":1}'},
                        }
                    ],
                },
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }
    assert CHAT.read_answer(json.dumps(answer).encode()) == Answer(
        "chatcmpl-1",
        "gpt-4o-2024-11-20",
        [Thinking("hm"), Text("Let me look."), ToolUse("call_1", "look", '{"a":1}')],
        # It said "stop", but it wants a tool used.
        Finish.TOOL_USE,
        Usage(input=1, output=2),
    )


def test_reading_the_answer_of_a_mistral_reasoning_model() -> None:
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "42"},
    ]
    answer = {"id": "1", "model": "magistral", "choices": [{"message": {"content": content}}]}
    assert CHAT.read_answer(json.dumps(answer).encode()).parts == [Thinking("hm"), Text("42")]


@pytest.mark.parametrize(
    "answer",
    [b"", b"<html>", b"{}", b'{"choices":[]}', b'{"choices":[{}]}', b'{"id":5,"choices":[]}'],
)
def test_malformed_answers(answer: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        CHAT.read_answer(answer)


def test_a_refusal_is_said() -> None:
    answer = b'{"id":"1","choices":[{"message":{"content":null,"refusal":"No."},"finish_reason":"content_filter"}]}'
    read = CHAT.read_answer(answer)
    assert (read.parts, read.finish) == ([Text("No.")], Finish.FILTERED)


def test_an_empty_answer_has_an_empty_text() -> None:
    empty = Answer("1", "m", [], Finish.STOP, Usage())
    message = msgspec.json.decode(CHAT.write_answer(empty))["choices"][0]["message"]
    assert message["content"] == ""
