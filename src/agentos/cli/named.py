"""Which team, schedule or webhook is meant: by its name, its id, or the beginning or end of that."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any, NamedTuple

import typer

from agentos.cli.client import Client
from agentos.kernel.errors import Invalid, NotFound

_WHOLE = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_PART = re.compile(r"[0-9a-f-]{4,35}")
_SEARCHED = 2_000
_NAMED = 5


class Noun(NamedTuple):
    """A kind of thing with a name that nothing else of its kind has."""

    word: str
    path: str
    listing: str


TEAM = Noun("team", "/api/teams", "agentos teams list")
SCHEDULE = Noun("schedule", "/api/schedules", "agentos schedules list")
WEBHOOK = Noun("webhook", "/api/webhooks", "agentos webhooks list")
POST_ACTION = Noun("post-action", "/api/post-actions", "agentos post-actions list")

TeamRef = Annotated[str, typer.Argument(help="Name or id of the team.", metavar="TEAM")]
ScheduleRef = Annotated[str, typer.Argument(help="Name or id of the schedule.", metavar="SCHEDULE")]
WebhookRef = Annotated[str, typer.Argument(help="Name or id of the webhook.", metavar="WEBHOOK")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def find(client: Client, noun: Noun, given: str) -> str:
    """The id of the one that is meant, or an error that says which there are."""
    text = given.strip().lower()
    if _WHOLE.fullmatch(text):
        return text
    rows = client.items(noun.path, limit=_SEARCHED)
    found = [row for row in rows if row["name"].lower() == text] or _by_part(rows, text)
    if not found:
        raise NotFound(f"There is no {noun.word} '{given}'.", hint=_hint(noun, rows, text))
    if len(found) > 1:
        named = ", ".join(f"{row['name']} ({row['id']})" for row in found[:_NAMED])
        raise Invalid(f"Several {noun.word}s are meant by '{given}': {named}.", hint="Give an id.")
    return str(found[0]["id"])


def path_of(client: Client, noun: Noun, given: str) -> str:
    """Where the API has the one that is meant."""
    return f"{noun.path}/{find(client, noun, given)}"


def confirm(question: str, yes: bool) -> None:
    """Goes on only if somebody wants that: by --yes, or at the terminal."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Invalid("This has to be confirmed.", hint="Add --yes.")
    if not typer.confirm(question):
        raise typer.Exit(1)


def one_of(given: str, known: tuple[str, ...], what: str) -> str:
    if given not in known:
        raise Invalid(f"There is no {what} '{given}'.", hint=f"There are: {', '.join(known)}.")
    return given


def _by_part(rows: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    if not _PART.fullmatch(text):
        return []
    bare = text.replace("-", "")
    ids = [(row, row["id"].replace("-", "")) for row in rows]
    return [row for row, digits in ids if digits.startswith(bare) or digits.endswith(bare)]


def _hint(noun: Noun, rows: list[dict[str, Any]], text: str) -> str:
    import difflib

    names = {row["name"].lower(): row["name"] for row in rows}
    close = difflib.get_close_matches(text, names, n=1)
    meant = f"Did you mean {names[close[0]]}? " if close else ""
    return f"{meant}`{noun.listing}` shows those there are."
