"""How long, odd and binary outputs are shown."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.integrations.tools.conftest import Kept

from agentos.integrations.tools.outputs import MOST_CHARACTERS, ends, is_binary, shown, size_of


@given(st.lists(st.text(st.characters(exclude_characters="\n"), max_size=200), max_size=400))
def test_both_ends_are_whole_lines_of_the_text(lines: list[str]) -> None:
    text = "\n".join(lines) * 3
    head, tail = ends(text, 1000)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) <= 1000 or len(text) <= 1000
    if len(text) > 1000:
        assert head.endswith("\n") or "\n" not in head[250:]


@given(st.binary(max_size=300), st.integers(1, 200))
def test_anything_can_be_shown(data: bytes, times: int) -> None:
    kept = Kept()
    text = asyncio.run(shown(data * times, kept.keep))
    assert len(text) <= MOST_CHARACTERS + 200
    assert all(output == data * times for output in kept.outputs)


async def test_one_endless_line(kept: Kept) -> None:
    text = await shown(b"a" * 50_000 + b"z" * 50_000, kept.keep)
    assert text.startswith("aaa")
    assert text.endswith("zzz")
    assert "[76000 characters, 0 lines left out here. All of it: output-1]" in text


async def test_what_was_thrown_away_is_said(kept: Kept) -> None:
    text = await shown(b"short", kept.keep, dropped=2048)
    assert text == "short\n[2.0 KiB more were printed and thrown away.]"
    assert kept.outputs == []


@pytest.mark.parametrize(
    ("data", "binary"),
    [
        (b"", False),
        (b"plain\ttext\r\n", False),
        (b"\x1b[31mred\x1b[0m", False),
        ("Grüße 你好 🙂".encode() * 3000, False),
        ("Grüße aus der Provinz".encode("latin-1"), False),
        (b"x" * 8190 + "🙂".encode(), False),
        (b"\0", True),
        (bytes(range(1, 256)), True),
        (b"\x01\x02\x03\x04", True),
    ],
)
def test_what_is_binary(data: bytes, binary: bool) -> None:
    assert is_binary(data) == binary


def test_sizes() -> None:
    assert [size_of(n) for n in (0, 1, 1023, 1024, 1536, 2**20, 5 * 2**30)] == [
        "0 bytes",
        "1 byte",
        "1023 bytes",
        "1.0 KiB",
        "1.5 KiB",
        "1.0 MiB",
        "5.0 GiB",
    ]
