"""Tools that ask servers on the network: `http_fetch` reads, `http_send` changes."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping
from typing import Any, ClassVar

import httpx2

from agentos.integrations.models.hosts import Hosts
from agentos.integrations.tools.base import Repeat, Tier, ToolContext, ToolResult, ToolSpec
from agentos.integrations.tools.building import BuiltInTool, arguments_of, failed
from agentos.integrations.tools.http_client import AnswerTooLong, http_client
from agentos.integrations.tools.outputs import shown, size_of
from agentos.integrations.tools.routes import session_routes

_MOST_BYTES = 8 * 1024 * 1024
_MOST_SECONDS = 60.0
_MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OURS = {"user-agent": "AgentOS", "accept": "*/*", "accept-encoding": "gzip"}
# What the client sets itself. The caller's would only contradict it.
_NOT_YOURS = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "accept-encoding", "upgrade")
)
_TOLD_HEADERS = ("content-type", "location", "retry-after", "last-modified", "etag")

_URL: dict[str, Any] = {
    "type": "string",
    "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://",
    "maxLength": 8000,
    "description": "A whole http:// or https:// URL.",
}
_HEADERS: dict[str, Any] = {
    "type": "object",
    "maxProperties": 50,
    "propertyNames": {"pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$"},
    "additionalProperties": {
        "type": "string",
        "maxLength": 8000,
        "pattern": "^[\\t\\x20-\\x7e]*$",
    },
    "description": "Headers to send, by name.",
}


class _HttpTool(BuiltInTool):
    # What is said of a request that was sent and not answered.
    _doubt: ClassVar[dict[str, Any]] = {}

    def __init__(self, *, hosts: Hosts = "public"):
        self._hosts = hosts

    async def _ask(
        self,
        context: ToolContext,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        follow: bool,
    ) -> ToolResult:
        if not context.allowed_hosts:
            return failed("This session may not reach any host: none is allowed.")
        routes = session_routes(context.allowed_hosts, self._hosts)
        seconds = min(_MOST_SECONDS, context.limits.seconds)
        try:
            # In all: an answer that comes a byte at a time is none.
            async with (
                asyncio.timeout(seconds),
                http_client(routes, read_seconds=seconds, most_bytes=_MOST_BYTES) as client,
            ):
                return await _answered(client, method, url, headers, body, context, follow)
        except AnswerTooLong:
            return failed(f"The answer is longer than {size_of(_MOST_BYTES)} and was not read.")
        except httpx2.InvalidURL:
            return failed("This is not a valid URL.")
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol) as error:
            return failed(f"The request failed: {error}")
        except (TimeoutError, httpx2.TimeoutException):
            return failed(f"There was no answer within {seconds:g} seconds.", **self._doubt)
        except httpx2.TransportError as error:
            return failed(f"The request failed: {error}", **self._doubt)


class HttpFetch(_HttpTool):
    """Reads from a server."""

    spec = ToolSpec(
        name="http_fetch",
        description=(
            "Fetch a URL with GET or HEAD. Only hosts allowed for this session can be reached. "
            "Returns status, the most telling headers and the body; redirects are followed."
        ),
        schema=arguments_of(
            {
                "url": _URL,
                "method": {"type": "string", "enum": ["GET", "HEAD"], "default": "GET"},
                "headers": _HEADERS,
            },
            "url",
        ),
        # Reading, but what is read for could be given away in the URL.
        tier=Tier.DANGEROUS,
        repeat=Repeat.ALWAYS,
    )

    async def do(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        method = arguments.get("method", "GET")
        headers = arguments.get("headers", {})
        return await self._ask(context, method, arguments["url"], headers, None, follow=True)


class HttpSend(_HttpTool):
    """Changes something on a server."""

    _doubt: ClassVar[dict[str, Any]] = {"uncertain": True}

    spec = ToolSpec(
        name="http_send",
        description=(
            "Send a request that changes something: POST, PUT, PATCH or DELETE. Only hosts allowed "
            "for this session can be reached. It carries an Idempotency-Key. Redirects are not "
            "followed. Returns status, the most telling headers and the body."
        ),
        schema=arguments_of(
            {
                "url": _URL,
                "method": {"type": "string", "enum": ["POST", "PUT", "PATCH", "DELETE"]},
                "headers": _HEADERS,
                "body": {
                    "type": "string",
                    "maxLength": 1_000_000,
                    "description": "The body as text. Set a Content-Type that fits; the default is application/json.",
                },
            },
            "url",
            "method",
        ),
        tier=Tier.DESTRUCTIVE,
        repeat=Repeat.NEVER,
    )

    async def do(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        body = arguments["body"].encode() if "body" in arguments else None
        headers = {} if body is None else {"content-type": "application/json"}
        headers |= {name.lower(): value for name, value in arguments.get("headers", {}).items()}
        headers["idempotency-key"] = context.idempotency_key
        return await self._ask(
            context, arguments["method"], arguments["url"], headers, body, follow=False
        )


async def _answered(
    client: httpx2.AsyncClient,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    context: ToolContext,
    follow: bool,
) -> ToolResult:
    wanted = {name: text for name, text in headers.items() if name.lower() not in _NOT_YOURS}
    for _ in range(_MOST_REDIRECTS + 1):
        request = client.build_request(method, url, headers=_OURS | wanted, content=body)
        if request.url.scheme not in ("http", "https") or not request.url.host:
            return failed(
                f"Only http:// and https:// URLs with a host are fetched, not {url[:200]}."
            )
        if request.url.userinfo:
            return failed("A URL with a user name is not fetched; use an Authorization header.")
        response = await client.send(request, stream=True)
        try:
            if not follow or response.status_code not in _REDIRECTS or not response.next_request:
                return await _told(response, context)
            onward = response.next_request.url
        finally:
            await response.aclose()
        # Each hop is checked like the first. Headers were meant for the host they were given for.
        if (onward.scheme, onward.host, onward.port) != (
            request.url.scheme,
            request.url.host,
            request.url.port,
        ):
            wanted = {}
        url = str(onward)
    return failed(f"More than {_MOST_REDIRECTS} redirects; the last one led to {url}.")


async def _told(response: httpx2.Response, context: ToolContext) -> ToolResult:
    data = b"".join([part async for part in response.aiter_raw()])
    if response.headers.get("content-encoding", "").lower() in ("gzip", "x-gzip", "deflate"):
        data, whole = _unpacked(data)
        if not whole:
            return failed(f"The answer is longer than {size_of(_MOST_BYTES)} when unpacked.")
    told = [f"{response.status_code} {response.reason_phrase}".rstrip(), f"url: {response.url}"]
    told += [
        f"{name}: {response.headers[name]}" for name in _TOLD_HEADERS if name in response.headers
    ]
    if data:
        told += ["", await shown(_as_utf8(data, response), context.keep)]
    return ToolResult(
        "\n".join(told),
        failed=response.status_code >= 400,
        details={"status": response.status_code, "bytes": len(data), "url": str(response.url)},
    )


def _unpacked(data: bytes) -> tuple[bytes, bool]:
    """The data unpacked, and whether that is all of it: a small answer may unpack to gigabytes."""
    unpacking = zlib.decompressobj(wbits=47)
    try:
        plain = unpacking.decompress(data, _MOST_BYTES)
    except zlib.error:
        return data, True
    return plain, not unpacking.unconsumed_tail


def _as_utf8(data: bytes, response: httpx2.Response) -> bytes:
    """Text that says it is in another encoding, in ours."""
    charset = response.charset_encoding
    if charset is None or charset.lower() in ("utf-8", "utf8", "us-ascii"):
        return data
    try:
        return data.decode(charset, errors="replace").encode()
    except (LookupError, UnicodeError):  # an encoding that nobody knows
        return data
