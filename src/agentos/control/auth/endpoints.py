from __future__ import annotations

from typing import Annotated, cast
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response

from agentos.control.auth import service
from agentos.control.auth.schemas import (
    LoginRead,
    PasswordChange,
    Refresh,
    Register,
    SignIn,
    SignOut,
    TokenPair,
    WhoAmI,
)
from agentos.control.members.schemas import InvitationAccept
from agentos.tenancy.edge import ACCESS_COOKIE, PUBLIC, AnonymousTransaction, CurrentWork

router = APIRouter(prefix="/api/auth", tags=["auth"])


async def _auth(request: Request) -> service.Auth:
    return cast(service.Auth, request.app.state.auth)


CurrentAuth = Annotated[service.Auth, Depends(_auth)]


WithCookie = Annotated[
    bool,
    Query(
        description="Also set the access token as a cookie that scripts cannot read, for browsers."
    ),
]


def _with_cookie(
    pair: TokenPair, request: Request, response: Response, *, wanted: bool
) -> TokenPair:
    if wanted:
        response.set_cookie(
            ACCESS_COOKIE,
            pair.access_token,
            max_age=pair.expires_in,
            httponly=True,
            samesite="lax",
            secure=request.app.state.settings.url.startswith("https:"),
        )
    return pair


def _user_agent(request: Request) -> str:
    return request.headers.get("user-agent", "")


@router.post("/token", openapi_extra=PUBLIC)
async def sign_in(
    body: SignIn,
    tx: AnonymousTransaction,
    auth: CurrentAuth,
    request: Request,
    response: Response,
    cookie: WithCookie = False,
) -> TokenPair:
    """Sign in with e-mail and password."""
    pair = await auth.sign_in(tx, body, _user_agent(request), request.state.request_id)
    return _with_cookie(pair, request, response, wanted=cookie)


@router.post("/register", status_code=201, openapi_extra=PUBLIC)
async def register(
    body: Register, tx: AnonymousTransaction, auth: CurrentAuth, request: Request
) -> TokenPair:
    """Create an account with a tenant of its own, where registration is open."""
    return await auth.register(tx, body, _user_agent(request), request.state.request_id)


@router.post("/accept-invitation", status_code=201, openapi_extra=PUBLIC)
async def accept_invitation(
    body: InvitationAccept, tx: AnonymousTransaction, auth: CurrentAuth, request: Request
) -> TokenPair:
    """Join a tenant with the token of an invitation, and sign in."""
    return await auth.accept_invitation(tx, body, _user_agent(request), request.state.request_id)


@router.post("/refresh", openapi_extra=PUBLIC)
async def refresh(
    body: Refresh,
    tx: AnonymousTransaction,
    auth: CurrentAuth,
    request: Request,
    response: Response,
    cookie: WithCookie = False,
) -> TokenPair:
    """Trade a refresh token for a new pair, optionally in another of your tenants."""
    pair = await auth.refresh(tx, body, request.state.request_id)
    return _with_cookie(pair, request, response, wanted=cookie)


@router.post("/logout", status_code=204, openapi_extra=PUBLIC)
async def sign_out(
    body: SignOut,
    tx: AnonymousTransaction,
    auth: CurrentAuth,
    request: Request,
    response: Response,
) -> None:
    """End the sign-in that a refresh token belongs to, and drop the cookie if there is one."""
    await auth.sign_out(tx, body.refresh_token, request.state.request_id)
    response.delete_cookie(ACCESS_COOKIE)


@router.get("/me")
async def who_am_i(work: CurrentWork) -> WhoAmI:
    """Who this credential is, where, and what it may do."""
    return await service.who_am_i(work)


@router.get("/logins")
async def list_logins(work: CurrentWork) -> list[LoginRead]:
    """Your sign-ins that are still alive."""
    return await service.list_logins(work)


@router.delete("/logins/{login_id}", status_code=204)
async def end_login(login_id: UUID, work: CurrentWork) -> None:
    """End one of your sign-ins."""
    await service.end_login(work, login_id)


@router.post("/password", status_code=204)
async def change_password(body: PasswordChange, work: CurrentWork) -> None:
    """Change your password; all your other sign-ins end."""
    await service.change_password(work, body)
