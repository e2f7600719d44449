"""Work for the built-in model, made through the API, that tests then look at in the browser."""

from __future__ import annotations

from typing import Any

from tests.web.installations import Tenant


def script(*lines: str) -> str:
    """What the built-in model shall say and do, line by line (docs/demo-model.md)."""
    return "\n".join(["```demo", *lines, "```"])


def team(tenant: Tenant, *lines: str, name: str = "Crew") -> str:
    """A deployed team that answers its first message by this script; its id.

    The script is in the instructions, so that the conversation shows only what was said.
    """
    leader = {"name": "lead", "role": "Answers", "instructions": script(*lines)}
    body = {"name": name, "model": "demo", "leader": leader, "deploy": True}
    return str(tenant.call("POST", "/api/teams", body)["id"])


def session(tenant: Tenant, *lines: str, title: str = "Work", **config: Any) -> str:
    """A session that does what this script says; its id."""
    body = {"prompt": "Do it", "instructions": script(*lines), "model": "demo", "title": title}
    return str(tenant.call("POST", "/api/sessions", {**body, **config})["id"])


def ended(tenant: Tenant, session_id: str) -> None:
    """Returns when the session has ended."""
    # Its words are streamed until then.
    with tenant.api.stream("GET", f"/api/sessions/{session_id}/live") as words:
        for _ in words.iter_lines():
            pass
