"""Which session is meant: by its id, the beginning or end of it, or `last`."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from agentos.cli.client import Client
from agentos.kernel.errors import Invalid, NotFound

SessionRef = Annotated[
    str,
    typer.Argument(help="Id of a session, its beginning or end, or `last`.", metavar="SESSION"),
]

_WHOLE = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_PART = re.compile(r"[0-9a-f-]{4,35}")
# Ids begin with the time, so sessions of one day begin alike; their ends are chance.
SHORT = 8
_SEARCHED = 2_000
_NAMED = 5


def short(session_id: str) -> str:
    """The end of an id, which is enough to name a session here."""
    return session_id[-SHORT:]


def find_session(client: Client, given: str) -> str:
    """The id of the session that is meant, or an error that says which there are."""
    text = given.strip().lower()
    if _WHOLE.fullmatch(text):
        return text
    if text == "last":
        newest = client.items("/api/sessions", limit=1)
        if not newest:
            raise NotFound("There are no sessions yet.", hint='Start one with `agentos run "…"`.')
        return str(newest[0]["id"])
    if not _PART.fullmatch(text):
        raise Invalid(
            f"'{given}' is not the id of a session.",
            hint="Give the whole id, at least four characters of its beginning or end, or `last`.",
        )
    return _only(given, _matching(client, text))


def _matching(client: Client, part: str) -> list[dict[str, Any]]:
    bare = part.replace("-", "")
    found = []
    for row in client.items("/api/sessions", limit=_SEARCHED):
        digits = row["id"].replace("-", "")
        if digits.startswith(bare) or digits.endswith(bare):
            found.append(row)
    return found


def _only(given: str, found: list[dict[str, Any]]) -> str:
    if not found:
        raise NotFound(
            f"No session's id begins or ends with '{given}'.",
            hint="`agentos sessions list` shows those there are.",
        )
    if len(found) > 1:
        named = ", ".join(f"{short(row['id'])} ({row['title'][:30]})" for row in found[:_NAMED])
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise Invalid(
            f"{len(found)} sessions' ids begin or end with '{given}': {named}{more}.",
            hint="Give more of the id; the ends differ most.",
        )
    return str(found[0]["id"])
