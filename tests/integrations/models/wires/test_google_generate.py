"""The wire `google.generate`, by its own bytes and by Google's SDK."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest
from google import genai
from google.genai import errors, types
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.integrations.models.conversation import (
    Answer,
    Broken,
    Conversation,
    Finish,
    Finished,
    Media,
    Message,
    OutputFormat,
    Part,
    Started,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tool,
    ToolChoice,
    ToolDelta,
    ToolResult,
    ToolStarted,
    ToolUse,
    Usage,
)
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.wires.anthropic_messages import MESSAGES
from agentos.integrations.models.wires.base import (
    Glance,
    MalformedAnswer,
    MalformedRequest,
    Translating,
    WireName,
)
from agentos.integrations.models.wires.google_generate import GENERATE
from agentos.integrations.models.wires.google_generate_parts import FunctionCall

MODEL = "gemini-3-flash"
GLANCE = Glance(model=MODEL, stream=True, max_output=None)
# What Google asks for in place of a signature.
UNSIGNED = base64.b64encode(b"skip_thought_signature_validator").decode()


def _written(conversation: Conversation, model: str = MODEL) -> Any:
    return json.loads(GENERATE.write_request(conversation, model))


def _asked(*parts: Part, **wishes: Any) -> Conversation:
    return Conversation(model="x", messages=[Message("user", list(parts))], **wishes)


def _sse(*chunks: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks)


def test_it_is_a_translating_wire() -> None:
    wire: Translating = GENERATE
    assert wire.name is WireName.GENERATE


# Requests


def test_a_request_is_written() -> None:
    schema = {"type": "object", "properties": {"at": {"type": ["integer", "null"]}}, "$defs": {}}
    conversation = Conversation(
        model="gpt-5",
        system="Be kind.",
        messages=[
            Message(
                "user",
                [
                    Text("Look"),
                    Media("image/png", data="AA=="),
                    Media("application/pdf", url="https://example.com/a.pdf"),
                ],
            ),
            Message("assistant", [Text("Sure."), ToolUse("c1", "look", '{"at": 1.50}')]),
            Message("user", [ToolResult("c1", [Text("a cat"), Media("image/gif", data="BB==")])]),
        ],
        tools=[Tool("look", "Looks", schema)],
        tool_choice=ToolChoice("tool", "look"),
        parallel_tools=True,
        max_tokens=50,
        temperature=0.25,
        top_p=0.5,
        stop=["END"],
        seed=7,
        output_format=OutputFormat({"type": "object"}, "cat", strict=True),
        reasoning_effort="low",
        stream=True,
    )
    body = GENERATE.write_request(conversation, MODEL)
    assert b'"args":{"at":1.50}' in body
    assert json.loads(body) == {
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "Look"},
                    {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
                    {
                        "fileData": {
                            "mimeType": "application/pdf",
                            "fileUri": "https://example.com/a.pdf",
                        }
                    },
                ],
            },
            {
                "role": "model",
                "parts": [
                    {"text": "Sure."},
                    {
                        "functionCall": {"id": "c1", "name": "look", "args": {"at": 1.5}},
                        "thoughtSignature": UNSIGNED,
                    },
                ],
            },
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "id": "c1",
                            "name": "look",
                            "response": {"output": "a cat"},
                        }
                    },
                    {"inlineData": {"mimeType": "image/gif", "data": "BB=="}},
                ],
            },
        ],
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "look", "description": "Looks", "parametersJsonSchema": schema}
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}},
        "generationConfig": {
            "maxOutputTokens": 50,
            "temperature": 0.25,
            "topP": 0.5,
            "stopSequences": ["END"],
            "seed": 7,
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object"},
            "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"},
        },
    }


def test_a_plain_request_has_nothing_but_its_contents() -> None:
    assert _written(_asked(Text("Hi"))) == {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}]
    }


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        (ToolChoice("auto"), {"mode": "AUTO"}),
        (ToolChoice("any"), {"mode": "ANY"}),
        (ToolChoice("none"), {"mode": "NONE"}),
    ],
)
def test_tool_choices(choice: ToolChoice, config: dict[str, Any]) -> None:
    body = GENERATE.write_request(_asked(Text("x"), tool_choice=choice), MODEL)
    assert json.loads(body)["toolConfig"] == {"functionCallingConfig": config}
    assert GENERATE.read_request(body).tool_choice == choice


@pytest.mark.parametrize(
    ("model", "effort", "config"),
    [
        ("gemini-2.5-flash", "medium", {"includeThoughts": True, "thinkingBudget": 8192}),
        ("gemini-2.5-pro", "high", {"includeThoughts": True, "thinkingBudget": 24576}),
        ("gemini-3-flash", "minimal", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}),
        ("gemini-3-pro", "minimal", {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ("gemini-3-pro", None, None),
        ("gemini-2.0-flash", "high", None),
    ],
)
def test_effort_is_said_as_the_model_understands_it(model: str, effort: Any, config: Any) -> None:
    body = _written(_asked(Text("x"), reasoning_effort=effort), model)
    assert body.get("generationConfig", {}).get("thinkingConfig") == config


def test_a_failed_tool_says_so() -> None:
    use = Message("assistant", [ToolUse("c1", "look", "{}")])
    result = Message("user", [ToolResult("c1", [Text("dark"), Text("cold")], is_error=True)])
    body = _written(Conversation(model="x", messages=[use, result]))
    assert body["contents"][1]["parts"][0]["functionResponse"] == {
        "id": "c1",
        "name": "look",
        "response": {"error": "dark\ncold"},
    }


def test_a_result_of_nothing_is_refused() -> None:
    with pytest.raises(MalformedRequest, match="c9") as refused:
        _written(_asked(ToolResult("c9", [Text("x")])))
    assert refused.value.advice


@pytest.mark.parametrize(
    ("arguments", "args"),
    [
        ("", {}),
        (" ", {}),
        ('{\n  "a": "x\\ny"\n}', {"a": "x\ny"}),
        ('{"a": ', {"arguments": '{"a": '}),
        ("[1]", {"arguments": "[1]"}),
    ],
)
def test_arguments_are_always_an_object_on_one_line(arguments: str, args: Any) -> None:
    use = Message("assistant", [ToolUse("c1", "look", arguments)])
    body = GENERATE.write_request(Conversation(model="x", messages=[use]), MODEL)
    assert json.loads(body)["contents"][0]["parts"][0]["functionCall"]["args"] == args
    assert b"\n" not in body


def test_only_googles_own_signatures_are_sent_to_google() -> None:
    said = Message(
        "assistant",
        [
            Thinking("mine", "EqQB-of-another-maker"),
            Thinking("hers", "google:c2ln"),
            ToolUse("a", "f", "{}"),
            ToolUse("b", "g", "{}"),
            Thinking("unsigned"),
            Text("Well"),
        ],
    )
    body = _written(Conversation(model="x", messages=[said]))
    assert body["contents"][0]["parts"] == [
        {"text": "hers", "thought": True},
        {"functionCall": {"id": "a", "name": "f", "args": {}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"id": "b", "name": "g", "args": {}}},
        {"text": "Well"},
    ]


def test_a_signature_finds_its_way_back_through_anthropics_callers() -> None:
    call = {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"}
    body = json.dumps(_chunk(call, finishReason="STOP")).encode()
    shown = json.loads(MESSAGES.write_answer(GENERATE.read_answer(body)))
    result = {"type": "tool_result", "tool_use_id": shown["content"][-1]["id"], "content": "ok"}
    asked = {
        "model": "m",
        "max_tokens": 10,
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": shown["content"]},
            {"role": "user", "content": [result]},
        ],
    }
    written = _written(MESSAGES.read_request(json.dumps(asked).encode()))
    assert written["contents"][1]["parts"] == [
        {
            "functionCall": {"id": "call_mAitaL_0", "name": "f", "args": {"a": 1}},
            "thoughtSignature": "c2ln",
        }
    ]
    assert written["contents"][2]["parts"][0]["functionResponse"]["name"] == "f"


def test_a_turn_of_nothing_but_others_thoughts_is_left_out() -> None:
    messages = [Message("user", [Text("x")]), Message("assistant", [Thinking("hm", "other")])]
    assert len(_written(Conversation(model="x", messages=messages))["contents"]) == 1


def test_a_request_is_read() -> None:
    body = json.dumps(
        {
            "systemInstruction": {"parts": [{"text": "A"}, {"text": "B"}]},
            "contents": [
                {"parts": [{"text": "Hi"}]},
                {
                    "role": "model",
                    "parts": [
                        {
                            "functionCall": {"name": "f", "args": {"x": 1}},
                            "thoughtSignature": "c2ln",
                        },
                        {"functionCall": {"name": "f"}},
                        {"functionCall": {"name": "g"}},
                    ],
                },
                {
                    "role": "user",
                    "parts": [
                        {"functionResponse": {"name": "f", "response": {"output": "one"}}},
                        {"functionResponse": {"name": "g", "response": {"error": "two"}}},
                        {
                            "functionResponse": {
                                "name": "f",
                                "response": {"a": 1},
                                "parts": [
                                    {"inlineData": {"mimeType": "image/png", "data": "AA=="}}
                                ],
                            }
                        },
                    ],
                },
            ],
            "tools": [
                {"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]},
                {"functionDeclarations": [{"name": "g"}]},
            ],
            "toolConfig": {
                "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f", "g"]}
            },
            "generationConfig": {
                "responseSchema": {"type": "OBJECT"},
                "thinkingConfig": {"thinkingBudget": 5000},
            },
        }
    ).encode()
    assert GENERATE.read_request(body) == Conversation(
        model="",
        system="A\n\nB",
        messages=[
            Message("user", [Text("Hi")]),
            Message(
                "assistant",
                [
                    Thinking("", "google:c2ln"),
                    ToolUse("call_0", "f", '{"x":1}'),
                    ToolUse("call_1", "f", "{}"),
                    ToolUse("call_2", "g", "{}"),
                ],
            ),
            Message(
                "user",
                [
                    ToolResult("call_0", [Text("one")], name="f"),
                    ToolResult("call_2", [Text("two")], is_error=True, name="g"),
                    ToolResult(
                        "call_1", [Text('{"a":1}'), Media("image/png", data="AA==")], name="f"
                    ),
                ],
            ),
        ],
        tools=[
            Tool("f", "", {"type": "OBJECT"}),
            Tool("g", "", {"type": "object", "properties": {}}),
        ],
        tool_choice=ToolChoice("any"),
        stop=[],
        output_format=OutputFormat({"type": "OBJECT"}),
        reasoning_effort="medium",
    )


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"{", "JSON"),
        (b"{}", "contents"),
        (b'{"contents": [{"parts": [{"text": 3}]}]}', "text"),
        (b'{"contents": [], "tools": [{"googleSearch": {}}]}', "tools"),
        (b'{"contents": [], "cachedContent": "cachedContents/1"}', "cachedContent"),
    ],
)
def test_a_request_that_cannot_be_read_is_refused(body: bytes, word: str) -> None:
    with pytest.raises(MalformedRequest, match=word):
        GENERATE.read_request(body)


# Glances


def test_a_glance() -> None:
    body = b'{"contents": [], "generationConfig": {"maxOutputTokens": 10, "candidateCount": 3}}'
    glance = GENERATE.glance(body)
    assert glance == Glance(model="", stream=False, max_output=30)
    assert GENERATE.for_provider(body, glance, "gemini-3-pro") is body


@pytest.mark.parametrize(
    "members",
    [
        {"cachedContent": "cachedContents/1"},
        {"tools": [{"functionDeclarations": []}, {"googleSearch": {}}]},
        {"contents": [{"parts": [{"fileData": {"fileUri": "https://example.com/a"}}]}]},
    ],
)
def test_what_is_not_in_the_request_makes_it_open_ended(members: dict[str, Any]) -> None:
    assert GENERATE.glance(json.dumps({"contents": [], **members}).encode()).open_ended


@pytest.mark.parametrize("field", ["maxOutputTokens", "candidateCount"])
def test_limits_below_one_are_refused(field: str) -> None:
    body = json.dumps({"contents": [], "generationConfig": {field: -1}}).encode()
    with pytest.raises(MalformedRequest, match=field):
        GENERATE.glance(body)


# Answers

_USAGE_BODY = {
    "promptTokenCount": 100,
    "candidatesTokenCount": 20,
    "thoughtsTokenCount": 7,
    "cachedContentTokenCount": 60,
    "toolUsePromptTokenCount": 5,
    "totalTokenCount": 132,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 100}],
}
USAGE = Usage(input=105, output=27, cache_read=60, reasoning=7)


def _chunk(*parts: dict[str, Any], **members: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if "finishReason" in members:
        candidate["finishReason"] = members.pop("finishReason")
    return {
        "candidates": [candidate],
        "modelVersion": "gemini-3-flash",
        "responseId": "mAit/aL=",
        **members,
    }


def test_a_whole_answer_is_read() -> None:
    body = json.dumps(
        _chunk(
            {"text": "I think", "thought": True},
            {"text": "Hello"},
            {"text": "", "thoughtSignature": "eHg="},
            {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
            {"functionCall": {"name": "f", "args": {"a": [1, 2.0]}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "g", "id": "hers"}},
            {"functionCall": {"name": "g", "args": {}}},
            finishReason="STOP",
            usageMetadata=_USAGE_BODY,
        )
    ).encode()
    assert GENERATE.read_answer(body) == Answer(
        id="mAit/aL=",
        model="gemini-3-flash",
        parts=[
            Thinking("I think"),
            Text("Hello"),
            Thinking("", "google:c2ln"),
            ToolUse("call_mAitaL_0", "f", '{"a":[1,2.0]}'),
            ToolUse("hers", "g", "{}"),
            ToolUse("call_mAitaL_2", "g", "{}"),
        ],
        finish=Finish.TOOL_USE,
        usage=USAGE,
    )
    assert GENERATE.usage(body) == USAGE


def test_made_up_ids_are_plain_without_a_response_id() -> None:
    candidate = {"content": {"parts": [{"functionCall": {"name": "f"}}]}, "finishReason": "STOP"}
    answer = GENERATE.read_answer(json.dumps({"candidates": [candidate]}).encode())
    assert answer.parts == [ToolUse("call_0", "f", "{}")]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("STOP", Finish.STOP),
        ("MAX_TOKENS", Finish.LENGTH),
        ("SAFETY", Finish.FILTERED),
        ("PROHIBITED_CONTENT", Finish.FILTERED),
        ("RECITATION", Finish.FILTERED),
        ("OTHER", Finish.STOP),
        ("SOMETHING_NEW", Finish.STOP),
    ],
)
def test_reasons_to_finish(reason: str, finish: Finish) -> None:
    body = json.dumps({"candidates": [{"finishReason": reason}]}).encode()
    assert GENERATE.read_answer(body).finish is finish


def test_a_blocked_prompt_is_filtered() -> None:
    blocked = {
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8},
        "responseId": "r",
        "modelVersion": "m",
    }
    answer = GENERATE.read_answer(json.dumps(blocked).encode())
    assert answer == Answer("r", "m", [], Finish.FILTERED, Usage(input=8))
    reader, meter = GENERATE.reader(), GENERATE.meter(GLANCE)
    assert reader.feed(_sse(blocked)) == [
        Started("r", "m", Usage(input=8)),
        Finished(Finish.FILTERED, Usage(input=8)),
    ]
    meter.pass_on(_sse(blocked))
    assert (reader.ended, meter.ended) == (True, True)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"candidates": [{}]}', b'{"candidates": 3}']
)
def test_an_answer_of_another_format_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        GENERATE.read_answer(body)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"usageMetadata": null}', b"<html>"])
def test_no_usage_is_none_and_not_zero(body: bytes) -> None:
    assert GENERATE.usage(body) is None


# A stream as Google sends it

_EARLY = {"promptTokenCount": 100, "totalTokenCount": 100}
STREAM = _sse(
    _chunk({"text": "I ", "thought": True}, usageMetadata=_EARLY),
    _chunk({"text": "think", "thought": True}),
    _chunk({"text": "Hel"}),
    _chunk({"text": "lo ✓"}),
    _chunk(
        {
            "functionCall": {"name": "f", "args": {"finishReason": "STOP"}},
            "thoughtSignature": "c2ln",
        }
    ),
    _chunk({"functionCall": {"name": "g", "args": {}}}),
    _chunk({"text": ""}, finishReason="STOP", usageMetadata=_USAGE_BODY),
)
EVENTS: list[StreamEvent] = [
    Started("mAit/aL=", "gemini-3-flash", Usage(input=100)),
    ThinkingDelta(0, "I "),
    ThinkingDelta(0, "think"),
    TextDelta(1, "Hel"),
    TextDelta(1, "lo ✓"),
    ThinkingDelta(2, "", "google:c2ln"),
    ToolStarted(3, "call_mAitaL_0", "f"),
    ToolDelta(3, '{"finishReason":"STOP"}'),
    ToolStarted(4, "call_mAitaL_1", "g"),
    ToolDelta(4, "{}"),
    Finished(Finish.TOOL_USE, USAGE),
]


def test_a_stream_cut_at_any_byte_reads_the_same_and_is_metered_the_same() -> None:
    for cut in range(len(STREAM) + 1):
        reader, meter = GENERATE.reader(), GENERATE.meter(GLANCE)
        pieces = (STREAM[:cut], STREAM[cut:])
        assert [event for piece in pieces for event in reader.feed(piece)] == EVENTS
        assert b"".join(meter.pass_on(piece) for piece in pieces) == STREAM
        assert (meter.usage, meter.ended) == (USAGE, True)
        assert reader.ended


def test_a_stream_byte_by_byte() -> None:
    reader = GENERATE.reader()
    bits = [STREAM[i : i + 1] for i in range(len(STREAM))]
    assert [event for bit in bits for event in reader.feed(bit)] == EVENTS


def test_a_stream_without_a_reason_to_finish_was_cut() -> None:
    reader, meter = GENERATE.reader(), GENERATE.meter(GLANCE)
    stream = _sse(_chunk({"text": "x" * 400}))
    assert isinstance(reader.feed(stream)[-1], TextDelta)
    meter.pass_on(stream)
    assert (reader.ended, meter.ended, meter.usage) == (False, False, None)
    assert meter.estimate() == 100
    assert meter.estimate() == 100


def test_the_last_known_usage_is_the_usage() -> None:
    reader = GENERATE.reader()
    events = reader.feed(
        _sse(_chunk({"text": "a"}, usageMetadata=_USAGE_BODY), _chunk(finishReason="STOP"))
    )
    assert events[-1] == Finished(Finish.STOP, USAGE)


def test_a_thought_that_is_signed_on_the_call_in_the_same_chunk() -> None:
    reader = GENERATE.reader()
    events = reader.feed(
        _sse(
            _chunk(
                {"text": "hm", "thought": True},
                {"functionCall": {"name": "f"}, "thoughtSignature": "c2ln"},
            )
        )
    )
    assert events[1:] == [
        ThinkingDelta(0, "hm", "google:c2ln"),
        ToolStarted(1, "call_mAitaL_0", "f"),
        ToolDelta(1, "{}"),
    ]


def test_an_error_in_a_stream_breaks_it() -> None:
    reader = GENERATE.reader()
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    assert reader.feed(_sse(_chunk({"text": "x"}), error))[-1] == Broken(
        ErrorClass.OVERLOAD, "The model is overloaded."
    )
    assert not reader.ended


@pytest.mark.parametrize(
    "stream", [b"data: {\n\n", b"data: []\n\n", b'data: {"candidates": 3}\n\n']
)
def test_a_stream_of_another_format_is_malformed(stream: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        GENERATE.reader().feed(stream)


# Round trips

_words = st.text(min_size=1, max_size=20)
_ids = st.from_regex(r"[a-z0-9_]{1,8}", fullmatch=True)
_media = st.sampled_from(
    [
        Media("image/png", data="AA=="),
        Media("application/pdf", data="BB=="),
        Media("image/jpeg", url="https://example.com/a.jpg"),
    ]
)
_arguments = st.dictionaries(_ids, st.integers() | _words, max_size=3).map(
    lambda arguments: json.dumps(arguments, separators=(",", ":"))
)
_schema = st.dictionaries(_ids, st.text(max_size=5), min_size=1, max_size=3)
_signatures = st.sampled_from(["google:c2ln", "google:bmF0dXJl"])
_uses = st.builds(ToolUse, id=_ids, name=_ids, arguments=_arguments)


def _unique(part: Part) -> object:
    return part.id if isinstance(part, ToolUse) else object()


@st.composite
def _conversations(draw: st.DrawFn) -> Conversation:
    user: list[Part] = draw(st.lists(_words.map(Text) | _media, min_size=1, max_size=4))
    thoughts = st.builds(Thinking, _words, _signatures)
    said: list[Part] = draw(
        st.lists(_words.map(Text) | thoughts | _uses, min_size=1, max_size=4, unique_by=_unique)
    )
    results: list[Part] = [
        ToolResult(part.id, [Text("done")], draw(st.booleans()), part.name)
        for part in said
        if isinstance(part, ToolUse)
    ]
    messages = [Message("user", user), Message("assistant", said)]
    choices = st.sampled_from([None, ToolChoice("auto"), ToolChoice("any"), ToolChoice("none")])
    return Conversation(
        model="",
        messages=[*messages, Message("user", results)] if results else messages,
        system=draw(st.text(max_size=10)),
        tools=draw(st.lists(st.builds(Tool, _ids, st.text(max_size=9), _schema), max_size=2)),
        tool_choice=draw(choices | st.builds(ToolChoice, st.just("tool"), _ids)),
        max_tokens=draw(st.none() | st.integers(1, 10_000)),
        temperature=draw(st.none() | st.floats(0, 2)),
        top_p=draw(st.none() | st.floats(0, 1)),
        stop=draw(st.lists(_words, max_size=2)),
        seed=draw(st.none() | st.integers(0, 100)),
        output_format=draw(st.none() | st.builds(OutputFormat, schema=st.none() | _schema)),
        reasoning_effort=draw(st.sampled_from([None, "minimal", "low", "medium", "high"])),
    )


@settings(max_examples=100, deadline=None)
@given(_conversations())
def test_a_request_that_is_written_and_read_is_the_same(conversation: Conversation) -> None:
    assert GENERATE.read_request(GENERATE.write_request(conversation, MODEL)) == conversation


_counts = st.integers(0, 10_000)


@st.composite
def _answers(draw: st.DrawFn) -> Answer:
    """Neighbours differ in kind: two texts in a row are one text in a stream."""
    kinds: list[Callable[[], Text | Thinking | ToolUse]] = [
        lambda: draw(st.builds(Text, _words)),
        lambda: draw(st.builds(Thinking, _words, st.none() | _signatures)),
        lambda: draw(_uses),
    ]
    order = draw(st.lists(st.integers(0, 2), max_size=5))
    order = [kind for i, kind in enumerate(order) if i == 0 or kind != order[i - 1] or kind == 2]
    parts = [kinds[kind]() for kind in order]
    ends = [Finish.TOOL_USE if 2 in order else Finish.STOP, Finish.LENGTH, Finish.FILTERED]
    reasoning = draw(_counts)
    usage = Usage(draw(_counts), reasoning + draw(_counts), draw(_counts), reasoning=reasoning)
    return Answer(draw(_ids), draw(_ids), parts, draw(st.sampled_from(ends)), usage)


@settings(max_examples=100, deadline=None)
@given(_answers())
def test_an_answer_that_is_written_and_read_is_the_same(answer: Answer) -> None:
    body = GENERATE.write_answer(answer)
    assert GENERATE.read_answer(body) == answer
    assert GENERATE.usage(body) == answer.usage


def _events_of(answer: Answer) -> Iterator[StreamEvent]:
    yield Started(answer.id, answer.model, Usage(input=answer.usage.input))
    for index, part in enumerate(answer.parts):
        if isinstance(part, Text):
            yield from (TextDelta(index, letter) for letter in part.text)
        elif isinstance(part, Thinking):
            yield from (ThinkingDelta(index, letter) for letter in part.text[:-1])
            yield ThinkingDelta(index, part.text[-1:], part.signature)
        else:
            yield ToolStarted(index, part.id, part.name)
            yield ToolDelta(index, part.arguments)
    yield Finished(answer.finish, answer.usage)


@settings(max_examples=60, deadline=None)
@given(_answers(), st.integers(1, 500))
def test_a_stream_that_is_written_and_read_is_the_same(answer: Answer, size: int) -> None:
    writer, reader, meter = GENERATE.writer(GLANCE), GENERATE.reader(), GENERATE.meter(GLANCE)
    events = list(_events_of(answer))
    stream = b"".join(writer.write(event) for event in events)
    pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
    read = [event for piece in pieces for event in reader.feed(piece)]
    # Nothing is sent before there is something to say; the first chunk may be the last.
    assert read[1:] == events[1:]
    assert isinstance(read[0], Started)
    assert [meter.pass_on(piece) for piece in pieces] == pieces
    assert (reader.ended, meter.ended, meter.usage) == (True, True, answer.usage)


def test_tool_uses_that_alternate_are_written_whole() -> None:
    writer, reader = GENERATE.writer(GLANCE), GENERATE.reader()
    events: list[StreamEvent] = [
        Started("r", "m"),
        ToolStarted(0, "a", "f"),
        ToolStarted(1, "b", "g"),
        ToolDelta(1, '{"x":'),
        ToolDelta(0, "{}"),
        ToolDelta(1, "1}"),
        Finished(Finish.TOOL_USE, Usage(1, 2)),
    ]
    stream = b"".join(writer.write(event) for event in events)
    assert reader.feed(stream)[1:] == [
        ToolStarted(0, "a", "f"),
        ToolDelta(0, "{}"),
        ToolStarted(1, "b", "g"),
        ToolDelta(1, '{"x":1}'),
        Finished(Finish.TOOL_USE, Usage(1, 2)),
    ]


# Errors


def _error(code: int, status: str, message: str, *details: dict[str, Any]) -> bytes:
    error = {"code": code, "message": message, "status": status, "details": list(details)}
    return json.dumps({"error": error}).encode()


_KEY_INFO = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "API_KEY_INVALID",
    "domain": "googleapis.com",
    "metadata": {"service": "generativelanguage.googleapis.com"},
}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            _error(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid one."),
            ErrorClass.AUTH,
        ),
        (_error(400, "INVALID_ARGUMENT", "Nope.", _KEY_INFO), ErrorClass.AUTH),
        (
            _error(
                400,
                "INVALID_ARGUMENT",
                "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).",
            ),
            ErrorClass.CONTEXT_LENGTH,
        ),
        (_error(400, "INVALID_ARGUMENT", "Bad schema."), ErrorClass.INVALID),
        (_error(400, "FAILED_PRECONDITION", "Not in your country."), ErrorClass.INVALID),
        (_error(401, "UNAUTHENTICATED", "x"), ErrorClass.AUTH),
        (_error(403, "PERMISSION_DENIED", "x"), ErrorClass.AUTH),
        (_error(404, "NOT_FOUND", "models/x is not found"), ErrorClass.NOT_FOUND),
        (_error(429, "RESOURCE_EXHAUSTED", "x"), ErrorClass.RATE_LIMIT),
        (
            _error(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."),
            ErrorClass.AUTH,
        ),
        (_error(500, "INTERNAL", "x"), ErrorClass.OVERLOAD),
        (_error(503, "UNAVAILABLE", "x"), ErrorClass.OVERLOAD),
        (_error(504, "DEADLINE_EXCEEDED", "x"), ErrorClass.TIMEOUT),
        (b"[" + _error(429, "RESOURCE_EXHAUSTED", "x") + b"]", ErrorClass.RATE_LIMIT),
    ],
)
def test_errors_are_classed(body: bytes, expected: ErrorClass) -> None:
    decoded = json.loads(body)
    status = (decoded[0] if isinstance(decoded, list) else decoded)["error"]["code"]
    assert GENERATE.error_class(status, body)[0] is expected


@pytest.mark.parametrize(
    ("status", "expected"), [(502, ErrorClass.OVERLOAD), (400, ErrorClass.INVALID)]
)
def test_an_error_that_is_not_googles_goes_by_its_status(status: int, expected: ErrorClass) -> None:
    for body in (b"", b"<html>Bad gateway</html>", b"[]", b'{"x": 1}'):
        error_class, message = GENERATE.error_class(status, body)
        assert error_class is expected
        assert message


def test_how_long_to_wait_is_in_the_body() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3.5s"}
    quota = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []}
    assert GENERATE.retry_after(_error(429, "RESOURCE_EXHAUSTED", "x", quota, info)) == 3.5
    assert GENERATE.retry_after(_error(429, "RESOURCE_EXHAUSTED", "x", quota)) is None
    assert GENERATE.retry_after(b"<html>") is None


DEEP = b"[" * 100_000 + b"]" * 100_000


def test_json_nested_without_end_is_malformed_and_nothing_worse() -> None:
    request = b'{"contents":[],"x":' + DEEP + b"}"
    for read in (GENERATE.glance, GENERATE.read_request):
        with pytest.raises(MalformedRequest, match="too deeply"):
            read(request)
    assert GENERATE.usage(request) is None
    assert GENERATE.error_class(400, request)[0] is ErrorClass.INVALID
    assert GENERATE.retry_after(request) is None
    event = b'data: {"usageMetadata":{"x":' + DEEP + b"}}\n\n"
    with pytest.raises(MalformedAnswer):
        GENERATE.read_answer(request)
    with pytest.raises(MalformedAnswer):
        GENERATE.reader().feed(event)
    assert GENERATE.meter(GLANCE).pass_on(event) == event


def test_arguments_nested_too_deeply_to_be_tidied_stay_as_they_came() -> None:
    call = FunctionCall("f", msgspec.Raw(b'{"a": ' + DEEP + b"}"))
    assert call.arguments.encode() == b'{"a": ' + DEEP + b"}"


@pytest.mark.parametrize("error_class", [*ErrorClass, "budget"])
def test_errors_that_are_written_are_classed_the_same(error_class: str) -> None:
    message = "The token count exceeds what is allowed: context length."
    body = GENERATE.error(400, error_class, "some_code", message)
    expected = ErrorClass.OVERLOAD if error_class == "budget" else error_class
    if error_class == ErrorClass.INVALID:
        expected = ErrorClass.CONTEXT_LENGTH  # by its words
    assert GENERATE.error_class(400, body) == (expected, message)
    read = GENERATE.reader().feed(GENERATE.stream_error(error_class, "some_code", message))
    assert read == [Broken(expected, message)]


# Google's own SDK


def _client(status: int, body: bytes, content_type: str) -> genai.Client:
    def answer(request: httpx.Request) -> httpx.Response:
        GENERATE.glance(request.content)
        return httpx.Response(status, content=body, headers={"content-type": content_type})

    transport = httpx.Client(transport=httpx.MockTransport(answer))
    return genai.Client(api_key="test", http_options=types.HttpOptions(httpx_client=transport))


ANSWER = Answer(
    "resp_1",
    MODEL,
    [
        Thinking("hm", "google:c2ln"),
        Text("Hello"),
        ToolUse("call_1", "weather", '{"city":"Ulm"}'),
    ],
    Finish.TOOL_USE,
    Usage(input=10, output=20, cache_read=3, reasoning=4),
)


def _check(response: types.GenerateContentResponse) -> None:
    assert response.usage_metadata is not None
    assert response.usage_metadata.prompt_token_count == 10
    assert response.usage_metadata.candidates_token_count == 16
    assert response.usage_metadata.thoughts_token_count == 4
    assert response.usage_metadata.cached_content_token_count == 3
    assert response.candidates is not None
    assert response.candidates[0].finish_reason == types.FinishReason.STOP


def test_the_sdk_reads_a_whole_answer() -> None:
    with _client(200, GENERATE.write_answer(ANSWER), "application/json") as client:
        response = client.models.generate_content(model=MODEL, contents="Hi")
    _check(response)
    assert response.response_id == "resp_1"
    assert response.model_version == MODEL
    assert response.parts is not None
    thought, text, call = response.parts
    assert (thought.text, thought.thought, thought.thought_signature) == ("hm", True, b"sig")
    assert text.text == "Hello"
    assert call.function_call is not None
    assert (call.function_call.id, call.function_call.args) == ("call_1", {"city": "Ulm"})


def test_the_sdk_reads_a_stream() -> None:
    writer = GENERATE.writer(GLANCE)
    stream = b"".join(writer.write(event) for event in _events_of(ANSWER))
    with _client(200, stream, "text/event-stream") as client:
        chunks = list(client.models.generate_content_stream(model=MODEL, contents="Hi"))
    _check(chunks[-1])
    parts = [part for chunk in chunks for part in chunk.parts or []]
    assert "".join(part.text or "" for part in parts if not part.thought) == "Hello"
    calls = [part.function_call for part in parts if part.function_call]
    assert [(call.name, call.args) for call in calls] == [("weather", {"city": "Ulm"})]


def test_the_sdk_raises_the_error_of_an_answer() -> None:
    body = GENERATE.error(429, "rate_limit", "too_many_calls", "Wait a little.")
    with (
        _client(429, body, "application/json") as client,
        pytest.raises(errors.ClientError) as raised,
    ):
        client.models.generate_content(model=MODEL, contents="Hi")
    assert raised.value.code == 429
    assert raised.value.status == "RESOURCE_EXHAUSTED"
    assert raised.value.message == "Wait a little."


@pytest.mark.parametrize("by_writer", [True, False])
def test_the_sdk_raises_the_error_of_a_stream(by_writer: bool) -> None:
    writer = GENERATE.writer(GLANCE)
    stream = writer.write(Started("r", "m")) + writer.write(TextDelta(0, "Hel"))
    if by_writer:
        stream += writer.write(Broken("overload", "The stream was cut."))
    else:
        stream += GENERATE.stream_error("overload", "stream_broken", "The stream was cut.")
    seen: list[str | None] = []
    with _client(200, stream, "text/event-stream") as client:
        chunks = client.models.generate_content_stream(model=MODEL, contents="Hi")
        with pytest.raises(errors.ServerError) as raised:
            seen.extend(chunk.text for chunk in chunks)
    assert seen == ["Hel"]
    assert raised.value.status == "UNAVAILABLE"
    assert raised.value.message == "The stream was cut."


def test_what_the_sdk_asks_is_read() -> None:
    asked: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.content)
        return httpx.Response(200, content=GENERATE.write_answer(ANSWER))

    config = types.GenerateContentConfig(
        system_instruction="Be kind.",
        max_output_tokens=50,
        temperature=0.5,
        top_p=0.5,
        stop_sequences=["END"],
        seed=3,
        response_mime_type="application/json",
        response_json_schema={"type": "object"},
        thinking_config=types.ThinkingConfig(thinking_level=types.ThinkingLevel.HIGH),
        tools=[
            types.Tool(
                function_declarations=[
                    types.FunctionDeclaration(
                        name="look", description="Looks", parameters_json_schema={"type": "object"}
                    )
                ]
            )
        ],
        tool_config=types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(
                mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["look"]
            )
        ),
    )
    call = types.Part(
        function_call=types.FunctionCall(id="c1", name="look", args={"at": 1}),
        thought_signature=b"sig",
    )
    response = types.FunctionResponse(id="c1", name="look", response={"output": "a cat"})
    contents = [
        types.Content(
            role="user",
            parts=[
                types.Part(text="Hi"),
                types.Part.from_bytes(data=b"\x00", mime_type="image/png"),
                types.Part.from_uri(
                    file_uri="https://example.com/a.pdf", mime_type="application/pdf"
                ),
            ],
        ),
        types.Content(role="model", parts=[call]),
        types.Content(role="user", parts=[types.Part(function_response=response)]),
    ]
    transport = httpx.Client(transport=httpx.MockTransport(answer))
    options = types.HttpOptions(httpx_client=transport)
    with genai.Client(api_key="test", http_options=options) as client:
        client.models.generate_content(model=MODEL, contents=contents, config=config)
    conversation = Conversation(
        model="",
        system="Be kind.",
        messages=[
            Message(
                "user",
                [
                    Text("Hi"),
                    Media("image/png", data="AA=="),
                    Media("application/pdf", url="https://example.com/a.pdf"),
                ],
            ),
            Message("assistant", [Thinking("", "google:c2ln"), ToolUse("c1", "look", '{"at":1}')]),
            Message("user", [ToolResult("c1", [Text("a cat")], name="look")]),
        ],
        tools=[Tool("look", "Looks", {"type": "object"})],
        tool_choice=ToolChoice("tool", "look"),
        max_tokens=50,
        temperature=0.5,
        top_p=0.5,
        stop=["END"],
        seed=3,
        output_format=OutputFormat({"type": "object"}),
        reasoning_effort="high",
    )
    assert GENERATE.read_request(asked[0]) == conversation
    # And the other way: what we write is what Google's own SDK writes, but for what we add.
    theirs, ours = json.loads(_camel(asked[0])), _written(conversation)
    theirs["systemInstruction"].pop("role")
    ours["generationConfig"]["thinkingConfig"].pop("includeThoughts")
    assert ours == theirs


def _camel(body: bytes) -> bytes:
    """Google takes both spellings of its names, and its SDK mixes them."""
    return re.sub(rb"(?<=[a-z])_([a-z])(?=\w*\":)", lambda found: found[1].upper(), body)
