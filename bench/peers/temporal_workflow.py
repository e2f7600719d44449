"""Peer: three activities of a Temporal workflow, in its own environment, on its dev server.

`enqueue N` starts workflows, `work` executes them until it is ended. Every finished activity is one
byte on standard output: workflows advance all at once, so whole ones would come in waves. The server is at $TEMPORAL_ADDRESS, with SQLite in a file.
"""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow  # type: ignore[import-not-found]
from temporalio.client import Client  # type: ignore[import-not-found]
from temporalio.worker import Worker  # type: ignore[import-not-found]

TASK_QUEUE = "bench"
AT_ONCE = 64


async def ask(_: list[dict[str, Any]]) -> dict[str, Any]:
    os.write(1, b".")
    plan = [{"step": "a", "status": "done"}]
    return {"role": "assistant", "call": {"name": "update_plan", "arguments": {"plan": plan}}}


async def tool(call: dict[str, Any]) -> dict[str, Any]:
    os.write(1, b".")
    return {"role": "tool", "name": call["name"], "text": f"{len(call['arguments']['plan'])} steps"}


async def answer(_: list[dict[str, Any]]) -> dict[str, Any]:
    os.write(1, b".")
    return {"role": "assistant", "text": "Done."}


for _each in (ask, tool, answer):
    activity.defn(_each)


class ThreeSteps:
    async def run(self, prompt: str) -> str:
        limit = timedelta(seconds=60)
        messages: list[dict[str, Any]] = [{"role": "user", "text": prompt}]
        asked = await workflow.execute_activity("ask", messages, start_to_close_timeout=limit)
        messages.append(asked)
        used = await workflow.execute_activity("tool", asked["call"], start_to_close_timeout=limit)
        messages.append(used)
        said = await workflow.execute_activity("answer", messages, start_to_close_timeout=limit)
        return str(said["text"])


workflow.run(ThreeSteps.run)
workflow.defn(ThreeSteps)


async def _connected() -> Any:
    for _ in range(200):
        try:
            return await Client.connect(os.environ["TEMPORAL_ADDRESS"])
        except RuntimeError:
            await asyncio.sleep(0.1)
    raise RuntimeError("the dev server never answered")


async def _main(what: str, count: int) -> None:
    client = await _connected()
    if what == "enqueue":
        for first in range(0, count, AT_ONCE):
            several = range(first, min(first + AT_ONCE, count))
            await asyncio.gather(*(_start(client, n) for n in several))
        return
    worker = Worker(
        client,
        task_queue=TASK_QUEUE,
        workflows=[ThreeSteps],
        activities=[ask, tool, answer],
        max_concurrent_activities=AT_ONCE,
        max_concurrent_workflow_tasks=AT_ONCE,
    )
    await worker.run()


async def _start(client: Any, number: int) -> None:
    await client.start_workflow(
        "ThreeSteps",
        f"Do the three steps, {number}.",
        id=str(uuid.uuid4()),
        task_queue=TASK_QUEUE,
    )


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0))
