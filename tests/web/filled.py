"""A tenant with some of everything in it."""

from __future__ import annotations

from typing import Any

from tests.web.installations import Tenant
from tests.web.work import ended, script, session

LONG = "A name that somebody made so long that no card, row or heading can hold it on one line"


def fill(tenant: Tenant) -> dict[str, str]:
    """Makes it; the ids of the things that have screens of their own."""
    crew = _team(tenant)
    ids = {"TEAM": crew, **_sessions(tenant), "CHAIN": _chain(tenant), **_triggers(tenant, crew)}
    _settings(tenant)
    return ids


def _make(tenant: Tenant, path: str, body: dict[str, Any]) -> str:
    return str(tenant.call("POST", path, body)["id"])


def _team(tenant: Tenant) -> str:
    lead = {"name": "lead", "role": LONG, "instructions": script("say Hello, **everybody**.")}
    body = {
        "name": LONG,
        "description": "Finds out what happened and writes it down.",
        "model": "demo",
        "leader": lead,
        "workers": [{"name": name, "role": f"Is the {name}"} for name in ("reader", "writer")],
        "skills": [{"name": "style", "description": "How we write", "instructions": "Plainly."}],
        "mcp_servers": [{"name": "web", "url": "https://mcp.example.com/mcp"}],
        "deploy": True,
    }
    crew = _make(tenant, "/api/teams", body)
    said = {"text": "Say hello to the people\n\n" + script("say ~~~python", "say print(1)")}
    message = _make(tenant, f"/api/teams/{crew}/messages", said)
    tenant.call("GET", f"/api/teams/{crew}/messages/{message}/wait?seconds=20")
    return crew


def _sessions(tenant: Tenant) -> dict[str, str]:
    write = 'call write_file {"path": "notes/first.md", "content": "# Notes"}'
    gate = {"kind": "approval", "name": "ship", "question": "Ship it?"}
    done = session(tenant, write, "say It is **done**.", title=LONG)
    failed = session(tenant, "fail invalid The request made no sense.", title="Failed")
    for each in (done, failed):
        ended(tenant, each)
    return {"DONE": done, "FAILED": failed, "WAITING": session(tenant, "say Go?", gates=[gate])}


def _chain(tenant: Tenant) -> str:
    nodes = {
        "draft": {"prompt": "Write about rain", "model": "demo"},
        "better": {"prompt": "Improve {{ nodes.draft.text }}", "model": "demo"},
    }
    return _make(tenant, "/api/chains", {"name": LONG, "nodes": nodes})


def _triggers(tenant: Tenant, crew: str) -> dict[str, str]:
    asks = {"team_id": crew, "prompt": "What is new?"}
    schedule = _make(tenant, "/api/schedules", {"name": LONG, "cron": "0 9 * * 1-5", **asks})
    webhook = _make(tenant, "/api/webhooks", {"name": LONG, **asks})
    return {"SCHEDULE": schedule, "WEBHOOK": webhook}


def _settings(tenant: Tenant) -> None:
    tenant.call("PUT", "/api/vault/GITHUB_TOKEN", {"value": "not-so-secret-1234"})
    tenant.call("PUT", "/api/budgets", {"scope": "tenant", "cap_micros": 5_000_000})
    tenant.call("POST", "/api/invitations", {"email": "soon@example.com", "role": "admin"})
    tenant.invite("member")
