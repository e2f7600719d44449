"""An answer as it comes: on a terminal word by word, elsewhere once it is whole."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agentos.cli.chat_words import Printed, ToPrint, Words
from agentos.cli.client import Client
from agentos.cli.output import Row, note, print_json, print_json_line, printable
from agentos.cli.session_approvals import decide, tell_once
from agentos.cli.step_lines import duration, flat
from agentos.cli.usage import dollars

if TYPE_CHECKING:
    from rich.console import Console

_MARKS = {"running": "▸", "done": "✓", "failed": "✗", "denied": "✗"}
_COLOURS = {"✓": "green", "✗": "red"}


def figures(message: Row) -> str:
    """How a message ended, and what that took."""
    tokens = message["input_tokens"] + message["output_tokens"]
    took = _took(message)
    parts = (message["state"], took, f"{tokens:,} tokens", dollars(message["cost_micros"]))
    return " · ".join(part for part in parts if part)


def _took(message: Row) -> str:
    if not (message["started_at"] and message["finished_at"]):
        return ""
    began, ended = (datetime.fromisoformat(message[name]) for name in ("started_at", "finished_at"))
    return duration(round((ended - began).total_seconds() * 1000))


def deed_line(deed: Row, leader: str | None = None) -> str:
    """What an agent does, on one line. `leader`: whose name need not be said."""
    agent = deed.get("agent")
    who = f"{agent}: " if agent and agent != leader else ""
    about = f" · {deed['summary']}" if deed.get("summary") else ""
    refused = " (not allowed)" if deed.get("state") == "denied" else ""
    return flat(f"{who}{deed['tool']}{about}{refused}")


class Quiet:
    """Prints the answer when it is whole. What is done meanwhile goes beside the output."""

    def __init__(self, team: Row, *, as_json: bool = False, deeds: bool = True):
        self._as_json = as_json
        self._deeds = deeds and not as_json
        self._leader = team["leader"]["name"]
        self._told: set[str] = set()
        self._done: set[str] = set()
        self._waited = False

    def hear(self, document: Row, /) -> None:
        if document["type"] == "message.activity" and self._deeds:
            deed = document["deed"]
            state = deed.get("state", "done")
            # What was done may be repeated.
            if state != "running" and deed["id"] not in self._done:
                self._done.add(deed["id"])
                note(f"{_MARKS[state]} {deed_line(deed, self._leader)}")

    def waits(self, message: Row, /) -> None:
        if message["state"] == "queued" and not self._waited:
            self._waited = True
            note("It waits for its turn.")

    def approvals(self, waiting: list[dict[str, Any]], /) -> None:
        tell_once(waiting, self._told)

    def ended(self, message: Row, /) -> None:
        if self._as_json:
            print_json(message)
            return
        if message["answer"]:
            print(printable(message["answer"].expandtabs(), lines=True), flush=True)
        if message["error"]:
            note(message["error"])
        note(figures(message))


class Lines(Quiet):
    """Prints all that is heard, one JSON object a line, and the message last."""

    def __init__(self, team: Row):
        super().__init__(team, as_json=True)

    def hear(self, document: Row, /) -> None:
        print_json_line(document)

    def ended(self, message: Row, /) -> None:
        print_json_line(message)


class Terminal:
    """Words as they come, with a line for each deed between them."""

    def __init__(self, client: Client, team: Row):
        from rich.console import Console

        self._client = client
        self._leader: str = team["leader"]["name"]
        self._console: Console = Console(markup=False, emoji=False, highlight=False)
        self._told: set[str] = set()
        self._waited = False
        self._printed = Printed()
        # Who spoke last, and whether a line is open.
        self._speaker: str | None = None
        self._open = False
        # Deeds by id, as they were last shown.
        self._deeds: dict[str, Row] = {}
        # The deed whose line is the last one, and may still change.
        self._doing: str | None = None

    def hear(self, document: Row, /) -> None:
        if document["type"] == "message.chunk":
            self._words(document)
        elif document["type"] == "message.activity" and self._is_news(document["deed"]):
            self._print(self._printed.settle())
            self._deed(document["deed"])

    def _words(self, chunk: Row) -> None:
        words = Words(chunk.get("agent") or self._leader, chunk["text"])
        self._print(self._printed.hear(words, reset=bool(chunk.get("reset"))))

    def _print(self, what: ToPrint) -> None:
        if what.fresh:
            self._end_line()
        for words in what.words:
            if not words.text:
                continue
            if words.speaker != self._speaker:
                self._end_line()
                self._console.print(f"{printable(words.speaker)} ›", style="bold cyan", end=" ")
                self._open, self._speaker = True, words.speaker
            self._end_deed()
            self._write(words.text)

    def _is_news(self, deed: Row) -> bool:
        """Whether a deed was not shown like this yet. It begins and then ends, and may be repeated."""
        before = self._deeds.get(deed["id"])
        ended = before is not None and before.get("state") != "running"
        if before == deed or (ended and deed.get("state") == "running"):
            return False
        self._deeds[deed["id"]] = deed
        return True

    def _deed(self, deed: Row) -> None:
        mark = _MARKS[deed.get("state", "done")]
        if self._doing == deed["id"] and self._console.is_terminal:
            self._console.file.write("\r\x1b[K")
        else:
            self._end_line()
        line = f"  {mark} {deed_line(deed, self._leader)}"
        from rich.text import Text

        text = Text(line, style=_COLOURS.get(mark, "dim"))
        text.truncate(self._console.width - 1, overflow="ellipsis")
        running = deed.get("state") == "running"
        self._console.print(text, end="" if running else "\n")
        self._doing = deed["id"] if running else None
        self._open = running
        # Whoever speaks next is named again.
        self._speaker = None

    def waits(self, message: Row, /) -> None:
        if message["state"] == "queued" and not self._waited:
            self._waited = True
            self._end_line()
            self._console.print("It waits for its turn.", style="dim")

    def approvals(self, waiting: list[dict[str, Any]], /) -> None:
        if not waiting:
            return
        self._end_line()
        if not sys.stdin.isatty():
            tell_once(waiting, self._told)
            return
        for approval in waiting:
            decide(self._client, approval)

    def ended(self, message: Row, /) -> None:
        self._print(self._printed.settle())
        self._tell_rest(message["answer"] or "")
        self._end_line()
        if message["error"]:
            self._console.print(printable(message["error"], lines=True), style="red")
        self._console.print(figures(message), style="dim")
        self._speaker = None

    def _tell_rest(self, answer: str) -> None:
        """What of the answer was not heard; all of it, if something else was."""
        said, whole = self._printed.said_by(self._leader).strip(), answer.strip()
        if not whole or said.endswith(whole):
            return
        if said and whole.startswith(said):
            self._write(whole[len(said) :])
            return
        self._end_line()
        self._write(f"{self._leader} › {whole}")

    def _write(self, text: str) -> None:
        if text:
            self._console.file.write(printable(text.expandtabs(), lines=True))
            self._console.file.flush()
            self._open = not text.endswith("\n")

    def _end_deed(self) -> None:
        if self._doing is not None:
            self._end_line()

    def _end_line(self) -> None:
        if self._open:
            self._console.print()
        self._open, self._doing = False, None
