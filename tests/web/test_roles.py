"""What a role may not do is not offered, and refused when asked for anyway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.web.conftest import Visit
from tests.web.installations import Tenant
from tests.web.work import team


@dataclass(frozen=True)
class Offer:
    """A control of a screen that only some roles may use."""

    path: Callable[[str], str]
    role: str
    name: str

    def on(self, page: Page) -> Locator:
        main = page.get_by_role("main")
        if self.role == "link":
            return main.get_by_role("link", name=self.name).first
        return main.get_by_role("button", name=self.name, exact=True).first


def _offer(path: str, role: str, name: str) -> Offer:
    return Offer(lambda crew: path.replace("TEAM", crew), role, name)


NOT_FOR_MEMBERS = [
    _offer("/teams", "link", "New team"),
    _offer("/teams", "button", "Import YAML"),
    _offer("/teams/TEAM", "button", "Stop"),
    _offer("/schedules", "link", "New schedule"),
    _offer("/webhooks", "link", "New webhook"),
    _offer("/settings/general", "button", "Save"),
    _offer("/settings/members", "button", "Invite"),
    _offer("/settings/providers", "button", "Connect"),
    _offer("/settings/budgets", "button", "Set a budget"),
    _offer("/settings/vault", "button", "Store a secret"),
    _offer("/settings/keys", "button", "New API key"),
]
REFUSED: list[tuple[str, str, object]] = [
    ("POST", "/api/teams", {"name": "Mine", "leader": {"name": "lead"}}),
    ("POST", "/api/teams/TEAM/stop", {}),
    ("DELETE", "/api/teams/TEAM", None),
    ("POST", "/api/schedules", {"name": "mine", "every_seconds": 60, "session": {"prompt": "x"}}),
    ("POST", "/api/webhooks", {"name": "mine", "session": {"prompt": "x"}}),
    ("POST", "/api/invitations", {"email": "friend@example.com", "role": "owner"}),
    ("PUT", "/api/budgets", {"scope": "tenant", "cap_micros": 1}),
    ("POST", "/api/keys", {"name": "mine"}),
    ("GET", "/api/keys", None),
    ("GET", "/api/audit", None),
]


@pytest.mark.parametrize("role", ["owner", "member"])
def test_what_changes_the_tenant_is_offered_to_those_who_may(
    visit: Visit, tenant: Tenant, role: str
) -> None:
    crew = team(tenant, "say Hello")
    visitor = visit()
    visitor.enter(tenant.owner if role == "owner" else tenant.invite(role))
    for offer in NOT_FOR_MEMBERS:
        visitor.open(offer.path(crew))
        visitor.settle()
        if role == "owner":
            expect(offer.on(visitor.page)).to_be_visible()
        else:
            expect(offer.on(visitor.page)).to_have_count(0)


def test_the_server_refuses_a_member_who_asks_anyway(visit: Visit, tenant: Tenant) -> None:
    crew = team(tenant, "say Hello")
    visitor = visit()
    visitor.enter(tenant.invite("member"))
    visitor.open("/")
    for method, path, body in REFUSED:
        answer = visitor.page.request.fetch(
            path.replace("TEAM", crew),
            method=method,
            data=body,
            headers={"Origin": visitor.installation.url},
        )
        assert answer.status == 403, f"{method} {path}: {answer.status} {answer.text()}"
        assert answer.json()["code"] == "forbidden"
    assert tenant.call("GET", f"/api/teams/{crew}")["deployed"]


def test_a_member_sees_no_place_that_is_not_theirs(visit: Visit, tenant: Tenant) -> None:
    visitor = visit()
    visitor.enter(tenant.invite("member"))
    visitor.open("/settings/general")
    sections = visitor.page.get_by_role("navigation", name="Settings")
    expect(sections.get_by_role("link", name="Members")).to_be_visible()
    for name in ("API keys", "Audit log"):
        expect(sections.get_by_role("link", name=name)).to_have_count(0)
    visitor.open("/settings/audit")
    expect(visitor.page.get_by_text("Not for your role")).to_be_visible()


def test_a_member_works_with_what_there_is(visit: Visit, tenant: Tenant) -> None:
    crew = team(tenant, "say Hello, member.")
    visitor = visit()
    visitor.enter(tenant.invite("member"))
    visitor.open(f"/chat/{crew}")
    visitor.page.get_by_role("textbox", name="Message to Crew").fill("Hello")
    visitor.page.keyboard.press("Enter")
    expect(visitor.page.get_by_role("article")).to_contain_text("Hello, member.")
    visitor.open("/sessions")
    expect(visitor.page.get_by_role("link", name="Start a session").first).to_be_visible()
