"""Teams as documents: YAML or JSON, as people write, keep and share them."""

from __future__ import annotations

import re
from typing import Any

import yaml
from pydantic import ValidationError

from agentos.execution.crews.errors import BadTeam, TeamTooLarge, UnreadableTeam
from agentos.execution.crews.schemas import TeamCreate, TeamDefinition
from agentos.execution.pulse.chains.errors import ChainTooLarge, DuplicateKey, UnreadableChain
from agentos.execution.pulse.chains.reading import MOST_BYTES, as_json, read_json, read_yaml

try:
    from yaml import CSafeDumper as _SafeDumper
except ImportError:  # a PyYAML that was built without libyaml: the same, slower
    from yaml import SafeDumper as _SafeDumper  # type: ignore[assignment]

_MOST_FAULTS = 3
# What looks like the name of a field, or a place in a list.
_PLAIN = re.compile(r"[A-Za-z_-]{1,40}|[0-9]{1,6}")
# Said even where it is what a document without it would mean.
_ALWAYS = ("name", "provider", "model")


def read(text: bytes, media_type: str = "application/yaml") -> TeamCreate:
    """The team that a document describes. Raises UnreadableTeam, TeamTooLarge, DuplicateKey, BadTeam."""
    if len(text) > MOST_BYTES:
        raise TeamTooLarge(f"The team has {len(text):,} bytes; {MOST_BYTES:,} is the most.")
    reader = read_json if media_type == "application/json" else read_yaml
    try:
        document = reader(text)
        # Both speak of the same things then: no dates, no sets, no numbers that are none.
        as_json(document)
    except UnreadableChain as error:
        raise UnreadableTeam(error.message, hint=error.advice) from error
    except ChainTooLarge as error:
        raise TeamTooLarge(
            "The document is nested too deeply, or has too many values once its aliases are followed."
        ) from error
    except DuplicateKey as error:
        raise UnreadableTeam(error.message, hint="Of two, one would be lost.") from error
    try:
        return TeamCreate.model_validate(document)
    except ValidationError as error:
        raise bad_team(error) from error


def write(team: TeamDefinition) -> str:
    """The team as YAML that `read` takes. Secrets are in it by their names alone."""
    return yaml.dump(
        shown(team),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=1_000_000,
    )


def shown(team: TeamDefinition) -> dict[str, Any]:
    """The team without what goes without saying."""
    whole = team.model_dump(mode="json", include=set(TeamDefinition.model_fields))
    said = team.model_dump(
        mode="json", include=set(TeamDefinition.model_fields), exclude_defaults=True
    )
    return {name: said.get(name, whole[name]) for name in whole if name in said or name in _ALWAYS}


def bad_team(error: ValidationError) -> BadTeam:
    """Says where and why. Never what was given: that may be a secret, even where a name belongs."""
    faults = [
        f"{'.'.join(map(_place, fault['loc'])) or 'the team'}: {fault['msg']}"
        for fault in error.errors(include_input=False, include_url=False)[:_MOST_FAULTS]
    ]
    return BadTeam("; ".join(faults))


def _place(part: int | str) -> str:
    return str(part) if _PLAIN.fullmatch(str(part)) else "…"


class _Dumper(_SafeDumper):
    """Text of several lines as a block, wherever a block keeps every character."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.Node:
    lines = text.split("\n")
    plain = all(line.replace("\t", " ").isprintable() for line in lines)
    style = "|" if len(lines) > 1 and plain else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
