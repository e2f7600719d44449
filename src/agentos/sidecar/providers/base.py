"""What a provider is: one agent CLI, driven one question at a time.

A provider knows its CLI and nothing of the bus. The bridge above it serialises, remembers answers,
watches deadlines and starts a dead CLI again. One conformance suite holds for all of them:
tests/sidecar/conformance.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from agentos.contracts.crew import Deed, McpStatus, TeamSpec


class ProviderError(Exception):
    """Something that ends the question at hand, in words for people."""

    def __init__(self, message: str, code: str = "agent_error"):
        super().__init__(message)
        self.message = message
        self.code = code


class ProviderDied(ProviderError):
    """The CLI's process has ended. It has to be started again."""

    def __init__(self, message: str, exit_code: int | None = None):
        super().__init__(message, "agent_crashed")
        self.exit_code = exit_code


class ProviderMissing(ProviderError):
    """The CLI is not installed, or does not start at all: trying again does not help."""

    def __init__(self, message: str):
        super().__init__(message, "agent_missing")


def unheard(line: str) -> None:
    """Does nothing with what a CLI has printed."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a provider works."""

    workspace: Path
    # Its own files that survive a restart: configuration, transcripts.
    home: Path
    # Where the agent CLIs are installed.
    agents: Path
    # The model endpoint inside the sandbox, such as http://127.0.0.1:4100/api/ai. It asks for no key.
    model_url: str
    env: Mapping[str, str] = field(default_factory=dict)
    # Hears each line that the CLI writes on its error stream.
    printed: Callable[[str], None] = unheard


@dataclass(frozen=True, slots=True)
class Question:
    """One message for the agent. `id` is new for every attempt."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Permission:
    """A tool call about to be made."""

    id: str
    tool: str
    arguments: Mapping[str, Any]
    # The worker that makes it; None: the leader.
    agent: str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    allow: bool
    # The agent is told why not.
    reason: str = ""


class Listener(Protocol):
    """Hears what happens while a question is answered."""

    def words(self, text: str, agent: str | None = None) -> None: ...

    def again(self) -> None:
        """What was said so far is void: the model is asked anew."""
        ...

    def did(self, deed: Deed) -> None:
        """A tool was used, or its state has changed (same id)."""
        ...

    async def may(self, permission: Permission) -> Verdict:
        """Whether a tool call may be made: by the team's rules, or by a person's word, which can
        take long. Cancelled if the agent withdraws the call."""
        ...


@dataclass(frozen=True, slots=True)
class Reply:
    """How a question ended."""

    state: Literal["answered", "failed", "cancelled"]
    text: str
    error: str = ""
    error_code: str = ""


class Provider(Protocol):
    """One agent CLI. Made anew for every start: `start` is called once, `stop` ends it for good."""

    @property
    def conversation(self) -> str | None:
        """What the conversation is resumed by, once there is one."""
        ...

    @property
    def version(self) -> str:
        """What the CLI says it is."""
        ...

    @property
    def mcp(self) -> tuple[McpStatus, ...]:
        """How its MCP servers are, as far as it tells."""
        ...

    async def start(self) -> None:
        """Ready for the first question when this returns. Raises ProviderMissing, ProviderDied."""
        ...

    async def ask(self, question: Question, listener: Listener) -> Reply:
        """Asks and waits for the whole answer. One at a time. Raises ProviderDied.

        Cancelling it leaves the provider in an unknown state: `stop` has to follow.
        """
        ...

    async def interrupt(self) -> None:
        """Makes the running `ask` return soon, as cancelled. Harmless if none is running."""
        ...

    async def ended(self) -> ProviderDied:
        """Waits for the end of a process that was started. Cancelling it does no harm."""
        ...

    async def stop(self) -> None:
        """Ends the process and all it started. Harmless if it is dead or was never started."""
        ...


MakeProvider = Callable[[TeamSpec, Surroundings, str | None], Provider]
"""Spec, surroundings, the conversation to resume (None: a new one) → a provider not yet started."""
