"""Peer: three steps on DBOS. Runs in DBOS's own environment, with nothing of ours.

`enqueue N` puts workflows into its queue; `work ID` executes them until it is ended. Every finished
workflow is one byte on standard output. Its system database is $DATABASE_URL.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from typing import Any

from dbos import DBOS, DBOSClient  # type: ignore[import-not-found]

QUEUE = "bench"
AT_ONCE = 64
# Its default is a second, which would leave it idle between two batches.
POLL_SECONDS = 0.05
POOL = 20


async def _model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    if len(messages) == 1:
        plan = [{"step": "a", "status": "done"}]
        return {"role": "assistant", "call": {"name": "update_plan", "arguments": {"plan": plan}}}
    return {"role": "assistant", "text": "Done."}


async def _tool(call: dict[str, Any]) -> dict[str, Any]:
    return {"role": "tool", "name": call["name"], "text": f"{len(call['arguments']['plan'])} steps"}


model = DBOS.step()(_model)
tool = DBOS.step()(_tool)


async def _three_steps(prompt: str) -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "text": prompt}]
    messages.append(await model(messages))
    messages.append(await tool(messages[-1]["call"]))
    messages.append(await model(messages))
    os.write(1, b".")
    return str(messages[-1]["text"])


workflow = DBOS.workflow(name="three_steps")(_three_steps)


def _config(executor: str) -> dict[str, Any]:
    return {
        "name": "bench",
        "system_database_url": os.environ["DATABASE_URL"],
        "sys_db_pool_size": POOL,
        "executor_id": executor,
        "application_version": "1",
        "log_level": "ERROR",
    }


def _work(executor: str) -> None:
    DBOS(config=_config(executor))
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=AT_ONCE, polling_interval_sec=POLL_SECONDS)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    ended.wait()
    # What is left is recovered by the next one of the same name.
    os._exit(0)


async def _enqueue(count: int) -> None:
    client = DBOSClient(system_database_url=os.environ["DATABASE_URL"])
    options = {"workflow_name": "three_steps", "queue_name": QUEUE, "app_version": "1"}
    for first in range(0, count, POOL):
        several = range(first, min(first + POOL, count))
        await asyncio.gather(
            *(client.enqueue_async(options, f"Do the three steps, {n}.") for n in several)
        )
    client.destroy()


def _prepare() -> None:
    DBOS(config=_config("prepare"))
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=AT_ONCE, polling_interval_sec=POLL_SECONDS)
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "work":
        _work(sys.argv[2])
    elif sys.argv[1] == "prepare":
        _prepare()
    else:
        asyncio.run(_enqueue(int(sys.argv[2])))
