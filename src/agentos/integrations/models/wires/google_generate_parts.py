"""The parts that requests and answers of Google's Gemini API share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw, field

from agentos.integrations.models.conversation import Media, Text, Thinking, ToolUse
from agentos.integrations.models.wires import glancing, turns
from agentos.integrations.models.wires.decoding import UNREADABLE

# What Google asks for in place of a signature, on calls that another model has made.
UNSIGNED = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
_UNKNOWN_TYPE = "application/octet-stream"


# The shape of a part. Google takes the names that its protocol buffers have too, and its SDK sends
# some of them.


class Blob(msgspec.Struct, omit_defaults=True, rename="camel"):
    data: str
    mime_type: str | None = None
    other_mime_type: str | None = field(default=None, name="mime_type")

    def read(self) -> Media:
        media_type = self.mime_type or self.other_mime_type or _UNKNOWN_TYPE
        return Media(media_type, data=self.data)


class File(msgspec.Struct, omit_defaults=True, rename="camel"):
    file_uri: str | None = None
    mime_type: str | None = None
    other_file_uri: str | None = field(default=None, name="file_uri")
    other_mime_type: str | None = field(default=None, name="mime_type")

    def read(self) -> Media:
        media_type = self.mime_type or self.other_mime_type or _UNKNOWN_TYPE
        return Media(media_type, url=self.file_uri or self.other_file_uri or "")


class FunctionCall(msgspec.Struct, omit_defaults=True):
    name: str
    args: Raw = Raw()
    id: str | None = None

    @property
    def arguments(self) -> str:
        """Without the white space, which is Google's and not the model's."""
        if not glancing.given(self.args):
            return "{}"
        try:
            return msgspec.json.format(bytes(self.args), indent=-1).decode()
        except RecursionError:
            return bytes(self.args).decode()  # nested as deeply as could just be read


class ResponsePart(msgspec.Struct, omit_defaults=True, rename="camel"):
    inline_data: Blob | None = None
    file_data: File | None = None


class FunctionResponse(msgspec.Struct, omit_defaults=True):
    name: str
    response: dict[str, Any]
    id: str | None = None
    parts: list[ResponsePart] | None = None


class GooglePart(msgspec.Struct, omit_defaults=True, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    inline_data: Blob | None = None
    file_data: File | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None


class GoogleContent(msgspec.Struct, omit_defaults=True):
    parts: list[GooglePart] | None = None
    role: str | None = None


# Thoughts
#
# Gemini signs what it thought, mostly on the function call that the thought led to, and wants the
# signature back there. In a conversation the signature is the thought's; marked as Google's, so
# that one of another maker is never sent to Google, which would refuse it.


def mark(signature: str | None) -> str | None:
    return None if signature is None or signature == UNSIGNED else turns.GOOGLES + signature


def unmark(signature: str | None) -> str | None:
    if signature is None or not signature.startswith(turns.GOOGLES):
        return None
    return signature.removeprefix(turns.GOOGLES)


# Between a part and a conversation's


def made_up_id(answer_id: str, count: int) -> str:
    """An id for a call that Google gave none: the same whenever it is read."""
    scope = re.sub(r"[^A-Za-z0-9_-]", "", answer_id)
    return f"call_{scope}_{count}" if scope else f"call_{count}"


def args(arguments: str) -> Raw:
    """Arguments as the object that Google wants, without line ends, which would cut an event."""
    if not arguments.strip():
        return Raw(b"{}")
    try:
        msgspec.json.decode(arguments, type=dict[str, Raw])
        return Raw(msgspec.json.format(arguments.encode(), indent=-1))
    except UNREADABLE:
        # A model wrote something broken, and was told so in what follows: keep it as it was.
        return Raw(msgspec.json.encode({"arguments": arguments}))


def read_media(blob: Blob | None, file: File | None) -> Media | None:
    if blob is not None:
        return blob.read()
    return None if file is None else file.read()


def write_media(media: Media) -> GooglePart:
    if media.url is not None:
        return GooglePart(file_data=File(media.url, media.media_type))
    return GooglePart(inline_data=Blob(media.data or "", media.media_type))


def write_words(parts: Sequence[Text | Thinking | ToolUse]) -> Iterator[GooglePart]:
    """What a model said, each signature where Google puts it."""
    signature: str | None = None
    for i, part in enumerate(parts):
        following = parts[i + 1] if i + 1 < len(parts) else None
        if isinstance(part, Text):
            yield GooglePart(text=part.text)
        elif isinstance(part, ToolUse):
            call = FunctionCall(part.name, args(part.arguments), part.id)
            yield GooglePart(function_call=call, thought_signature=signature)
            signature = None
        else:
            signature = unmark(part.signature)
            if not isinstance(following, ToolUse):
                yield GooglePart(text=part.text, thought=True, thought_signature=signature)
                signature = None
            elif part.text:
                yield GooglePart(text=part.text, thought=True)


def signed_thoughts(parts: Sequence[GooglePart]) -> list[GooglePart]:
    """The same parts, with each call's signature on the thought before it."""
    moved: list[GooglePart] = []
    for part in parts:
        signature = part.thought_signature
        if part.function_call is not None and mark(signature) is not None:
            before = moved[-1] if moved else GooglePart()
            if before.thought and before.thought_signature is None:
                moved[-1] = msgspec.structs.replace(before, thought_signature=signature)
            else:
                moved.append(GooglePart(text="", thought=True, thought_signature=signature))
        moved.append(part)
    return moved
