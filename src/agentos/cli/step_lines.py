"""A step of the journal as one line of text."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from agentos.cli.output import Row, printable
from agentos.cli.usage import dollars

_LONGEST = 200
# Of these the end says more than the beginning.
_COMMANDS = frozenset({"shell", "python"})
# What tells most about a call, by the names that tools use.
_TELLING = ("command", "path", "url", "pattern", "question", "code", "query")


class Line(NamedTuple):
    """`what` was done, `about` what, and what `came` of it."""

    mark: str
    what: str
    about: str
    came: str
    took: str

    @property
    def text(self) -> str:
        told = " · ".join(filter(None, (self.about, self.came)))
        return f"{self.mark} {self.what:<11} {told}".rstrip()


MARKS = {"done": "✓", "failed": "✗", "uncertain": "?"}


def line_of(step: Row) -> Line:
    """What happened in a step, short enough for a list."""
    about, came = _told(step)
    took = duration(step["duration_ms"]) if step["duration_ms"] else ""
    if step.get("cost_micros"):
        took = f"{dollars(step['cost_micros'])}  {took}".rstrip()
    what = step["name"] if step["kind"] == "tool" else step["kind"]
    return Line(MARKS[step["status"]], printable(what), flat(about), flat(came), took)


def _told(step: Row) -> tuple[str, str]:
    given, output = _object(step["input"]), _object(step["output"])
    match step["kind"]:
        case "model" | "compaction":
            return _said(step)
        case "tool":
            return _call(step["name"], arguments_of(step)), _outcome(step["name"], output)
        case "state":
            return f"{given.get('from', '?')} → {step['name']}", output.get("reason") or ""
        case "gate":
            return step["name"], str(output.get("reason") or "")
        case "rollback":
            return f"back to step {given.get('to_seq', '?')}", str(output.get("reason") or "")
        case "approval":
            who = f"by {output['by']}" if output.get("by") else ""
            return step["name"], " ".join(filter(None, (str(output.get("state", "")), who)))
        case "message":
            return str(output.get("text", "")), ""
        case _:
            return step["name"], ""


def _said(step: Row) -> tuple[str, str]:
    output = _object(step["output"])
    if step["kind"] == "compaction":
        return "the conversation was summed up", ""
    names = [call["tool_name"] for call in calls_of(step)]
    # Plans are shown by themselves.
    calls = ", ".join([name for name in names if name != "update_plan"] or names)
    texts = [p["content"] for p in output.get("parts", []) if p.get("part_kind") == "text"]
    return _first_line("\n".join(texts)), f"→ {calls}" if calls else ""


def calls_of(step: Row) -> list[dict[str, Any]]:
    """The tool calls that an answer of the model asks for."""
    parts = _object(step["output"]).get("parts", [])
    return [part for part in parts if part.get("part_kind") == "tool-call"]


def plan_of(step: Row) -> list[dict[str, str]] | None:
    """The plan, if the step notes one."""
    if step["kind"] != "tool" or step["name"] != "update_plan" or step["status"] != "done":
        return None
    plan = _object(step["output"]).get("plan")
    return plan if isinstance(plan, list) else None


def arguments_of(step: Row) -> dict[str, Any]:
    arguments = _object(step["input"]).get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return {"": arguments}
    return _object(arguments)


def _call(name: str, arguments: dict[str, Any]) -> str:
    if name == "update_plan":
        return ""
    telling = [str(arguments[key]) for key in _TELLING if key in arguments]
    return telling[0] if telling else ", ".join(map(str, arguments.values()))


def _outcome(name: str, output: dict[str, Any]) -> str:
    lines = [line for line in str(output.get("text", "")).splitlines() if line.strip()]
    if not lines:
        return ""
    return lines[-1] if name in _COMMANDS else lines[0]


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def flat(text: str, longest: int = _LONGEST) -> str:
    """Text on one line, harmless to a terminal."""
    line = " ".join(text.split())
    return printable(line if len(line) <= longest else f"{line[: longest - 1]}…")


def duration(milliseconds: int) -> str:
    """Time as people read it."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
