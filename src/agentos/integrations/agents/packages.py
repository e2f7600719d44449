"""Which agent CLIs there are, in which versions, and where npm puts them.

Versions are pinned because what the providers know of these programs was measured on them; see
docs/teams.md.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agentos.integrations.agents.errors import UnknownAgent, UnsupportedMachine


@dataclass(frozen=True, slots=True)
class Package:
    """A program in an npm package that holds nothing but its files: it runs without Node."""

    npm_name: str
    version: str
    # Below the package.
    program: str

    @property
    def npm_spec(self) -> str:
        return f"{self.npm_name}@{self.version}"

    def folder(self, directory: Path) -> Path:
        return directory / "node_modules" / self.npm_name

    def program_in(self, directory: Path) -> Path:
        return self.folder(directory) / self.program

    def installed(self, directory: Path) -> bool:
        """Whether the program is there, in the version that is pinned."""
        program = self.program_in(directory)
        return _runnable(program) and _version(self.folder(directory)) == self.version


_PACKAGES: dict[str, dict[str, Package]] = {
    "x86_64": {
        "claude-code": Package("@anthropic-ai/claude-code-linux-x64", "2.1.325", "claude"),
        "opencode": Package("opencode-linux-x64", "1.18.33", "bin/opencode"),
        "ripgrep": Package("@vscode/ripgrep-linux-x64", "1.18.0", "bin/rg"),
    },
    "aarch64": {
        "claude-code": Package("@anthropic-ai/claude-code-linux-arm64", "2.1.325", "claude"),
        # The newest that was published for this kind of machine.
        "opencode": Package("opencode-linux-arm64", "1.18.18", "bin/opencode"),
        "ripgrep": Package("@vscode/ripgrep-linux-arm64", "1.18.0", "bin/rg"),
    },
}
_OF_PROVIDER: dict[str, tuple[str, ...]] = {
    "claude-code": ("claude-code",),
    # Its skill tool calls `rg`.
    "opencode": ("opencode", "ripgrep"),
}
AGENTS = ("claude-code", "opencode", "ripgrep")


def packages(names: Iterable[str], machine: str | None = None) -> dict[str, Package]:
    """The packages of these names for this machine. Raises UnknownAgent, UnsupportedMachine."""
    machine = machine or platform.machine()
    known = _PACKAGES.get(machine)
    if known is None:
        raise UnsupportedMachine(f"There are no agent CLIs for {machine} machines.")
    wanted = list(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise UnknownAgent(
            f"There is no agent CLI named {unknown[0]!r}.", hint=f"There are: {', '.join(AGENTS)}."
        )
    return {name: known[name] for name in wanted}


def where(directory: Path) -> dict[str, Path]:
    """The programs that are installed there, by name, in whatever version they are."""
    places = {
        name: package.program_in(directory)
        for name, package in _PACKAGES.get(platform.machine(), {}).items()
    }
    return {name: program for name, program in places.items() if _runnable(program)}


def agents_missing(directory: Path, provider: str) -> tuple[str, ...]:
    """What a provider needs and is not installed there. A provider that brings its own needs none."""
    here = where(directory)
    return tuple(name for name in _OF_PROVIDER.get(provider, ()) if name not in here)


def _runnable(program: Path) -> bool:
    try:
        return program.is_file() and bool(program.stat().st_mode & 0o111)
    except OSError:
        return False


def _version(folder: Path) -> str | None:
    try:
        about = msgspec.json.decode((folder / "package.json").read_bytes(), type=_About)
    except (OSError, msgspec.DecodeError):
        return None
    return about.version


class _About(msgspec.Struct):
    version: str
