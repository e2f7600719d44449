"""Which commands a shell command line runs, as far as that can be known beforehand.

Not a shell: it finds each simple command that a line would run, also within substitutions and
behind `sudo`, and gives up loudly on what it does not understand. Whoever judges must then refuse
the line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from agentos.contracts.permissions.shell_words import (
    MOST_DEEP,
    SimpleCommand,
    Unjudgeable,
    Word,
    simple_commands,
)

# Words that come before a command without being one.
_PREFIXES = frozenset({"!", "{", "do", "else", "elif", "if", "then", "time", "until", "while"})
# Words that end a compound command; nothing is run by them.
_SUFFIXES = frozenset({"}", "done", "fi"})
# They change what later words mean, or have a grammar of their own.
_UNJUDGED = frozenset({"alias", "case", "coproc", "function", "select"})
# Commands that run what their arguments say.
_WRAPPERS = frozenset(
    {
        "builtin", "chroot", "command", "doas", "env", "exec", "ionice", "nice", "nohup",
        "parallel", "setsid", "stdbuf", "sudo", "time", "timeout", "unshare", "watch", "xargs",
    }
)  # fmt: skip
_SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh"})
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
# So many words after a wrapper may be the command, before it is its argument for certain.
_WRAPPER_REACH = 5


@dataclass(frozen=True, slots=True)
class Command:
    """One command that a line runs."""

    words: tuple[Word, ...]
    assignments: tuple[Word, ...] = ()
    # Files that it reads or writes by redirection.
    files: tuple[Word, ...] = ()
    # Only possibly a command: a word behind another command that runs its arguments.
    possible: bool = False

    @property
    def text(self) -> str:
        """As it is written, without quotes and needless blanks."""
        return " ".join(word.text for word in self.assignments + self.words)

    @property
    def name(self) -> str:
        """The program, without the directory it lies in."""
        return self.words[0].text.rpartition("/")[2] if self.words else ""

    @property
    def bare_text(self) -> str:
        """By the program's name alone, however it is called."""
        return " ".join([self.name, *(word.text for word in self.words[1:])])

    @property
    def expands(self) -> bool:
        """Whether some argument is known only when it runs."""
        return any(word.expands for word in self.words)


def commands_of(line: str) -> list[Command]:
    """Every command that the line may run, those within others too. Raises Unjudgeable."""
    return list(_commands(line, 0))


def _commands(line: str, depth: int) -> Iterator[Command]:
    if depth > MOST_DEEP:
        raise Unjudgeable("it is nested too deeply")
    for simple in simple_commands(line):
        yield from _seen(_without_prefixes(simple), depth)


def _without_prefixes(simple: SimpleCommand) -> Command:
    words = list(simple.words)
    assignments: list[Word] = []
    while words and not words[0].quoted and words[0].text in _PREFIXES | _SUFFIXES:
        del words[0]
    while words and _is_assignment(words[0]):
        assignments.append(words.pop(0))
    return Command(tuple(words), tuple(assignments), tuple(simple.files))


def _is_assignment(word: Word) -> bool:
    name, equals, _ = word.text.partition("=")
    return bool(equals) and name.rstrip("+").isidentifier()


def _seen(command: Command, depth: int) -> Iterator[Command]:
    """The command itself and what it runs in turn."""
    if depth > MOST_DEEP:
        raise Unjudgeable("it is nested too deeply")
    if not command.words:
        if command.assignments or command.files:
            yield command
        return
    first = command.words[0]
    if first.text == "for" and not first.quoted:
        return
    if first.expands or (first.globs and first.text not in {"[", "[["}):
        raise Unjudgeable("the name of a command is known only when it runs")
    if command.name in _UNJUDGED:
        raise Unjudgeable(f"'{command.name}' cannot be judged")
    yield command
    yield from _inner(command, depth)


def _inner(command: Command, depth: int) -> Iterator[Command]:
    """What a command runs that its arguments name."""
    arguments = command.words[1:]
    if command.name == "eval":
        yield from _script(arguments, depth)
    elif command.name in _SHELLS:
        for n, word in enumerate(arguments):
            if word.text.startswith("-") and not word.text.startswith("--") and "c" in word.text:
                yield from _script(arguments[n + 1 : n + 2], depth)
                return
    elif command.name == "find":
        for n, word in enumerate(arguments):
            if word.text in _FIND_RUNS:
                yield from _seen(_without_prefixes(_simple(arguments[n + 1 :])), depth + 1)
    elif command.name in _WRAPPERS or command.name == "busybox":
        yield from _wrapped(arguments, depth)


def _wrapped(arguments: tuple[Word, ...], depth: int) -> Iterator[Command]:
    # Which of the words is the command depends on the wrapper's options: it may be any of the first.
    for n, word in enumerate(arguments[:_WRAPPER_REACH]):
        if word.text.startswith("-") or _is_assignment(word):
            continue
        if word.expands:
            raise Unjudgeable("the name of a command is known only when it runs")
        inner = Command(arguments[n:], possible=True)
        yield inner
        yield from (replace(one, possible=True) for one in _inner(inner, depth + 1))


def _script(words: tuple[Word, ...], depth: int) -> Iterator[Command]:
    if any(word.expands for word in words):
        raise Unjudgeable("it runs a text that is known only then")
    yield from _commands(" ".join(word.text for word in words), depth + 1)


def _simple(words: tuple[Word, ...]) -> SimpleCommand:
    return SimpleCommand(list(words))
