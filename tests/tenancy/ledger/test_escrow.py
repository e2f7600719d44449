from __future__ import annotations

from tests.tenancy.ledger.conftest import Bank, amount, finished


async def test_basic(bank: Bank) -> None:
    spender = await bank.tenant(plan="pro")
    await bank.budget(spender, "tenant", 1000)
    async with bank.running() as escrow:
        r = await escrow.reserve(spender, amount(100))
        escrow.settle(r, finished(40))
        r2 = await escrow.reserve(spender, amount(100))
        escrow.release(r2, "nothing")
        await escrow.flush()
        print(await bank.account(spender))
        print(await bank.entries(r))
    await bank.check()
    assert list(bank.directory.iterdir()) == []


async def test_speed(bank: Bank) -> None:
    import asyncio
    import time
    spender = await bank.tenant(plan="pro")
    await bank.budget(spender, "tenant", 10**12)
    async with bank.running() as escrow:
        for rounds in range(4):
            n = 2000
            t = time.perf_counter()
            for i in range(n):
                r = await escrow.reserve(spender, amount(100))
                escrow.settle(r, finished(40))
                if i % 20 == 0: await asyncio.sleep(0)
            e = time.perf_counter() - t
            print("us/call", e / n * 1e6)
            t = time.perf_counter()
            await escrow.flush()
            print("flush us/call", (time.perf_counter() - t) / n * 1e6)
    await bank.check()
