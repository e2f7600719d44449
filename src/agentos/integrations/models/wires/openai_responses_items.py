"""The items that requests and answers of the Responses API share."""

from __future__ import annotations

from typing import Any

import msgspec


class Audio(msgspec.Struct):
    data: str
    format: str = "wav"


class Content(msgspec.Struct):
    type: str
    text: str = ""
    refusal: str = ""
    image_url: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    file_data: str | None = None
    input_audio: Audio | None = None


class Call(msgspec.Struct):
    call_id: str
    name: str
    arguments: str = ""


class Kind(msgspec.Struct):
    # A message need not say that it is one.
    type: str = "message"


KIND = msgspec.json.Decoder(Kind)
CALL = msgspec.json.Decoder(Call)


def written_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
