"""What the demo model is about to do, before it is cut to size and streamed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from agentos.integrations.models.conversation import Usage
from agentos.integrations.models.failures import ErrorClass

_WORD = re.compile(r"\s*\S+|\s+")


@dataclass(frozen=True, slots=True)
class Say:
    """Text, in the chunks in which it is streamed."""

    chunks: tuple[str, ...]

    @classmethod
    def words(cls, text: str) -> Say:
        return cls(tuple(_WORD.findall(text)))

    @property
    def text(self) -> str:
        return "".join(self.chunks)


@dataclass(frozen=True, slots=True)
class Think:
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """The use of a tool; `arguments` is JSON."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Time that passes before the next event."""

    milliseconds: int


@dataclass(frozen=True, slots=True)
class Fail:
    error_class: ErrorClass
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """Usage to report, whatever was really said."""

    usage: Usage


Act = Say | Think | Call | Pause | Fail | Report
Draft = list[Act]


def said(draft: Iterable[Act]) -> str:
    return "".join(act.text for act in draft if isinstance(act, Say))
