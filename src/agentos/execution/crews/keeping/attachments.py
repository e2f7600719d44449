"""The files that come with a message, on their way into the team's workspace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentos.execution.crews.keeping.claims import Claim
from agentos.execution.crews.parts import CrewParts
from agentos.integrations.workspaces.workspace import Workspace
from agentos.kernel.errors import AgentOSError, Kind, Unavailable
from agentos.kernel.objects import BlobMissing

DIRECTORY = "attachments"


class AttachmentFailed(AgentOSError):
    """An attached file could not be brought to the agent."""

    code = "attachment_failed"
    kind = Kind.CONFLICT


async def bring_attachments(
    parts: CrewParts, claim: Claim, workspace: Workspace, attachments: Sequence[dict[str, Any]]
) -> list[str]:
    """Writes the objects into the workspace; returns the paths. Raises AttachmentFailed."""
    paths = []
    for attachment in attachments:
        path = f"{DIRECTORY}/{attachment['name']}"
        try:
            blob = await parts.objects.for_tenant(claim.tenant_id).get(attachment["object_id"])
            await workspace.write(path, b"".join([chunk async for chunk in blob]))
        except Unavailable:
            raise
        except BlobMissing as error:
            raise AttachmentFailed(f"The attached file {attachment['name']} is gone.") from error
        except AgentOSError as error:
            # The agent may have put something else there, or filled its workspace.
            raise AttachmentFailed(
                f"The attached file {attachment['name']} could not be written: {error.message}"
            ) from error
        paths.append(path)
    return paths
