"""What is a chain and what is not: reading, expressions, and every bad definition with its code."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.execution.pulse.conftest import Lab

from agentos.execution.pulse.chains.errors import (
    BadExpression,
    ChainTooLarge,
    DuplicateKey,
    UnreadableChain,
)
from agentos.execution.pulse.chains.expressions import (
    Expression,
    Names,
    compile_expression,
    compile_rule,
    compile_template,
)
from agentos.execution.pulse.chains.plans import plan_of, restored, stored
from agentos.execution.pulse.chains.reading import as_json, read_json, read_yaml
from agentos.execution.pulse.chains.schemas import ChainDefinition

NAMES = Names(frozenset({"x", "files"}), frozenset({"a", "b"}), item=True)
CONTEXT = {
    "inputs": {"x": "hi", "files": ["p", "q"]},
    "nodes": {"a": {"text": "A", "output": {"n": 1}, "state": "COMPLETE", "items": []}},
    "item": {"k": None},
    "index": 3,
}


def render(text: str) -> str:
    return compile_template(text, NAMES, "here").render(CONTEXT)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("plain { text }", "plain { text }"),
        ("{{ inputs.x }}, {{ index }}!", "hi, 3!"),
        ("{{ inputs.files }}", '["p","q"]'),
        ("{{ item.k }}", "null"),
        ("{{ nodes.a.output }}", '{"n":1}'),
        ("{{ {a: nodes.a.text, b: {c: inputs.x}} }}", '{"a":"A","b":{"c":"hi"}}'),
        ("{{ '{{' }} and {{ '}}' }}", "{{ and }}"),
        ("{{ join(', ', inputs.files) }}", "p, q"),
        ("{{ nodes.b.text || 'none' }}", "none"),
        ("{{inputs.x}}{{inputs.x}}", "hihi"),
    ],
)
def test_templates(template: str, text: str) -> None:
    assert render(template) == text


@given(st.text())
def test_text_without_braces_stays_as_it_is(text: str) -> None:
    text = text.replace("{", "[")
    assert render(text) == text


def test_nodes_that_are_named_are_found() -> None:
    found = compile_template("{{ nodes.a.text }} {{ inputs.files[?@ == nodes.b] }}", NAMES, "here")
    assert found.nodes == {"a"}, "within a filter, names are those of the elements"
    nested = compile_expression(
        "[{a: nodes.a.items[*].output}, length(nodes.b.text)]", NAMES, "here"
    )
    assert nested.nodes == {"a", "b"}


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("", "Invalid"),
        ("inputs.", "Parse error"),
        ("inputs.x[", "Incomplete expression"),
        ("input.x", "nothing is called input"),
        ("shout(inputs.x)", "no function shout()"),
        ("nodes.a.txt", "no field txt"),
        ("!inputs.x", "'!' takes only the name after it"),
        ("(" * 990 + "inputs.x" + ")" * 990, "takes too long"),
        ("inputs.x" + " || inputs.x" * 1000, "more than 2,000 characters"),
        ("length(inputs.x, inputs.x)", "length()"),
    ],
)
def test_bad_expressions(expression: str, told: str) -> None:
    with pytest.raises(BadExpression) as refused:
        compile_expression(expression, NAMES, "nodes.a.when").value(CONTEXT)
    assert refused.value.message.startswith("nodes.a.when")
    assert told in refused.value.message


@pytest.mark.parametrize(
    "expression",
    [
        "|".join(["[@, @]"] * 100),
        "|".join(["[@, @][]"] * 100),
        "[inputs.x]|" + "|".join(["[join('', [@[0], @[0]])]"] * 60),
        "inputs.files" + "".join(["|[@[0],@[0]]|map(&[@,@], @)"] * 60),
    ],
)
def test_what_grows_without_end_is_stopped(expression: str) -> None:
    with pytest.raises(BadExpression, match="takes too long"):
        compile_expression(expression, NAMES, "here").value(CONTEXT)


def test_braces_that_are_not_closed() -> None:
    for text in ("{{ inputs.x", "{{ inputs.x }", "{{ 'a }}", "{{ {a: inputs.x }}"):
        with pytest.raises(BadExpression):
            compile_template(text, NAMES, "here")
    with pytest.raises(BadExpression):
        compile_template("{{" * 100_000, NAMES, "here")


def test_a_rule_is_an_expression_or_text() -> None:
    assert isinstance(compile_rule("inputs.x", NAMES, "here"), Expression)
    assert isinstance(compile_rule(" {{ inputs.files }} ", NAMES, "here"), Expression)
    assert not isinstance(compile_rule("see {{ inputs.x }}", NAMES, "here"), Expression)


@pytest.mark.parametrize(
    ("expression", "true"),
    [("`0`", True), ("`false`", False), ("''", False), ("`[]`", False), ("nodes.b", False)],
)
def test_what_is_true(expression: str, true: bool) -> None:
    assert compile_expression(expression, NAMES, "here").is_true(CONTEXT) is true


# Reading ----------------------------------------------------------------------------------------


def test_yaml_is_read_as_it_is_written() -> None:
    text = b"base: &b {x: 1}\nmade: {<<: *b, y: 2026-01-02}\nlist: [yes, ~, 1.5, '2']"
    assert read_yaml(text) == {
        "base": {"x": 1},
        "made": {"x": 1, "y": "2026-01-02"},
        "list": [True, None, 1.5, "2"],
    }
    assert yaml.safe_load("2026-01-02") != "2026-01-02", "others read dates as before"


def bomb(levels: int = 12) -> bytes:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (bomb(), ChainTooLarge),
        (b"a: &a [*a]", UnreadableChain),
        (b"[" * 500_000, ChainTooLarge),
        (b"- " * 500_000, ChainTooLarge),
        (b"".join(b" " * n + b"a:\n" for n in range(1_000)), ChainTooLarge),
        (b"[" + b"x," * 500_000 + b"]", ChainTooLarge),
        (b"a: &a [" + b"x" * 500_000 + b"]\nb: [" + b"*a," * 1_000 + b"]", ChainTooLarge),
        (b"a: b: c", UnreadableChain),
        (b"\xff\xfe\x00", UnreadableChain),
        (b"x: !!python/object/apply:os.system [id]", UnreadableChain),
        (b"a: 1\n---\nb: 2", UnreadableChain),
        (b"nodes:\n  a: {prompt: x}\n  a: {prompt: y}", DuplicateKey),
        (b"#" + b"x" * 1_048_576, ChainTooLarge),
    ],
)
def test_yaml_that_is_refused(text: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_yaml(text)


def test_json_that_is_refused() -> None:
    with pytest.raises(DuplicateKey, match="'a' is given twice"):
        read_json(b'{"nodes": {"a": 1, "a": 2}}')
    with pytest.raises(UnreadableChain):
        read_json(b'{"nodes":')
    with pytest.raises(UnreadableChain):
        read_json(b"[" * 100_000)
    with pytest.raises(UnreadableChain):
        as_json(read_json(b'{"a": "\\ud800"}'))
    with pytest.raises(UnreadableChain):
        as_json(read_yaml(b"{~: 1}"))


def test_the_order_of_nodes_survives_the_database() -> None:
    written = {"name": "n", "nodes": {"zz": {"prompt": "x"}, "a": {"prompt": "y"}}}
    row = msgspec.json.decode(msgspec.json.encode(stored(ChainDefinition.model_validate(written))))
    row["nodes"] = dict(sorted(row["nodes"].items()))
    again = restored(row)
    assert list(again.nodes) == ["zz", "a"]
    assert again.model_dump(mode="json", exclude_unset=True) == written
    assert plan_of(again).layers == (("zz", "a"),)


# Through the API --------------------------------------------------------------------------------

PROMPT = {"prompt": "x"}
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"nodes": {"a": {**PROMPT, "needs": ["z"]}}}, "unknown_node", "nodes.a needs the node z"),
    ({"nodes": {"a": {"prompt": "{{ nodes.z.text }}"}}}, "unknown_node", "uses the node z"),
    ({"nodes": {"a": {**PROMPT, "files_from": "z"}}}, "unknown_node", "the node z"),
    ({"nodes": {"a": PROMPT}, "output": "nodes.z.text"}, "unknown_node", "output uses"),
    ({"nodes": {"a": {**PROMPT, "needs": ["a"]}}}, "chain_cycle", "a → a."),
    (
        {"nodes": {"a": {"prompt": "{{ nodes.b.text }}"}, "b": {**PROMPT, "needs": ["a"]}}},
        "chain_cycle",
        "a → b → a.",
    ),
    ({"nodes": {"a": {"prompt": "{{ inputs. }}"}}}, "bad_expression", "nodes.a.prompt"),
    ({"nodes": {"a": {"prompt": "{{ item }}"}}}, "bad_expression", "only in a node with for_each"),
    ({"nodes": {"a": {**PROMPT, "when": "yes {{ `true` }}"}}}, "bad_expression", "nodes.a.when"),
    ({"nodes": {"a": {"prompt": "{{ inputs.z }}"}}}, "unknown_input", "the input z"),
    ({"nodes": {"a": PROMPT}, "values": {"z": 1}}, "unknown_input", "no input z"),
    ({"nodes": {"a": PROMPT}, "inputs": {"z": None}}, "missing_input", "needs the input z"),
    (
        {
            "nodes": {"a": PROMPT},
            "inputs": {"z": {"json_schema": {"type": "integer"}}},
            "values": {"z": "1"},
        },
        "bad_input_value",
        "The input z is not valid",
    ),
    (
        {"nodes": {"a": PROMPT}, "inputs": {"z": {"json_schema": {"type": "what"}}}},
        "bad_schema",
        "JSON Schema",
    ),
    ({"nodes": {"a": {**PROMPT, "model": "no/such"}}}, "bad_node", "nodes.a: "),
    ({"nodes": {"a": {**PROMPT, "tools": ["fly"]}}}, "bad_node", "nodes.a: "),
    ({"nodes": {f"n{n}": PROMPT for n in range(201)}}, "too_many_nodes", "201 nodes"),
    (
        {"nodes": {"a": {**PROMPT, "for_each": [1]}, "b": {**PROMPT, "files_from": "a"}}},
        "bad_node",
        "nodes.b.files_from",
    ),
    ({"nodes": {}}, "invalid", "nodes"),
    ({"nodes": {"a": {}}}, "invalid", "prompt"),
    ({"nodes": {"a-b": PROMPT}}, "invalid", "nodes"),
    ({"nodes": {"a": {**PROMPT, "colour": "red"}}}, "invalid", "colour"),
    ({"nodes": {"a": {**PROMPT, "retry": {"times": 99}}}}, "invalid", "retry"),
    ({"nodes": {"a": PROMPT}, "speed": 3}, "invalid", "speed"),
]


async def test_every_bad_definition_is_told_by_its_code(lab: Lab) -> None:
    for body, code, told in BAD:
        answer = await lab.client.post("/api/chains", json={"name": "test", **body})
        assert answer.status_code == 422, (body, answer.text)
        problem = answer.json()
        assert (problem["code"], told in problem["detail"]) == (code, True), (body, problem)
    assert await lab.superuser.fetchval("select count(*) from chains") == 0


YAML = """
name: from-yaml
inputs:
  topic: {default: tea}
nodes:
  draft:
    prompt: Write about {{ inputs.topic }}.
  review:
    prompt: |
      Review this:
      {{ nodes.draft.text }}
values: {topic: rain}
run: false
"""


async def test_a_body_in_yaml(lab: Lab) -> None:
    headers = {"content-type": "application/yaml; charset=utf-8"}
    answer = await lab.client.post("/api/chains", content=YAML, headers=headers)
    assert answer.status_code == 201, answer.text
    chain = answer.json()
    assert (chain["name"], chain["state"], chain["inputs"]) == (
        "from-yaml",
        "CREATED",
        {"topic": "rain"},
    )
    assert list(chain["definition"]["nodes"]) == ["draft", "review"]
    for content, code in (
        ("a: b: c", "unreadable_chain"),
        ("a: 1\na: 2", "duplicate_key"),
        (bomb().decode(), "chain_too_large"),
        ("just text", "invalid"),
    ):
        refused = await lab.client.post("/api/chains", content=content, headers=headers)
        assert refused.json()["code"] == code, refused.text


async def test_a_name_twice_in_json_is_refused(lab: Lab) -> None:
    twice = '{"name": "x", "nodes": {"a": {"prompt": "x"}, "a": {"prompt": "y"}}}'
    answer = await lab.client.post(
        "/api/chains", content=twice, headers={"content-type": "application/json"}
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "duplicate_key")


async def test_checking_makes_nothing(lab: Lab) -> None:
    body: dict[str, Any] = {
        "name": "test",
        "inputs": {"given": None, "missing": None, "usual": {"default": 1}},
        "values": {"given": 1},
        "nodes": {
            "c": {"prompt": "{{ nodes.a.text }}", "when": "nodes.b.text"},
            "a": {"prompt": "x"},
            "b": {"prompt": "x", "needs": ["a"]},
        },
    }
    checked = await lab.post("/api/chains/check", **body)
    assert checked == {
        "name": "test",
        "layers": [["a"], ["b"], ["c"]],
        "needs": {"a": [], "b": ["a"], "c": ["a", "b"]},
        "missing_inputs": ["missing"],
    }
    assert await lab.superuser.fetchval("select count(*) from chains") == 0
