"""A short text for a regular expression, written without ever matching it.

Matching is what makes expressions of strangers dangerous: a few letters can keep it busy for hours.
"""

from __future__ import annotations

import re
from string import ascii_letters, digits

_LONGEST_PATTERN = 1_000
_DEEPEST = 40
_MOST_LETTERS = 4_096
_CLASSES = {"d": digits, "w": f"{ascii_letters}{digits}_", "s": " \t\n\r\f\v"}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_CANDIDATES = "ax0A-_ .~é"
_TIMES = re.compile(r"\{(\d{1,6})(,(\d{0,6}))?\}")
_CODE = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})")


class _NotUnderstood(Exception):
    """Something that this small reader does not know, such as looking ahead."""


def text_for(pattern: str, least: int = 0) -> str | None:
    """A text that the pattern finds, of about `least` letters if it can be; None if not understood."""
    if len(pattern) > _LONGEST_PATTERN:
        return None
    try:
        text = _Reader(pattern, 0).read()
        if len(text) < least:
            text = _Reader(pattern, least - len(text)).read()
    except _NotUnderstood:
        return None
    return text if pattern.endswith("$") else text.ljust(least, "x")


class _Reader:
    def __init__(self, pattern: str, more: int):
        self._pattern = pattern
        self._at = 0
        self._depth = 0
        # How many letters more than necessary are wanted.
        self._more = more

    def read(self) -> str:
        text = self._choice()
        if self._at < len(self._pattern):
            raise _NotUnderstood
        return text

    def _choice(self) -> str:
        first = self._sequence()
        while self._take("|"):
            more, self._more = self._more, 0
            self._sequence()
            self._more = more
        return first

    def _sequence(self) -> str:
        text = ""
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            text += self._repeated(self._thing())
            if len(text) > _MOST_LETTERS:
                raise _NotUnderstood
        return text

    def _thing(self) -> str:
        letter = self._next()
        if letter == "(":
            return self._group()
        if letter == "[":
            return self._set()
        if letter == "\\":
            return self._escape()
        if letter in "*+?":
            raise _NotUnderstood
        return {"^": "", "$": "", ".": "a"}.get(letter, letter)

    def _group(self) -> str:
        if self._take("?"):
            named = re.compile(r"P?<\w+>").match(self._pattern, self._at)
            if named:
                self._at = named.end()
            elif not self._take(":"):
                raise _NotUnderstood
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _NotUnderstood
        text = self._choice()
        self._depth -= 1
        if not self._take(")"):
            raise _NotUnderstood
        return text

    def _set(self) -> str:
        excluded = self._take("^")
        ranges: list[tuple[str, str]] = []
        while not (self._take("]") and ranges):
            first = self._member()
            if len(first) == 1 and self._pattern[self._at : self._at + 1] == "-":
                last = self._pattern[self._at + 1 : self._at + 2]
                if last and last not in "]\\":
                    self._at += 2
                    ranges.append((first, last))
                    continue
            ranges += [(letter, letter) for letter in first]
        if not excluded:
            return ranges[0][0]
        for letter in _CANDIDATES:
            if not any(low <= letter <= high for low, high in ranges):
                return letter
        raise _NotUnderstood

    def _member(self) -> str:
        """One letter of a set, or all those that a class stands for."""
        letter = self._next()
        if letter != "\\":
            return letter
        name = self._pattern[self._at : self._at + 1]
        if name in _CLASSES:
            self._at += 1
            return _CLASSES[name]
        return self._escape()

    def _escape(self) -> str:
        code = _CODE.match(self._pattern, self._at)
        if code:
            self._at = code.end()
            return chr(int(code[1] or code[2], 16))
        letter = self._next()
        if letter in _CLASSES:
            return _CLASSES[letter][0]
        if letter in "bAZ":
            return ""
        if letter in "DWS":
            return {"D": "a", "W": "-", "S": "a"}[letter]
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter.isalnum():
            raise _NotUnderstood
        return letter

    def _repeated(self, text: str) -> str:
        bounds = self._bounds()
        if bounds is None:
            return text
        if not self._take("?"):
            self._take("+")
        least, most = bounds
        if text:
            extra = max(0, min(most - least, -(-self._more // len(text))))
            least += extra
            self._more -= extra * len(text)
        if least * len(text) > _MOST_LETTERS:
            raise _NotUnderstood
        return text * least

    def _bounds(self) -> tuple[int, int] | None:
        """How often what was just read may be repeated."""
        if self._take("*"):
            return 0, _MOST_LETTERS
        if self._take("+"):
            return 1, _MOST_LETTERS
        if self._take("?"):
            return 0, 1
        times = _TIMES.match(self._pattern, self._at)
        if times is None:
            return None
        self._at = times.end()
        least = int(times[1])
        return least, int(times[3] or _MOST_LETTERS) if times[2] else least

    def _next(self) -> str:
        if self._at >= len(self._pattern):
            raise _NotUnderstood
        self._at += 1
        return self._pattern[self._at - 1]

    def _take(self, letter: str) -> bool:
        found = self._pattern.startswith(letter, self._at)
        self._at += found
        return found
