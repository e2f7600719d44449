"""Peer: three nodes of a LangGraph graph with its Postgres checkpointer, in its own environment.

`work` runs graphs until it is ended, as many at once as our worker; LangGraph's open-source part
has no queue. Every finished graph is one byte on standard output. Checkpoints are in $DATABASE_URL.
"""

from __future__ import annotations

import asyncio
import operator
import os
import sys
import uuid
from typing import Annotated, Any, TypedDict

import uvloop
from langgraph.checkpoint.postgres.aio import (  # type: ignore[import-not-found]
    AsyncPostgresSaver,
)
from langgraph.graph import END, START, StateGraph  # type: ignore[import-not-found]
from psycopg.rows import dict_row  # type: ignore[import-not-found]
from psycopg_pool import AsyncConnectionPool  # type: ignore[import-not-found]

AT_ONCE = 64
POOL = 16
# A saver makes one call at a time; with several of them they do not wait for each other.
SAVERS = int(os.environ.get("LANGGRAPH_SAVERS", POOL))
# The step is on disk before the next one begins, as in the others. Its default is "async".
DURABILITY = os.environ.get("LANGGRAPH_DURABILITY", "sync")


class State(TypedDict):
    messages: Annotated[list[dict[str, Any]], operator.add]


async def _ask(_: State) -> dict[str, Any]:
    plan = [{"step": "a", "status": "done"}]
    call = {"name": "update_plan", "arguments": {"plan": plan}}
    return {"messages": [{"role": "assistant", "call": call}]}


async def _tool(state: State) -> dict[str, Any]:
    plan = state["messages"][-1]["call"]["arguments"]["plan"]
    return {"messages": [{"role": "tool", "name": "update_plan", "text": f"{len(plan)} steps"}]}


async def _answer(_: State) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "text": "Done."}]}


def _graph(saver: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("ask", _ask)
    builder.add_node("tool", _tool)
    builder.add_node("answer", _answer)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "tool")
    builder.add_edge("tool", "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=saver)


async def _keep_running(graph: Any) -> None:
    while True:
        start = {"messages": [{"role": "user", "text": "Do the three steps."}]}
        config = {"configurable": {"thread_id": str(uuid.uuid4())}}
        await graph.ainvoke(start, config, durability=DURABILITY)
        os.write(1, b".")


async def _pool() -> Any:
    pool = AsyncConnectionPool(
        os.environ["DATABASE_URL"],
        min_size=POOL,
        max_size=POOL,
        # What its own documentation sets.
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        open=False,
    )
    await pool.open()
    return pool


async def _main(what: str) -> None:
    pool = await _pool()
    if what == "prepare":
        await AsyncPostgresSaver(pool).setup()
        await pool.close()
        return
    graphs = [_graph(AsyncPostgresSaver(pool)) for _ in range(SAVERS)]
    await asyncio.gather(*(_keep_running(graphs[n % SAVERS]) for n in range(AT_ONCE)))


if __name__ == "__main__":
    uvloop.run(_main(sys.argv[1]))
