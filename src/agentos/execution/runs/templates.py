"""Templates of prompts and post-actions: text in which {{a.path}} stands for a value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from agentos.kernel.errors import Invalid

_PLACE = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_PATH = re.compile(r"[^\s.{}?]+(?:\.[^\s.{}?]+)*\??")
_INDEX = re.compile(r"[0-9]{1,9}")
_MOST_PLACES = 200


class BadTemplate(Invalid):
    """The template cannot be read."""

    code = "bad_template"
    hint = "Write {{name}} or {{a.path.0}}; {{name?}} may be missing."


class MissingVariable(Invalid):
    """Something that the template names is not there."""

    code = "missing_variable"
    hint = "Send it, or write {{name?}} for what may be missing."


def check_template(text: str) -> None:
    """Raises BadTemplate."""
    places = _PLACE.findall(text)
    if len(places) > _MOST_PLACES:
        raise BadTemplate(f"A template has {_MOST_PLACES} variables at most.")
    for path in places:
        if not _PATH.fullmatch(path):
            raise BadTemplate(f"{{{{{path[:100]}}}}} is not a path.")
    rest = _PLACE.sub("", text)
    if "{{" in rest:
        raise BadTemplate("A {{ has no }}.")


def render(text: str, values: Mapping[str, Any]) -> str:
    """The template with its values; what is no text is written as JSON. Raises MissingVariable."""
    return _PLACE.sub(lambda match: _text(_value(match[1], values)), text)


def render_json(template: Any, values: Mapping[str, Any]) -> Any:
    """The same for the texts within a JSON document, which stays one whatever the values hold."""
    if isinstance(template, str):
        return render(template, values)
    if isinstance(template, list):
        return [render_json(item, values) for item in template]
    if isinstance(template, dict):
        return {key: render_json(item, values) for key, item in template.items()}
    return template


def _value(path: str, values: Mapping[str, Any]) -> Any:
    found: Any = values
    for name in path.removesuffix("?").split("."):
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and _INDEX.fullmatch(name) and int(name) < len(found):
            found = found[int(name)]
        elif path.endswith("?"):
            return ""
        else:
            raise MissingVariable(f"There is no {path[:200]} to fill in.", variable=path[:200])
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
