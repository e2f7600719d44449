"""The command as users run it, and a small server that plays the gateway."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Cli:
    """Runs `agentos` in a process of its own, in an environment that holds only what a test says."""

    env: dict[str, str]

    async def __call__(self, *args: str, stdin: str = "", code: int = 0, **env: str) -> Result:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "agentos.cli.main", *args),
            env=self.env | env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(stdin.encode())
        result = Result(process.returncode or 0, out.decode(), err.decode())
        assert result.code == code, f"{args} ended with {result}"
        assert "Traceback" not in result.err
        return result


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(
        {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "AGENTOS_DATA_DIR": str(tmp_path / "data"),
            "PYTHONWARNINGS": "error",
        }
    )


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Hang(Exception):
    """A handler raises it to close the connection without an answer."""


Answer = tuple[int, Any]
Handler = Callable[[Request], Answer]


@dataclass
class FakeGateway:
    """Answers with what `handler` returns, and remembers what it was asked."""

    url: str
    handler: Handler = field(default=lambda _: (200, {}))
    seen: list[Request] = field(default_factory=list)


@pytest.fixture
def fake() -> Iterator[FakeGateway]:
    class Handle(BaseHTTPRequestHandler):
        def __getattr__(self, name: str) -> Any:
            # The base class looks for do_GET, do_POST and so on.
            if name.startswith("do_"):
                return self._respond
            raise AttributeError(name)

        def _respond(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, self.path, headers, self.rfile.read(length))
            gateway.seen.append(request)
            try:
                status, document = gateway.handler(request)
            except Hang:
                return
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            if status == 503:
                self.send_header("retry-after", "0")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handle)
    gateway = FakeGateway(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield gateway
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def _clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that run commands in this process see none of the developer's sign-ins."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("agentos.cli.client._RETRY_AFTER", 0.0)
    for name in ("AGENTOS_URL", "AGENTOS_API_KEY", "AGENTOS_DEBUG"):
        monkeypatch.delenv(name, raising=False)
