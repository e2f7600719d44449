"""What an agent CLI prints, on its way to the keeper."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agentos.contracts.crew import Log
from agentos.sidecar.printed import Printed
from agentos.sidecar.providers.agent_process import AgentProcess


class Told:
    def __init__(self) -> None:
        self.frames: list[Log] = []
        self.came = asyncio.Event()

    def __call__(self, frame: Log) -> None:
        self.frames.append(frame)
        self.came.set()

    async def next(self) -> tuple[str, ...]:
        async with asyncio.timeout(20):
            await self.came.wait()
        self.came.clear()
        return self.frames[-1].lines


async def test_lines_that_come_together_are_told_together() -> None:
    told = Told()
    printed = Printed(told)
    printed.flush()
    for line in ("one", "two\0", "three"):
        printed.add(line)
    assert told.frames == []
    assert await told.next() == ("one", "two\ufffd", "three")
    printed.add("four")
    printed.flush()
    printed.flush()
    assert [frame.lines for frame in told.frames[1:]] == [("four",)]


async def test_too_much_is_left_out_and_that_is_said() -> None:
    told = Told()
    printed = Printed(told)
    for n in range(1000):
        printed.add(f"line {n}")
    printed.flush()
    first, *rest = told.frames[0].lines
    assert rest == [f"line {n}" for n in range(1000 - len(rest), 1000)]
    assert first == f"({1000 - len(rest)} lines left out)"
    assert len(rest) < 200
    for _ in range(150):
        printed.add("x" * 100_000)
    printed.flush()
    assert sum(map(len, told.frames[1].lines)) < 300_000
    assert max(map(len, told.frames[1].lines)) == 4000
    printed.add("small again")
    printed.flush()
    assert told.frames[2].lines == ("small again",)


async def test_the_error_stream_of_a_process_is_heard(tmp_path: Path) -> None:
    heard: list[str] = []
    script = "import sys; print('out'); print('one\\nnoise\\ntwo', file=sys.stderr)"
    process = await AgentProcess.start(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={},
        name="Agent",
        noise="noise",
        printed=heard.append,
    )
    died = await process.ended()
    await process.stop()
    assert heard == ["one", "two"]
    assert "It said last:\none\ntwo" in died.message
