from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentos.cli.output import AsJson, Column, note, show_done, show_list
from agentos.kernel.errors import Invalid

if TYPE_CHECKING:
    from pathlib import Path

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)


@app.command("list")
def list_agents(as_json: AsJson = False) -> None:
    """The agent CLIs that teams can use, and which of them this machine has."""
    columns = (
        Column("Agent", "name"),
        Column("Version", "version"),
        Column("Installed", "installed"),
        Column("Place", "place"),
    )
    show_list(_known(_place()), columns, as_json=as_json, empty="There are none.")


@app.command()
def install(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which; see `agentos agents list`.", metavar="NAME…")
    ] = None,
    all_of_them: Annotated[bool, typer.Option("--all", help="All there are.")] = False,
    as_json: AsJson = False,
) -> None:
    """Install agent CLIs on this machine, in the versions that AgentOS knows. Needs npm."""
    import asyncio

    from agentos.integrations.agents import installing, packages

    if bool(names) == all_of_them:
        known = ", ".join(packages.AGENTS)
        raise Invalid("Which ones?", hint=f"Name them, or give --all. There are: {known}.")
    wanted = list(packages.AGENTS) if all_of_them else list(names or [])
    place = _place()
    asyncio.run(installing.install(wanted, place, note))
    there = [row for row in _known(place) if row["name"] in wanted]
    told = ", ".join(f"{row['name']} {row['version']}" for row in there)
    show_done(f"Installed in {place}: {told}.", {"agents": there}, as_json=as_json)


def _place() -> Path:
    from agentos.kernel.settings import load_settings

    return load_settings().cli_agents_dir


def _known(place: Path) -> list[dict[str, Any]]:
    from agentos.integrations.agents.packages import AGENTS, packages

    return [
        {
            "name": name,
            "version": package.version,
            "installed": package.installed(place),
            "place": str(package.program_in(place)),
        }
        for name, package in packages(AGENTS).items()
    ]
