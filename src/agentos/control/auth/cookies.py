"""The sign-in of a browser: two cookies that scripts cannot read."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request, Response

from agentos.control.auth.schemas import TokenPair
from agentos.kernel.settings import Settings
from agentos.tenancy.edge import ACCESS_COOKIE, REFRESH_COOKIE

_DAY_SECONDS = 86_400


@dataclass(frozen=True)
class SignInCookies:
    # Where browsers see AgentOS, without a slash at the end.
    base_path: str
    secure: bool
    login_seconds: int

    @classmethod
    def of(cls, settings: Settings) -> SignInCookies:
        return cls(
            base_path=settings.base_path,
            secure=settings.url.startswith("https:"),
            login_seconds=settings.refresh_token_days * _DAY_SECONDS,
        )

    def hand_over(self, response: Response, pair: TokenPair) -> TokenPair:
        """Sets both cookies; the answer holds no token any more."""
        self._set(response, ACCESS_COOKIE, pair.access_token, pair.expires_in)
        self._set(response, REFRESH_COOKIE, pair.refresh_token, self.login_seconds)
        return pair.model_copy(update={"access_token": "", "refresh_token": ""})

    def clear(self, response: Response) -> None:
        for name in (ACCESS_COOKIE, REFRESH_COOKIE):
            self._set(response, name, "", 0)

    def _set(self, response: Response, name: str, value: str, max_age: int) -> None:
        response.set_cookie(
            name,
            value,
            max_age=max_age,
            # The refresh token goes only where it is taken.
            path=f"{self.base_path}/" if name == ACCESS_COOKIE else f"{self.base_path}/api/auth",
            httponly=True,
            samesite="lax",
            secure=self.secure,
        )


def refresh_token_of(request: Request) -> str | None:
    return request.cookies.get(REFRESH_COOKIE) or None
