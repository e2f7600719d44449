"""Teams to start from, one YAML document each in the folder `templates`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from agentos.execution.crews import documents
from agentos.execution.crews.schemas import TeamDefinition, TemplateRead

_FOLDER = Path(__file__).parent / "templates"


@cache
def templates() -> dict[str, TeamDefinition]:
    """All of them, by id: what their files are called."""
    return {path.stem: documents.read(path.read_bytes()) for path in sorted(_FOLDER.glob("*.yaml"))}


def described() -> list[TemplateRead]:
    """The templates as the API shows them."""
    return [
        TemplateRead(
            id=template_id,
            name=team.name,
            description=team.description,
            provider=team.provider,
            agents=[agent.name for agent in (team.leader, *team.workers)],
            definition=documents.shown(team),
        )
        for template_id, team in templates().items()
    ]
