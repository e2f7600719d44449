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
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
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
        print("=====", label, round(time.time() - t, 1), r)
        for s in seen: print("   ", s)
        seen.clear()
        return r
    await go("plain", lab.key, "demo", "What is 12*7?")
    await go("bash", lab.key, "demo", "--permission-mode", "bypassPermissions", 'Do it.\n```demo\ncall Bash {"command": "echo made-$((40+2)) | tee made.txt", "description": "x"}\nsay The result:\nresult\n```')
    await go("wrong", "sk_wrong", "demo", "What is 12*7?")
    await lab.connect("openai", openai_server)
    openai_server.queue(Reply(text="Let me see.", tool_calls=[ToolCall("Bash", {"command": "echo made-$((40+2))", "description": "x"})]), Reply(text="It is done."))
    await go("openai", lab.key, f"openai/{GPT}", "--permission-mode", "bypassPermissions", "Do it")
    for r in openai_server.requests:
        print(r.method, r.path, r.status, [m["role"] for m in r.json["messages"]] if r.json else None, list(r.json), len(r.body))
        print({k: v for k, v in r.json.items() if k not in ("messages", "tools")})
        print(str(r.json["messages"][-2:])[:1500])
    a = await lab.person.client.put("/api/budgets", json={"scope": "tenant", "cap_micros": 10})
    print(a.status_code, a.text)
    await go("budget", lab.key, f"openai/{GPT}", "Do it")
    for c in await lab.calls(): print(c)
