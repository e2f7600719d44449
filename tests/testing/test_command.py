"""`python -m agentos.testing`, and the example in its documentation."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

import agentos.testing


@asynccontextmanager
async def running(*options: str) -> AsyncIterator[dict[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "agentos.testing", *options, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield json.loads(await process.stdout.readline())
    finally:
        process.terminate()
        assert await process.wait() == 0


async def test_a_server_runs_on_its_own() -> None:
    options = ("--key", "sk-mine", "--model", "mine", "--text", "ready", "--fault", "overload")
    async with running("openai", *options) as ready, ClientSession() as session:
        assert (ready["vendor"], ready["key"]) == ("openai", "sk-mine")
        body = {"model": "mine", "messages": [{"role": "user", "content": "hi"}]}
        headers = {"Authorization": "Bearer sk-mine"}
        url = f"{ready['url']}/chat/completions"
        async with session.post(url, json=body, headers=headers) as response:
            assert response.status == 503
        async with session.post(url, json=body, headers=headers) as response:
            answer = await response.json()
    assert answer["choices"][0]["message"]["content"] == "ready"


def test_the_documented_example_runs(tmp_path: Path) -> None:
    assert agentos.testing.__doc__ is not None
    (example,) = re.findall(r"```python\n(.*?)```", agentos.testing.__doc__, re.DOTALL)
    exec(compile(example, "agentos.testing", "exec"), {"__name__": "example"})


def test_nothing_else_of_agentos_is_imported() -> None:
    source = Path(agentos.testing.__file__).parent
    imports = {
        line
        for path in source.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.match(r"\s*(from|import) agentos", line)
    }
    assert imports
    assert all(" agentos.testing" in line for line in imports)


@pytest.mark.parametrize(
    ("text", "chunks", "pieces"),
    [
        ("", None, []),
        ("one", None, ["one"]),
        ("one two  three", None, ["one ", "two  ", "three"]),
        ("one two three four", 2, ["one two ", "three four"]),
        ("abcd", 2, ["ab", "cd"]),
        ("ab", 9, ["a", "b"]),
        ("grüße an 🙂 alle", 4, ["grüße ", "an ", "🙂 ", "alle"]),
    ],
)
def test_texts_are_split_without_losing_anything(
    text: str, chunks: int | None, pieces: list[str]
) -> None:
    assert agentos.testing.answers.split(text, chunks) == pieces
