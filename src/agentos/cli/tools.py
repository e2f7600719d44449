from __future__ import annotations

from typing import Annotated

import typer

from agentos.cli.client import Client, Url, segment
from agentos.cli.output import AsJson, Column, show_done, show_list
from agentos.kernel.errors import Invalid, NotFound

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
policy = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
app.add_typer(policy, name="policy", help="What sessions may use, and what people approve first.")

_DECISIONS = ("allow", "ask", "deny")
_SAID = {
    "allow": "may be used",
    "ask": "may be used once a person has approved the call",
    "deny": "may not be used",
}

Subject = Annotated[
    str,
    typer.Argument(
        help="A tool (http_send), tools by the beginning of their name ('mcp__github__*'), or a "
        "tier (tier:destructive).",
        metavar="SUBJECT",
    ),
]


@app.command("list")
def list_tools(url: Url = None, as_json: AsJson = False) -> None:
    """The built-in tools, and what this tenant has decided about each."""
    columns = (
        Column("Tool", "name"),
        Column("Tier", "tier"),
        Column("Decision", "decision"),
        Column("Default", "default"),
        Column("What it does", lambda row: row["description"].partition(". ")[0].rstrip(".")),
    )
    tools = Client.open(url).get("/api/tools")["items"]
    show_list(tools, columns, as_json=as_json, empty="There are no tools.")


@policy.command("list")
def list_policies(url: Url = None, as_json: AsJson = False) -> None:
    """What this tenant has decided about tools."""
    columns = (
        Column("Subject", "subject"),
        Column("Decision", "decision"),
        Column("Since", "updated_at"),
        Column("First set by", "created_by"),
    )
    show_list(
        Client.open(url).items("/api/tools/policies"),
        columns,
        as_json=as_json,
        empty="Nothing was decided: safe and dangerous tools are allowed, destructive ones asked "
        "for. Decide with `agentos tools policy set http_send deny`.",
    )


@policy.command("set")
def set_policy(
    subject: Subject,
    decision: Annotated[str, typer.Argument(help="allow, ask or deny.", metavar="DECISION")],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Decide about a tool, about tools of one name, or about a tier."""
    if decision not in _DECISIONS:
        raise Invalid(f"There is no decision '{decision}'.", hint="There are: allow, ask, deny.")
    body = {"subject": subject, "decision": decision}
    done = Client.open(url).put("/api/tools/policies", body)
    show_done(f"{done['subject']} {_SAID[done['decision']]}.", done, as_json=as_json)


@policy.command("remove")
def remove_policy(subject: Subject, url: Url = None, as_json: AsJson = False) -> None:
    """Take a decision back; what is less specific, or the default, holds again."""
    client = Client.open(url)
    found = [row for row in client.items("/api/tools/policies") if row["subject"] == subject]
    if not found:
        raise NotFound(
            f"Nothing was decided about {subject}.",
            hint="`agentos tools policy list` shows what was.",
        )
    client.delete(f"/api/tools/policies/{segment(found[0]['id'])}")
    show_done(
        f"The decision about {subject} is taken back.",
        {"removed": found[0]["id"]},
        as_json=as_json,
    )
