"""What the options of `agentos run` make of a session's configuration."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from agentos.cli.budgets import micros
from agentos.kernel.errors import Invalid, NotFound

_KINDS = ("command", "tests", "file", "approval", "rubric", "cost", "time", "schema")
_EXAMPLES = (
    "--gate tests, --gate 'command:pytest -q', --gate file:haiku.py, --gate approval:'Ship?'"
)


def parse_gates(given: Sequence[str], on_fail: str | None) -> list[dict[str, Any]]:
    """Gates from `KIND:WHAT`, or from JSON for what that cannot say. Each gets a name of its own."""
    gates: list[dict[str, Any]] = []
    for text in given:
        gate = _gate_in_json(text) if text.lstrip().startswith("{") else _gate(text)
        if on_fail is not None:
            gate.setdefault("on_fail", on_fail)
        same = sum(each["kind"] == gate["kind"] for each in gates)
        gate.setdefault("name", f"{gate['kind']} {same + 1}" if same else gate["kind"])
        gates.append(gate)
    return gates


def _gate_in_json(text: str) -> dict[str, Any]:
    gate = _json(text, "The gate")
    if "kind" not in gate:
        raise Invalid("The gate has no kind.", hint=f"There are: {', '.join(_KINDS)}.")
    return gate


def _gate(text: str) -> dict[str, Any]:
    kind, _, what = text.partition(":")
    kind, what = kind.strip(), what.strip()
    if kind not in _KINDS:
        raise Invalid(f"There is no gate '{kind}'.", hint=f"Write it like {_EXAMPLES}.")
    if kind == "tests":
        return {"kind": kind, **({"command": what} if what else {})}
    if not what:
        raise Invalid(f"The gate '{kind}' says nothing.", hint=f"Write it like {_EXAMPLES}.")
    return {"kind": kind, **_of_kind(kind, what)}


def _of_kind(kind: str, what: str) -> dict[str, Any]:
    match kind:
        case "command":
            return {"command": what}
        case "file":
            return {"path": what}
        case "approval":
            return {"question": what}
        case "rubric":
            return {"rubric": what}
        case "cost":
            return {"most_micros": micros(what)}
        case "time":
            return {"most_seconds": _seconds(what)}
        case _:
            return {"json_schema": read_json(Path(what))}


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Invalid(f"'{text}' is not a number of seconds.") from None


def read_files(paths: Sequence[Path]) -> dict[str, str]:
    """Text files by the path that they get in the workspace."""
    return {_inside(path): read_text(path) for path in paths}


def _inside(path: Path) -> str:
    """A relative path stays as it is; of all others only the name is kept."""
    parts = PurePosixPath(path).parts
    return path.name if path.is_absolute() or ".." in parts else str(PurePosixPath(path))


def read_text(path: Path) -> str:
    if path.is_dir():
        raise Invalid(f"{path} is a directory.", hint="Give its files one by one.")
    if not path.is_file():
        raise NotFound(f"There is no file {path}.", hint="Check the path.")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Invalid(
            f"{path} is not a text in UTF-8.", hint="A session can start with text files only."
        ) from None


def read_json(path: Path) -> dict[str, Any]:
    return _json(read_text(path), str(path))


def _json(text: str, what: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise Invalid(f"{what} is not JSON: {error}.") from None
    if not isinstance(document, dict):
        raise Invalid(f"{what} is not a JSON object.")
    return document
