"""What a team's keeper and its sidecar say to each other over the bus. See docs/teams.md.

    tenant.{tenant}.team.{team}.to_agent      keeper  → sidecar   `ToAgent`
    tenant.{tenant}.team.{team}.from_agent    sidecar → keeper    `FromAgent`
    tenant.{tenant}.team.{team}.chat          agent   → whoever watches; nothing of it is kept: `Chat`

Nothing here is the only copy of anything: a message is a row before it is sent, and an answer is
sent again until the keeper has said that it is stored. So each frame may come twice, or not at all.
What comes from a sidecar comes from a sandbox: it is data of the team's tenant, and never believed
beyond that.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Literal
from uuid import UUID

import msgspec

from agentos.kernel.bus_credentials import MAX_PAYLOAD

# Room for the subject and the headers of what goes over the bus in one piece.
_PIECE = MAX_PAYLOAD - 64 * 1024
# A part is base64 in JSON.
_PART = _PIECE * 3 // 4 - 1024
# The largest frame that is put together again.
MOST_FRAME_BYTES = 64 * 1024 * 1024

AnswerState = Literal["answered", "failed", "cancelled", "uncertain"]


def to_agent_subject(tenant_id: UUID, team_id: UUID) -> str:
    return f"tenant.{tenant_id}.team.{team_id}.to_agent"


def from_agent_subject(tenant_id: UUID, team_id: UUID) -> str:
    return f"tenant.{tenant_id}.team.{team_id}.from_agent"


def chat_subject(tenant_id: UUID, team_id: UUID) -> str:
    return f"tenant.{tenant_id}.team.{team_id}.chat"


class _Frame(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """What all frames share: `type` says which it is."""


# To the agent ------------------------------------------------------------------------------------


class UserMessage(_Frame, frozen=True, tag="user_message"):
    """A message to answer. Sent until it is accepted; a known id is answered from memory."""

    message_id: UUID
    # Higher after a crash: the agent may have begun with it before.
    attempt: int
    text: str
    author: str
    source: Literal["chat", "schedule", "webhook"] = "chat"
    run_id: UUID | None = None
    # Paths in the workspace.
    attachments: tuple[str, ...] = ()
    # What the model calls for this message are made with, and only they.
    model_token: str = ""
    seconds: float = 1800.0


class Interrupt(_Frame, frozen=True, tag="interrupt"):
    """Stop answering this message, or forget it if it waits."""

    message_id: UUID
    reason: str = ""


class PermissionAnswer(_Frame, frozen=True, tag="permission_answer"):
    request_id: str
    allow: bool
    # The agent is told.
    reason: str = ""


class AnswerStored(_Frame, frozen=True, tag="answer_stored"):
    """The answer is in the database: it need not be sent again."""

    message_id: UUID


class Reconfigure(_Frame, frozen=True, tag="reconfigure"):
    """The workspace and the spec file have a new version: go on with it, the conversation kept."""

    version: int


class Repeat(_Frame, frozen=True, tag="repeat"):
    """Somebody has begun to watch: show what was said and done so far for the message at hand.

    Asked of an agent that is at nothing, it means nothing. What is repeated is heard by all who watch.
    """


class Shutdown(_Frame, frozen=True, tag="shutdown"):
    """Finish the answer at hand within so many seconds, then end."""

    seconds: float = 10.0


# From the agent ----------------------------------------------------------------------------------


class McpStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    status: str
    error: str = ""


class Beat(_Frame, frozen=True, tag="beat"):
    """Every few seconds, and at each change: how the agent is."""

    # Which start of the sidecar this is: a new one has nothing of what the old one was sent.
    boot: str
    state: Literal["starting", "idle", "busy", "stopping", "failed"]
    version: int
    message_id: UUID | None = None
    # The messages it has accepted and not begun.
    waiting: tuple[UUID, ...] = ()
    # What the conversation is resumed by.
    conversation: str | None = None
    agent_version: str = ""
    mcp: tuple[McpStatus, ...] = ()
    # Why it is starting again, or failed.
    reason: str = ""


class Accepted(_Frame, frozen=True, tag="accepted"):
    """The sidecar has the message and will answer it."""

    message_id: UUID


class Started(_Frame, frozen=True, tag="started"):
    message_id: UUID
    attempt: int


class PermissionAsked(_Frame, frozen=True, tag="permission_asked"):
    """A tool call that the team's permissions leave to a person. Sent until it is answered."""

    request_id: str
    message_id: UUID
    tool: str
    arguments: dict[str, Any]
    # The worker that wants it; None: the leader.
    agent: str | None = None


class PermissionWithdrawn(_Frame, frozen=True, tag="permission_withdrawn"):
    request_id: str


class Deed(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that an agent did: it used a tool, or called a worker."""

    id: str
    tool: str
    # What it was given, shortened.
    summary: str = ""
    state: Literal["running", "done", "failed", "denied"] = "done"
    agent: str | None = None


class Answer(_Frame, frozen=True, tag="answer"):
    """How a message ended. Sent until it is known to be stored."""

    message_id: UUID
    state: AnswerState
    text: str = ""
    error: str = ""
    error_code: str = ""
    activity: tuple[Deed, ...] = ()
    seconds: float = 0.0


class Crashed(_Frame, frozen=True, tag="crashed"):
    """The agent's process ended by itself; the sidecar starts it again."""

    # So that one crash is counted once.
    crash_id: str
    reason: str
    exit_code: int | None = None


class Log(_Frame, frozen=True, tag="log"):
    """Lines that the agent's process wrote on its error stream."""

    lines: tuple[str, ...]


# To whoever watches the chat ---------------------------------------------------------------------


class Chunk(_Frame, frozen=True, tag="chunk"):
    """Some words of an answer. `n` counts them; `reset`: what came before for this message is void.

    An answer that is repeated begins with `reset`, too: then the same words follow, and `n` goes on.
    """

    message_id: UUID
    n: int
    text: str
    agent: str | None = None
    reset: bool = False


class Activity(_Frame, frozen=True, tag="activity"):
    """What is known of a deed now. May be repeated: the deed's id says which it is."""

    message_id: UUID
    n: int
    deed: Deed


# In pieces ---------------------------------------------------------------------------------------


class Part(_Frame, frozen=True, tag="part"):
    """A piece of a frame that is larger than the bus carries."""

    frame_id: str
    n: int
    of: int
    data: str


ToAgent = (
    UserMessage | Interrupt | PermissionAnswer | AnswerStored | Reconfigure | Repeat | Shutdown
)
FromAgent = (
    Beat | Accepted | Started | PermissionAsked | PermissionWithdrawn | Answer | Crashed | Log
)
Chat = Chunk | Activity

_to_agent = msgspec.json.Decoder(ToAgent | Part)
_from_agent = msgspec.json.Decoder(FromAgent | Part)
_chat: msgspec.json.Decoder[Chat] = msgspec.json.Decoder(Chat)


class BadFrame(Exception):
    """What came is not a frame; whoever sent it does not speak this protocol."""


def encode(frame: ToAgent | FromAgent | Chat, frame_id: str = "") -> Iterator[bytes]:
    """A frame as it goes over the bus: in one piece, or in parts named by `frame_id`."""
    data = msgspec.json.encode(frame)
    if len(data) <= _PIECE:
        yield data
        return
    pieces = [data[at : at + _PART] for at in range(0, len(data), _PART)]
    for n, piece in enumerate(pieces):
        text = base64.b64encode(piece).decode()
        yield msgspec.json.encode(Part(frame_id=frame_id, n=n, of=len(pieces), data=text))


class Joiner:
    """Puts the parts of frames together. Only the newest few unfinished frames are kept."""

    _MOST_UNFINISHED = 4

    def __init__(self) -> None:
        self._parts: dict[str, dict[int, bytes]] = {}

    def to_agent(self, data: bytes) -> ToAgent | None:
        """The frame; None if parts of it are missing. Raises BadFrame."""
        frame: ToAgent | None = self._whole(data, _to_agent)
        return frame

    def from_agent(self, data: bytes) -> FromAgent | None:
        """The frame; None if parts of it are missing. Raises BadFrame."""
        frame: FromAgent | None = self._whole(data, _from_agent)
        return frame

    def _whole(self, data: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
        try:
            frame = decoder.decode(data)
            if not isinstance(frame, Part):
                return frame
            joined = self._joined(frame)
            if joined is None:
                return None
            frame = decoder.decode(joined)
        except (msgspec.DecodeError, ValueError) as error:
            raise BadFrame(str(error)) from error
        if isinstance(frame, Part):
            raise BadFrame("a part within a part")
        return frame

    def _joined(self, part: Part) -> bytes | None:
        if not (0 <= part.n < part.of and part.of * _PART <= MOST_FRAME_BYTES + _PART):
            raise BadFrame("a part of a frame that is too large")
        parts = self._parts.pop(part.frame_id, {})
        parts[part.n] = base64.b64decode(part.data, validate=True)
        if len(parts) == part.of:
            return b"".join(parts[n] for n in sorted(parts))
        self._parts[part.frame_id] = parts
        while len(self._parts) > self._MOST_UNFINISHED:
            del self._parts[next(iter(self._parts))]
        return None


def decode_chat(data: bytes) -> Chat:
    """Raises BadFrame."""
    try:
        return _chat.decode(data)
    except msgspec.DecodeError as error:
        raise BadFrame(str(error)) from error


# What a sidecar is started with -------------------------------------------------------------------


class AgentPermissions(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one agent may do. Checked in this order before each tool call: tools, denied commands,
    allowed commands, files, and then whether a person is asked. None does not restrict."""

    tools: tuple[str, ...] | None = None
    denied_commands: tuple[str, ...] = ()
    allowed_commands: tuple[str, ...] | None = None
    # Globs below the workspace.
    files: tuple[str, ...] | None = None
    # Tools that a person is asked about; "*" for all.
    ask: tuple[str, ...] = ()


class McpServerSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """An MCP server with its secrets filled in."""

    name: str
    url: str | None = None
    headers: dict[str, str] = {}
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}


class AgentSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """One agent of the team, as far as a sidecar needs to know it."""

    name: str
    leader: bool
    role: str = ""
    model: str = ""
    permissions: AgentPermissions = AgentPermissions()


class TeamSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """The file `spec.json` beside the sidecar's sockets. Holds secrets of MCP servers."""

    tenant_id: UUID
    team_id: UUID
    version: int
    provider: Literal["claude-code", "opencode", "acp"]
    model: str
    agents: tuple[AgentSpec, ...]
    # What an ACP agent is started with.
    command: tuple[str, ...] = ()
    mcp_servers: tuple[McpServerSpec, ...] = ()
    # What the conversation is resumed by, if there is one.
    conversation: str | None = None
    # Hosts that tools may reach through the egress proxy.
    allowed_hosts: tuple[str, ...] = ()


class SidecarCredentials(msgspec.Struct, frozen=True):
    """The file `credentials.json`: the team's rights on the bus. Written anew before they expire."""

    jwt: str
    seed: str
    inbox_prefix: str
    public_key: str
