from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from agentos.cli import profile
from agentos.cli.auth import read_password
from agentos.cli.client import Client, Url, gateway_address, segment, token_fields
from agentos.cli.output import AsJson, Column, show_done, show_list
from agentos.cli.profile import SignIn
from agentos.kernel.errors import NotFound

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

Who = Annotated[str, typer.Argument(help="E-mail address or user id.")]


@app.command("list")
def list_members(url: Url = None, as_json: AsJson = False) -> None:
    """The people of this tenant."""
    columns = (
        Column("Name", "name"),
        Column("E-mail", "email"),
        Column("Role", "role"),
        Column("Since", "created_at"),
        Column("User id", "user_id"),
    )
    show_list(
        Client.open(url).items("/api/members"),
        columns,
        as_json=as_json,
        empty="Nobody yet. Invite somebody with `agentos members invite EMAIL`.",
    )


@app.command()
def invite(
    email: Annotated[str, typer.Argument(help="E-mail address.")],
    role: Annotated[str, typer.Option(help="owner, admin or member.")] = "member",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Invite somebody; hand the token to them."""
    client = Client.open(url)
    made = client.post("/api/invitations", {"email": email, "role": role})
    show_done(
        f"Invited {made['email']} as {made['role']}.\n"
        "Give them this command; the token in it is shown only now:\n\n"
        f"  agentos members accept {made['token']} --url {client.url}",
        made,
        as_json=as_json,
    )


@app.command()
def invitations(url: Url = None, as_json: AsJson = False) -> None:
    """Invitations that are still open."""
    columns = (
        Column("E-mail", "email"),
        Column("Role", "role"),
        Column("Invited by", "invited_by"),
        Column("Expires", "expires_at"),
        Column("Id", "id"),
    )
    show_list(
        Client.open(url).items("/api/invitations"),
        columns,
        as_json=as_json,
        empty="No open invitations. Invite somebody with `agentos members invite EMAIL`.",
    )


@app.command()
def revoke_invitation(
    invitation: Annotated[str, typer.Argument(help="E-mail address or id of the invitation.")],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Withdraw an invitation."""
    client = Client.open(url)
    invitation_id = invitation
    if "@" in invitation:
        found = (i for i in client.items("/api/invitations") if i["email"] == invitation.lower())
        invitation_id = _only(found, f"There is no open invitation for {invitation}.")["id"]
    client.delete(f"/api/invitations/{segment(invitation_id)}")
    show_done("Invitation withdrawn.", {"revoked": invitation_id}, as_json=as_json)


@app.command()
def role(
    who: Who,
    new_role: Annotated[str, typer.Argument(metavar="ROLE", help="owner, admin or member.")],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Change a member's role."""
    client = Client.open(url)
    changed = client.patch(f"/api/members/{_user_id(client, who)}", {"role": new_role})
    show_done(f"{changed['email']} is now {changed['role']}.", changed, as_json=as_json)


@app.command()
def remove(who: Who, url: Url = None, as_json: AsJson = False) -> None:
    """Remove a member, or leave the tenant yourself."""
    client = Client.open(url)
    user_id = _user_id(client, who)
    client.delete(f"/api/members/{user_id}")
    show_done(f"Removed {who}.", {"removed": user_id}, as_json=as_json)


@app.command()
def accept(
    token: Annotated[str, typer.Argument(help="The token of the invitation.")],
    name: Annotated[
        str | None, typer.Option(help="Your name; needed if you have no account yet.")
    ] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from stdin.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Join a tenant with an invitation, and sign in."""
    where = gateway_address(url, profile.load())
    password = read_password(from_stdin=password_stdin, confirm=name is not None)
    body = {"token": token, "password": password, "name": name}
    pair = Client(where).post_once("/api/auth/accept-invitation", body)
    sign_in = SignIn(**token_fields(pair))
    me = Client(where, sign_in).get("/api/auth/me")
    profile.remember(where, replace(sign_in, tenant=me["tenant_slug"], email=me["email"]))
    show_done(
        f"Joined {me['tenant_name']} as {me['role']}, and signed in.",
        {"url": where, **me},
        as_json=as_json,
    )


def _user_id(client: Client, who: str) -> str:
    if "@" not in who:
        return segment(who)
    found = (m for m in client.items("/api/members") if m["email"] == who.lower())
    return str(_only(found, f"Nobody here has the address {who}.")["user_id"])


def _only(found: Iterator[dict[str, Any]], otherwise: str) -> dict[str, Any]:
    for item in found:
        return item
    raise NotFound(otherwise, hint="Check the address; the list shows all there are.")
