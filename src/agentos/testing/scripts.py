"""What a test server is told to do: the replies it gives and the faults it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

Finish = Literal["stop", "length", "tool_use", "filtered"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool the model wants called. `arguments` given as text is sent as it is, even if broken."""

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    # None: the server makes one up, of the form its vendor uses.
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the model. Whatever is None the server chooses, the same way every time."""

    # None: what the user said last, unless there are tool calls.
    text: str | None = None
    tool_calls: Sequence[ToolCall] = ()
    thinking: str = ""
    # All that was read, cached or not; vendors that count the cached apart are told so.
    input_tokens: int | None = None
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    # All that was written, thinking included.
    output_tokens: int | None = None
    # In how many pieces a stream delivers the text.
    chunks: int | None = None
    # Seconds between the pieces of a stream.
    delay: float = 0.0
    # The name the answer gives for the model, where it differs from what was asked for.
    model: str | None = None
    finish: Finish | None = None


class FaultKind(StrEnum):
    # The vendor's own error answers.
    RATE_LIMIT = "rate_limit"
    OVERLOAD = "overload"
    SERVER_ERROR = "server_error"
    AUTH = "auth"
    CONTEXT_LENGTH = "context_length"
    MODEL_NOT_FOUND = "model_not_found"
    NO_CREDIT = "no_credit"
    # Answers that are not the vendor's at all.
    HTML = "html"
    REFUSE = "refuse"
    # What goes wrong within an answer that began well.
    CUT = "cut"
    STALL = "stall"
    MALFORMED = "malformed"
    STREAM_ERROR = "stream_error"
    SLOW = "slow"


# These happen within an answer, so that a reply is written up to where they strike.
WITHIN_ANSWER = frozenset(
    {
        FaultKind.CUT,
        FaultKind.STALL,
        FaultKind.MALFORMED,
        FaultKind.STREAM_ERROR,
        FaultKind.SLOW,
    }
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to fail. Made by the class methods, which say what each is.

    `after_chunks` counts pieces of text, thinking or tool arguments, and is the same for every
    vendor. `after_events` counts what is written to the stream, openings and pings included, for
    when it matters that a stream had begun but said nothing yet. An answer that is over before
    that fails right after its last piece.
    """

    kind: FaultKind
    after_chunks: int = 0
    after_events: int | None = None
    retry_after: float | None = None
    seconds: float = 0.0
    status: int = 502
    reset: bool = False
    reply: Reply | None = None

    @classmethod
    def rate_limit(cls, retry_after: float | None = None) -> Fault:
        """429, with how long to wait said the vendor's way."""
        return cls(FaultKind.RATE_LIMIT, retry_after=retry_after)

    @classmethod
    def overload(cls, retry_after: float | None = None) -> Fault:
        """529 or 503, whichever the vendor uses for being too busy."""
        return cls(FaultKind.OVERLOAD, retry_after=retry_after)

    @classmethod
    def server_error(cls) -> Fault:
        """500."""
        return cls(FaultKind.SERVER_ERROR)

    @classmethod
    def auth(cls) -> Fault:
        """What a wrong key gets."""
        return cls(FaultKind.AUTH)

    @classmethod
    def context_length(cls) -> Fault:
        """What too long a prompt gets."""
        return cls(FaultKind.CONTEXT_LENGTH)

    @classmethod
    def model_not_found(cls) -> Fault:
        """What an unknown model gets."""
        return cls(FaultKind.MODEL_NOT_FOUND)

    @classmethod
    def no_credit(cls) -> Fault:
        """What an account that has not paid gets."""
        return cls(FaultKind.NO_CREDIT)

    @classmethod
    def html(cls, status: int = 502) -> Fault:
        """The HTML page of a proxy in front of the vendor."""
        return cls(FaultKind.HTML, status=status)

    @classmethod
    def refuse(cls) -> Fault:
        """The connection closes without any answer."""
        return cls(FaultKind.REFUSE)

    @classmethod
    def cut(
        cls,
        after_chunks: int = 0,
        *,
        after_events: int | None = None,
        reset: bool = False,
        reply: Reply | None = None,
    ) -> Fault:
        """The connection closes within the answer; after 0 chunks: before any byte of the body.

        Answers that are not streams lose their second half. With `reset` the closing is abrupt
        (RST), and what was sent just before may be lost as well.
        """
        return cls(
            FaultKind.CUT,
            after_chunks=after_chunks,
            after_events=after_events,
            reset=reset,
            reply=reply,
        )

    @classmethod
    def stall(
        cls, after_chunks: int = 0, *, after_events: int | None = None, reply: Reply | None = None
    ) -> Fault:
        """Silence until the client leaves or `server.release()`; after 0 chunks: not even headers."""
        return cls(
            FaultKind.STALL, after_chunks=after_chunks, after_events=after_events, reply=reply
        )

    @classmethod
    def malformed(
        cls, after_chunks: int = 0, *, after_events: int | None = None, reply: Reply | None = None
    ) -> Fault:
        """JSON that breaks off in the middle, in an answer that HTTP finds nothing wrong with."""
        return cls(
            FaultKind.MALFORMED, after_chunks=after_chunks, after_events=after_events, reply=reply
        )

    @classmethod
    def stream_error(
        cls, after_chunks: int = 0, *, after_events: int | None = None, reply: Reply | None = None
    ) -> Fault:
        """The vendor's error event within a stream of status 200; else a plain server error."""
        return cls(
            FaultKind.STREAM_ERROR,
            after_chunks=after_chunks,
            after_events=after_events,
            reply=reply,
        )

    @classmethod
    def slow(cls, first_byte: float, reply: Reply | None = None) -> Fault:
        """A good answer whose first byte takes so many seconds."""
        return cls(FaultKind.SLOW, seconds=first_byte, reply=reply)


Step = Reply | Fault
