"""Serves the dashboard: the files of its build, from memory.

Whatever path somebody asks for is looked up in a dictionary of what was loaded at the start, so no
path leads anywhere else.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from starlette.types import Scope, Send

from agentos import web_build
from agentos.gateway.edge import SECURITY_HEADERS
from agentos.gateway.headers import Headers

_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    b"font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; "
    b"base-uri 'self'; frame-ancestors 'none'"
)
_HEADERS = [
    *(
        item
        for item in SECURITY_HEADERS
        if item[0] not in (b"content-security-policy", b"cache-control")
    ),
    (b"content-security-policy", _POLICY),
]
# The names of assets hold a digest of what is in them.
_FOREVER = b"public, max-age=31536000, immutable"
_ASK_AGAIN = b"no-cache"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
_BASE = re.compile(r'<base href="/"\s*/?>')
_API_ONLY = b"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>AgentOS</title></head>
<body>
<h1>AgentOS</h1>
<p>The API is running. This installation has no dashboard.</p>
<p>In a source checkout, <code>make up</code> builds it. It needs Node 20.19 or newer, or a connection
to a package index to get one.</p>
<p><a href="api/openapi.json">The API's description</a></p>
</body>
</html>
"""


@dataclass(frozen=True)
class _Body:
    """One encoding of a file."""

    content: bytes
    etag: str
    headers: list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class File:
    """A file as it is sent, plain and packed."""

    plain: _Body
    packed: _Body | None

    async def answer(self, scope: Scope, send: Send) -> None:
        headers = Headers(scope["headers"])
        packed = self.packed if _takes_gzip(headers.get(b"accept-encoding")) else None
        body = packed or self.plain
        known = _has(headers.get(b"if-none-match"), body.etag)
        # The length would be that of the body which is not sent.
        start = [item for item in body.headers if not known or item[0] != b"content-length"]
        await send(
            {"type": "http.response.start", "status": 304 if known else 200, "headers": start}
        )
        silent = known or scope["method"] == "HEAD"
        await send({"type": "http.response.body", "body": b"" if silent else body.content})


class Ui:
    """The pages and files of the dashboard."""

    def __init__(self, files: dict[str, File], index: File | None):
        self._files = files
        self._index = index

    def find(self, scope: Scope) -> File | None:
        """What is to be sent; None: this is not for the dashboard."""
        if scope["method"] not in ("GET", "HEAD"):
            return None
        path = scope["path"]
        if path == "/":
            return self._index or _API_ONLY_PAGE
        # Other paths are the pages' own to make sense of. A file that is not there is not a page:
        # a browser would take the page for a script.
        is_page = "." not in path.rpartition("/")[2] and not path.startswith("/assets/")
        return self._files.get(path) or (self._index if is_page else None)


def load_ui(base_path: str, directory: Path | None = None) -> Ui:
    """The dashboard as it was built, for pages below this path; without one, a page that says so."""
    directory = directory or web_build.UI
    files = {
        f"/{path.relative_to(directory).as_posix()}": _read(path, directory)
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.suffix != ".gz" and path.name != web_build.STAMP
    }
    index = directory / "index.html"
    if not index.is_file():
        return Ui(files, None)
    page = _BASE.sub(f'<base href="{base_path}/">', index.read_text()).encode()
    files["/index.html"] = file = _file(".html", page, gzip.compress(page, 9, mtime=0), _ASK_AGAIN)
    return Ui(files, file)


def _read(path: Path, directory: Path) -> File:
    packed = path.with_name(f"{path.name}.gz")
    lasting = path.is_relative_to(directory / "assets")
    return _file(
        path.suffix,
        path.read_bytes(),
        packed.read_bytes() if packed.is_file() else None,
        _FOREVER if lasting else _ASK_AGAIN,
    )


def _file(suffix: str, plain: bytes, packed: bytes | None, caching: bytes) -> File:
    shared = [
        *_HEADERS,
        (b"content-type", _MEDIA_TYPES.get(suffix, "application/octet-stream").encode()),
        (b"cache-control", caching),
        (b"vary", b"accept-encoding"),
    ]
    return File(
        _body(plain, shared),
        None if packed is None else _body(packed, [*shared, (b"content-encoding", b"gzip")]),
    )


def _body(content: bytes, headers: list[tuple[bytes, bytes]]) -> _Body:
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    length = (b"content-length", b"%d" % len(content))
    return _Body(content, etag, [*headers, (b"etag", etag.encode()), length])


def _takes_gzip(accepted: str | None) -> bool:
    for item in (accepted or "").lower().split(","):
        name, _, weight = item.partition(";")
        if name.strip() == "gzip":
            return weight.replace(" ", "").rstrip("0.") != "q="
    return False


def _has(known: str | None, etag: str) -> bool:
    """Whether a browser has this already. A proxy may have marked the tag as weak."""
    tags = [tag.strip().removeprefix("W/") for tag in (known or "").split(",")]
    return etag in tags or "*" in tags


_API_ONLY_PAGE = _file(".html", _API_ONLY, None, b"no-store")
