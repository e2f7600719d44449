"""A small HTTP client for the gateway, on the standard library so that it loads in a moment."""

from __future__ import annotations

import http.client
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, Annotated, Any
from urllib.parse import quote, urlencode, urlsplit

import typer

from agentos import __version__
from agentos.cli import profile
from agentos.cli.failures import GatewayError
from agentos.cli.profile import SignIn
from agentos.kernel.errors import Invalid, Kind

Url = Annotated[
    str | None,
    typer.Option("--url", help="Address of the gateway. Default: AGENTOS_URL, or the last login."),
]

DEFAULT_URL = "http://127.0.0.1:8700"

_KEYED = frozenset({"POST", "PATCH", "DELETE"})
_PAGE = 200  # the most a page holds
_TIMEOUT = 30.0  # seconds; longer than any answer the gateway works on
_RETRY_AFTER = 0.2  # seconds; with nothing there, the user hears of it within half a second
_MOST_RETRY_AFTER = 3.0
# The gateway's event stream says something every 15 seconds; twice as long is a dead connection.
_SILENCE = 40.0
_PIECE = 256 * 1024
_EXPIRY_MARGIN = 10.0  # seconds; a token that expires on the way would cost a round trip

_KINDS = {
    400: Kind.INVALID,
    401: Kind.UNAUTHENTICATED,
    402: Kind.PLAN,
    403: Kind.FORBIDDEN,
    404: Kind.NOT_FOUND,
    405: Kind.INVALID,
    409: Kind.CONFLICT,
    413: Kind.TOO_LARGE,
    422: Kind.INVALID,
    429: Kind.LIMITED,
    503: Kind.TRANSIENT,
}

Open = Callable[[], IO[bytes]]
Response = http.client.HTTPResponse


class Client:
    """Requests to one gateway with one credential."""

    def __init__(self, url: str, sign_in: SignIn | None = None, *, stored: bool = False):
        """`stored`: the sign-in is the profile's, and what replaces it is kept there."""
        self.url = url
        self._parts = urlsplit(url)
        self._sign_in = sign_in
        self._stored = stored

    @classmethod
    def open(cls, url: str | None = None) -> Client:
        """The gateway of the flag, the environment or the last login, and the credential for it."""
        known = profile.load()
        where = gateway_address(url, known)
        api_key = os.environ.get("AGENTOS_API_KEY")
        if api_key:
            return cls(where, SignIn(api_key=api_key))
        sign_in = known.sign_ins.get(where)
        if sign_in is None:
            raise GatewayError(
                Kind.UNAUTHENTICATED,
                "not_signed_in",
                f"You are not signed in to {where}.",
                f"Sign in with `agentos login --url {where}`, or set AGENTOS_API_KEY.",
            )
        return cls(where, sign_in, stored=True)

    def get(self, path: str, **query: Any) -> Any:
        return self._json("GET", path, query=query)

    def post(self, path: str, body: object = None) -> Any:
        return self._json("POST", path, body=body)

    def put(self, path: str, body: object) -> Any:
        return self._json("PUT", path, body=body)

    def patch(self, path: str, body: object) -> Any:
        return self._json("PATCH", path, body=body)

    def delete(self, path: str) -> None:
        self._json("DELETE", path)

    def post_once(self, path: str, body: object) -> Any:
        """A request that must not be repeated, because an Idempotency-Key has no effect on it."""
        return self._json("POST", path, body=body, repeat=False)

    def items(self, path: str, *, limit: int | None = None, **query: Any) -> list[dict[str, Any]]:
        """A list, page by page, up to `limit` items."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while limit is None or len(found) < limit:
            size = _PAGE if limit is None else min(_PAGE, limit - len(found))
            page = self.get(path, **query, limit=size, cursor=cursor)
            found += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        return found

    def upload(self, path: str, source: Open, *, length: int | None, content_type: str) -> Any:
        """Sends a file. Without a `length` it can be read only once, and is not sent again."""
        headers = {"Content-Type": content_type}
        if length is not None:
            headers["Content-Length"] = str(length)
        repeat = length is not None
        with self._answer("PUT", path, headers=headers, source=source, repeat=repeat) as answer:
            return _document(answer[1], self.url)

    def save(self, path: str, into: IO[bytes], **query: Any) -> None:
        """Writes an answer to a file as it comes; if it breaks off, GatewayError."""
        with self._answer("GET", path, query=query, stream=True) as (response, _):
            while True:
                try:
                    piece = response.read(_PIECE)
                except (OSError, http.client.HTTPException) as error:
                    raise self._unreachable(error) from error
                if not piece:
                    break
                into.write(piece)
            if response.length:
                raise self._unreachable(http.client.IncompleteRead(b"", response.length))

    @contextmanager
    def listen(self, path: str, headers: Mapping[str, str], **query: Any) -> Iterator[Response]:
        """A stream without an end; ends with OSError when nothing comes for a while."""
        with self._answer(
            "GET", path, query=query, headers=headers, stream=True, timeout=_SILENCE
        ) as (response, _):
            yield response

    def _json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        repeat: bool = True,
    ) -> Any:
        payload = None if body is None else json.dumps(body).encode()
        headers = {} if payload is None else {"Content-Type": "application/json"}
        with self._answer(
            method, path, query=query, headers=headers, payload=payload, repeat=repeat
        ) as (response, answer):
            return None if response.status == 204 else _document(answer, self.url)

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        payload: bytes | None = None,
        source: Open | None = None,
        repeat: bool = True,
        stream: bool = False,
        timeout: float = _TIMEOUT,
    ) -> Iterator[tuple[Response, bytes]]:
        """A good answer with its body, unless that is a `stream`; after mending what can be mended."""
        given = {key: value for key, value in (query or {}).items() if value is not None}
        target = self._parts.path + path + (f"?{urlencode(given)}" if given else "")
        sent = {"Accept": "application/json", "User-Agent": f"agentos-cli/{__version__}"}
        sent |= headers or {}
        if method in _KEYED:
            # One for all attempts: whichever arrives, it has one effect.
            sent["Idempotency-Key"] = str(uuid.uuid4())
        may_repeat, may_refresh = repeat, self._stored and (repeat or source is None)
        while True:
            sent |= self._authorization()
            connection = self._connection(timeout)
            response: Response | None = None
            try:
                try:
                    response = _exchange(connection, method, target, sent, payload, source)
                    good = response.status < 300
                    body = b"" if good and stream else response.read()
                except (OSError, http.client.HTTPException) as error:
                    if not may_repeat:
                        raise self._unreachable(error) from error
                    may_repeat = False
                    time.sleep(_RETRY_AFTER)
                    continue
                if good:
                    yield response, body
                    return
                if response.status == 503 and may_repeat:
                    may_repeat = False
                    time.sleep(_pause(response))
                    continue
                problem = _problem(response.status, body, self.url)
                if problem.code != "token_expired" or not may_refresh:
                    raise problem
                may_refresh = False
                self._refresh()
            finally:
                # The response holds the socket, too, where the gateway closes after the answer.
                if response is not None:
                    response.close()
                connection.close()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        secure = self._parts.scheme == "https"
        connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        return connect(self._parts.hostname or "", self._parts.port, timeout=timeout)

    def _authorization(self) -> dict[str, str]:
        how = self._sign_in
        if how is None:
            return {}
        if how.api_key is None and self._stored and how.expires_at < time.time() + _EXPIRY_MARGIN:
            how = self._refresh()
        return {"Authorization": f"Bearer {how.api_key or how.access_token}"}

    def _refresh(self) -> SignIn:
        """Takes a new pair of tokens, or the one that another process has just taken."""
        assert self._sign_in is not None
        with profile.locked():
            known = profile.load()
            stored = known.sign_ins.get(self.url)
            if stored is None or stored.refresh_token is None:
                raise _sign_in_again(self.url)
            if stored.access_token == self._sign_in.access_token:
                body = {"refresh_token": stored.refresh_token, "tenant": stored.tenant}
                try:
                    pair = Client(self.url).post_once("/api/auth/refresh", body)
                except GatewayError as error:
                    if error.kind in (Kind.UNAUTHENTICATED, Kind.FORBIDDEN):
                        raise _sign_in_again(self.url, error.message) from error
                    raise
                stored = replace(stored, **token_fields(pair))
                profile.save(replace(known, sign_ins={**known.sign_ins, self.url: stored}))
            self._sign_in = stored
            return stored

    def _unreachable(self, error: Exception) -> GatewayError:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return GatewayError(
            Kind.TRANSIENT,
            "gateway_unreachable",
            f"No answer from {self.url}: {reason}.",
            "Start AgentOS with `agentos up`, or name the right address with --url or AGENTOS_URL.",
        )


def token_fields(pair: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a sign-in that a pair of tokens replaces."""
    return {
        "access_token": pair["access_token"],
        "refresh_token": pair["refresh_token"],
        "expires_at": time.time() + pair["expires_in"],
    }


def gateway_address(url: str | None, known: profile.Profile) -> str:
    """The address that a flag, the environment or the last login names, in this order."""
    return address(url or os.environ.get("AGENTOS_URL") or known.current or DEFAULT_URL)


def address(text: str) -> str:
    """The address of a gateway in the one form it is remembered by."""
    try:
        parts = urlsplit(text.strip())
        plain = not (parts.query or parts.fragment or "@" in parts.netloc or parts.port == 0)
        good = plain and parts.scheme in ("http", "https") and parts.hostname
    except ValueError:
        good = False
    if not good:
        raise Invalid(
            "The address of the gateway is not a plain http:// or https:// URL.",
            hint=f"It looks like {DEFAULT_URL}.",
        )
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def segment(text: str) -> str:
    """Text as one segment of a path, whatever it holds."""
    # The gateway decodes before it routes, so a slash would lead to another route.
    if text in ("", ".", "..") or "/" in text:
        raise Invalid("A name or id is not empty, `.` or `..`, and has no slash.")
    return quote(text, safe="")


def _exchange(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    headers: Mapping[str, str],
    payload: bytes | None,
    source: Open | None,
) -> Response:
    if source is None:
        connection.request(method, target, payload, dict(headers))
        return connection.getresponse()
    with source() as file:
        try:
            connection.request(
                method, target, file, dict(headers), encode_chunked="Content-Length" not in headers
            )
        except (BrokenPipeError, ConnectionResetError):
            # Refused before all of it was sent; the answer says why.
            return connection.getresponse()
    return connection.getresponse()


def _pause(response: Response) -> float:
    wanted = response.headers.get("Retry-After", "")
    return min(float(wanted), _MOST_RETRY_AFTER) if wanted.isdigit() else _RETRY_AFTER


def _document(body: bytes, url: str) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise _not_agentos(url) from None


def _problem(status: int, body: bytes, url: str) -> GatewayError:
    """The gateway's problem document as an error of ours."""
    kind = _KINDS.get(status, Kind.INTERNAL)
    try:
        document = json.loads(body)
        code, detail = str(document["code"]), str(document["detail"])
    except (ValueError, KeyError, TypeError):
        return _not_agentos(url, status)
    # The gateway explains itself to programs; a person at a terminal signs in.
    hint = "Sign in with `agentos login`." if kind is Kind.UNAUTHENTICATED else document.get("hint")
    if code == "wrong_credentials":
        hint = document.get("hint")
    elif code == "no_such_route":
        detail, hint = f"{url} has no such function.", "Is it as new as this command?"
    return GatewayError(kind, code, detail, hint, document.get("request_id"))


def _not_agentos(url: str, status: int | None = None) -> GatewayError:
    answered = "something" if status is None else f"a {status}"
    return GatewayError(
        Kind.TRANSIENT,
        "not_agentos",
        f"{url} answered with {answered} that is not from AgentOS.",
        "Check the address; a proxy in front of AgentOS may be answering in its place.",
    )


def _sign_in_again(url: str, reason: str = "The sign-in has ended.") -> GatewayError:
    return GatewayError(
        Kind.UNAUTHENTICATED,
        "sign_in_ended",
        reason,
        f"Sign in again with `agentos login --url {url}`.",
    )
