"""Chains as people write them: YAML or JSON, read without surprises.

Nothing is lost silently (a name given twice is refused), and nothing grows: YAML's aliases can
make a page of text into more than fits any memory, so they are counted before they are followed;
and its depth is looked at first, because what follows goes as deep as the text does.
"""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import yaml

try:
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # a PyYAML that was built without libyaml: the same, slower
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

from agentos.execution.pulse.chains.errors import ChainTooLarge, DuplicateKey, UnreadableChain

MOST_BYTES = 1_048_576
# Values in all, each alias counted as what it stands for.
_MOST_VALUES = 20_000
_MOST_DEPTH = 50
# Text of this length counts as one value more: an alias may stand for much of it, many times.
_CHARACTERS = 1_000


def read_json(text: bytes) -> Any:
    """The document. Raises UnreadableChain, DuplicateKey, ChainTooLarge."""
    _check_size(text)
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise UnreadableChain(f"This is not JSON: {str(error)[:200]}") from error


def read_yaml(text: bytes) -> Any:
    """The document. Raises UnreadableChain, DuplicateKey, ChainTooLarge."""
    _check_size(text)
    try:
        _check_shape(text)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _weigh(node, {})
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        told = " ".join(str(error).split())
        raise UnreadableChain(f"This is not YAML: {told[:300]}") from error


def as_json(document: Any) -> bytes:
    """The document as JSON. Raises UnreadableChain for what JSON does not have."""
    try:
        _check_finite(document)
        return msgspec.json.encode(document)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnreadableChain(
            "It holds something that JSON has no word for.",
            hint="Only text, finite numbers, true, false, null, lists and mappings with text as keys.",
        ) from error


def _check_finite(document: Any) -> None:
    """Raises ValueError for infinity and the like, which would silently become null."""
    left = [document]
    while left:
        each = left.pop()
        if isinstance(each, float) and not math.isfinite(each):
            raise ValueError("not a finite number")
        if isinstance(each, dict):
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)


def _check_size(text: bytes) -> None:
    if len(text) > MOST_BYTES:
        raise ChainTooLarge(f"The chain has {len(text):,} bytes; {MOST_BYTES:,} is the most.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise DuplicateKey(f"'{name[:80]}' is given twice.")
        found[name] = value
    return found


def _check_shape(text: bytes) -> None:
    """Raises ChainTooLarge for what is too deep or too long, before anything is made of it."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MOST_DEPTH:
            raise ChainTooLarge(f"The chain is nested more than {_MOST_DEPTH} deep.")
        if count > 2 * _MOST_VALUES:
            raise ChainTooLarge(f"The chain has more than {_MOST_VALUES:,} values.")


class _Loader(_SafeLoader):
    """Plain values; dates stay the text that they are."""


# Ours alone: the base class shares its table with every other reader of YAML.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _weigh(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node stands for, aliases followed. Each node is looked at once."""
    if id(node) in known:
        if known[id(node)] == 0:
            raise UnreadableChain("An alias in it stands for what it is part of.")
        return known[id(node)]
    known[id(node)] = 0
    size = 1
    if isinstance(node, yaml.MappingNode):
        _check_keys(node)
        size += sum(_weigh(each, known) for pair in node.value for each in pair)
    elif isinstance(node, yaml.SequenceNode):
        size += sum(_weigh(each, known) for each in node.value)
    elif isinstance(node, yaml.ScalarNode):
        size += len(node.value) // _CHARACTERS
    if size > _MOST_VALUES:
        raise ChainTooLarge("The chain is too large once its aliases are followed.")
    known[id(node)] = size
    return size


def _check_keys(node: yaml.MappingNode) -> None:
    seen = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
            if key.value in seen:
                where = f"line {key.start_mark.line + 1}"
                raise DuplicateKey(f"'{key.value[:80]}' is given twice ({where}).")
            seen.add(key.value)
