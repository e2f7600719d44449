"""Expressions and templates of chains: JMESPath over inputs and nodes, compiled and checked once.

JMESPath has no loops and no side effects, but it can double what it has with every few characters.
So evaluation runs on fuel: what it visits and builds is counted, and there is an end to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jmespath
import msgspec
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions
from jmespath.visitor import TreeInterpreter

from agentos.execution.pulse.chains.errors import BadExpression, UnknownInput, UnknownNode

_LONGEST = 2_000
_FUEL = 500_000
# Characters that count as much as one element of a list.
_CHARACTERS = 64
_FUNCTIONS = frozenset(Functions.FUNCTION_TABLE)
NODE_FIELDS = frozenset({"output", "text", "state", "error", "items"})

Ast = Mapping[str, Any]


@dataclass(frozen=True)
class Names:
    """What an expression may name."""

    inputs: frozenset[str]
    nodes: frozenset[str]
    item: bool = False


@dataclass(frozen=True)
class Expression:
    text: str
    where: str
    ast: Ast
    # Nodes that it names.
    nodes: frozenset[str]

    def value(self, context: Mapping[str, Any]) -> Any:
        """What it comes to. Raises BadExpression."""
        try:
            return _Interpreter().visit(self.ast, context)
        except (JMESPathError, _OutOfFuel, RecursionError, TypeError, ValueError) as error:
            raise BadExpression(f"{self.where}: {_shown(self.text)}: {_reason(error)}") from error

    def is_true(self, context: Mapping[str, Any]) -> bool:
        """By the rules of JMESPath: false, null and what is empty are not true; 0 is."""
        value = self.value(context)
        return not (value is None or value is False or value in ("", [], {}))


@dataclass(frozen=True)
class Template:
    """Text with `{{ expressions }}` in it."""

    pieces: tuple[str | Expression, ...]

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset().union(*(p.nodes for p in self.pieces if isinstance(p, Expression)))

    def render(self, context: Mapping[str, Any]) -> str:
        return "".join(
            piece if isinstance(piece, str) else _as_text(piece.value(context))
            for piece in self.pieces
        )


def compile_template(text: str, names: Names, where: str) -> Template:
    """Raises BadExpression, UnknownNode, UnknownInput."""
    pieces = tuple(
        compile_expression(piece, names, where) if is_expression else piece
        for piece, is_expression in _split(text, where)
    )
    return Template(pieces)


def compile_rule(text: str, names: Names, where: str) -> Expression | Template:
    """An expression, bare or in braces; with text around the braces it is a template."""
    if "{{" not in text:
        return compile_expression(text, names, where)
    filled = [piece for piece in _split(text.strip(), where) if piece[1] or piece[0]]
    if len(filled) == 1:
        return compile_expression(filled[0][0], names, where)
    return compile_template(text, names, where)


def compile_expression(text: str, names: Names, where: str) -> Expression:
    """Raises BadExpression, UnknownNode, UnknownInput."""
    text = text.strip()
    if len(text) > _LONGEST:
        raise BadExpression(f"{where}: an expression has more than {_LONGEST:,} characters.")
    try:
        ast: Ast = jmespath.compile(text).parsed
        found = set(_references(ast, names, where, at_root=True))
    except (JMESPathError, RecursionError) as error:
        raise BadExpression(f"{where}: {_shown(text)}: {_reason(error)}") from error
    return Expression(text, where, ast, frozenset(found))


def _split(text: str, where: str) -> Iterator[tuple[str, bool]]:
    """Pieces of a template, each with whether it is an expression."""
    at = 0
    while (start := text.find("{{", at)) >= 0:
        end = _closing(text, start + 2)
        if end is None:
            raise BadExpression(
                f"{where}: {_shown(text[start:])}: '{{{{' is not closed.",
                hint="To say two braces themselves, write {{ '{{' }}.",
            )
        if start > at:
            yield text[at:start], False
        yield text[start + 2 : end], True
        at = end + 2
    if at < len(text):
        yield text[at:], False


def _closing(text: str, at: int) -> int | None:
    """Where the braces close that were opened before `at`; quotes and inner braces are passed."""
    depth = 0
    # What is longer cannot be an expression, so that text full of open braces is read once.
    end = min(len(text), at + _LONGEST + 2)
    while at < end:
        char = text[at]
        if char in "'\"`":
            at = _unquoted(text, at + 1, char, end)
        elif char == "{":
            depth += 1
        elif char == "}":
            if depth == 0:
                return at if text.startswith("}}", at) else None
            depth -= 1
        at += 1
    return None


def _unquoted(text: str, at: int, quote: str, end: int) -> int:
    """Where a quotation ends."""
    while at < end and text[at] != quote:
        at += 2 if text[at] == "\\" else 1
    return at


# What a child of such an expression is evaluated on is not what the expression is evaluated on,
# but for the first child.
_NARROWING = frozenset(
    {
        "subexpression",
        "index_expression",
        "pipe",
        "projection",
        "value_projection",
        "filter_projection",
        "flatten",
    }
)


def _references(ast: Ast, names: Names, where: str, *, at_root: bool) -> Iterator[str]:
    """The nodes that an expression names; checks what it names on the way."""
    kind, children = ast["type"], [c for c in ast.get("children", ()) if isinstance(c, Mapping)]
    if kind == "function_expression" and ast["value"] not in _FUNCTIONS:
        raise BadExpression(f"{where}: there is no function {ast['value']}().")
    if kind in ("subexpression", "index_expression") and children[0]["type"] == "not_expression":
        # JMESPath in Python reads !a.b as (!a).b, which is never what is meant.
        raise BadExpression(
            f"{where}: '!' takes only the name after it.",
            hint="Write !(inputs.a) with parentheses.",
        )
    if at_root and kind == "field":
        _check_name(ast["value"], names, where)
    if at_root and kind == "subexpression":
        yield from _path(children, names, where)
    for n, child in enumerate(children):
        same = kind not in _NARROWING or n == 0
        yield from _references(child, names, where, at_root=at_root and same and kind != "expref")


def _path(children: list[Ast], names: Names, where: str) -> Iterator[str]:
    """Checks a path such as nodes.draft.text; yields the node it names."""
    path = [child["value"] if child["type"] == "field" else None for child in children[:3]]
    if path[0] == "inputs" and path[1] is not None and path[1] not in names.inputs:
        raise UnknownInput(f"{where} uses the input {path[1]}, which the chain does not have.")
    if path[0] != "nodes" or path[1] is None:
        return
    if path[1] not in names.nodes:
        raise UnknownNode(f"{where} uses the node {path[1]}, which the chain does not have.")
    if len(path) == 3 and path[2] is not None and path[2] not in NODE_FIELDS:
        known = ", ".join(sorted(NODE_FIELDS))
        raise BadExpression(f"{where}: a node has no field {path[2]}, only {known}.")
    yield path[1]


def _check_name(name: str, names: Names, where: str) -> None:
    if name in ("inputs", "nodes") or (names.item and name in ("item", "index")):
        return
    if name in ("item", "index"):
        raise BadExpression(f"{where}: there is {name} only in a node with for_each.")
    raise BadExpression(
        f"{where}: nothing is called {_shown(name)} here.",
        hint="There are inputs, nodes, and with for_each item and index. Text is quoted: 'text'.",
    )


class _OutOfFuel(Exception):
    """it takes too long, or makes too much."""


class _Interpreter(TreeInterpreter):
    """JMESPath that stops when it has done enough."""

    def __init__(self) -> None:
        super().__init__()
        self._fuel = _FUEL

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        self._burn(1)
        value = super().visit(node, *args, **kwargs)
        if node["type"] in _BUILDING:
            self._weigh(value)
        return value

    def _weigh(self, value: Any) -> None:
        """Counts all of it: what it holds twice is made twice when it is written down."""
        left = [value]
        while left:
            each = left.pop()
            if isinstance(each, str):
                self._burn(1 + len(each) // _CHARACTERS)
            elif isinstance(each, dict):
                self._burn(1)
                left.extend(each.values())
            elif isinstance(each, list):
                self._burn(1 + len(each))
                left.extend(each)

    def _burn(self, amount: int) -> None:
        self._fuel -= amount
        if self._fuel < 0:
            raise _OutOfFuel


_BUILDING = frozenset({"multi_select_list", "multi_select_dict", "flatten", "function_expression"})


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _reason(error: Exception) -> str:
    if isinstance(error, _OutOfFuel | RecursionError):
        return "it takes too long, or makes too much."
    return " ".join(str(error).split())[:300]


def _shown(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"
