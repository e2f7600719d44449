"""A session as it happens: a live view on a terminal, plain lines in a pipe."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from agentos.cli.client import Client
from agentos.cli.output import Row, counted, printable, size
from agentos.cli.session_approvals import decide, tell_once
from agentos.cli.session_ids import short
from agentos.cli.step_lines import Line, calls_of, duration, flat, line_of, plan_of
from agentos.cli.usage import dollars
from agentos.cli.watching import ENDED

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.text import Text

WAY = ("CREATED", "QUEUED", "RUNNING", "CHECKPOINT", "GATE_CHECK", "COMPLETE")
_WAITS = {
    "pause": "paused; `agentos sessions resume {id}` lets it go on",
    "approval": "waits for a person",
    "children": "waits for its sub-agents",
    "budget": "waits for budget; `agentos budgets list` shows it",
    "retry": "waits to ask the model again",
}
_PLAN_MARKS = {"done": "✓", "in_progress": "▸", "pending": "·"}
_FRAMES_PER_SECOND = 8


def open_view(client: Client, session: Row) -> PlainView | TerminalView:
    """The view that fits where the output goes."""
    return TerminalView(client, session) if sys.stdout.isatty() else PlainView(session)


class PlainView(AbstractContextManager["PlainView"]):
    """A line for each step, and nothing that moves."""

    def __init__(self, session: Row):
        self._told: set[str] = set()
        print(f"Session {session['id']}: {printable(session['title'])}", flush=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def step(self, step: Row) -> None:
        plan = plan_of(step)
        if plan is not None:
            print(f"  plan        {' '.join(_plan_words(plan))}", flush=True)
        elif not is_first_message(step):
            print(f"  {plain(line_of(step))}", flush=True)

    def session(self, _session: Row) -> None:
        return None

    def approvals(self, waiting: list[dict[str, Any]]) -> None:
        tell_once(waiting, self._told)


class TerminalView(AbstractContextManager["TerminalView"]):
    """Steps scroll by; beneath them state, plan and what is going on."""

    def __init__(self, client: Client, session: Row):
        from rich.console import Console
        from rich.spinner import Spinner

        self._client = client
        self._session = session
        self._told: set[str] = set()
        self._plan: list[dict[str, str]] = []
        self._calls: list[str] = []
        self._since = time.monotonic()
        self._console = Console(markup=False, emoji=False, highlight=False)
        self._spinner = Spinner("dots")
        self._live = self._new_live()

    def _new_live(self) -> Live:
        from rich.live import Live

        return Live(
            get_renderable=self._present,
            console=self._console,
            transient=True,
            refresh_per_second=_FRAMES_PER_SECOND,
        )

    def __enter__(self) -> Self:
        self._console.print(f"Session {self._session['id']}", style="bold")
        self._console.print(f"{printable(self._session['title'])}\n")
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()
        if error is None:
            self._console.print()
            self._console.print(state_line(self._session["state"], self._console.width))

    def step(self, step: Row) -> None:
        self._since = time.monotonic()
        if step["kind"] == "model":
            self._calls = [call["tool_name"] for call in calls_of(step)]
        elif step["kind"] == "tool" and step["name"] in self._calls:
            self._calls.remove(step["name"])
        plan = plan_of(step)
        if plan is not None:
            self._plan = plan
        elif is_worth_a_line(step):
            self._console.print(step_text(step, self._console.width))

    def session(self, session: Row) -> None:
        self._session = session

    def approvals(self, waiting: list[dict[str, Any]]) -> None:
        if not sys.stdin.isatty():
            tell_once(waiting, self._told)
            return
        self._live.stop()
        try:
            for approval in waiting:
                decide(self._client, approval)
        finally:
            # Not the same again: it would wipe out as many lines as it had last.
            self._live = self._new_live()
            self._live.start()

    def _present(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        session = self._session
        doing = Text(f" {self._doing()}", overflow="ellipsis", no_wrap=True)
        self._spinner.update(text=doing)
        parts: list[RenderableType] = [Text(), state_line(session["state"], self._console.width)]
        parts += [_plan_line(each) for each in self._plan]
        return Group(*parts, self._spinner, Text(figures(session), style="dim"))

    def _doing(self) -> str:
        waited = f" · {int(time.monotonic() - self._since)} s"
        state = self._session["state"]
        if state == "PAUSED":
            how = _WAITS.get(self._session["waiting_for"] or "", "waits")
            return how.format(id=short(self._session["id"]))
        if state in ("CREATED", "QUEUED"):
            position = self._session.get("position")
            return f"waits for its turn{f', number {position}' if position else ''}{waited}"
        if state == "RUNNING":
            what = f"uses {self._calls[0]}" if self._calls else "asks the model"
            return f"{what}{waited}"
        return f"checks what was done{waited}"


def is_first_message(step: Row) -> bool:
    return bool(step["kind"] == "message" and step["seq"] == 1)


def is_worth_a_line(step: Row) -> bool:
    """Changes of state are seen in the state line, unless there is a reason to tell."""
    if step["kind"] == "state":
        return bool(step["name"] in ("PAUSED", "FAILED"))
    return not is_first_message(step)


def step_text(step: Row, width: int) -> Text:
    """A step on one line of a terminal: what was done, what came of it, and how long it took."""
    from rich.cells import cell_len
    from rich.text import Text

    line = line_of(step)
    colour = {"✓": "green", "✗": "red"}.get(line.mark, "yellow")
    text = Text.assemble((line.mark, colour), " ", (f"{line.what:<11}", "cyan"), " ", line.about)
    if line.came:
        text.append(f"{' · ' if line.about else ''}{line.came}", style="dim")
    room = width - cell_len(line.took) - 2
    text.truncate(room, overflow="ellipsis", pad=True)
    return text.append(f" {line.took}", style="dim")


def state_line(state: str, width: int) -> Text:
    """The states on the way, the present one marked; in a narrow place without spaces."""
    from rich.text import Text

    way = WAY if state in WAY else (*WAY[:3], state)
    arrow = " → " if len(" → ".join(WAY)) + 2 <= width else "→"
    here = way.index(state)
    text = Text()
    for number, name in enumerate(way):
        if number:
            text.append(arrow, style="dim")
        if number == here:
            style = {"COMPLETE": "bold green", "FAILED": "bold red"}.get(name, "bold yellow")
            text.append(f"[{name}]", style=style)
        else:
            text.append(name, style="" if number < here else "dim")
    return text


def _plan_line(each: dict[str, str]) -> Text:
    from rich.text import Text

    style = {"done": "green", "in_progress": "bold"}.get(each["status"], "dim")
    return Text(
        f"  {_PLAN_MARKS[each['status']]} {flat(each['step'])}",
        style=style,
        overflow="ellipsis",
        no_wrap=True,
    )


def _plan_words(plan: list[dict[str, str]]) -> list[str]:
    return [f"{_PLAN_MARKS[each['status']]} {flat(each['step'], 60)}" for each in plan]


def figures(session: Row) -> str:
    """What it has used so far."""
    return " · ".join(
        (
            duration(session["ran_ms"]),
            counted(session["turns"], "turn"),
            f"{session['tokens']:,} tokens",
            dollars(session["cost_micros"]),
        )
    )


def show_outcome(session: Row, *, state_shown: bool = False) -> None:
    """What a session has come to, and what can be done with it."""
    print(figures(session) if state_shown else f"{session['state']} · {figures(session)}")
    if session["error"]:
        _say(session["error"])
    result = session["result"] or {}
    if result.get("text"):
        _say(result["text"])
    files = result.get("files") or []
    if files:
        print("\nFiles")
        width = max(len(printable(each["path"])) for each in files)
        for each in files:
            told = "" if each["size_after"] is None else size(each["size_after"])
            print(f"  {each['kind']:<8} {printable(each['path']):<{width}}  {told}".rstrip())
        if result.get("more_files"):
            print(f"  and {result['more_files']} more")
    _show_next(session, has_files=bool(files))


def _say(text: str) -> None:
    """A text with an empty line before it; on a terminal broken between words."""
    safe = printable(text.expandtabs(), lines=True)
    if not sys.stdout.isatty():
        print(f"\n{safe}")
        return
    from rich.console import Console

    Console(markup=False, emoji=False, highlight=False).print(f"\n{safe}")


def _show_next(session: Row, *, has_files: bool) -> None:
    name = short(session["id"])
    print("\nNext")
    for command in _next(session, has_files=has_files):
        print(f"  agentos {command.format(name)}")


def _next(session: Row, *, has_files: bool) -> list[str]:
    if session["state"] == "CREATED":
        return ["sessions run {}"]
    if session["state"] in ENDED:
        files = ["sessions get-file {} PATH"] if has_files else []
        return [
            "sessions steps {}",
            *files,
            'sessions continue {} "…"',
            'sessions fork {} --prompt "…"',
            "sessions rollback {} --to STEP --preview",
        ]
    if session["waiting_for"] == "approval":
        return ["approvals", "sessions cancel {}"]
    paused = "sessions resume {}" if session["waiting_for"] == "pause" else "sessions pause {}"
    return ["sessions watch {}", paused, "sessions cancel {}"]


def plain(line: Line) -> str:
    """A step as a line of a pipe, in full."""
    return f"{line.text}{f' ({line.took})' if line.took else ''}"
