from __future__ import annotations
import pytest, asyncio
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelRequestTimeout
from tests.integrations.models.test_native import *  # noqa

@pytest.mark.parametrize("kind", ["openai", "anthropic", "google", "demo"])
async def test_stream_timeout(vendors, books, kind):
    if kind != "demo":
        vendors.servers[kind].queue(Fault.stall(after_chunks=3, reply=SLOWLY))
    agent = Agent(await vendors.model(kind), model_settings={"request_timeout": 0.5})
    async def go():
        async with agent.run_stream("```demo\nsay one two\nwait 5000\nsay three\n```") as result:
            async for p in result.stream_text(delta=True, debounce_by=None):
                print(p)
    with pytest.raises(ModelRequestTimeout):
        await go()
    if kind != "demo":
        await vendors.servers[kind].wait_cancelled()
    print(await vendors.lab.calls())
    assert await books.chains() == [["reserve", "settle"]]

@pytest.mark.parametrize("kind", ["openai", "anthropic", "google", "demo"])
async def test_double_cancel(vendors, books, kind):
    if kind != "demo":
        vendors.servers[kind].queue(Fault.stall(after_chunks=3, reply=SLOWLY))
    agent = Agent(await vendors.model(kind))
    first = asyncio.Event()
    async def go():
        async with agent.run_stream("```demo\nsay one two\nwait 5000\nsay three\n```") as result:
            async for p in result.stream_text(delta=True, debounce_by=None):
                first.set()
    t = asyncio.create_task(go())
    await first.wait()
    for _ in range(8):
        t.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await t
    for _ in range(5): await asyncio.sleep(0.01)
    print(await vendors.lab.calls())
    assert await books.chains() == [["reserve", "settle"]]
