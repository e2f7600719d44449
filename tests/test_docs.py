"""What the documents say is there: links, commands, settings, make targets, words."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from agentos import web_build
from agentos.kernel.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    if path.name != "CHANGELOG.md"  # it also names what has gone
)
_CODE = re.compile(r"```(?:sh|console)?\n(.*?)```|`([^`\n]+)`", re.DOTALL)


def code(document: Path) -> list[str]:
    """Every line in a code block or between backticks."""
    found = []
    for block, inline in _CODE.findall(document.read_text()):
        found += (block or inline).splitlines()
    return [line.strip() for line in found]


def agentos_commands() -> set[tuple[str, ...]]:
    """The words after `agentos`, up to the first option, value or shell operator."""
    found = set()
    for document in DOCUMENTS:
        for line in code(document):
            for words in re.findall(r"(?:^|[|&] |\$\()agentos((?: [a-z][a-z-]*)+)(?=\s|$)", line):
                found.add(tuple(words.split()[:2]))
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def test_commands_exist() -> None:
    commands = agentos_commands()
    assert ("vault", "set") in commands, "the pattern finds them"
    listed = _help()
    for command in sorted(commands):
        assert re.search(rf"^  {command[0]} ", listed, re.MULTILINE), command
        group = _help(command[0])
        if len(command) == 2 and "COMMAND [ARGS]" in group:
            assert re.search(rf"^  {command[1]}\b", group, re.MULTILINE), command


@cache
def _help(*command: str) -> str:
    argv = [sys.executable, "-m", "agentos.cli.main", *command, "--help"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_settings_exist() -> None:
    # The client's own, what tools that a session runs are given, and the build's.
    known = {"AGENTOS_URL", "AGENTOS_API_KEY", "AGENTOS_DEBUG", "AGENTOS_IDEMPOTENCY_KEY"}
    known.add(web_build.SKIP)
    for field in Settings.model_fields.values():
        known.update(map(str, getattr(field.validation_alias, "choices", [])))
    for document in DOCUMENTS:
        named = set(
            re.findall(r"\b(?:AGENTOS|DATABASE|NATS|OBJECT_STORE)_[A-Z_]+\b", document.read_text())
        )
        assert named <= known, document


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for document in DOCUMENTS:
        for line in code(document):
            for target in re.findall(r"^make ([a-z]+)\b", line):
                assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{document}: {line}"


def test_lock_files_name_no_address() -> None:
    for path in (ROOT / "requirements").glob("*.txt"):
        assert "://" not in path.read_text()
        assert "--index-url" not in path.read_text()
