"""What the tests of tools and approvals share: policies, what waits, what was journaled."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from tests.execution.pulse.conftest import Lab


async def policy(lab: Lab, subject: str, decision: str) -> None:
    answer = await lab.client.put(
        "/api/tools/policies", json={"subject": subject, "decision": decision}
    )
    assert answer.status_code == 200, answer.text


async def waiting(lab: Lab, **query: str) -> list[dict[str, Any]]:
    answer = await lab.client.get("/api/approvals", params=query)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def paused(lab: Lab, prompt: str, **config: Any) -> tuple[UUID, list[dict[str, Any]]]:
    """A session that waits for people, and what it asks of them."""
    session_id = await lab.create(prompt, **config)
    await lab.until(session_id, "PAUSED")
    return session_id, await waiting(lab, session_id=str(session_id))


def used(journal: list[Any]) -> list[tuple[str, str, str]]:
    return [
        (row["name"], row["status"], json.loads(row["output"])["text"])
        for row in journal
        if row["kind"] == "tool"
    ]


async def events(lab: Lab, kind: str) -> list[dict[str, Any]]:
    rows = await lab.superuser.fetch(
        """select data from outbox where tenant_id = $1 and type = $2
           union all select data from events where tenant_id = $1 and type = $2""",
        lab.person.tenant_id,
        kind,
    )
    return [json.loads(row["data"]) for row in rows]
