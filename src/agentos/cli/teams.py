from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from agentos.cli import team_agents, team_logs
from agentos.cli.client import Client, Url, segment
from agentos.cli.documents import read_document
from agentos.cli.named import TEAM, TeamRef, Yes, confirm, one_of, path_of
from agentos.cli.output import (
    AsJson,
    Column,
    Row,
    cell,
    counted,
    note,
    print_json,
    printable,
    show_done,
    show_list,
)
from agentos.cli.session_ids import short
from agentos.kernel.errors import Invalid

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

_PROVIDERS = ("native", "claude-code", "opencode", "acp")
_RUNTIMES = ("local", "docker")
_STATUSES = ("stopped", "starting", "running", "degraded", "crash_loop", "repairing", "error")
_ON_THE_WAY = ("starting", "repairing", "crash_loop", "degraded")
_LOOK_SECONDS = 0.3
_LONGEST_NOTE = 500

Name = Annotated[str | None, typer.Option(help="What it is called, instead of the document's.")]
Model = Annotated[str | None, typer.Option(help="The model of the team, such as demo.")]
Provider = Annotated[
    str | None, typer.Option(help=f"What drives it: {', '.join(_PROVIDERS)}. Default: native.")
]
Runtime = Annotated[
    str | None, typer.Option(help="Where an agent CLI runs: local or docker. Default: local.")
]
Deploy = Annotated[bool, typer.Option("--deploy", help="Also start it.")]
Wait = Annotated[bool, typer.Option("--wait", help="Until it runs, or does not come to that.")]


@app.command("list")
def list_teams(
    status: Annotated[str | None, typer.Option(help="Only with this status.")] = None,
    provider: Annotated[str | None, typer.Option(help="Only of this provider.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """The teams of this tenant, newest first."""
    columns = (
        Column("Name", "name"),
        Column("Status", "status"),
        Column("Provider", "provider"),
        Column("Model", "model"),
        Column("Agents", "agents"),
        Column("Waiting", "waiting"),
        Column("Reason", "reason"),
        Column("Id", lambda row: short(row["id"]) if sys.stdout.isatty() else row["id"]),
    )
    found = Client.open(url).items(
        TEAM.path,
        status=None if status is None else one_of(status, _STATUSES, "status"),
        provider=None if provider is None else one_of(provider, _PROVIDERS, "provider"),
    )
    show_list(
        found,
        columns,
        as_json=as_json,
        empty="There is no such team."
        if status or provider
        else "No teams yet. See `agentos teams templates`, and make one with `agentos teams create "
        "--template personal-assistant --deploy`.",
    )


@app.command()
def show(team: TeamRef, url: Url = None, as_json: AsJson = False) -> None:
    """One team: how it is, who is in it, and what they may use."""
    client = Client.open(url)
    found = client.get(path_of(client, TEAM, team))
    if as_json:
        print_json(found)
        return
    for name, value in _facts(found):
        print(f"{name:<9} {cell(value)}")
    if found["description"]:
        print(f"\n{printable(found['description'], lines=True)}")
    print()
    team_agents.print_agents(found)
    _print_next(found)


def _facts(team: Row) -> list[tuple[str, object]]:
    where = f", {team['runtime']}" if team["runtime"] else ""
    reason = f": {team['reason']}" if team["reason"] else ""
    version = str(team["version"])
    if team["deployed"] and team["runtime"] and team["applied_version"] != team["version"]:
        version += f", {team['applied_version']} runs"
    facts: list[tuple[str, object]] = [
        ("Team", f"{team['name']} ({team['id']})"),
        ("Status", f"{team['status']}{reason}"),
        ("Provider", f"{team['provider']}{where}"),
        ("Model", team["model"]),
        ("Version", version),
        ("Waiting", counted(team["waiting"], "message")),
        ("Created", f"{cell(team['created_at'])} by {team['created_by']}"),
    ]
    if team["command"]:
        facts.append(("Command", " ".join(team["command"])))
    if team["skills"]:
        facts.append(("Skills", [skill["name"] for skill in team["skills"]]))
    if team["allowed_hosts"]:
        facts.append(("Hosts", team["allowed_hosts"]))
    if team["session_id"]:
        facts.append(("Session", team["session_id"]))
    return facts + [("MCP", _server(team, server)) for server in team["mcp_servers"]]


def _server(team: Row, server: Row) -> str:
    known = team["mcp_status"].get(server["name"])
    status = known.get("status", "") if isinstance(known, dict) else known
    return f"{server['name']}{f': {status}' if status else ''}"


def _print_next(team: Row) -> None:
    name = quoted(team["name"])
    verbs = ('chat {} "…"', "messages list {}", "teams stop {}")
    stopped = ("teams deploy {}", "teams export {}", "teams delete {}")
    print("\nNext")
    for command in verbs if team["deployed"] else stopped:
        print(f"  agentos {printable(command.format(name))}")


def quoted(name: str) -> str:
    """A name as a shell takes it for one word."""
    import shlex

    return shlex.quote(name)


@app.command()
def templates(url: Url = None, as_json: AsJson = False) -> None:
    """Teams to start from."""
    columns = (
        Column("Template", "id"),
        Column("Agents", lambda row: ", ".join(row["agents"])),
        Column("What it does", "description"),
    )
    show_list(
        Client.open(url).get("/api/team-templates"),
        columns,
        as_json=as_json,
        empty="There are no templates.",
    )


@app.command()
def create(
    file: Annotated[
        Path | None, typer.Option("--file", help="A team in YAML or JSON; - reads from stdin.")
    ] = None,
    template: Annotated[
        str | None, typer.Option(help="What to start from; see `agentos teams templates`.")
    ] = None,
    name: Name = None,
    provider: Provider = None,
    runtime: Runtime = None,
    model: Model = None,
    deploy: Deploy = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make a team from a file or from a template."""
    if (file is None) == (template is None):
        raise Invalid(
            "Say what to make it of: --file FILE or --template ID.",
            hint="`agentos teams templates` lists the templates.",
        )
    other = {
        "name": name,
        "provider": None if provider is None else one_of(provider, _PROVIDERS, "provider"),
        "runtime": None if runtime is None else one_of(runtime, _RUNTIMES, "runtime"),
        "model": model,
        "deploy": deploy or None,
    }
    given = {key: value for key, value in other.items() if value is not None}
    client = Client.open(url)
    if file is not None:
        team = client.post(TEAM.path, {**read_document(file, "a team"), **given})
    else:
        team = client.post(f"/api/team-templates/{segment(template or '')}/create", given)
    _show_made(team, as_json=as_json)


@app.command("import")
def import_team(
    file: Annotated[Path, typer.Argument(help="A team in YAML or JSON; - reads from stdin.")],
    name: Name = None,
    deploy: Deploy = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make a team of a document, such as `agentos teams export` writes."""
    create(file=file, name=name, deploy=deploy, url=url, as_json=as_json)


def _show_made(team: Row, *, as_json: bool) -> None:
    name = quoted(team["name"])
    then = f'agentos chat {name} "…"' if team["deployed"] else f"agentos teams deploy {name}"
    made = f"Made the team {team['name']} with {counted(team['agents'], 'agent')}."
    show_done(f"{made} Next: `{then}`.", team, as_json=as_json)


@app.command()
def export(
    team: TeamRef,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; default: stdout.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """The team as a YAML document. Secrets are named in it, never shown."""
    client = Client.open(url)
    path = f"{path_of(client, TEAM, team)}/export"
    if output is None or str(output) == "-":
        _print_document(client, path, as_json=as_json)
        return
    # Complete or not there at all.
    part = output.with_name(f"{output.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            client.save(path, file)
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)
    show_done(f"Wrote {output}.", {"file": str(output)}, as_json=as_json)


def _print_document(client: Client, path: str, *, as_json: bool) -> None:
    import io

    document = io.BytesIO()
    client.save(path, document)
    if as_json:
        print_json({"yaml": document.getvalue().decode()})
    else:
        sys.stdout.write(document.getvalue().decode())


@app.command()
def update(
    team: TeamRef,
    name: Annotated[str | None, typer.Option(help="What it shall be called.")] = None,
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    model: Model = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A host its tools may reach, in place of those; repeat it for more."),
    ] = None,
    answer_seconds: Annotated[
        int | None, typer.Option(min=5, max=86_400, help="The longest an answer may take.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="A document with more fields to change.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Change a team. A deployed one goes on by the new version, its conversation kept."""
    body: dict[str, Any] = {} if file is None else read_document(file, "a change of a team")
    options = {
        "name": name,
        "description": description,
        "model": model,
        "allowed_hosts": allow_host,
        "answer_seconds": answer_seconds,
    }
    body |= {key: value for key, value in options.items() if value is not None}
    if not body:
        raise Invalid("Nothing is to be changed.", hint="See `agentos teams update --help`.")
    client = Client.open(url)
    changed = client.patch(path_of(client, TEAM, team), body)
    show_done(
        f"The team {changed['name']} is at version {changed['version']}.", changed, as_json=as_json
    )


@app.command()
def deploy(team: TeamRef, wait: Wait = False, url: Url = None, as_json: AsJson = False) -> None:
    """Start a team. One that was given up on is tried again."""
    _start(team, "deploy", url, wait=wait, as_json=as_json)


@app.command()
def restart(team: TeamRef, wait: Wait = False, url: Url = None, as_json: AsJson = False) -> None:
    """Stop a deployed team and start it again, with its conversation and files."""
    _start(team, "restart", url, wait=wait, as_json=as_json)


@app.command()
def stop(team: TeamRef, url: Url = None, as_json: AsJson = False) -> None:
    """Stop a team. Conversation and files stay; messages wait until it is deployed again."""
    client = Client.open(url)
    done = client.post(f"{path_of(client, TEAM, team)}/stop")
    told = "is stopped" if done["status"] == "stopped" else "stops"
    show_done(f"The team {done['name']} {told}.", done, as_json=as_json)


@app.command()
def delete(team: TeamRef, yes: Yes = False, url: Url = None, as_json: AsJson = False) -> None:
    """Remove a stopped team with its messages, schedules and webhooks."""
    client = Client.open(url)
    path = path_of(client, TEAM, team)
    found = client.get(path)
    confirm(f"Delete {found['name']} with its messages, schedules and webhooks?", yes)
    client.delete(path)
    show_done(f"Deleted the team {found['name']}.", {"deleted": found["id"]}, as_json=as_json)


def _start(team: str, verb: str, url: str | None, *, wait: bool, as_json: bool) -> None:
    client = Client.open(url)
    path = path_of(client, TEAM, team)
    found = client.post(f"{path}/{verb}")
    if wait:
        found = _settled(client, path, found)
    why = f": {found['reason'].rstrip('.')}" if found["reason"] else ""
    show_done(f"The team {found['name']} is {found['status']}{why}.", found, as_json=as_json)
    if wait and found["status"] != "running":
        raise typer.Exit(1)


def _settled(client: Client, path: str, team: dict[str, Any]) -> dict[str, Any]:
    """The team once it runs, or is not about to. What it is at is said as it changes."""
    told = (team["status"], team["reason"])
    while team["status"] in _ON_THE_WAY:
        time.sleep(_LOOK_SECONDS)
        team = client.get(path)
        now = (team["status"], team["reason"])
        if now != told and team["status"] in _ON_THE_WAY:
            note(f"{team['status']}: {team['reason'] or 'no reason is known'}"[:_LONGEST_NOTE])
        told = now
    return team


# The commands of these stand beside the ones above.
app.add_typer(team_agents.app)
app.add_typer(team_logs.app)
