from __future__ import annotations

import os
import sys
from typing import Annotated
from urllib.parse import urlsplit

import typer

from agentos.cli import profile
from agentos.cli.client import Client, Url, gateway_address, token_fields
from agentos.cli.failures import GatewayError
from agentos.cli.output import AsJson, note, show_done, show_one
from agentos.cli.profile import SignIn
from agentos.kernel.errors import Invalid, Kind

app = typer.Typer(rich_markup_mode=None)


@app.command()
def login(
    url: Url = None,
    email: Annotated[
        str | None, typer.Option(help="Your e-mail address; asked for if absent.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Slug of the tenant to work in.")] = None,
    api_key: Annotated[
        str | None,
        typer.Option(help="Use an API key instead; `-` reads it from stdin."),
    ] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from stdin.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Sign in and remember it on this machine."""
    where = gateway_address(url, profile.load())
    _warn_if_readable(where)
    if api_key is not None:
        sign_in = SignIn(api_key=sys.stdin.readline().strip() if api_key == "-" else api_key)
    else:
        sign_in = _with_password(where, email, tenant, password_stdin)
    me = Client(where, sign_in).get("/api/auth/me")
    if sign_in.api_key is None:
        sign_in = SignIn(
            access_token=sign_in.access_token,
            refresh_token=sign_in.refresh_token,
            expires_at=sign_in.expires_at,
            tenant=me["tenant_slug"],
            email=me["email"],
        )
    profile.remember(where, sign_in)
    if os.environ.get("AGENTOS_API_KEY"):
        note("AGENTOS_API_KEY is set and goes before this login.")
    show_done(
        f"Signed in to {where} as {me['name']}, in the tenant {me['tenant_slug']}.",
        {"url": where, **me},
        as_json=as_json,
    )


@app.command()
def logout(url: Url = None, as_json: AsJson = False) -> None:
    """End the sign-in and forget it."""
    known = profile.load()
    where = gateway_address(url, known)
    sign_in = known.sign_ins.get(where)
    if sign_in is not None and sign_in.refresh_token is not None:
        _end(where, sign_in.refresh_token)
    profile.forget(where)
    show_done(f"Signed out of {where}.", {"signed_out": where}, as_json=as_json)


@app.command()
def whoami(url: Url = None, as_json: AsJson = False) -> None:
    """Who you are signed in as, where, and what you may do."""
    client = Client.open(url)
    me = client.get("/api/auth/me")
    if as_json:
        show_one({"url": client.url, **me}, as_json=True)
        return
    show_one(
        {
            "gateway": client.url,
            "name": me["name"],
            "kind": me["kind"],
            "email": me["email"],
            "tenant": f"{me['tenant_name']} ({me['tenant_slug']})",
            "role": me["role"],
            "plan": me["plan"],
            "platform_admin": me["platform_admin"],
            "scopes": me["scopes"],
            "tenants": [f"{tenant['slug']} ({tenant['role']})" for tenant in me["tenants"]],
        },
        as_json=False,
    )


def read_password(*, from_stdin: bool, confirm: bool = False) -> str:
    """A password from a pipe or the terminal; never from the command line, which others see."""
    if from_stdin:
        return sys.stdin.readline().rstrip("\n")
    if not sys.stdin.isatty():
        raise Invalid(
            "There is no terminal to ask for the password.",
            hint="Give it with --password-stdin.",
        )
    answer: str = typer.prompt("Password", hide_input=True, confirmation_prompt=confirm, err=True)
    return answer


def _with_password(where: str, email: str | None, tenant: str | None, from_stdin: bool) -> SignIn:
    if email is None:
        if not sys.stdin.isatty() or from_stdin:
            raise Invalid("Who is signing in?", hint="Give --email, or --api-key.")
        email = typer.prompt("E-mail", err=True)
    password = read_password(from_stdin=from_stdin)
    body = {"email": email, "password": password, "tenant": tenant}
    return SignIn(**token_fields(Client(where).post_once("/api/auth/token", body)))


def _end(where: str, refresh_token: str) -> None:
    try:
        Client(where).post_once("/api/auth/logout", {"refresh_token": refresh_token})
    except GatewayError as error:
        # Ended already is as good; a gateway that cannot be reached must not keep us signed in.
        if error.kind is not Kind.UNAUTHENTICATED:
            note(f"The gateway was not told: {error.message}")


def _warn_if_readable(where: str) -> None:
    parts = urlsplit(where)
    host = parts.hostname or ""
    local = host in ("localhost", "::1") or host.startswith("127.")
    if parts.scheme == "http" and not local:
        note(f"Warning: {where} is not encrypted; others on the way can read what you send.")
