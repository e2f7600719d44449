from __future__ import annotations

from agentos.kernel.errors import AgentOSError, Conflict, Kind, NotFound
from agentos.tenancy.tokens import Unauthenticated


class WrongCredentials(Unauthenticated):
    """The e-mail address or the password is wrong."""

    code = "wrong_credentials"
    hint = "Check both; an owner of your tenant can invite you again."


class SignInEnded(Unauthenticated):
    """This sign-in has ended."""

    code = "sign_in_ended"
    hint = "Sign in again with POST /api/auth/token."


class RefreshTokenReused(Unauthenticated):
    """This refresh token was used before, so a copy may be about; the sign-in has been ended."""

    code = "refresh_token_reused"
    hint = "Sign in again. If it was not you, change your password."


class NoRefreshToken(Unauthenticated):
    """There is no refresh token, in the body or in a cookie."""

    code = "no_refresh_token"
    hint = "Sign in; with cookies, ask with ?cookie=true."


class DemoUnavailable(NotFound):
    """There is no demo to sign in to here."""

    code = "demo_unavailable"
    hint = "Sign in with an e-mail address and a password."


class NoTenant(AgentOSError):
    """You are not a member of this tenant."""

    code = "no_tenant"
    kind = Kind.FORBIDDEN
    hint = "Ask an owner for an invitation, or sign in without naming a tenant."


class SignupClosed(AgentOSError):
    """Registration is by invitation here."""

    code = "signup_closed"
    kind = Kind.FORBIDDEN
    hint = "Ask for an invitation, or have the operator set AGENTOS_SIGNUP=open."


class EmailTaken(Conflict):
    """There is an account with this e-mail address already."""

    code = "email_taken"
    hint = "Sign in with it instead."
