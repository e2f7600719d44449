from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.integrations.models.conversation import (
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
from agentos.integrations.models.demo.drafts import Pause
from agentos.integrations.models.demo.model import DemoModel
from agentos.integrations.models.demo.replies import INTRODUCTION
from agentos.integrations.models.demo.tokens import count, count_tokens, pieces
from agentos.integrations.models.failures import ErrorClass
from agentos.integrations.models.folding import StreamBroken, fold
from agentos.integrations.models.wires.base import MalformedAnswer

MODEL = DemoModel()
WEATHER = Tool(
    "get_weather",
    "The weather of a city.\nNot of the past.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
BASH = Tool(
    "Bash",
    "Runs a command.",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)
READ = Tool("Read", "Reads a file.", {"type": "object", "properties": {}})


def user(*parts: Part | str) -> Message:
    return Message("user", [Text(part) if isinstance(part, str) else part for part in parts])


def assistant(*parts: Part | str) -> Message:
    return Message("assistant", [Text(part) if isinstance(part, str) else part for part in parts])


def script(*lines: str) -> Message:
    return user("\n".join(["```demo", *lines, "```"]))


def after(*messages: Message, **settings: Any) -> Conversation:
    return Conversation(model="demo", messages=list(messages), **settings)


def text_of(conversation: Conversation) -> str:
    answer = MODEL.whole(conversation)
    return "".join(part.text for part in answer.parts if isinstance(part, Text))


def calls_of(conversation: Conversation) -> list[tuple[str, str]]:
    answer = MODEL.whole(conversation)
    return [(part.name, part.arguments) for part in answer.parts if isinstance(part, ToolUse)]


def events_of(conversation: Conversation) -> list[StreamEvent]:
    return [event for event in MODEL.answer(conversation) if not isinstance(event, Pause)]


# Without a script


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("what is 12*7?", "12*7 = 84"),
        ("12 * (3 + 4) / 5 =", "12 * (3 + 4) / 5 = 16.8"),
        ("Calculate 2^10 please", "2^10 = 1024"),
        ("What's 1 ÷ 4?", "1 / 4 = 0.25"),
        ("-3 + 5", "-3 + 5 = 2"),
        ("what is 7 % 4", "7 % 4 = 3"),
        ("count to 5", "1, 2, 3, 4, 5"),
        ('How many words are in "one two three"?', "3 words"),
        ("how many letters has this: a1", "1 letter"),
        ("which tools do you have?", "I was given no tools."),
        ("10-12 people came", "You said: “10-12 people came”"),
        ("what is 1/0?", "You said: “what is 1/0?”"),
        ("what is 9^9^9^9?", "You said: “what is 9^9^9^9?”"),
        ("what was on 2024-01-02?", "You said: “what was on 2024-01-02?”"),
    ],
)
def test_simple_questions(asked: str, answered: str) -> None:
    assert text_of(after(user("hi"), assistant("Hello!"), user(asked))) == answered


def test_only_the_first_answer_introduces_the_model() -> None:
    first = text_of(after(user("hello")))
    assert first.endswith(INTRODUCTION)
    assert "not a real AI" in first
    assert "agentos models providers add" in first
    assert INTRODUCTION not in text_of(after(user("hello"), assistant(first), user("bye")))


def test_what_is_to_be_repeated_is_repeated_and_no_more() -> None:
    assert text_of(after(user("Repeat after me: good day"))) == "good day"
    assert text_of(after(user('say "hi"'))) == "hi"


def test_tools_are_listed() -> None:
    text = text_of(after(user("a"), assistant("b"), user("list your tools"), tools=[WEATHER, BASH]))
    assert text == (
        "I was given 2 tools:\n- get_weather: The weather of a city.\n- Bash: Runs a command."
    )


@pytest.mark.parametrize(
    ("asked", "called"),
    [
        ("Use the get_weather tool", [("get_weather", '{"city":"demo"}')]),
        ("please call `get_weather` now", [("get_weather", '{"city":"demo"}')]),
        ('use get_weather with {"city": "Bern"}', [("get_weather", '{"city": "Bern"}')]),
        ("the bash tool, please", [("Bash", '{"command":"demo"}')]),
        ("use Read", [("Read", "{}")]),
        ("use your time and read", []),
        ("run read", []),
        ("How is the weather?", []),
    ],
)
def test_a_tool_that_is_named_is_used(asked: str, called: list[tuple[str, str]]) -> None:
    assert calls_of(after(user(asked), tools=[WEATHER, BASH, READ])) == called


def test_what_a_tool_answered_is_told() -> None:
    call = ToolUse("call_1", "get_weather", "{}")
    conversation = after(
        user("use the get_weather tool"),
        assistant(call),
        user(ToolResult("call_1", [Text("sunny")]), "<system-reminder>be nice</system-reminder>"),
        tools=[WEATHER],
    )
    assert text_of(conversation) == "get_weather answered: sunny"
    failed = after(assistant(call), user(ToolResult("call_1", [Text("no")], is_error=True)))
    assert text_of(failed) == "get_weather failed: no"
    picture = after(assistant(call), user(ToolResult("x", [Media("image/png", data="QQ==")])))
    assert text_of(picture) == "tool answered: [image/png]"


def test_notes_of_coding_agents_are_not_the_users_words() -> None:
    message = user("<system-reminder>use the Bash tool</system-reminder>", "count to 3")
    assert text_of(after(message, tools=[BASH])).startswith("1, 2, 3")


# What the caller asks for


def test_a_forced_tool_is_used() -> None:
    forced = after(user("hi"), tools=[WEATHER, BASH], tool_choice=ToolChoice("tool", name="Bash"))
    assert calls_of(forced) == [("Bash", '{"command":"demo"}')]
    assert MODEL.whole(forced).finish is Finish.TOOL_USE


def test_if_any_tool_is_wanted_the_unused_come_first() -> None:
    def ask(*messages: Message) -> list[tuple[str, str]]:
        choice = ToolChoice("any")
        return calls_of(after(*messages, tools=[WEATHER, BASH, READ], tool_choice=choice))

    assert [name for name, _ in ask(user("hi"))] == ["get_weather"]
    assert [name for name, _ in ask(user("use Bash"))] == ["Bash"]
    used = [
        assistant(ToolUse("1", "get_weather", "{}")),
        user(ToolResult("1", [Text("sunny")])),
    ]
    assert [name for name, _ in ask(user("hi"), *used)] == ["Bash"]


def test_no_tool_is_used_if_none_may_be() -> None:
    none = ToolChoice("none")
    assert calls_of(after(user("use Bash"), tools=[BASH], tool_choice=none)) == []
    scripted = after(script("call Bash"), tools=[BASH], tool_choice=none)
    assert calls_of(scripted) == []
    assert "allows no tools" in text_of(scripted)


def test_a_script_that_forgets_the_forced_tool_uses_it_anyway() -> None:
    choice = ToolChoice("tool", name="Bash")
    conversation = after(
        script("say hi", "call get_weather"), tools=[WEATHER, BASH], tool_choice=choice
    )
    assert calls_of(conversation) == [("Bash", '{"command":"demo"}')]
    assert "the caller wants 'Bash'" in text_of(conversation)


def test_calls_come_one_by_one_if_the_caller_wants_that() -> None:
    lines = script("call Bash", "call Read", "say done")
    tools = [BASH, READ]
    assert len(calls_of(after(lines, tools=tools))) == 2
    assert [n for n, _ in calls_of(after(lines, tools=tools, parallel_tools=False))] == ["Bash"]
    second = after(
        lines,
        assistant(ToolUse("1", "Bash", "{}")),
        user(ToolResult("1", [])),
        tools=tools,
        parallel_tools=False,
    )
    assert [name for name, _ in calls_of(second)] == ["Read"]


@pytest.mark.parametrize("limit", [1, 2, 5, 20])
def test_the_limit_of_tokens_is_kept(limit: int) -> None:
    free = MODEL.whole(after(script("repeat 50 word")))
    cut = MODEL.whole(after(script("repeat 50 word"), max_tokens=limit))
    assert cut.finish is Finish.LENGTH
    assert cut.usage.output == limit
    whole, part = free.parts[0], cut.parts[0]
    assert isinstance(whole, Text)
    assert isinstance(part, Text)
    assert whole.text.startswith(part.text)
    assert count(part.text) == limit


def test_exactly_enough_tokens_are_enough() -> None:
    for lines in (["say one two"], ["think one two"]):
        need = MODEL.whole(after(script(*lines))).usage.output
        assert MODEL.whole(after(script(*lines), max_tokens=need)).finish is Finish.STOP
        assert MODEL.whole(after(script(*lines), max_tokens=need - 1)).finish is Finish.LENGTH


def test_a_call_is_made_whole_or_not_at_all() -> None:
    conversation = after(script('call Bash {"command": "echo hi"}'), tools=[BASH], max_tokens=3)
    answer = MODEL.whole(conversation)
    assert answer.parts == []
    assert answer.finish is Finish.LENGTH


def test_stop_sequences_end_the_answer() -> None:
    conversation = after(
        script("say one two three", "call Bash"), stop=["", "three", " two"], tools=[BASH]
    )
    answer = MODEL.whole(conversation)
    assert answer.parts == [Text("one")]
    assert answer.finish is Finish.STOP
    across = after(script("say one", "say two"), stop=["e\nt"])
    assert text_of(across) == "on"


def test_json_is_answered_if_it_is_wanted() -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 18}},
        "required": ["name", "age"],
    }
    wanted = OutputFormat(schema)
    assert text_of(after(user("hi"), output_format=wanted)) == '{"name":"demo","age":18}'
    assert text_of(after(user("repeat 5"), output_format=wanted)) == '{"name":"demo","age":18}'
    assert text_of(after(user("x"), assistant("y"), user("z"), output_format=OutputFormat())) == (
        '{"answer":"You said: “z”"}'
    )


def test_json_of_a_script_is_kept() -> None:
    wanted = OutputFormat({"type": "object"})
    assert text_of(after(script('say {"a": 1}'), output_format=wanted)) == '{"a": 1}'
    assert text_of(after(script("say no json"), output_format=wanted)) == "{}"


# Scripts


def test_thinking_text_and_calls_come_in_order() -> None:
    answer = MODEL.whole(
        after(
            script("think hmm", "say a", "say b", 'call Bash {"command":"ls"}', "call Read"),
            tools=[BASH, READ],
        )
    )
    thought, text, *calls = answer.parts
    assert isinstance(thought, Thinking)
    assert (thought.text, bool(thought.signature)) == ("hmm", True)
    assert text == Text("a\nb")
    assert [part.name for part in calls if isinstance(part, ToolUse)] == ["Bash", "Read"]
    assert len({part.id for part in calls if isinstance(part, ToolUse)}) == 2
    assert answer.finish is Finish.TOOL_USE
    assert answer.usage.reasoning == count("hmm")


def test_the_turns_of_a_script() -> None:
    lines = script("call Bash", "say It said:", "result", "then", "say bye")
    called = assistant(ToolUse("1", "Bash", "{}"))
    told = user(ToolResult("1", [Text("hello")]))
    assert calls_of(after(lines, tools=[BASH]))
    assert text_of(after(lines, called, told, tools=[BASH])) == "It said:\nhello"
    third = [lines, called, told, assistant("It said:"), user("go on")]
    assert text_of(after(*third, tools=[BASH])) == "bye"
    over = [*third, assistant("bye"), user("and now?")]
    assert text_of(after(*over, tools=[BASH])) == "You said: “and now?”"


def test_an_answer_cut_into_several_messages_is_one_turn() -> None:
    conversation = after(
        script("think hm", "call Bash", "say done"),
        assistant(Thinking("hm")),
        assistant(ToolUse("1", "Bash", "{}")),
        user(ToolResult("1", [])),
    )
    assert text_of(conversation) == "done"


def test_a_script_in_the_system_prompt_counts_from_the_beginning() -> None:
    system = "Be kind.\n```demo\nsay one\nthen\nsay two\n```\nThanks."
    assert text_of(after(user("x"), system=system)) == "one"
    assert text_of(after(user("x"), assistant("one"), user("y"), system=system)) == "two"
    assert text_of(after(script("say mine"), system=system)) == "mine"


def test_the_last_block_counts_and_may_be_left_open() -> None:
    assert text_of(after(user("```demo\nsay a\n```\n```demo\nsay b"))) == "b"


@pytest.mark.parametrize("name", ["mcp__web__search", "Search", "search", "web/search"])
def test_tools_are_found_under_their_bare_name(name: str) -> None:
    assert calls_of(after(script("call search"), tools=[Tool(name, "", {})])) == [(name, "{}")]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("dance wildly", "lines begin with say, think, call"),
        ("call Nope", "there is no tool 'Nope' here; offered: Bash"),
        ("call Bash {not json", "not a JSON object"),
        ("call Bash [1]", "not a JSON object"),
        ("call Bash " + "[" * 50_000, "not a JSON object"),
        ("call", "there is no tool ''"),
        ("repeat many words", "'many' is not a number"),
        ("repeat 3", "repeat <times> <text>"),
        ("repeat 100000 long words", "more than 1,000,000 letters"),
        ("repeat 100001 x", "is not a number from 0 to 100,000"),
        ("repeat " + "9" * 5_000 + " x", "is not a number"),
        ("wait -5", "is not a number"),
        ("fail badly", "the error classes are overload, rate_limit"),
        ("usage 5", "usage <input> <output>"),
        ("usage 5 5 6", "part of the input"),
    ],
)
def test_a_wrong_line_is_named(line: str, complaint: str) -> None:
    text = text_of(after(script("say before", line, "say after"), tools=[BASH]))
    assert text.startswith("before\nLine 2 of the demo script is wrong")
    assert complaint in text
    # What follows a call, even a wrong one, is for the next answer.
    assert text.endswith("\nafter") != line.startswith("call")


def test_notes_and_empty_lines_are_left_out() -> None:
    assert text_of(after(script("", "# a note", "  say x  ", "then", "then", "say y"))) == "x"


def test_a_result_that_is_not_there_is_missed() -> None:
    assert text_of(after(script("result"))) == "(there is no tool result yet)"


@pytest.mark.parametrize("error_class", list(ErrorClass))
def test_failures_before_the_stream(error_class: ErrorClass) -> None:
    conversation = after(script(f"fail {error_class} Sorry."))
    assert events_of(conversation) == [Broken(error_class.value, "Sorry.")]
    with pytest.raises(StreamBroken) as raised:
        MODEL.whole(conversation)
    assert raised.value.broken.kind == error_class


def test_a_failure_in_the_middle_of_the_stream() -> None:
    events = events_of(after(script("say some text", "fail timeout")))
    assert [type(event) for event in events] == [Started, TextDelta, TextDelta, Broken]


def test_reported_usage_can_be_anything() -> None:
    events = events_of(after(script("say x", "usage 1000 50 400 100"), max_tokens=10))
    started, finished = events[0], events[-1]
    assert isinstance(started, Started)
    assert isinstance(finished, Finished)
    assert started.usage == Usage(1000, 0, 400, 100)
    assert finished.usage == Usage(1000, 50, 400, 100)


def test_each_repetition_is_a_piece_of_the_stream() -> None:
    events = events_of(after(script("repeat 4 la la")))
    assert [event.text for event in events if isinstance(event, TextDelta)] == [
        "la la",
        " la la",
        " la la",
        " la la",
    ]


def test_long_answers() -> None:
    text = text_of(after(script("repeat 100000 x")))
    assert len(text) == 199_999
    assert MODEL.whole(after(user("word " * 200_000))).usage.input > 150_000


@pytest.mark.parametrize(
    "asked",
    [
        "<system-reminder>" * 60_000,
        "```demo\n" * 50_000,
        "what is " + "+ " * 100_000,
        "use " + " " * 100_000 + "Bash",
        "how many words" * 20_000,
        "what is " + "(" * 90 + "1",
    ],
)
def test_texts_made_to_keep_it_busy_do_not(asked: str) -> None:
    assert MODEL.whole(after(user(asked), tools=[BASH])).usage.output > 0


def test_pauses_are_capped() -> None:
    acts = list(MODEL.answer(after(script("say a", "wait 60000", "wait 20", "say b"))))
    assert [act.milliseconds for act in acts if isinstance(act, Pause)] == [5_000, 20]


async def test_playing_keeps_the_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    conversation = after(script("say a", "wait 250", "say b"))
    played = [event async for event in MODEL.play(conversation)]
    assert slept == [0.25]
    assert fold(played) == MODEL.whole(conversation)


# Whatever is said

TEXTS = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        ["what is 3*4?", "use the Bash tool", "count to 3", "repeat after me: x", "```demo", "{}"]
    ),
)
LINES = st.one_of(
    st.builds(
        "{} {}".format,
        st.sampled_from(
            ["say", "think", "call", "call Bash", "then", "result", "repeat 3", "wait", "usage 1 1"]
        ),
        st.text(max_size=20),
    ),
    st.sampled_from(["then", "result", "call Bash", "call Read {}", "usage 9 9", "wait 1"]),
)
SCRIPTS = st.lists(LINES, max_size=6).map(lambda lines: "\n".join(["```demo", *lines, "```"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
PARTS = st.one_of(
    st.builds(Text, TEXTS),
    st.builds(Text, SCRIPTS),
    st.builds(Media, st.just("image/png"), st.just("QQ==")),
    st.builds(Thinking, TEXTS),
    st.builds(ToolUse, st.text(max_size=4), st.sampled_from(["Bash", "Read", "x"]), TEXTS),
    st.builds(ToolResult, st.text(max_size=4), st.lists(st.builds(Text, TEXTS), max_size=2)),
)
MESSAGES = st.builds(Message, st.sampled_from(["user", "assistant"]), st.lists(PARTS, max_size=3))
TOOLS = st.builds(
    Tool,
    st.sampled_from(["Bash", "Read", "mcp__a__b", "a(b"]),
    st.text(max_size=20),
    st.dictionaries(st.sampled_from(["type", "properties", "required", "anyOf", "$ref"]), JSON),
)
CONVERSATIONS = st.builds(
    Conversation,
    model=st.just("demo"),
    messages=st.lists(MESSAGES, max_size=5),
    system=st.one_of(TEXTS, SCRIPTS),
    tools=st.lists(TOOLS, max_size=3),
    tool_choice=st.none()
    | st.builds(
        ToolChoice, st.sampled_from(["auto", "any", "none", "tool"]), st.sampled_from(["Bash", "?"])
    ),
    parallel_tools=st.none() | st.booleans(),
    max_tokens=st.none() | st.integers(1, 40),
    stop=st.lists(st.text(max_size=3), max_size=2),
    output_format=st.none()
    | st.builds(OutputFormat, st.none() | st.dictionaries(st.text(max_size=8), JSON, max_size=3)),
    stream=st.booleans(),
)


@settings(max_examples=300, deadline=None)
@given(CONVERSATIONS)
def test_any_conversation_gets_a_well_formed_answer(conversation: Conversation) -> None:
    events = events_of(conversation)
    assert events == events_of(conversation), "the same again"
    started, *middle, finished = events
    assert isinstance(started, Started)
    assert isinstance(finished, Finished)
    assert_in_order(middle)
    answer = MODEL.whole(conversation)
    assert answer == fold(events)
    calls = [part for part in answer.parts if isinstance(part, ToolUse)]
    if answer.finish is not Finish.LENGTH:
        assert (answer.finish is Finish.TOOL_USE) == bool(calls)
    assert {call.name for call in calls} <= {tool.name for tool in conversation.tools}
    if conversation.tool_choice and conversation.tool_choice.kind == "none":
        assert not calls
    assert_consistent(conversation, answer.usage)


def assert_in_order(events: list[StreamEvent]) -> None:
    open_part = -1
    kinds: dict[int, type[StreamEvent]] = {}
    for event in events:
        assert isinstance(event, TextDelta | ThinkingDelta | ToolStarted | ToolDelta)
        assert event.index in (open_part, open_part + 1)
        kind = ToolStarted if isinstance(event, ToolDelta) else type(event)
        if event.index != open_part:
            assert not isinstance(event, ToolDelta), "a tool is named before its arguments"
        assert kinds.setdefault(event.index, kind) is kind
        open_part = event.index


def assert_consistent(conversation: Conversation, usage: Usage) -> None:
    if usage in (Usage(1, 1), Usage(9, 9)):
        return  # the script may have said so
    assert usage.input == count_tokens(conversation) > 0
    assert 0 <= usage.reasoning <= usage.output
    assert usage.output >= 1
    if conversation.max_tokens is not None:
        assert usage.output <= conversation.max_tokens


@given(CONVERSATIONS)
@settings(max_examples=50, deadline=None)
def test_streaming_makes_no_difference(conversation: Conversation) -> None:
    def as_stream(stream: bool) -> Conversation:
        fields = {name: getattr(conversation, name) for name in conversation.__struct_fields__}
        return Conversation(**{**fields, "stream": stream})

    assert MODEL.whole(as_stream(True)) == MODEL.whole(as_stream(False))


@given(st.text())
@settings(deadline=None)
def test_tokens_put_together_are_the_text(text: str) -> None:
    assert "".join(pieces(text)) == text


# Folding


def test_a_stream_without_end_is_no_answer() -> None:
    with pytest.raises(MalformedAnswer):
        fold([Started("x", "demo"), TextDelta(0, "hi")])
    with pytest.raises(MalformedAnswer):
        fold([Finished(Finish.STOP, Usage())])


def test_a_part_keeps_its_kind() -> None:
    with pytest.raises(MalformedAnswer):
        fold([Started("x", "demo"), TextDelta(0, "hi"), ToolDelta(0, "{}")])
    with pytest.raises(MalformedAnswer):
        fold([Started("x", "demo"), ToolDelta(0, "{}"), Finished(Finish.STOP, Usage())])


def test_arguments_of_tools_may_alternate() -> None:
    answer = fold(
        [
            Started("x", "demo"),
            ToolStarted(0, "a", "one"),
            ToolStarted(1, "b", "two"),
            ToolDelta(1, "{"),
            ToolDelta(0, "{"),
            ToolDelta(1, "}"),
            ToolDelta(0, "}"),
            Finished(Finish.TOOL_USE, Usage()),
        ]
    )
    assert answer.parts == [ToolUse("a", "one", "{}"), ToolUse("b", "two", "{}")]
