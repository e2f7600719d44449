"""The files that come with a message, on their way into the team's workspace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentos.execution.crews.keeping.claims import Claim
from agentos.execution.crews.parts import CrewParts
from agentos.integrations.workspaces.workspace import Workspace
from agentos.kernel.logs import get_logger
from agentos.kernel.objects import BlobMissing

log = get_logger(__name__)

DIRECTORY = "attachments"


async def bring_attachments(
    parts: CrewParts, claim: Claim, workspace: Workspace, attachments: Sequence[dict[str, Any]]
) -> list[str]:
    """Writes the objects into the workspace; returns the paths. One that is gone is left out."""
    paths = []
    for attachment in attachments:
        try:
            blob = await parts.objects.for_tenant(claim.tenant_id).get(attachment["object_id"])
            data = b"".join([chunk async for chunk in blob])
        except BlobMissing:
            log.warning("an attachment is gone", object=attachment["object_id"])
            continue
        path = f"{DIRECTORY}/{attachment['name']}"
        await workspace.write(path, data)
        paths.append(path)
    return paths
