"""What an endpoint of a vendor is to the server that runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from agentos.testing.answers import Answer, Prompt


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request as an endpoint reads it. `json` is None if the body is not a JSON object."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    # The parts of the path that vary.
    match: Mapping[str, str]
    json: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of a stream. `content` frames are what `Fault.after_chunks` counts."""

    data: bytes
    content: bool = False


class Refusal(Exception):
    """The vendor's error answer."""

    def __init__(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
        self.headers = dict(headers or {})


class Endpoint:
    """One path of a vendor's API."""

    # Tests that script one endpoint call it by this name.
    name: ClassVar[str]
    # Whether it takes its turn in what is queued for all model calls.
    in_turn: ClassVar[bool] = True

    def read(self, incoming: Incoming) -> Prompt:
        """Raises Refusal for a request that the vendor would not take."""
        raise NotImplementedError

    def whole(self, prompt: Prompt, answer: Answer) -> Any:
        """The answer in one piece, to be sent as JSON."""
        raise NotImplementedError

    def frames(self, prompt: Prompt, answer: Answer) -> Iterable[Frame]:
        """The answer as a stream."""
        raise NotImplementedError

    def broken(self, prompt: Prompt, answer: Answer, events: int) -> bytes:
        """What the vendor writes into a stream that it cannot go on with after so many events."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    endpoint: Endpoint
