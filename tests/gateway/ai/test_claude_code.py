"""scratch"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import claude_agent_sdk
import pytest
from tests.gateway.ai.conftest import GPT, Lab

from agentos.gateway.ai import proxy
from agentos.testing import Reply
from agentos.testing.scripts import ToolCall
from agentos.testing.vendors import OpenAIServer

CLI = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"


async def claude(home: Path, base: str, key: str, model: str, *args: str) -> tuple[int, str, str]:
    home.mkdir(exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        str(CLI), "-p", "--model", model, *args,
        cwd=home,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CLAUDE_CONFIG_DIR": str(home / ".claude"),
            "IS_SANDBOX": "1",
            "ANTHROPIC_BASE_URL": base,
            "ANTHROPIC_API_KEY": key,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": model,
            **({} if "noness" in str(home) else {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}),
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1",
        },
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(90):
        out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_all(lab: Lab, openai_server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    def see(exchange, path, seconds):
        s = exchange.scope
        seen.append((s["method"], s["path"], s["query_string"], exchange.status, round(seconds, 3)))
    monkeypatch.setattr(proxy, "_observe", see)
    async def go(label, key, model, *args):
        t = time.time()
        r = await claude(tmp_path / label, f"{lab.gateway.url}/api/ai/anthropic", key, model, *args)
        print("=====", label, round(time.time() - t, 1), r[0], r[1][:1500], r[2][-300:])
        for s in seen: print("   ", s)
        seen.clear()
        return r

    B = ("--permission-mode", "bypassPermissions")

    from agentos.gateway.ai.exchange import AiExchange
    orig = AiExchange.body
    async def body(self, most):
        b = await orig(self, most)
        open(f"/tmp/ccbody-{len(seen)}.json", "wb").write(b)
        return b
    monkeypatch.setattr(AiExchange, "body", body)
    await go("ts", lab.key, "demo", *B, 'Do it.\n```demo\ncall ToolSearch {"query":"select:WebFetch,WebSearch"}\ncall WebSearch {"query":"hello"}\nsay Res:\nresult\n```')
    await go("ts2", lab.key, "demo", *B, 'Do it.\n```demo\ncall ToolSearch {"query":"select:WebFetch,WebSearch"}\nthen\ncall WebSearch {"query":"hello"}\nsay Res:\nresult\n```')
    await go("agent", lab.key, "demo", *B, 'Do it.\n```demo\ncall Agent {"description":"d","prompt":"What is 3*5?","subagent_type":"general-purpose"}\nsay Res:\nresult\n```')
    await go("skill", lab.key, "demo", *B, 'Do it.\n```demo\ncall Skill {"skill":"init"}\nsay Res:\nresult\n```')
