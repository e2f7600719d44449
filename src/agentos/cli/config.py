from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import typer
from typer.core import TyperCommand

from agentos.cli.output import AsJson, Column, show_list

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from typer._click import Context, HelpFormatter

    from agentos.kernel.settings import Settings

app = typer.Typer(rich_markup_mode=None)

_MASK = "•••"


class _ListingSettings(TyperCommand):
    """Its help lists all settings, even where one of them is wrong."""

    def format_epilog(self, _ctx: Context, formatter: HelpFormatter) -> None:
        from agentos.kernel.settings import Settings

        with formatter.section("Settings, in the environment or in a file agentos.env"):
            formatter.write_dl(
                [
                    (_variables(field)[0], field.description or "")
                    for field in Settings.model_fields.values()
                ]
            )


@app.command(cls=_ListingSettings)
def config(as_json: AsJson = False) -> None:
    """Every setting of this installation and its value."""
    from agentos.kernel.settings import load_settings

    columns = (
        Column("Setting", "name"),
        Column("Value", "value"),
        Column("From", "source"),
        Column("Variable", "variable"),
    )
    show_list(effective(load_settings()), columns, as_json=as_json, empty="")


def effective(settings: Settings) -> list[dict[str, Any]]:
    """Each setting: its value, with secrets masked, and where that comes from."""
    environment = {name.upper() for name, value in os.environ.items() if value}
    in_file = _in_file(settings)
    found = []
    for name, field in type(settings).model_fields.items():
        variables = _variables(field)
        used = next((v for v in variables if v in environment or v in in_file), variables[0])
        source = "environment" if used in environment else in_file.get(used, "default")
        found.append(
            {
                "name": name,
                "variable": used,
                "value": shown(getattr(settings, name)),
                "source": source,
                "description": field.description,
            }
        )
    return found


def _variables(field: FieldInfo) -> list[str]:
    """The environment variables that set it, the preferred one first."""
    alias = field.validation_alias
    return [str(choice) for choice in getattr(alias, "choices", [alias])]


def shown(value: Any) -> Any:
    """A value as it may be shown: of a secret only that it is set, of an address not its password."""
    secret = getattr(value, "get_secret_value", None)
    if secret is None:
        return value if isinstance(value, (str, int, float, list, type(None))) else str(value)
    text = secret()
    if "://" not in text:
        return _MASK
    return ",".join(_without_password(part.strip()) for part in text.split(","))


def _without_password(url: str) -> str:
    try:
        parts = urlsplit(url)
        who, at, where = parts.netloc.rpartition("@")
    except ValueError:
        return _MASK
    user, colon, _ = who.partition(":")
    # A user without a password may itself be a token; a query may hold a password, too.
    known = f"{user}:{_MASK}" if colon else _MASK
    query = f"?{_MASK}" if parts.query else ""
    return f"{parts.scheme}://{known if at else ''}{at}{where}{parts.path}{query}"


def _in_file(settings: Settings) -> dict[str, str]:
    """The variables that files set, with the file that wins."""
    from pathlib import Path

    from dotenv import dotenv_values

    files = settings.model_config.get("env_file") or ()
    found: dict[str, str] = {}
    for file in [files] if isinstance(files, (str, os.PathLike)) else files:
        path = Path(file).expanduser()
        if path.is_file():
            values = dotenv_values(path)
            found |= {name.upper(): str(path) for name, value in values.items() if value}
    return found
