"""What native agents ask, in the bytes of the wire it is asked in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace, TracebackType
from typing import Any, cast

import msgspec
import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter
from pydantic_ai import BinaryContent, ImageUrl
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    CachePoint,
    InstructionPart,
    ModelMessage,
    ModelResponsePart,
    NativeToolCallPart,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.messages import ModelRequest as Asked
from pydantic_ai.messages import ModelResponse as Said
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from agentos.integrations.models.conversation import (
    Answer,
    Conversation,
    Finish,
    Message,
    Part,
    Text,
    ToolResult,
    ToolUse,
    Usage,
)
from agentos.integrations.models.conversation import Thinking as Thought
from agentos.integrations.models.directory import ConnectedProvider
from agentos.integrations.models.native import RouterModel
from agentos.integrations.models.prices import Catalogue
from agentos.integrations.models.providers import PROVIDERS
from agentos.integrations.models.providers.base import Connection
from agentos.integrations.models.router import ModelRequest, ModelRouter
from agentos.integrations.models.routing import Target
from agentos.integrations.models.wires.registry import TRANSLATING
from agentos.kernel.ids import TenantId, uuid7
from agentos.tenancy.ledger.calls import Spender

GPT, CLAUDE, OLD_CLAUDE = "gpt-5.2", "claude-sonnet-5-5", "claude-sonnet-4-5"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
# Strict only if it is asked for.
LOOSE = {"type": "object", "properties": {"city": {"type": "string"}}}
HELLO: list[ModelMessage] = [Asked([UserPromptPart("Hello")])]


class Router:
    """Takes requests, and answers each alike."""

    def __init__(self, target: Target):
        self.target = target
        self.catalogue = Catalogue()
        self.requests: list[ModelRequest] = []
        self.answer = Answer("answer-1", "theirs", [Text("Hi")], Finish.STOP, Usage(3, 2))
        self.chunks: list[bytes] | None = None
        self.raw: bytes | None = None
        self.closed = 0

    def open(self, request: ModelRequest) -> AbstractAsyncContextManager[Any]:
        self.requests.append(request)
        return _Call(self, request)


class _Call:
    def __init__(self, router: Router, request: ModelRequest):
        self.target = router.target
        self._router = router
        self.whole: bytes | None = None
        if router.chunks is None:
            wire = TRANSLATING[request.face.name]
            self.whole = router.raw or wire.write_answer(router.answer)

    async def __aenter__(self) -> _Call:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert error is None, "what happens to a caller is not the provider's failure"
        self._router.closed += 1

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in self._router.chunks or []:
            yield chunk


def model_of(kind: str, model: str) -> tuple[RouterModel, Router]:
    provider = ConnectedProvider(uuid7(), kind, PROVIDERS[kind], Connection("http://x", None))
    target = Target(provider, model)
    router = Router(target)
    spender = Spender(TenantId(uuid7()))
    made = RouterModel(
        cast("ModelRouter", router), f"{kind}/{model}", target, spender, principal=("service", "w")
    )
    return made, router


async def written(
    kind: str,
    model: str,
    messages: list[ModelMessage] = HELLO,
    settings: ModelSettings | None = None,
    params: ModelRequestParameters | None = None,
) -> dict[str, Any]:
    """The body of the request that is made."""
    made, router = model_of(kind, model)
    if kind == "anthropic":
        # More would be streamed.
        settings = ModelSettings(**{"max_tokens": 1000, **(settings or {})})
    await made.request(messages, settings, params or ModelRequestParameters())
    (request,) = router.requests
    assert router.closed == 1
    assert request.glance.model == f"{kind}/{model}"
    body: dict[str, Any] = msgspec.json.decode(request.body)
    drained(_SDK_TYPES[request.face.name].validate_python(body))
    return body


_SDK_TYPES: dict[str, TypeAdapter[Any]] = {
    "openai.chat": TypeAdapter(CompletionCreateParamsNonStreaming),
    "anthropic.messages": TypeAdapter(MessageCreateParamsNonStreaming),
}


def drained(value: Any) -> None:
    """Reads to the end what pydantic validates only as it is read."""
    if isinstance(value, Mapping):
        for each in value.values():
            drained(each)
    elif isinstance(value, list | Iterator):
        for each in value:
            drained(each)


def tools(*names: str, **more: Any) -> list[ToolDefinition]:
    return [
        ToolDefinition(name=name, description="d", parameters_json_schema=LOOSE, **more)
        for name in names
    ]


def test_models_are_told_apart() -> None:
    # The one bills another tenant than the other.
    assert model_of("openai", GPT)[0] != model_of("openai", GPT)[0]


# What is known of a model

# What a conversation has no place for, or is kept beside the SDKs.
_OUR_OWN = {
    *("json_schema_transformer", "supported_native_tools", "supports_image_output"),
    *("supports_inline_system_prompts", "supports_request_scoped_system_prompts"),
    *("supports_mid_conversation_effort", "tool_addition_mode", "tool_deferral_mode"),
    *("supports_cache", "supported_cache_retentions", "supports_audio_file_input"),
    *("supports_video_input", "openai_chat_supports_allowed_tools", "openai_supports_batch_api"),
    *("anthropic_enforces_strict_schema_limits", "anthropic_supports_on_demand_compaction"),
}


@pytest.mark.parametrize(
    ("kind", "model", "theirs"),
    [
        ("anthropic", CLAUDE, AnthropicProvider.model_profile(CLAUDE)),
        ("anthropic", OLD_CLAUDE, AnthropicProvider.model_profile(OLD_CLAUDE)),
        ("openai", GPT, OpenAIProvider.model_profile(GPT)),
        ("openai", "o3", OpenAIProvider.model_profile("o3")),
        *(
            (kind, model, OpenAICompatibleProvider.model_profile(named))
            for kind, model, named in [
                ("mistral", "mistral-large-latest", "mistral/mistral-large-latest"),
                ("mistral", "magistral-small-latest", "mistral/magistral-small-latest"),
                ("groq", "llama-3.3-70b", "groq/llama-3.3-70b"),
                ("google", "gemini-2.5-flash", "google/gemini-2.5-flash"),
                ("openrouter", "deepseek/deepseek-r1", "deepseek/deepseek-r1"),
                ("openrouter", "qwen/qwen3-coder", "qwen/qwen3-coder"),
                ("custom", "anything", "custom/anything"),
            ]
        ),
    ],
)
def test_a_model_is_known_as_pydantic_ai_knows_it(
    kind: str, model: str, theirs: Mapping[str, Any] | None
) -> None:
    ours: Mapping[str, Any] = {**model_of(kind, model)[0].profile}
    for name, value in (theirs or {}).items():
        if name not in _OUR_OWN and not name.startswith("openai_responses_"):
            assert ours[name] == value, name


# A whole history

HISTORY: list[ModelMessage] = [
    Asked([SystemPromptPart("Be brief."), UserPromptPart(["Look: ", "twice"])]),
    Said(
        [
            ThinkingPart("hm", signature="c2ln", provider_name="anthropic"),
            TextPart("I look."),
            ToolCallPart("look", '{"city": "Bern"}', "call_1"),
            ToolCallPart("look", {"city": "Biel"}, "call_2"),
        ],
        provider_name="anthropic",
    ),
    Asked(
        [
            ToolReturnPart("look", {"sky": "blue"}, "call_1"),
            ToolReturnPart("look", "no such city", "call_2", outcome="failed"),
            UserPromptPart("And?"),
        ]
    ),
]


async def test_a_history_for_claude() -> None:
    params = ModelRequestParameters(
        function_tools=tools("look"), instruction_parts=[InstructionPart("Be kind.")]
    )
    body = await written("anthropic", CLAUDE, HISTORY, None, params)
    assert body == {
        "model": CLAUDE,
        "max_tokens": 1000,
        "system": "Be brief.\n\nBe kind.",
        "tools": [{"name": "look", "description": "d", "input_schema": LOOSE}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look: "},
                    {"type": "text", "text": "twice"},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "call_1", "name": "look", "input": {"city": "Bern"}},
                    {"type": "tool_use", "id": "call_2", "name": "look", "input": {"city": "Biel"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "call_1",
                        "content": [{"type": "text", "text": '{"sky":"blue"}'}],
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "call_2",
                        "content": [{"type": "text", "text": "no such city"}],
                        "is_error": True,
                    },
                    {"type": "text", "text": "And?"},
                ],
            },
        ],
    }


async def test_a_history_for_chat() -> None:
    params = ModelRequestParameters(
        function_tools=tools("look", strict=False), instruction_parts=[InstructionPart("Be kind.")]
    )
    body = await written("openai", GPT, HISTORY, None, params)
    assert body == {
        "model": GPT,
        "tools": [
            {
                "type": "function",
                "function": {"name": "look", "description": "d", "parameters": LOOSE},
            }
        ],
        "messages": [
            {"role": "system", "content": "Be brief.\n\nBe kind."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look: "},
                    {"type": "text", "text": "twice"},
                ],
            },
            {
                "role": "assistant",
                # Another's thought: told in words.
                "content": [
                    {"type": "text", "text": "<think>\nhm\n</think>"},
                    {"type": "text", "text": "I look."},
                ],
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "look", "arguments": '{"city":"Bern"}'},
                    },
                    {
                        "id": "call_2",
                        "type": "function",
                        "function": {"name": "look", "arguments": '{"city":"Biel"}'},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": '{"sky":"blue"}'},
            {"role": "tool", "tool_call_id": "call_2", "content": '{"error":"no such city"}'},
            {"role": "user", "content": "And?"},
        ],
    }


async def test_instructions_of_the_history_count_without_an_agent() -> None:
    body = await written("openai", GPT, [Asked([UserPromptPart("Hi")], instructions="Be kind.")])
    assert body["messages"][0] == {"role": "system", "content": "Be kind."}


async def test_a_retry() -> None:
    feedback = RetryFeedbackPart("too long", retry=RetryInfo("model_retry"))
    body = await written("openai", GPT, [*HELLO, Said([TextPart("x")]), Asked([feedback])])
    assert "too long" in body["messages"][-1]["content"]


async def test_what_has_to_be_prepared_first() -> None:
    from pydantic_ai.messages import ToolAvailabilityDeltaPart

    delta = ToolAvailabilityDeltaPart(tools_added=["look"])
    with pytest.raises(UserError, match="prepare_messages"):
        await written("openai", GPT, [Asked([delta, UserPromptPart("Hi")])])


# Thoughts


async def test_a_thought_that_only_claude_can_read_is_given_back() -> None:
    hidden = ThinkingPart("", id="redacted_thinking", signature="ZW5j", provider_name="anthropic")
    said = Said([hidden, TextPart("Yes.")], provider_name="anthropic")
    body = await written("anthropic", CLAUDE, [*HELLO, said, *HELLO])
    assert body["messages"][1]["content"] == [
        {"type": "redacted_thinking", "data": "ZW5j"},
        {"type": "text", "text": "Yes."},
    ]


async def test_a_thought_that_another_signed_is_told_in_the_users_turn() -> None:
    said = Said([ThinkingPart("hm", signature="x", provider_name="openai"), TextPart("Yes.")])
    body = await written("anthropic", CLAUDE, [*HELLO, said, *HELLO])
    user, assistant, _ = body["messages"]
    assert "hm" in user["content"][1]["text"]
    assert assistant["content"] == [{"type": "text", "text": "Yes."}]


async def test_a_chat_models_own_thoughts_are_given_back_in_their_field() -> None:
    thought = ThinkingPart("hm", id="reasoning_content", provider_name="custom")
    call = ToolCallPart("look", "{}", "call_1")
    history: list[ModelMessage] = [
        *HELLO,
        Said([TextPart("Early.")], provider_name="custom"),
        *HELLO,
        Said([thought, TextPart("Yes."), call], provider_name="custom"),
        Asked([ToolReturnPart("look", "blue", "call_1")]),
        Said([ToolCallPart("look", "{}", "call_2")], provider_name="custom"),
        Asked([ToolReturnPart("look", "red", "call_2")]),
    ]
    body = await written("custom", "some-model", history)
    assistants = [m for m in body["messages"] if m["role"] == "assistant"]
    assert "reasoning_content" not in assistants[0]
    assert (assistants[1]["reasoning_content"], assistants[1]["content"]) == ("hm", "Yes.")
    assert assistants[2]["reasoning_content"] == "", "or some vendors refuse the turn"


# Files


async def test_files() -> None:
    image = BinaryContent(b"png", media_type="image/png")
    content: list[UserContent] = ["See ", image, ImageUrl("https://x.test/a.png")]
    messages: list[ModelMessage] = [Asked([UserPromptPart(content)])]
    chat = await written("openai", GPT, messages)
    assert chat["messages"][0]["content"][1:] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
        {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
    ]
    claude = await written("anthropic", CLAUDE, messages)
    assert claude["messages"][0]["content"][1:] == [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"},
        },
        {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
    ]


async def test_files_that_a_tool_returned() -> None:
    image = BinaryContent(b"png", media_type="image/png", identifier="pic")
    history: list[ModelMessage] = [
        *HELLO,
        Said([ToolCallPart("draw", "{}", "call_1")]),
        Asked([ToolReturnPart("draw", ["done", image], "call_1")]),
    ]
    claude = await written("anthropic", CLAUDE, history)
    (result,) = claude["messages"][-1]["content"]
    assert [block["type"] for block in result["content"]] == ["text", "image"]
    chat = await written("openai", GPT, history)
    tool, user = chat["messages"][-2:]
    assert "pic" in tool["content"]
    assert [part["type"] for part in user["content"]] == ["text", "image_url", "text"]
    assert "call_1" in user["content"][0]["text"], "it says where it came from"


# Settings


async def test_settings_for_chat() -> None:
    settings = ModelSettings(
        max_tokens=9,
        temperature=0.5,
        top_p=0.9,
        stop_sequences=["END"],
        seed=7,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        logit_bias={"1": 2},
        parallel_tool_calls=False,
        extra_body={"user": "u"},
    )
    params = ModelRequestParameters(function_tools=tools("look", strict=False))
    body = await written("groq", "llama-3.3-70b", HELLO, settings, params)
    del body["messages"], body["tools"]
    assert body == {
        "model": "llama-3.3-70b",
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
        "seed": 7,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "logit_bias": {"1": 2},
        "parallel_tool_calls": False,
        "user": "u",
    }


async def test_a_reasoning_model_takes_a_temperature_only_while_it_does_not_reason() -> None:
    warm = ModelSettings(max_tokens=9, temperature=0.5)
    body = await written("openai", GPT, HELLO, warm)
    assert (body["temperature"], body["max_completion_tokens"]) == (0.5, 9)
    body = await written("openai", GPT, HELLO, ModelSettings(temperature=0.5, thinking="high"))
    assert (body.get("temperature"), body["reasoning_effort"]) == (None, "high")
    assert "temperature" not in await written("openai", "gpt-5", HELLO, warm)


async def test_settings_for_claude() -> None:
    settings = ModelSettings(
        max_tokens=9, temperature=0.5, stop_sequences=["END"], top_k=4, parallel_tool_calls=False
    )
    params = ModelRequestParameters(function_tools=tools("look"))
    body = await written("anthropic", OLD_CLAUDE, HELLO, settings, params)
    del body["messages"], body["tools"]
    assert body == {
        "model": OLD_CLAUDE,
        "max_tokens": 9,
        "temperature": 0.5,
        "stop_sequences": ["END"],
        "top_k": 4,
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    }


@pytest.mark.parametrize(
    ("model", "thinking", "expected"),
    [
        (OLD_CLAUDE, "high", {"thinking": {"type": "enabled", "budget_tokens": 16384}}),
        (OLD_CLAUDE, False, {}),
        (CLAUDE, "high", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        (CLAUDE, True, {"thinking": {"type": "adaptive"}}),
        (CLAUDE, False, {"thinking": {"type": "between_tools"}}),
    ],
)
async def test_how_claude_is_told_to_think(model: str, thinking: Any, expected: Any) -> None:
    made, router = model_of("anthropic", model)
    router.answer = msgspec.structs.replace(router.answer)
    settings = ModelSettings(max_tokens=20_000, thinking=thinking)
    # In the middle of a turn too: that thoughts are at hand is the agent's to see to.
    await made.request(HISTORY, settings, ModelRequestParameters())
    body = msgspec.json.decode(router.requests[0].body)
    assert {k: body[k] for k in ("thinking", "output_config") if k in body} == expected


async def test_claude_may_write_all_it_can_if_nobody_says_otherwise() -> None:
    made, router = model_of("anthropic", OLD_CLAUDE)
    router.chunks = []
    with pytest.raises(Exception, match="broke off"):
        await made.request(HELLO, None, ModelRequestParameters())
    body = msgspec.json.decode(router.requests[0].body)
    # So long an answer is awaited as a stream.
    assert (body["max_tokens"], body["stream"]) == (64_000, True)


async def test_what_claude_should_keep() -> None:
    params = ModelRequestParameters(
        function_tools=tools("a", "b"), instruction_parts=[InstructionPart("Be kind.")]
    )
    body = await written("anthropic", CLAUDE, HELLO, ModelSettings(cache="1h"), params)
    kept = {"type": "ephemeral", "ttl": "1h"}
    assert body["cache_control"] == kept
    assert body["system"] == [{"type": "text", "text": "Be kind.", "cache_control": kept}]
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, kept]
    # Others keep what they read by themselves.
    assert "cache_control" not in await written("openai", GPT, HELLO, ModelSettings(cache=True))


# Tools and outputs


@pytest.mark.parametrize(
    ("choice", "chat", "claude", "names"),
    [
        (None, None, None, ["a", "b"]),
        ("none", "none", {"type": "none"}, ["a", "b"]),
        ("required", "required", {"type": "any"}, ["a", "b"]),
        (
            ["a"],
            {"type": "function", "function": {"name": "a"}},
            {"type": "tool", "name": "a"},
            ["a", "b"],
        ),
    ],
)
async def test_the_choice_of_a_tool(choice: Any, chat: Any, claude: Any, names: list[str]) -> None:
    settings = ModelSettings() if choice is None else ModelSettings(tool_choice=choice)
    params = ModelRequestParameters(function_tools=tools("a", "b"))
    body = await written("openai", GPT, HELLO, settings, params)
    assert body.get("tool_choice") == chat
    assert [tool["function"]["name"] for tool in body["tools"]] == names
    body = await written("anthropic", OLD_CLAUDE, HELLO, settings, params)
    assert body.get("tool_choice") == claude
    assert [tool["name"] for tool in body["tools"]] == names


async def test_an_output_tool_is_forced_only_where_it_may_be() -> None:
    params = ModelRequestParameters(
        output_mode="tool", output_tools=tools("final_result"), allow_text_output=False
    )
    assert (await written("openai", GPT, HELLO, None, params))["tool_choice"] == "required"
    assert (await written("anthropic", OLD_CLAUDE, HELLO, None, params))["tool_choice"] == {
        "type": "any"
    }
    # This one refuses to be forced.
    assert "tool_choice" not in await written("anthropic", CLAUDE, HELLO, None, params)


async def test_strict_tools() -> None:
    params = ModelRequestParameters(function_tools=[*tools("a", strict=True), *tools("b")])
    body = await written("openai", GPT, HELLO, None, params)
    strict, loose = (tool["function"] for tool in body["tools"])
    assert strict["strict"] is True
    assert strict["parameters"]["additionalProperties"] is False
    assert "strict" not in loose
    body = await written("anthropic", CLAUDE, HELLO, None, params)
    assert [tool.get("strict") for tool in body["tools"]] == [True, None]


async def test_output_of_a_schema() -> None:
    schema = {
        "type": "object",
        "title": "City",
        "properties": {"name": {"type": "string", "minLength": 2, "description": "its name"}},
        "required": ["name"],
    }
    params = ModelRequestParameters(
        output_mode="native",
        output_object=OutputObjectDefinition(json_schema=schema, name="City", strict=True),
    )
    chat = await written("openai", GPT, HELLO, None, params)
    told = chat["response_format"]["json_schema"]
    assert (told["name"], told["strict"]) == ("City", True)
    claude = await written("anthropic", CLAUDE, HELLO, None, params)
    # What Claude's schemas cannot say, it is told in words.
    assert claude["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "properties": {"name": {"type": "string", "description": "its name\n\n{minLength: 2}"}},
            "required": ["name"],
            "additionalProperties": False,
        },
    }


async def test_output_of_a_schema_while_claude_thinks_within_a_budget() -> None:
    params = ModelRequestParameters(
        output_mode="auto",
        output_object=OutputObjectDefinition(json_schema=SCHEMA),
        output_tools=tools("final_result"),
        allow_text_output=False,
    )
    settings = ModelSettings(thinking="low", max_tokens=20_000)
    body = await written("anthropic", OLD_CLAUDE, HELLO, settings, params)
    assert "tools" not in body
    assert body["output_config"]["format"]["schema"] == SCHEMA


# What only the vendor's SDK can write


@pytest.mark.parametrize(
    ("messages", "settings", "params"),
    [
        ([Asked([UserPromptPart(["Hi", CachePoint()])])], {}, {}),
        ([Asked([UserPromptPart([VideoUrl("https://x.test/a.mp4")])])], {}, {}),
        (HELLO, {"anthropic_effort": "low"}, {}),
        (HELLO, {"service_tier": "auto"}, {}),
        (HELLO, {}, {"native_tools": [WebSearchTool()]}),
        (
            [
                *HELLO,
                Said([NativeToolCallPart("web_search", {}, "1")], provider_name="anthropic"),
                *HELLO,
            ],
            {},
            {},
        ),
    ],
)
async def test_what_a_conversation_has_no_place_for(
    messages: list[ModelMessage],
    settings: Any,
    params: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, router = model_of("anthropic", CLAUDE)
    taken: list[str] = []

    async def request(*_: Any) -> Said:
        taken.append("sdk")
        return Said([])

    monkeypatch.setattr(made, "_by_sdk", lambda: SimpleNamespace(request=request))
    await made.request(messages, settings, ModelRequestParameters(**params))
    assert (taken, router.requests) == (["sdk"], [])


# Anything at all

_words = st.text(st.characters(codec="utf-8", exclude_characters="<>\x00"), min_size=1).filter(
    lambda text: bool(text.strip())
)
_ids = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)
_arguments = st.dictionaries(_ids, st.integers() | _words).map(
    lambda found: msgspec.json.encode(found).decode()
)


@st.composite
def turns(draw: st.DrawFn) -> list[ModelMessage]:
    """A conversation in which every call of a tool is answered."""
    messages: list[ModelMessage] = []
    answers: list[ToolReturnPart] = []
    for turn in range(draw(st.integers(1, 4))):
        prompt = [UserPromptPart(draw(_words))] if draw(st.booleans()) or not answers else []
        messages.append(Asked([*answers, *prompt]))
        calls = [
            ToolCallPart("look", draw(_arguments), f"call_{turn}_{i}")
            for i in range(draw(st.integers(0, 2)))
        ]
        said: list[ModelResponsePart] = []
        if draw(st.booleans()):
            said.append(ThinkingPart(draw(_words), signature=draw(_ids), provider_name="anthropic"))
        messages.append(Said([*said, TextPart(draw(_words)), *calls], provider_name="anthropic"))
        answers = [ToolReturnPart("look", draw(_words), call.tool_call_id) for call in calls]
    messages.append(Asked([*answers, UserPromptPart(draw(_words))]))
    return messages


def _expected(messages: list[ModelMessage]) -> list[Message]:
    """The turns as Claude should read them."""
    read: list[Message] = []
    for message in messages:
        parts: list[Part] = []
        for part in message.parts:
            match part:
                case UserPromptPart(content=str(text)) | TextPart(content=text):
                    parts.append(Text(text))
                case ThinkingPart(content=text, signature=signature):
                    parts.append(Thought(text, signature))
                case ToolCallPart(tool_name=name, args=arguments, tool_call_id=id):
                    parts.append(ToolUse(id, name, str(arguments)))
                case ToolReturnPart(content=text, tool_call_id=id, tool_name=name):
                    parts.append(ToolResult(id, [Text(str(text))], name=name))
                case _:
                    raise AssertionError(part)
        read.append(Message("user" if isinstance(message, Asked) else "assistant", parts))
    return read


@given(messages=turns(), kind=st.sampled_from(["openai", "anthropic"]))
def test_any_history_comes_through(messages: list[ModelMessage], kind: str) -> None:
    made, router = model_of(kind, {"openai": GPT, "anthropic": CLAUDE}[kind])
    request = made.request(messages, ModelSettings(max_tokens=100), ModelRequestParameters())
    with pytest.raises(StopIteration):
        request.send(None)  # it waits for nothing
    body = router.requests[0].body
    face = TRANSLATING[router.requests[0].face.name]
    drained(_SDK_TYPES[face.name].validate_python(msgspec.json.decode(body)))
    read: Conversation = face.read_request(body)
    if kind == "anthropic":
        assert read.messages == _expected(messages)
    else:
        assert _calls(read.messages) == _calls(_expected(messages))


def _calls(messages: list[Message]) -> list[Part]:
    return [
        part
        for message in messages
        for part in message.parts
        if isinstance(part, ToolUse | ToolResult)
    ]
