from __future__ import annotations

from contextlib import suppress
from typing import Annotated, cast
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response

from agentos import __version__
from agentos.control.auth import service
from agentos.control.auth.cookies import SignInCookies, refresh_token_of
from agentos.control.auth.demo import asks_from_this_machine, is_page_of_host
from agentos.control.auth.errors import DemoUnavailable, NoRefreshToken
from agentos.control.auth.schemas import (
    LoginRead,
    PasswordChange,
    Refresh,
    Register,
    SignIn,
    SignInOptions,
    SignOut,
    TokenPair,
    WhoAmI,
)
from agentos.control.members.schemas import InvitationAccept
from agentos.tenancy.edge import (
    PUBLIC,
    AnonymousTransaction,
    CurrentWork,
    from_own_page,
    require_own_page,
)
from agentos.tenancy.tokens import Unauthenticated

router = APIRouter(prefix="/api/auth", tags=["auth"])


async def _auth(request: Request) -> service.Auth:
    return cast(service.Auth, request.app.state.auth)


CurrentAuth = Annotated[service.Auth, Depends(_auth)]


AsCookies = Annotated[
    bool,
    Query(
        description="For browsers: the tokens come as cookies that scripts cannot read, and the "
        "answer holds none. Only for pages of AgentOS's own origin."
    ),
]


async def _with_cookie(request: Request, cookie: AsCookies = False) -> bool:
    if cookie:
        # Else another page could sign a browser in as somebody of its choice.
        require_own_page(request)
    return cookie


WithCookie = Annotated[bool, Depends(_with_cookie)]


def _answer(
    pair: TokenPair, request: Request, response: Response, *, in_cookies: bool
) -> TokenPair:
    return _cookies(request).hand_over(response, pair) if in_cookies else pair


def _cookies(request: Request) -> SignInCookies:
    return SignInCookies.of(request.app.state.settings)


def _user_agent(request: Request) -> str:
    return request.headers.get("user-agent", "")


@router.get("/options", openapi_extra=PUBLIC)
async def sign_in_options(
    tx: AnonymousTransaction, auth: CurrentAuth, request: Request
) -> SignInOptions:
    """The ways in: what a sign-in page needs to know."""
    return SignInOptions(
        signup="open" if auth.open_signup else "invite",
        demo=asks_from_this_machine(request) and await auth.demo_is_open(tx),
        version=__version__,
    )


@router.post("/token", openapi_extra=PUBLIC)
async def sign_in(
    body: SignIn,
    tx: AnonymousTransaction,
    auth: CurrentAuth,
    request: Request,
    response: Response,
    cookie: WithCookie,
) -> TokenPair:
    """Sign in with e-mail and password."""
    pair = await auth.sign_in(tx, body, _user_agent(request), request.state.request_id)
    return _answer(pair, request, response, in_cookies=cookie)


@router.post("/demo", openapi_extra=PUBLIC)
async def sign_in_to_demo(
    tx: AnonymousTransaction,
    auth: CurrentAuth,
    request: Request,
    response: Response,
    cookie: AsCookies = False,
) -> TokenPair:
    """Sign in as the owner of the demo tenant: only on the machine that `agentos up` runs on,
    from its own page.
    """
    if not (asks_from_this_machine(request) and is_page_of_host(request)):
        raise DemoUnavailable()
    pair = await auth.sign_in_to_demo(tx, _user_agent(request), request.state.request_id)
    return _answer(pair, request, response, in_cookies=cookie)


@router.post("/register", status_code=201, openapi_extra=PUBLIC)
async def register(
    body: Register,
    tx: AnonymousTransaction,
    auth: CurrentAuth,
    request: Request,
    response: Response,
    cookie: WithCookie,
) -> TokenPair:
    """Create an account with a tenant of its own, where registration is open."""
    pair = await auth.register(tx, body, _user_agent(request), request.state.request_id)
    return _answer(pair, request, response, in_cookies=cookie)


@router.post("/accept-invitation", status_code=201, openapi_extra=PUBLIC)
async def accept_invitation(
    body: InvitationAccept,
    tx: AnonymousTransaction,
    auth: CurrentAuth,
    request: Request,
    response: Response,
    cookie: WithCookie,
) -> TokenPair:
    """Join a tenant with the token of an invitation, and sign in."""
    pair = await auth.accept_invitation(tx, body, _user_agent(request), request.state.request_id)
    return _answer(pair, request, response, in_cookies=cookie)


@router.post("/refresh", openapi_extra=PUBLIC)
async def refresh(
    body: Refresh,
    tx: AnonymousTransaction,
    auth: CurrentAuth,
    request: Request,
    response: Response,
    cookie: WithCookie,
) -> TokenPair:
    """Trade a refresh token for a new pair, optionally in another of your tenants.

    With `?cookie=true`, and none in the body, it is the one in the browser's cookie.
    """
    # Never from the cookie into the body, where a script could read it.
    in_browser = cookie and body.refresh_token is None
    token = refresh_token_of(request) if in_browser else body.refresh_token
    if token is None:
        raise NoRefreshToken()
    pair = await auth.refresh(
        tx, token, body.tenant, request.state.request_id, in_browser=in_browser
    )
    return _answer(pair, request, response, in_cookies=cookie)


@router.post("/logout", status_code=204, openapi_extra=PUBLIC)
async def sign_out(
    body: SignOut,
    tx: AnonymousTransaction,
    auth: CurrentAuth,
    request: Request,
    response: Response,
) -> None:
    """End the sign-in that a refresh token belongs to, and drop the browser's cookies.

    Without one in the body, it is the one in the browser's cookie.
    """
    if body.refresh_token is not None:
        await auth.sign_out(tx, body.refresh_token, request.state.request_id)
    else:
        require_own_page(request)
        # A cookie that is of no use any more is dropped like any other.
        with suppress(Unauthenticated):
            await auth.sign_out(tx, refresh_token_of(request) or "", request.state.request_id)
    if from_own_page(request):
        _cookies(request).clear(response)


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
