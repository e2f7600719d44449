"""Structured output: the tool final_answer, and what counts as its use."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.execution.pulse.conftest import Lab, script

from agentos.execution.pulse.conversation import ToolCall
from agentos.execution.pulse.json_schemas import JsonSchema
from agentos.execution.pulse.outputs import FinalAnswer, NotJson, json_in
from agentos.execution.pulse.run import Run
from agentos.integrations.tools.arguments import BadSchema

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["city"],
    "additionalProperties": False,
}


async def run(lab: Lab, *lines: str, schema: dict[str, Any], **config: Any) -> dict[str, Any]:
    async with lab.engine():
        session_id = await lab.create(script(*lines), output_schema=schema, **config)
        return await lab.ended(session_id)


async def test_a_valid_call_ends_the_session_with_that_output(lab: Lab) -> None:
    read = await run(lab, 'call final_answer {"city": "Bern", "people": 5}', schema=SCHEMA)
    assert read["state"] == "COMPLETE", read["error"]
    assert read["result"]["output"] == {"city": "Bern", "people": 5}
    assert read["result"]["text"] == '{"city":"Bern","people":5}'
    assert read["turns"] == 1
    rows = await lab.journal(read["id"])
    assert [(r["name"], r["status"]) for r in rows if r["kind"] == "tool"] == [
        ("final_answer", "done")
    ]


async def test_what_is_wrong_is_told_and_can_be_put_right(lab: Lab) -> None:
    read = await run(
        lab,
        'call final_answer {"people": -1}',
        "then",
        "say Bern, I think.",
        "then",
        'call final_answer {"city": "Bern"}',
        schema=SCHEMA,
    )
    assert (read["state"], read["result"]["output"]) == ("COMPLETE", {"city": "Bern"})
    rows = await lab.journal(read["id"])
    refused = next(r["output"] for r in rows if r["kind"] == "tool")
    assert "city" in refused
    assert "people: -1 is less than the minimum of 0" in refused
    told = next(r["output"] for r in rows if r["kind"] == "message" and r["name"] == "output")
    assert "it is not JSON" in told
    assert "final_answer" in told


async def test_tries_are_bounded(lab: Lab) -> None:
    wrong = 'call final_answer {"city": 7}'
    read = await run(lab, wrong, "then", "say No.", "then", wrong, schema=SCHEMA)
    assert (read["state"], read["error_code"]) == ("FAILED", "bad_output")
    assert "in 3 tries" in read["error"]
    assert "7 is not of type" in read["error"]
    assert read["turns"] == 3


async def test_an_answer_in_plain_text_counts_if_it_is_the_json_that_is_wanted(lab: Lab) -> None:
    read = await run(lab, 'say {"city": "Basel"}', schema=SCHEMA)
    assert (read["state"], read["result"]["output"]) == ("COMPLETE", {"city": "Basel"})


async def test_a_schema_that_is_not_of_an_object_is_wrapped(lab: Lab) -> None:
    schema = {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}
    read = await run(
        lab,
        'call final_answer {"value": [1, "2"]}',
        'call final_answer {"value": [1, 2]}',
        schema=schema,
    )
    assert (read["state"], read["result"]["output"]) == ("COMPLETE", [1, 2]), read["error"]


async def test_null_is_an_output(lab: Lab) -> None:
    read = await run(lab, 'call final_answer {"value": null}', schema={"type": "null"})
    assert (read["state"], read["result"]["output"]) == ("COMPLETE", None)


async def test_other_calls_of_the_same_answer_are_made_too(lab: Lab) -> None:
    read = await run(
        lab,
        'call final_answer {"city": "Bern"}',
        'call write_file {"path": "a.txt", "content": "x"}',
        schema=SCHEMA,
    )
    assert read["result"]["output"] == {"city": "Bern"}
    assert [file["path"] for file in read["result"]["files"]] == ["a.txt"]


async def test_a_gate_sends_it_back_and_a_new_output_is_given(lab: Lab) -> None:
    wanted = {"properties": {"people": {"minimum": 10}}, "required": ["people"]}
    gates = [{"kind": "schema", "name": "many", "json_schema": wanted, "on_fail": "retry"}]
    read = await run(
        lab,
        'call final_answer {"city": "Bern", "people": 5}',
        "then",
        'call final_answer {"city": "Bern", "people": 50}',
        schema=SCHEMA,
        gates=gates,
    )
    assert read["state"] == "COMPLETE", read["error"]
    assert read["result"]["output"]["people"] == 50


async def test_text_that_no_row_can_hold_is_replaced(lab: Lab) -> None:
    read = await run(lab, r'call final_answer {"city": "a\u0000b"}', schema=SCHEMA)
    assert read["state"] == "COMPLETE", read["error"]
    assert read["result"]["output"] == {"city": "a\ufffdb"}


async def test_what_is_wrong_with_such_text_can_be_told(lab: Lab) -> None:
    wrong = r'call final_answer {"city": "x", "a\u0000b": 1}'
    read = await run(lab, wrong, "then", wrong, "then", wrong, schema=SCHEMA)
    assert (read["state"], read["error_code"]) == ("FAILED", "bad_output"), read["error"]


async def test_what_is_too_large_is_refused() -> None:
    answer = FinalAnswer({"type": "string"})
    call = ToolCall("1.0", "x", "final_answer", {"value": "x" * 400_000})
    # It asks nothing of the run.
    done = await answer.use(cast(Run, None), call)
    assert done.failed
    assert "more than 300,000 characters" in done.text


def test_what_is_wrapped_keeps_its_definitions_where_they_are_looked_for() -> None:
    schema = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}
    parameters = FinalAnswer(schema).spec.schema
    assert parameters["$defs"] == schema["$defs"]
    assert JsonSchema(parameters).problems({"value": 1}) == []
    assert JsonSchema(parameters).problems({"value": "1"}) != []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ("Here it is:\n\n```\n[1]\n```\nThere.", [1]),
        (" null ", None),
    ],
)
def test_json_is_found_in_a_text(text: str, value: Any) -> None:
    assert json_in(text) == value


@pytest.mark.parametrize("text", ["", "four", "```json\n{\n```", "```\n1\n```\n```\n2\n```"])
def test_what_is_not_json_is_not_guessed(text: str) -> None:
    with pytest.raises(NotJson):
        json_in(text)


def test_a_schema_may_not_reach_out_or_hold_us_up() -> None:
    with pytest.raises(BadSchema):
        JsonSchema({"$ref": "https://example.com/schema.json"})
    with pytest.raises(BadSchema):
        JsonSchema({"type": "text"})
    assert JsonSchema({"pattern": "^(a+)+$"}).problems("a" * 5000 + "b") != []


def test_a_long_value_is_not_repeated_in_what_is_wrong_with_it() -> None:
    (problem,) = JsonSchema({"type": "integer"}).problems("x" * 100_000)
    assert len(problem) < 1000
