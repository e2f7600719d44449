"""Coming in: with an account, with an invitation, and not without either."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.web.conftest import Visit
from tests.web.installations import Person, Tenant


def test_an_owner_signs_in_and_comes_to_where_they_were_going(visit: Visit, tenant: Tenant) -> None:
    visitor = visit()
    visitor.expected.append("401")
    page = visitor.page
    page.goto("/sessions?state=failed")
    page.get_by_label("E-mail").fill(tenant.owner.email)
    page.get_by_label("Password").fill(tenant.owner.password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page).to_have_url(re.compile(r"/sessions\?state=failed$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Sessions")


def test_a_wrong_password_is_said_and_nothing_is_kept(visit: Visit, tenant: Tenant) -> None:
    visitor = visit()
    visitor.expected.append("401")
    page = visitor.page
    page.goto("/sign-in")
    page.get_by_label("E-mail").fill(tenant.owner.email)
    page.get_by_label("Password").fill("wrong horse battery staple")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("password")
    assert visitor.context.cookies() == []


def test_scripts_cannot_read_the_credentials(visit: Visit, tenant: Tenant) -> None:
    visitor = visit()
    visitor.expected.append("401")
    visitor.sign_in(tenant.owner)
    assert {cookie["name"] for cookie in visitor.context.cookies()} >= {
        "agentos_access",
        "agentos_refresh",
    }
    assert visitor.page.evaluate("document.cookie") == ""
    stored = visitor.page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
    assert "eyJ" not in stored, "no token in the browser's storage"


def test_an_invited_person_joins(visit: Visit, tenant: Tenant) -> None:
    email = f"new@{tenant.slug}.example"
    invited = tenant.call("POST", "/api/invitations", {"email": email, "role": "member"})
    visitor = visit()
    page = visitor.page
    page.goto(f"/join?token={invited['token']}")
    page.get_by_label("Your name").fill("Nora New")
    page.get_by_label("Password").fill("another long password")
    page.get_by_role("button", name="Join").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Nora")
    emails = [member["email"] for member in tenant.call("GET", "/api/members")["items"]]
    assert email in emails


def test_signing_out_ends_it_here_and_on_the_server(visit: Visit, tenant: Tenant) -> None:
    visitor = visit()
    visitor.expected.append("401")
    visitor.sign_in(tenant.owner)
    before = {cookie["name"]: cookie["value"] for cookie in visitor.context.cookies()}
    page = visitor.page
    page.get_by_role("button", name=re.compile("Olive Owner")).click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert visitor.context.cookies() == []
    again = page.request.post(
        "/api/auth/refresh",
        data={"refresh_token": before["agentos_refresh"]},
    )
    assert again.status == 401


def test_an_access_that_ran_out_is_renewed_without_a_word(visit: Visit, tenant: Tenant) -> None:
    visitor = visit()
    visitor.expected += ["401", "no valid credentials"]
    visitor.sign_in(tenant.owner)
    visitor.context.clear_cookies(name="agentos_access")
    visitor.open("/sessions")
    expect(visitor.page.get_by_role("heading", level=1)).to_have_text("Sessions")


def test_somebody_unknown_is_asked_to_sign_in_wherever_they_go(visit: Visit) -> None:
    visitor = visit()
    visitor.expected.append("401")
    for path in ("/", "/teams", "/settings/audit"):
        visitor.page.goto(path)
        expect(visitor.page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_the_demo_owner_is_one_click_away_on_a_local_installation(visit: Visit) -> None:
    visitor = visit()
    visitor.expected.append("401")
    page = visitor.page
    page.goto("/")
    page.get_by_role("button", name="Continue as the demo owner").click()
    expect(page.get_by_role("navigation", name="Main").first).to_be_visible()


def test_a_person_without_an_account_is_told_whom_to_ask(visit: Visit) -> None:
    visitor = visit()
    visitor.page.goto("/sign-in")
    expect(visitor.page.get_by_text("Ask an owner or admin")).to_be_visible()


def test_nobody_signs_in_with_a_tenant_that_is_not_theirs(visit: Visit) -> None:
    visitor = visit()
    visitor.expected.append("401")
    page = visitor.page
    page.goto("/sign-in")
    stranger = Person("nobody@nowhere.example", "some long password")
    page.get_by_label("E-mail").fill(stranger.email)
    page.get_by_label("Password").fill(stranger.password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
