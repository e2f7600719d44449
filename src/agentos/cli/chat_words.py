"""What a terminal shows of an answer that may begin anew or be repeated: nothing twice.

Printed words cannot be taken back. When an answer starts over, it is compared with what is printed: as
long as both are the same nothing more is, and what goes beyond is. If it becomes another answer, that
is printed from its beginning on.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class ToPrint:
    """`fresh`: what is printed of this answer is void, and these words begin it."""

    words: list[Words]
    fresh: bool = False


class Printed:
    """The words of an answer that are on the terminal."""

    def __init__(self) -> None:
        self._words: list[Words] = []
        # What was said since the answer started over, while it is no more than what is printed.
        self._again: list[Words] | None = None

    def hear(self, words: Words, *, reset: bool) -> ToPrint:
        """What there is to print now."""
        if reset:
            self._again = []
        if self._again is None:
            _add(self._words, words)
            return ToPrint([words])
        _add(self._again, words)
        beyond = _beyond(self._words, self._again)
        if beyond is None:
            return self.settle()
        if beyond:
            self._words, self._again = self._again, None
        return ToPrint(beyond)

    def settle(self) -> ToPrint:
        """What there is to print if nothing more is repeated: all, if less was than is printed."""
        again, self._again = self._again, None
        if again is None or again == self._words:
            return ToPrint([])
        self._words = again
        return ToPrint(list(again), fresh=True)

    def said_by(self, speaker: str) -> str:
        return "".join(words.text for words in self._words if words.speaker == speaker)


def _add(all_words: list[Words], words: Words) -> None:
    if not words.text:
        return
    if all_words and all_words[-1].speaker == words.speaker:
        words = Words(words.speaker, all_words.pop().text + words.text)
    all_words.append(words)


def _beyond(printed: list[Words], again: list[Words]) -> list[Words] | None:
    """What is said in `again` and not printed; None if it is not the same answer."""
    if not printed:
        return list(again)
    if not again:
        return []
    at = min(len(printed), len(again)) - 1
    before, now = printed[at], again[at]
    if printed[:at] != again[:at] or before.speaker != now.speaker:
        return None
    if len(again) <= len(printed) and before.text.startswith(now.text):
        return []
    if len(again) >= len(printed) and now.text.startswith(before.text):
        rest = Words(now.speaker, now.text[len(before.text) :])
        return [each for each in (rest, *again[at + 1 :]) if each.text]
    return None
