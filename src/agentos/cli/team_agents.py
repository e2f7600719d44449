"""Who is in a team: its leader and its workers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from agentos.cli.client import Client, Url, segment
from agentos.cli.named import TEAM, TeamRef, path_of
from agentos.cli.output import AsJson, Column, Row, print_json, printable, show_done, show_list
from agentos.cli.session_bodies import read_text
from agentos.cli.step_lines import flat
from agentos.kernel.errors import Conflict, Invalid, NotFound

app = typer.Typer(rich_markup_mode=None)

_LONGEST_ROLE = 70
_PUT = ("name", "role", "instructions", "model", "skills", "permissions")

AgentName = Annotated[str, typer.Argument(help="Name of the agent.", metavar="AGENT")]


@app.command()
def agents(
    team: TeamRef,
    agent: Annotated[
        str | None, typer.Option(help="Only this one, with all that it is told.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """The leader of a team and its workers."""
    client = Client.open(url)
    found = client.get(path_of(client, TEAM, team))
    if agent is not None:
        _show_agent(_agent(found, agent), as_json=as_json)
    elif as_json:
        print_json(members(found))
    else:
        print_agents(found)


@app.command("set-agent")
def set_agent(
    team: TeamRef,
    agent: AgentName,
    instructions_file: Annotated[
        Path | None, typer.Option(help="A file with what it is told, in Markdown.")
    ] = None,
    role: Annotated[str | None, typer.Option(help="What it is for, in a line.")] = None,
    model: Annotated[str | None, typer.Option(help="Its model; empty: that of the team.")] = None,
    skill: Annotated[
        list[str] | None,
        typer.Option(help="A skill of the team, in place of those it has; repeat it for more."),
    ] = None,
    rename: Annotated[str | None, typer.Option(help="What it shall be called.")] = None,
    new: Annotated[bool, typer.Option("--new", help="Add it as a worker.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Change the leader or a worker of a team, or add a worker."""
    options: dict[str, Any] = {
        "instructions": None if instructions_file is None else read_text(instructions_file),
        "role": role,
        "skills": skill,
        "name": rename,
    }
    change = {key: value for key, value in options.items() if value is not None}
    if model is not None:
        change["model"] = model or None
    if not (change or new):
        raise Invalid("Nothing is to be changed.", hint="See `agentos teams set-agent --help`.")
    client = Client.open(url)
    path = path_of(client, TEAM, team)
    found = client.get(path)
    changed = client.put(*_put(path, found, agent, change, new=new))
    sentence = f"{agent} is {'new' if new else 'changed'} in {changed['name']}, which is at version"
    show_done(f"{sentence} {changed['version']}.", changed, as_json=as_json)


@app.command("remove-worker")
def remove_worker(
    team: TeamRef, agent: AgentName, url: Url = None, as_json: AsJson = False
) -> None:
    """Take a worker out of a team."""
    client = Client.open(url)
    path = path_of(client, TEAM, team)
    client.delete(f"{path}/workers/{segment(agent)}")
    found = client.get(path)
    show_done(f"{agent} is no more in {found['name']}.", found, as_json=as_json)


def members(team: Row) -> list[dict[str, Any]]:
    """The leader first."""
    return [team["leader"], *team["workers"]]


def print_agents(team: Row) -> None:
    columns = (
        Column("Agent", "name"),
        Column("Is", lambda row: "leader" if row["leader"] else "worker"),
        Column("Model", lambda row: row["model"] or "the team's"),
        Column("Role", lambda row: flat(row["role"], _LONGEST_ROLE)),
    )
    show_list(members(team), columns, as_json=False, empty="")


def _show_agent(agent: Row, *, as_json: bool) -> None:
    if as_json:
        print_json(agent)
        return
    print(f"{agent['name']}: {printable(agent['role'])}")
    print(f"\n{printable(agent['instructions'], lines=True)}")


def _put(
    path: str, team: Row, name: str, change: dict[str, Any], *, new: bool
) -> tuple[str, dict[str, Any]]:
    """Where an agent is put, and as what."""
    if new:
        if name in [agent["name"] for agent in members(team)]:
            raise Conflict(f"The team has an agent {name}.", hint="Leave out --new to change it.")
        return f"{path}/workers/{segment(name)}", {"name": name, **change}
    agent = _agent(team, name)
    body = {key: agent[key] for key in _PUT} | change
    return f"{path}/leader" if agent["leader"] else f"{path}/workers/{segment(name)}", body


def _agent(team: Row, name: str) -> dict[str, Any]:
    for agent in members(team):
        if agent["name"] == name:
            return agent
    names = ", ".join(agent["name"] for agent in members(team))
    raise NotFound(
        f"The team has no agent {name}.", hint=f"There are: {names}. --new adds a worker."
    )
