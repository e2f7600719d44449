"""The headers of an ASGI scope, as far as the gateway reads them itself."""

from __future__ import annotations

from collections.abc import Iterable

from agentos.tenancy.edge import ACCESS_COOKIE
from agentos.tenancy.tokens import Unauthenticated


class Headers:
    __slots__ = ("_headers",)

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]):
        self._headers = dict(headers)

    def get(self, name: bytes) -> str | None:
        value = self._headers.get(name)
        return None if value is None else value.decode("latin-1")

    def bearer(self) -> str | None:
        authorization = self.get(b"authorization")
        if authorization is None:
            return None
        scheme, _, credential = authorization.partition(" ")
        if scheme.lower() != "bearer" or not credential.strip():
            raise Unauthenticated("The Authorization header must be `Bearer …`.")
        return credential.strip()

    def cookie(self) -> str | None:
        """The access token of a browser that asked for it as a cookie."""
        for part in (self.get(b"cookie") or "").split(";"):
            key, _, value = part.strip().partition("=")
            if key == ACCESS_COOKIE:
                return value
        return None
