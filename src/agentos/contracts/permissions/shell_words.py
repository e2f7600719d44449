"""The words of a shell command line, by the rules of POSIX shells and bash."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MOST_DEEP = 12
_MOST_CHARACTERS = 256 * 1024

_REDIRECTION = re.compile(r"\d*(&>>|&>|>>|>\||>&|<&|<<<|<<-|<<|<>|>|<)")
_OPERATOR = re.compile(r"&&|\|\||;;|\|&|[;|&()\n]")
_PLAIN_VARIABLE = re.compile(
    r"\$(?:\{[A-Za-z_][A-Za-z0-9_]*\}|[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])"
)
_WORD_ENDS = frozenset(" \t\n;|&<>()")


class Unjudgeable(Exception):
    """The line has a part whose meaning is known only when it runs."""


@dataclass(slots=True)
class Word:
    """A word without its quotes."""

    text: str = ""
    # Some of it is known only at run time.
    expands: bool = False
    # It stands for the names of files, if there are such.
    globs: bool = False
    quoted: bool = False


@dataclass(slots=True)
class SimpleCommand:
    """Words up to the next operator, and the files of the redirections among them."""

    words: list[Word] = field(default_factory=list)
    files: list[Word] = field(default_factory=list)


def simple_commands(line: str) -> list[SimpleCommand]:
    """All of them, those in substitutions and subshells too. Raises Unjudgeable."""
    if len(line) > _MOST_CHARACTERS or "\0" in line:
        raise Unjudgeable("it is too long, or not text")
    reader = _Reader(line)
    reader.read(within=False)
    return reader.found


class _Reader:
    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0
        self._depth = 0
        # Here-documents whose text begins at the next line: delimiter, expands, strips tabs.
        self._here: list[tuple[str, bool, bool]] = []
        self.found: list[SimpleCommand] = []

    def read(self, *, within: bool) -> None:
        """Up to the end; `within` a substitution, up to the bracket that closes it."""
        self._deeper()
        current = SimpleCommand()
        brackets = 0
        while self._at < len(self._line):
            if self._blank():
                continue
            if self._redirection(current):
                continue
            match = _OPERATOR.match(self._line, self._at)
            if match is None:
                current.words.append(self._word())
                continue
            self._at = match.end()
            operator = match.group()
            if operator == ";;" or (operator == "(" and current.words):
                raise Unjudgeable("it defines a function, an array or a case")
            self._keep(current)
            current = SimpleCommand()
            brackets += {"(": 1, ")": -1}.get(operator, 0)
            if brackets < 0:
                if within and not self._here:
                    self._depth -= 1
                    return
                raise Unjudgeable("its brackets do not match")
            if operator == "\n":
                self._here_documents()
        if within or brackets:
            raise Unjudgeable("its brackets do not match")
        self._keep(current)
        self._depth -= 1

    def _keep(self, command: SimpleCommand) -> None:
        if command.words or command.files:
            self.found.append(command)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MOST_DEEP:
            raise Unjudgeable("it is nested too deeply")

    def _blank(self) -> bool:
        """Passes over blanks, continued lines and comments between words."""
        begin = self._at
        line = self._line
        if line[begin] in " \t":
            self._at += 1
        elif line.startswith("\\\n", begin):
            self._at += 2
        elif line[begin] == "#":
            end = line.find("\n", begin)
            self._at = len(line) if end < 0 else end
        return self._at > begin

    def _redirection(self, command: SimpleCommand) -> bool:
        if self._line[self._at : self._at + 2] in {"<(", ">("}:
            self._at += 2
            self.read(within=True)
            command.words.append(Word("<()", expands=True))
            return True
        match = _REDIRECTION.match(self._line, self._at)
        if match is None:
            return False
        self._at = match.end()
        while self._at < len(self._line) and self._blank():
            pass
        target = self._word()
        kind = match.group(1)
        if not target.text and not target.quoted:
            raise Unjudgeable("a redirection leads nowhere")
        if kind in {"<<", "<<-"}:
            if target.expands:
                raise Unjudgeable("the end of a here-document cannot be known")
            self._here.append((target.text, not target.quoted, kind == "<<-"))
        elif kind != "<<<" and not (kind in {">&", "<&"} and target.text.strip("-").isdigit()):
            command.files.append(target)
        return True

    def _here_documents(self) -> None:
        for delimiter, expands, strips in self._here:
            while self._at < len(self._line):
                end = self._line.find("\n", self._at)
                end = len(self._line) if end < 0 else end
                text = self._line[self._at : end]
                self._at = min(end + 1, len(self._line))
                if (text.lstrip("\t") if strips else text) == delimiter:
                    break
                if expands and ("$" in text or "`" in text or text.endswith("\\")):
                    raise Unjudgeable("a here-document holds what is known only when it runs")
        self._here.clear()

    def _word(self) -> Word:
        word = Word()
        bare: list[str] = []
        while self._at < len(self._line) and (sign := self._line[self._at]) not in _WORD_ENDS:
            if sign == "\\":
                self._escaped(word)
            elif sign == "'":
                word.text += self._up_to("'")
                word.quoted = True
            elif sign == '"':
                self._double_quoted(word)
            elif sign == "$":
                self._dollar(word)
            elif sign == "`":
                self._backticks(word)
            else:
                word.text += sign
                bare.append(sign)
                self._at += 1
        word.globs = any(sign in "*?[" for sign in bare)
        if "{" in bare and ("," in bare or ".." in "".join(bare)):
            word.expands = True
        return word

    def _escaped(self, word: Word) -> None:
        if self._at + 1 >= len(self._line):
            raise Unjudgeable("it ends within a word")
        following = self._line[self._at + 1]
        if following != "\n":
            word.text += following
            word.quoted = True
        self._at += 2

    def _up_to(self, quote: str) -> str:
        end = self._line.find(quote, self._at + 1)
        if end < 0:
            raise Unjudgeable("a quote is not closed")
        text = self._line[self._at + 1 : end]
        self._at = end + 1
        return text

    def _double_quoted(self, word: Word) -> None:
        word.quoted = True
        self._at += 1
        while self._at < len(self._line):
            sign = self._line[self._at]
            if sign == '"':
                self._at += 1
                return
            if sign == "\\" and self._line[self._at + 1 : self._at + 2] in {
                "$",
                "`",
                '"',
                "\\",
                "\n",
            }:
                self._escaped(word)
            elif sign == "$":
                self._dollar(word)
            elif sign == "`":
                self._backticks(word)
            else:
                word.text += sign
                self._at += 1
        raise Unjudgeable("a quote is not closed")

    def _dollar(self, word: Word) -> None:
        rest = self._line[self._at + 1 : self._at + 3]
        if rest[:1] in {"'", '"', "["} or rest == "((":
            raise Unjudgeable("it holds a form of `$` that is not looked into")
        if rest[:1] == "(":
            self._at += 2
            self.read(within=True)
            word.text += "$()"
            word.expands = True
        elif match := _PLAIN_VARIABLE.match(self._line, self._at):
            word.text += match.group()
            word.expands = True
            self._at = match.end()
        elif rest[:1] == "{":
            raise Unjudgeable("it holds a form of `$` that is not looked into")
        else:
            word.text += "$"
            self._at += 1

    def _backticks(self, word: Word) -> None:
        text = self._up_to("`")
        if "\\" in text:
            raise Unjudgeable("it has backticks within backticks")
        self._deeper()
        self.found += simple_commands(text)
        self._depth -= 1
        word.text += "$()"
        word.expands = True
