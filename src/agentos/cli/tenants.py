from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from agentos.cli import profile
from agentos.cli.client import Client, Url, segment
from agentos.cli.output import AsJson, Column, show_done, show_list, show_one
from agentos.kernel.errors import Invalid, NotFound

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

_COLUMNS = (
    Column("Slug", "slug"),
    Column("Name", "name"),
    Column("Plan", "plan"),
    Column("Created", "created_at"),
    Column("Id", "id"),
)


@app.command("list")
def list_tenants(
    everyone: Annotated[
        bool, typer.Option("--all", help="All of this installation. For platform admins.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """The tenants you belong to."""
    tenants = Client.open(url).items("/api/platform/tenants" if everyone else "/api/tenants")
    show_list(
        tenants,
        _COLUMNS,
        as_json=as_json,
        empty="No tenants yet. A platform admin makes one with `agentos tenants create`.",
    )


@app.command()
def show(
    tenant: Annotated[
        str | None, typer.Argument(help="Slug or id; default: the present one.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """One tenant, with what its plan allows and how much of it is used."""
    client = Client.open(url)
    present = client.get("/api/auth/me")["tenant_id"]
    wanted = _find(client, "/api/tenants", tenant) if tenant else present
    found = client.get(f"/api/tenants/{wanted}")
    plan = client.get("/api/plan") if wanted == present else None
    if as_json:
        show_one({**found, "limits": plan["limits"] if plan else None}, as_json=True)
        return
    show_one(found, as_json=False)
    if plan:
        print()
        columns = (
            Column("Limit", lambda row: row["name"].replace("_", " ")),
            Column(
                "Allowed", lambda row: "unlimited" if row["allowed"] is None else row["allowed"]
            ),
            Column("Used", "used"),
        )
        show_list(plan["limits"], columns, as_json=False, empty="")


@app.command()
def update(
    name: Annotated[str | None, typer.Option(help="New name.")] = None,
    slug: Annotated[str | None, typer.Option(help="New slug.")] = None,
    settings: Annotated[
        Path | None, typer.Option(help="File with the new settings, a JSON object.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Change name, slug or settings of the tenant you are signed in to."""
    body: dict[str, Any] = {"name": name, "slug": slug}
    if settings is not None:
        body["settings"] = _read_object(settings)
    body = {key: value for key, value in body.items() if value is not None}
    if not body:
        raise Invalid("Nothing to change.", hint="Give --name, --slug or --settings.")
    client = Client.open(url)
    present = client.get("/api/auth/me")["tenant_id"]
    changed = client.patch(f"/api/tenants/{present}", body)
    if slug is not None:
        profile.rename_tenant(client.url, changed["slug"])
    show_done(f"Changed the tenant {changed['slug']}.", changed, as_json=as_json)


@app.command()
def create(
    slug: Annotated[str, typer.Argument(help="Short name in addresses: a-z, 0-9 and dashes.")],
    owner: Annotated[
        str, typer.Option(help="E-mail address of the owner, who gets an invitation.")
    ],
    name: Annotated[str | None, typer.Option(help="Name; default: the slug.")] = None,
    plan: Annotated[str, typer.Option(help="free, pro or enterprise.")] = "free",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Create a tenant and invite its owner. For platform admins."""
    body = {"name": name or slug, "slug": slug, "plan": plan, "owner_email": owner}
    made = Client.open(url).post("/api/platform/tenants", body)
    show_done(
        f"Created the tenant {made['slug']} on the {made['plan']} plan.\n"
        f"Give {owner} this invitation; it is shown only now:\n\n"
        f"  agentos members accept {made['invitation_token']}",
        made,
        as_json=as_json,
    )


@app.command()
def plan(
    tenant: Annotated[str, typer.Argument(help="Slug or id.")],
    to: Annotated[str | None, typer.Option("--to", help="free, pro or enterprise.")] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            help="A limit for this tenant alone, NAME=NUMBER or NAME=unlimited; repeatable."
        ),
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Move a tenant to another plan, or agree other limits with it. For platform admins."""
    body: dict[str, Any] = {}
    if to is not None:
        body["plan"] = to
    if limit:
        body["limits"] = dict(_limit(text) for text in limit)
    if not body:
        raise Invalid("Nothing to change.", hint="Give --to or --limit.")
    client = Client.open(url)
    tenant_id = _find(client, "/api/platform/tenants", tenant)
    changed = client.patch(f"/api/platform/tenants/{tenant_id}", body)
    show_done(
        f"The tenant {changed['slug']} is on the {changed['plan']} plan.", changed, as_json=as_json
    )


def _find(client: Client, path: str, wanted: str) -> str:
    """The id of a tenant that was named by slug or id."""
    for tenant in client.items(path):
        if wanted in (tenant["slug"], tenant["id"]):
            return str(tenant["id"])
    if len(wanted) == 36:
        return segment(wanted)
    raise NotFound(f"There is no tenant {wanted} here.", hint="`agentos tenants list` shows them.")


def _limit(text: str) -> tuple[str, int | bool | None]:
    name, equals, value = text.partition("=")
    words: dict[str, int | bool | None] = {"unlimited": None, "true": True, "false": False}
    if equals and value in words:
        return name, words[value]
    if not equals or not value.isdigit():
        raise Invalid(f"'{text}' is not NAME=NUMBER.", hint="For example: --limit team_members=25")
    return name, int(value)


def _read_object(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text())
    except ValueError as error:
        raise Invalid(f"{path} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise Invalid(f"{path} does not hold a JSON object.")
    return document
