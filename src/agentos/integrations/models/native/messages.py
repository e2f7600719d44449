"""A history of pydantic-ai's messages as the turns of a conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pydantic_ai._thinking_part import REDACTED_THINKING_PART_IDS, render_replayed_thinking
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ERROR_OUTCOMES,
    BinaryContent,
    CompactionPart,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryFeedbackPart,
    RetryPromptPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from agentos.integrations.models.conversation import (
    Media,
    Message,
    Part,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)
from agentos.integrations.models.native.dialects import Dialect
from agentos.integrations.models.native.errors import NotCarried
from agentos.integrations.models.wires import media

# How a thought is marked that only Claude can read, until it is written (see `extras`).
REDACTED = "redacted_thinking:"
_SOUNDS = ("audio/wav", "audio/mpeg")

Accepts = Callable[[ModelResponse, ThinkingPart], bool]


@dataclass(slots=True)
class History:
    """What was said, and what its wire can say of it that a conversation cannot."""

    system: list[str] = field(default_factory=list)
    turns: list[Message] = field(default_factory=list)
    # Fields that chat vendors want their own thoughts back in, by the assistant's turn (from 0).
    thoughts: dict[int, dict[str, str]] = field(default_factory=dict)
    redacted: bool = False


def history(messages: Sequence[ModelMessage], dialect: Dialect, accepts: Accepts) -> History:
    """Raises NotCarried, and UserError for what `prepare_messages` should have replaced.

    `accepts` is whether a signature that came with an answer can be sent back.
    """
    told = History()
    writer = _Writer(dialect, accepts, told)
    for message in messages:
        if isinstance(message, ModelRequest):
            writer.request(message)
        else:
            writer.response(message)
    if told.thoughts:
        _fill_thoughts(told)
    return told


@dataclass(slots=True)
class _Writer:
    dialect: Dialect
    accepts: Accepts
    told: History
    # How many turns of the assistant the wire will write.
    answered: int = 0

    # What the model was told

    def request(self, message: ModelRequest) -> None:
        parts: list[Part] = []
        attached: list[Part] = []
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                parts += self._prompt(part)
            elif isinstance(part, ToolReturnPart):
                parts.append(self._result(part, attached))
            elif isinstance(part, SystemPromptPart):
                self.told.system.append(part.content)
            elif isinstance(part, RetryFeedbackPart):
                parts.append(Text(part.model_response()))
            elif isinstance(part, RetryPromptPart):
                parts.append(_retry(part))
            elif isinstance(part, CompactionPart):
                raise NotCarried("a summary in place of history")
            else:
                raise UserError(
                    f"A {type(part).__name__} has to be prepared for the model first: call "
                    "`model.prepare_messages` (agents do)."
                )
        parts += attached
        if parts:
            self.told.turns.append(Message("user", parts))

    def _prompt(self, part: UserPromptPart) -> Iterable[Text | Media]:
        if isinstance(part.content, str):
            return [Text(part.content)]
        return [self._content(item) for item in part.content]

    def _content(self, item: object) -> Text | Media:
        if isinstance(item, str):
            return Text(item)
        if isinstance(item, TextContent):
            return Text(item.content)
        if isinstance(item, BinaryContent):
            return self._binary(item)
        if isinstance(item, ImageUrl) and not item.force_download and not item.vendor_metadata:
            return media.image(item.url)
        if isinstance(item, DocumentUrl) and self.dialect.claude and _is_pdf(item):
            return Media(media.PDF, url=item.url)
        raise NotCarried(type(item).__name__)

    def _binary(self, item: BinaryContent) -> Media:
        carried = item.media_type.startswith("image/") or item.media_type == media.PDF
        if not self.dialect.claude:
            carried = carried or item.media_type in _SOUNDS
        if not carried or item.vendor_metadata:
            raise NotCarried(item.media_type)
        return Media(item.media_type, data=item.base64)

    def _result(self, part: ToolReturnPart, attached: list[Part]) -> ToolResult:
        """A tool's result. What its wire takes no file in, has the files after it, in `attached`."""
        if self.dialect.claude:
            items = part.content_items(mode="str", wrap_if_error=False)
            pieces = [self._content(item) for item in items if item != ""]
            failed = part.outcome in ERROR_OUTCOMES
            return ToolResult(part.tool_call_id, pieces, failed, part.tool_name)
        text, files = part.model_response_str_and_user_content()
        attached += [self._content(item) for item in files]
        return ToolResult(part.tool_call_id, [Text(text)], name=part.tool_name)

    # What the model said

    def response(self, message: ModelResponse) -> None:
        parts: list[Part] = []
        carried: list[Part] = []
        fields: dict[str, str] = {}
        for part in message.parts:
            if isinstance(part, TextPart):
                parts.append(Text(part.content))
            elif isinstance(part, ToolCallPart):
                arguments = part.args_as_json_str()
                parts.append(ToolUse(part.tool_call_id, part.tool_name, arguments))
            elif isinstance(part, ThinkingPart):
                self._thought(message, part, parts, carried, fields)
            elif isinstance(
                part, NativeToolCallPart | NativeToolReturnPart | CompactionPart | FilePart
            ):
                if self.accepts_native(message):
                    raise NotCarried(type(part).__name__)
            else:
                raise UserError(f"A {type(part).__name__} has to be prepared for the model first.")
        if carried:
            self.told.turns.append(Message("user", carried))
        if parts:
            self.told.turns.append(Message("assistant", parts))
        if any(
            isinstance(part, ToolUse) or (isinstance(part, Text) and part.text) for part in parts
        ):
            if fields:
                self.told.thoughts[self.answered] = fields
            self.answered += 1

    def accepts_native(self, message: ModelResponse) -> bool:
        """Whether what the vendor's own tools did is the vendor's to hear again; others never do."""
        return self.dialect.claude and message.provider_name == self.dialect.system

    def _thought(
        self,
        message: ModelResponse,
        part: ThinkingPart,
        parts: list[Part],
        carried: list[Part],
        fields: dict[str, str],
    ) -> None:
        if self.dialect.claude:
            if part.signature and self.accepts(message, part):
                parts.append(self._signed(part, part.signature))
                return
        else:
            name = self._field(part)
            if name == "":
                return
            if name is not None:
                fields[name] = "\n\n".join(filter(None, [fields.get(name), part.content]))
                return
        if part.content:
            text, elsewhere = render_replayed_thinking(part.content, self.dialect.profile)
            (carried if elsewhere else parts).append(Text(text))

    def _signed(self, part: ThinkingPart, signature: str) -> Thinking:
        if part.id not in REDACTED_THINKING_PART_IDS:
            return Thinking(part.content, signature)
        self.told.redacted = True
        return Thinking("", REDACTED + signature)

    def _field(self, part: ThinkingPart) -> str | None:
        """The field that a chat vendor wants a thought back in: none if `None`, not at all if empty."""
        profile: dict[str, object] = {**self.dialect.profile}
        own = profile.get("openai_chat_thinking_field")
        match profile.get("openai_chat_send_back_thinking_parts", "auto"):
            case "field":
                return str(own or "")
            case "auto" if part.id and part.id != "content" and own in (None, part.id):
                return part.id if part.provider_name == self.dialect.system else None
            case "auto" | "tags":
                return None
            case _:
                return ""


def _is_pdf(item: DocumentUrl) -> bool:
    """Whether the provider can fetch it itself, as a PDF."""
    try:
        return item.media_type == media.PDF and not item.force_download
    except ValueError:
        return False  # nobody can tell from its URL


def _retry(part: RetryPromptPart) -> Text | ToolResult:
    text = Text(part.model_response())
    if part.tool_name is None:
        return text
    return ToolResult(part.tool_call_id, [text], is_error=True, name=part.tool_name)


def _fill_thoughts(told: History) -> None:
    """Some vendors refuse a turn with tool calls that lacks the field once another has it: an empty
    one is enough.
    """
    names = {name for fields in told.thoughts.values() for name in fields}
    if len(names) != 1:
        return
    (name,) = names
    turn = -1
    for message in told.turns:
        if message.role != "assistant":
            continue
        uses = any(isinstance(part, ToolUse) for part in message.parts)
        if uses or any(isinstance(part, Text) and part.text for part in message.parts):
            turn += 1
            if uses:
                told.thoughts.setdefault(turn, {}).setdefault(name, "")
