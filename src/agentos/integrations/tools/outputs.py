"""What a model is shown of an output: all of it if it is short, else both ends and a pointer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

Keep = Callable[[bytes], Awaitable[str]]

# About six thousand tokens: enough to work with, and a conversation holds many of them.
MOST_CHARACTERS = 24_000
# The end of an output says how it went, so it gets as much room as the beginning.
_HEAD = MOST_CHARACTERS // 2
_LOOKED_AT = 8192
_PRINTABLE_CONTROLS = frozenset(b"\t\n\r\f\b\x1b")


async def shown(data: bytes, keep: Keep, *, dropped: int = 0) -> str:
    """The output as text of about 24,000 characters at most; what is longer is kept elsewhere."""
    if is_binary(data):
        return f"[Binary output of {size_of(len(data))}, not shown. All of it: {await keep(data)}]"
    text = data.decode(errors="replace")
    lost = f"\n[{size_of(dropped)} more were printed and thrown away.]" if dropped else ""
    if len(text) <= MOST_CHARACTERS:
        return text + lost
    head, tail = ends(text)
    left_out = text[len(head) : len(text) - len(tail)]
    gap = f"[{len(left_out)} characters, {left_out.count(chr(10))} lines left out here. All of it: {await keep(data)}]"
    return f"{head.rstrip(chr(10))}\n{gap}\n{tail}{lost}"


def ends(text: str, most: int = MOST_CHARACTERS) -> tuple[str, str]:
    """The beginning and the end of a text, cut at line boundaries where there are any."""
    half = min(most // 2, _HEAD)
    head, tail = text[:half], text[len(text) - half :]
    # A single endless line has no boundary worth losing half of the room for.
    cut = head.rfind("\n") + 1
    if cut > half // 2:
        head = head[:cut]
    cut = tail.find("\n") + 1
    if 0 < cut < half // 2:
        tail = tail[cut:]
    return head, tail


def is_binary(data: bytes) -> bool:
    """Whether bytes are not meant to be read: a zero byte, or mostly what no text contains."""
    seen = data[:_LOOKED_AT]
    if b"\0" in seen:
        return True
    try:
        text = data[: _LOOKED_AT + 3].decode()
    except UnicodeDecodeError as error:
        if error.start >= _LOOKED_AT - 4:
            return False
        odd = sum(byte >= 128 or (byte < 32 and byte not in _PRINTABLE_CONTROLS) for byte in seen)
        return odd * 10 > len(seen) * 3
    return sum(ord(c) < 32 and ord(c) not in _PRINTABLE_CONTROLS for c in text) * 10 > len(text)


def size_of(count: int) -> str:
    """A number of bytes as people read it."""
    if count < 1024:
        return f"{count} byte{'s' * (count != 1)}"
    size = float(count)
    for unit in ("KiB", "MiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} GiB"
