"""The demo model with tools in its hands: it writes what it has in its repertoire, and tests it.

It has no idea of what it writes, and says so. What it reports is what the tools really answered;
each turn follows from the conversation alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from agentos.integrations.models.conversation import Message, Tool, ToolResult, ToolUse
from agentos.integrations.models.demo.drafts import Call, Draft, Say
from agentos.integrations.models.demo.json_text import is_json
from agentos.integrations.models.demo.repertoire import PIECES, Piece
from agentos.integrations.models.demo.script import answers_given, result_text

CONFESSION = (
    "(I am the demo model that comes with AgentOS, not a real AI: {what} "
    "Run `agentos models providers add` to connect one.)"
)
_PREPARED = "this piece was prepared, and I only went through the motions."
_NOT_PREPARED = "I have prepared pieces for a haiku generator, Fibonacci numbers and a word count."
NOTES = "NOTES.md"

_TASK = re.compile(
    r"\W*(?:please\s+|(?:can|could|would) you\s+|kindly\s+)*"
    r"(?:write|make|create|build|implement|code|program|develop|generate)\b",
    re.IGNORECASE,
)
# What is to be said, and not to be made: there it answers as ever.
_PROSE = re.compile(
    r"\b(?:haiku|poem|story|sentence|paragraph|summary|e-?mail|letter|joke|essay)\b", re.IGNORECASE
)
_CODE = re.compile(
    r"\b(?:generator|program|script|code|python|function|module|class|tests?|files?|app|tool)\b",
    re.IGNORECASE,
)
_OTHER_LANGUAGE = re.compile(
    r"\bin (?:rust|go|golang|java|javascript|typescript|ruby|c|c\+\+|c#|php|perl|bash|kotlin|swift|"
    r"haskell|elixir|scala|lua|r)(?![\w+#])",
    re.IGNORECASE,
)
# As many stages write files; those after them run commands.
_BACKTICKS = re.compile("`+")
_FILES = 2
_LONGEST_TASK = 2_000
_LONGEST_OUTPUT = 4_000


@dataclass(frozen=True, slots=True)
class _Stage:
    """One thing to do with a tool. `shown`: the answer goes into the report under this heading."""

    title: str
    tool: str
    arguments: dict[str, str]
    shown: str | None = None

    @property
    def call(self) -> Call:
        return Call(self.tool, msgspec.json.encode(self.arguments).decode())


@dataclass(frozen=True, slots=True)
class _Outcome:
    tool: str
    text: str
    failed: bool


def work(
    task: str, done: Sequence[Message], tools: Sequence[Tool], *, one_by_one: bool
) -> Draft | None:
    """The next turn at a task; None if it is none for the workshop. `done`: all since it was set."""
    names = {tool.name for tool in tools if _is_as_expected(tool)}
    if "write_file" not in names or not _is_task(task):
        return None
    piece = _piece(task)
    stages = _notes(task, names) if piece is None else _stages(piece, names)
    turn = answers_given(done)
    outcomes = _outcomes(done)
    plans = "update_plan" in names and not one_by_one
    if any(outcome.failed for outcome in outcomes) or turn >= len(stages) + plans:
        return [Say.words(_report(piece, stages, outcomes))]
    if turn == len(stages):
        return [_plan(stages, turn)]
    said = [] if turn else [Say.words(_announcement(piece))]
    return [*said, *([_plan(stages, turn)] if plans else []), stages[turn].call]


def _is_task(task: str) -> bool:
    return bool(_TASK.match(task)) and bool(_CODE.search(task) or not _PROSE.search(task))


def _piece(task: str) -> Piece | None:
    if _OTHER_LANGUAGE.search(task):
        return None
    return next((piece for piece in PIECES if piece.asked.search(task)), None)


_EXPECTED = {
    "write_file": {"path", "content"},
    "shell": {"command"},
    "list_files": set[str](),
    "update_plan": {"steps"},
}


def _is_as_expected(tool: Tool) -> bool:
    """Others may have tools of these names that take something else."""
    taken = tool.schema.get("properties")
    return isinstance(taken, dict) and _EXPECTED.get(tool.name, {""}) <= taken.keys()


def _stages(piece: Piece, names: set[str]) -> list[_Stage]:
    stages = [
        _writing(piece.program_file, piece.program),
        _writing(piece.tests_file, piece.tests),
    ]
    if "shell" in names:
        stages += [
            _running("Run the tests", piece.tests_command),
            _running("Try it out", piece.example),
        ]
    return stages


def _notes(task: str, names: set[str]) -> list[_Stage]:
    text = (
        f"# The task\n\n{task[:_LONGEST_TASK]}\n\n# What came of it\n\nNothing but this note: the "
        "demo model wrote it, which is not an AI. Connect a real model, and run the task again.\n"
    )
    stages = [_writing(NOTES, text)]
    if "list_files" in names:
        stages.append(_Stage("Look at the workspace", "list_files", {}, "In the workspace"))
    return stages


def _writing(path: str, content: str) -> _Stage:
    return _Stage(f"Write {path}", "write_file", {"path": path, "content": content})


def _running(title: str, command: str) -> _Stage:
    return _Stage(title, "shell", {"command": command}, f"$ {command}")


def _plan(stages: Sequence[_Stage], turn: int) -> Call:
    steps = [
        {"step": stage.title, "status": _state(number, turn)} for number, stage in enumerate(stages)
    ]
    return Call("update_plan", msgspec.json.encode({"steps": steps}).decode())


def _state(number: int, turn: int) -> str:
    if number == turn:
        return "in_progress"
    return "done" if number < turn else "pending"


def _outcomes(done: Sequence[Message]) -> list[_Outcome]:
    """What was called since the task was set, with what came of it, in order; plans left out."""
    uses = {part.id: part for each in done for part in each.parts if isinstance(part, ToolUse)}
    return [
        _outcome(uses[part.tool_use_id].name, part)
        for each in done
        for part in each.parts
        if isinstance(part, ToolResult)
        and part.tool_use_id in uses
        and uses[part.tool_use_id].name != "update_plan"
    ]


def _outcome(tool: str, result: ToolResult) -> _Outcome:
    """Some wires have no mark for failures, and say it in the text."""
    text = result_text(result)
    if result.is_error:
        return _Outcome(tool, text, failed=True)
    if text.startswith("Error: "):
        return _Outcome(tool, text.removeprefix("Error: "), failed=True)
    if text.startswith('{"error":') and is_json(text, dict):
        told = msgspec.json.decode(text)["error"]
        return _Outcome(tool, told if isinstance(told, str) else text, failed=True)
    return _Outcome(tool, text, failed=False)


def _announcement(piece: Piece | None) -> str:
    if piece is None:
        return "I am the demo model: I cannot do this, but I can leave a note of it."
    return f"I am the demo model: I have {piece.program_file} prepared, with its tests."


def _report(piece: Piece | None, stages: Sequence[_Stage], outcomes: Sequence[_Outcome]) -> str:
    """What was done and what came of it, in the tools' own words."""
    blocks = [_verdict(piece, stages, outcomes)]
    for stage, outcome in zip(stages, outcomes, strict=False):
        if stage.shown is not None or outcome.failed:
            heading = stage.shown or f"{outcome.tool} answered:"
            blocks.append(_quoted(heading, outcome.text[:_LONGEST_OUTPUT].rstrip("\n")))
    blocks.append(CONFESSION.format(what=_NOT_PREPARED if piece is None else _PREPARED))
    return "\n\n".join(blocks)


def _quoted(heading: str, text: str) -> str:
    """What a tool said, as Markdown that leaves it as it is."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    if heading.startswith("$ "):
        return f"{fence}\n{heading}\n{text}\n{fence}"
    return f"{heading}\n\n{fence}\n{text}\n{fence}"


def _verdict(piece: Piece | None, stages: Sequence[_Stage], outcomes: Sequence[_Outcome]) -> str:
    failed = next((each for each in outcomes if each.failed), None)
    if failed is not None:
        return f"I could not finish: {failed.tool} failed."
    if piece is None:
        return f"I left a note in {NOTES}, and did nothing else."
    written = f"I wrote {piece.program_file} and {piece.tests_file}"
    if len(stages) == _FILES:
        return f"{written}. I have no shell here, so nothing was run."
    ran = outcomes[_FILES].text if len(outcomes) > _FILES else ""
    passed = ran.rstrip().endswith("OK")
    return f"{written}, and ran the tests: {'they pass' if passed else 'see below'}."
