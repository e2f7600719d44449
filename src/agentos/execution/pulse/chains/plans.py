"""What a definition means: which node needs which, in which order, and that all of it fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any

from agentos.execution.pulse.chains.errors import (
    BadExpression,
    BadInputValue,
    BadNode,
    ChainCycle,
    MissingInput,
    TooManyNodes,
    UnknownInput,
    UnknownNode,
)
from agentos.execution.pulse.chains.expressions import (
    Expression,
    Names,
    Template,
    compile_rule,
    compile_template,
)
from agentos.execution.pulse.chains.schemas import ChainDefinition, Input, Node
from agentos.execution.pulse.json_schemas import JsonSchema

MOST_NODES = 200
_FIELDS = set(ChainDefinition.model_fields)


@dataclass(frozen=True)
class PlannedNode:
    id: str
    config: Node
    # Direct ones.
    needs: tuple[str, ...]
    prompt: Template
    instructions: Template | None
    when: Expression | None
    for_each: Expression | list[Any] | None

    @property
    def fans_out(self) -> bool:
        return self.for_each is not None


@dataclass(frozen=True)
class Plan:
    definition: ChainDefinition
    # In an order in which each comes after what it needs.
    nodes: dict[str, PlannedNode]
    layers: tuple[tuple[str, ...], ...]
    output: Expression | Template | None

    @cached_property
    def leaves(self) -> list[str]:
        """Nodes that nobody needs."""
        needed = {need for node in self.nodes.values() for need in node.needs}
        return [node_id for node_id in self.nodes if node_id not in needed]

    def after(self, ids: Iterable[str]) -> set[str]:
        """These nodes, and every one that comes after one of them."""
        found = set(ids)
        for node in self.nodes.values():
            if not found.isdisjoint(node.needs):
                found.add(node.id)
        return found

    def missing_inputs(self, values: Mapping[str, Any]) -> list[str]:
        return [
            name
            for name, declared in self.definition.inputs.items()
            if name not in values and not _has_default(declared)
        ]


def stored(definition: ChainDefinition) -> dict[str, Any]:
    """A definition as its row keeps it: as it was written, without what is usual.

    The database does not keep the order of names, which is the order in which nodes start.
    """
    written = definition.model_dump(mode="json", include=_FIELDS, exclude_unset=True)
    return {**written, "order": list(definition.nodes)}


def restored(row: Mapping[str, Any]) -> ChainDefinition:
    """What `stored` was given. Raises ValidationError if this AgentOS cannot read it any more."""
    written = {name: value for name, value in row.items() if name != "order"}
    written["nodes"] = {node: row["nodes"][node] for node in row["order"]}
    return ChainDefinition.model_validate(written)


def plan_of(definition: ChainDefinition) -> Plan:
    """Raises TooManyNodes, UnknownNode, UnknownInput, BadExpression, BadNode, ChainCycle."""
    if len(definition.nodes) > MOST_NODES:
        raise TooManyNodes(
            f"The chain has {len(definition.nodes)} nodes; {MOST_NODES} is the most."
        )
    names = Names(frozenset(definition.inputs), frozenset(definition.nodes))
    planned = {id: _planned(id, node, names) for id, node in definition.nodes.items()}
    for node in planned.values():
        _check_files(node, planned)
    layers = _layers(planned)
    output = None
    if definition.output is not None:
        output = compile_rule(definition.output, names, "output")
    ordered = {id: planned[id] for layer in layers for id in layer}
    return Plan(definition, ordered, layers, output)


def _planned(node_id: str, node: Node, names: Names) -> PlannedNode:
    where = f"nodes.{node_id}"
    for need in [*node.needs, *([node.files_from] if node.files_from else [])]:
        if need not in names.nodes:
            raise UnknownNode(f"{where} needs the node {need}, which the chain does not have.")
    inside = Names(names.inputs, names.nodes, item=node.for_each is not None)
    prompt = compile_template(node.prompt, inside, f"{where}.prompt")
    instructions = None
    if node.instructions is not None:
        instructions = compile_template(node.instructions, inside, f"{where}.instructions")
    when = None if node.when is None else _expression(node.when, names, f"{where}.when")
    for_each: Expression | list[Any] | None
    if isinstance(node.for_each, str):
        for_each = _expression(node.for_each, names, f"{where}.for_each")
    else:
        for_each = node.for_each
    needed = {*node.needs, *([node.files_from] if node.files_from else [])}
    for part in (prompt, instructions, when, for_each):
        if isinstance(part, Template | Expression):
            needed |= part.nodes
    # Sorted, so that a cycle is always told in the same words.
    needs = tuple(sorted(needed))
    return PlannedNode(node_id, node, needs, prompt, instructions, when, for_each)


def _expression(text: str, names: Names, where: str) -> Expression:
    rule = compile_rule(text, names, where)
    if isinstance(rule, Template):
        raise BadExpression(f"{where}: this is text with an expression in it, not an expression.")
    return rule


def _check_files(node: PlannedNode, planned: Mapping[str, PlannedNode]) -> None:
    source = node.config.files_from
    if source is not None and planned[source].fans_out:
        raise BadNode(
            f"nodes.{node.id}.files_from: {source} has one workspace for each item.",
            hint="Name a node without for_each.",
            node=node.id,
        )


def _layers(planned: Mapping[str, PlannedNode]) -> tuple[tuple[str, ...], ...]:
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for node in planned.values():
        sorter.add(node.id, *node.needs)
    try:
        sorter.prepare()
    except CycleError as error:
        # Each is needed by the next; told the other way round: each needs the next.
        cycle = list(reversed(error.args[1]))
        raise ChainCycle(
            f"Nodes need each other in a circle: {' → '.join(cycle)}.", cycle=cycle
        ) from error
    position = {node_id: n for n, node_id in enumerate(planned)}
    layers = []
    while sorter.is_active():
        ready = sorter.get_ready()
        layers.append(tuple(sorted(ready, key=position.__getitem__)))
        sorter.done(*ready)
    return tuple(layers)


def checked_values(plan: Plan, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all inputs. Raises MissingInput, UnknownInput, BadInputValue."""
    check_given(plan, given)
    missing = plan.missing_inputs(given)
    if missing:
        raise MissingInput(
            f"The chain needs the input {missing[0]}, which is not given.",
            hint="Give it in `values`, or on the command line with --input NAME=VALUE.",
            missing=missing,
        )
    return {
        name: given.get(name, declared and declared.default)
        for name, declared in plan.definition.inputs.items()
    }


def check_given(plan: Plan, given: Mapping[str, Any]) -> None:
    """Raises UnknownInput or BadInputValue for what is given, whatever else is missing."""
    declared = plan.definition.inputs
    for name in given:
        if name not in declared:
            raise UnknownInput(
                f"The chain has no input {name[:80]}.",
                hint=f"It has: {', '.join(declared) or 'none'}.",
            )
    for name, kind in declared.items():
        if kind is None or kind.json_schema is None:
            continue
        schema = JsonSchema(kind.json_schema)
        value = given.get(name, kind.default)
        if (name in given or _has_default(kind)) and (problems := schema.problems(value)):
            raise BadInputValue(f"The input {name} is not valid: {problems[0]}", problems=problems)


def _has_default(declared: Input | None) -> bool:
    return declared is not None and "default" in declared.model_fields_set
