"""Small servers on loopback for the tools to talk to."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class WebServer:
    """An HTTP server that remembers what it was asked."""

    port: int
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    # Set by the first request.
    first: threading.Event = field(default_factory=threading.Event)

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str = "/") -> str:
        return f"http://{self.place}{path}"


@asynccontextmanager
async def web_server() -> AsyncIterator[WebServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    running = WebServer(server.server_address[1])
    server.running = running  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield running
    finally:
        await asyncio.to_thread(server.shutdown)
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Otherwise each answer waits 40 ms for the client to say that it has its head.
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        running: WebServer = self.server.running  # type: ignore[attr-defined]
        headers = {name.lower(): value for name, value in self.headers.items()}
        running.asked.append((self.command, self.path, headers, body))
        running.first.set()
        status, kind, data, more = _page(self.path)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815


def _page(path: str) -> tuple[int, str, bytes, dict[str, str]]:
    text = "text/plain; charset=utf-8"
    if path.startswith("/to?"):
        return 302, text, b"elsewhere", {"Location": path.removeprefix("/to?")}
    if path == "/latin":
        return 200, "text/plain; charset=iso-8859-1", "grün".encode("latin-1"), {}
    if path == "/zipped":
        return 200, text, gzip.compress(b"unpacked"), {"Content-Encoding": "gzip"}
    if path == "/bomb":
        return 200, text, gzip.compress(bytes(32 * 2**20)), {"Content-Encoding": "gzip"}
    if path == "/binary":
        return 200, "image/png", b"\x89PNG\0\0" * 10, {}
    if path == "/huge":
        return 200, text, b"x" * (9 * 2**20), {}
    if path == "/missing":
        return 404, text, b"no such page", {}
    return 200, text, f"hello from {path}".encode(), {}
