"""The toolbox: every question of a model gets an answer it can go on with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.integrations.tools.arguments import Arguments, BadArguments, BadSchema
from agentos.integrations.tools.base import Repeat, Tier, ToolContext, ToolResult, ToolSpec
from agentos.integrations.tools.built_in import DEFAULT_TOOLS, built_in_tools
from agentos.integrations.tools.errors import UnknownTool
from agentos.integrations.tools.surroundings import Surroundings
from agentos.integrations.tools.toolbox import Toolbox, check_tools, open_toolbox
from agentos.kernel.errors import Conflict, Invalid, Unavailable


async def test_the_usual_tools(around: Surroundings) -> None:
    async with open_toolbox(None, [], around) as toolbox:
        assert tuple(spec.name for spec in toolbox.specs) == DEFAULT_TOOLS
    async with open_toolbox(["read_file", "shell", "read_file"], [], around) as toolbox:
        assert [spec.name for spec in toolbox.specs] == ["read_file", "shell"]
        assert toolbox.find("write_file") is None
    reaching = Surroundings(around.sandbox, around.workspace, around.limits, ("example.com",))
    async with open_toolbox(None, [], reaching) as toolbox:
        assert {spec.name for spec in toolbox.specs} == {*DEFAULT_TOOLS, "http_fetch"}


async def test_unknown_tools_in_a_configuration(around: Surroundings) -> None:
    with pytest.raises(UnknownTool) as caught:
        check_tools(["shell", "shel"])
    assert caught.value.message == "There is no tool 'shel'. Did you mean shell?"
    assert caught.value.advice is not None
    assert all(name in caught.value.advice for name in built_in_tools())
    with pytest.raises(UnknownTool):
        async with open_toolbox(["nothing"], [], around):
            raise AssertionError


async def test_unknown_tools_and_bad_arguments_are_results(context: ToolContext) -> None:
    toolbox = Toolbox(built_in_tools().values())
    unknown = await toolbox.call("read_fil", {}, context)
    assert unknown.failed
    assert unknown.text.startswith(
        "There is no tool 'read_fil'. Did you mean read_file? There are:"
    )
    missing = await toolbox.call("read_file", {}, context)
    assert missing.failed
    assert '"path" is a required property' in missing.text
    for arguments in ("{", "[]", "1", '{"path": "a", "pth": 1}', '{"path": 7}', "\ud800"):
        assert (await toolbox.call("read_file", arguments, context)).failed, arguments
    surrogate = await toolbox.call("write_file", {"path": "a", "content": "\ud800"}, context)
    assert (surrogate.failed, surrogate.details["code"]) == (True, "bad_arguments")
    for name, nothing in (("list_files", ""), ("list_files", "{}"), ("list_files", {})):
        assert not (await toolbox.call(name, nothing, context)).failed


async def test_arguments_as_text(context: ToolContext) -> None:
    toolbox = Toolbox(built_in_tools().values())
    assert toolbox.check("write_file", '{"path": "a"}') is not None
    text = json.dumps({"path": "a", "content": "grün"})
    assert toolbox.check("write_file", text) is None
    assert not (await toolbox.call("write_file", text, context)).failed
    assert await context.workspace.read("a") == "grün".encode()


class _Failing:
    def __init__(self, error: Exception):
        self.spec = ToolSpec("failing", "Fails.", {"type": "object"}, Tier.SAFE, Repeat.ALWAYS)
        self._error = error

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        raise self._error


async def test_only_what_a_model_can_mend_becomes_a_result(context: ToolContext) -> None:
    mended = await Toolbox([_Failing(Conflict("Not now.", hint="Wait."))]).call(
        "failing", {}, context
    )
    assert (mended.failed, mended.text) == (True, "Not now. Wait.")
    with pytest.raises(Unavailable):
        await Toolbox([_Failing(Unavailable())]).call("failing", {}, context)


def test_every_built_in_tool_is_well_described() -> None:
    for tool in built_in_tools(("example.com",)).values():
        spec = tool.spec
        jsonschema_rs.meta.validate(dict(spec.schema))
        assert spec.schema["additionalProperties"] is False
        assert set(spec.schema["required"]) <= set(spec.schema["properties"])
        assert spec.description.endswith(".")
        assert len(spec.name) <= 64
    treated = {name: (t.spec.tier, t.spec.repeat) for name, t in built_in_tools().items()}
    assert treated == {
        "shell": (Tier.DANGEROUS, Repeat.WORKSPACE),
        "python": (Tier.DANGEROUS, Repeat.WORKSPACE),
        "read_file": (Tier.SAFE, Repeat.ALWAYS),
        "write_file": (Tier.SAFE, Repeat.WORKSPACE),
        "edit_file": (Tier.SAFE, Repeat.WORKSPACE),
        "delete_file": (Tier.DANGEROUS, Repeat.WORKSPACE),
        "list_files": (Tier.SAFE, Repeat.ALWAYS),
        "search_files": (Tier.SAFE, Repeat.ALWAYS),
        "http_fetch": (Tier.DANGEROUS, Repeat.ALWAYS),
        "http_send": (Tier.DESTRUCTIVE, Repeat.NEVER),
    }


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "array"},
        {"type": "object", "properties": 7},
        {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/schema"}}},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
    ],
)
def test_schemas_that_cannot_be_used(schema: dict[str, Any]) -> None:
    with pytest.raises(BadSchema):
        Arguments(schema)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?=a)(a+)+$", r"^(a|a)*\1$"])
def test_a_hostile_pattern_takes_no_time(pattern: str) -> None:
    schema = {"type": "object", "properties": {"a": {"pattern": pattern}}}
    with pytest.raises(BadArguments):
        Arguments(schema).parse({"a": "a" * 5000 + "!"})


def test_patterns_that_look_ahead_work() -> None:
    schema = {"type": "object", "properties": {"a": {"pattern": "^(?=.*[0-9])[a-z0-9]+$"}}}
    assert Arguments(schema).parse({"a": "abc1"}) == {"a": "abc1"}
    with pytest.raises(BadArguments):
        Arguments(schema).parse({"a": "abc"})


async def test_what_cannot_be_stored_is_not_in_a_result(context: ToolContext) -> None:
    toolbox = Toolbox(built_in_tools().values())
    await context.workspace.write("late", b"x" * 9000 + b"\n\0\xff\n")
    done = await toolbox.call("shell", {"command": "cat late"}, context)
    assert done.text.endswith("\n\ufffd\ufffd")


@given(st.text(max_size=200))
def test_any_text_as_arguments(text: str) -> None:
    arguments = Arguments({"type": "object"})
    with suppress(Invalid):
        assert isinstance(arguments.parse(text), dict)
