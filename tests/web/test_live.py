"""What one person does, others of the tenant see at once; other tenants never do."""

from __future__ import annotations

import re
from uuid import uuid4

from playwright.sync_api import Page, expect

from tests.web.browsers import Visitor
from tests.web.conftest import Visit
from tests.web.installations import Tenant
from tests.web.work import session, team


def test_a_new_team_shows_up_at_the_others(visit: Visit, tenant: Tenant) -> None:
    _, watcher = _two(visit, tenant)
    watcher.open("/teams")
    _stay(watcher.page)
    team(tenant, "say Hello", name="Newsroom")
    expect(watcher.page.get_by_role("link", name="Newsroom").first).to_be_visible()
    _expect_not_reloaded(watcher.page)


def test_a_pause_shows_up_at_the_others(visit: Visit, tenant: Tenant) -> None:
    doer, watcher = _two(visit, tenant)
    for each in (doer, watcher):
        each.open("/sessions")
    _stay(watcher.page)
    session(tenant, "wait 5000", 'call write_file {"path": "a.txt"}', "say Done.", title="Slow")
    row = watcher.page.get_by_role("link", name=re.compile("^Slow"))
    expect(row).to_contain_text("Running")
    doer.page.get_by_role("link", name=re.compile("^Slow")).click()
    doer.page.get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("Paused")
    doer.page.get_by_role("button", name="Resume").click()
    expect(row).to_contain_text("Complete")
    _expect_not_reloaded(watcher.page)


def test_a_conversation_is_the_same_for_both(visit: Visit, tenant: Tenant) -> None:
    doer, watcher = _two(visit, tenant)
    crew = team(tenant, "say Heard by both,", "wait 2000", "say word by word.")
    for each in (doer, watcher):
        each.open(f"/chat/{crew}")
    _stay(watcher.page)
    doer.page.get_by_role("textbox", name="Message to Crew").fill("Can everybody hear this?")
    doer.page.keyboard.press("Enter")
    for page in (watcher.page, doer.page):
        exchange = page.get_by_role("log").get_by_role("article")
        expect(exchange).to_have_count(1)
        expect(exchange).to_contain_text("Can everybody hear this?")
        expect(exchange).to_contain_text("Heard by both, word by word.")
    _expect_not_reloaded(watcher.page)


def test_another_tenant_sees_none_of_it(visit: Visit, tenant: Tenant, other: Tenant) -> None:
    crew = team(tenant, "say Hello", name="Secret crew")
    work = session(tenant, "say Hello", title="Secret work")
    visitor = visit()
    visitor.expected.append("404")
    visitor.enter(other.owner)
    page = visitor.page
    for path in ("/", "/teams", "/sessions", "/chat", "/chains", "/schedules", "/webhooks"):
        visitor.open(path)
        visitor.settle()
        expect(page.get_by_role("main")).not_to_contain_text("Secret")
    for place, foreign in (("teams", crew), ("chat", crew), ("sessions", work)):
        assert _told(visitor, f"/{place}/{foreign}") == _told(visitor, f"/{place}/{uuid4()}")
    # What happens elsewhere does not come over the line either.
    visitor.open("/sessions")
    session(tenant, "say Hello", title="Secret news")
    session(other, "say Hello", title="Own news")
    expect(page.get_by_role("link", name=re.compile("^Own news"))).to_be_visible()
    expect(page.get_by_role("main")).not_to_contain_text("Secret")


def _two(visit: Visit, tenant: Tenant) -> tuple[Visitor, Visitor]:
    """The owner and a member, each at a browser of their own."""
    doer, watcher = visit(), visit()
    doer.enter(tenant.owner)
    watcher.enter(tenant.invite("member"))
    return doer, watcher


def _told(visitor: Visitor, path: str) -> str:
    """What a screen says about something that is not there."""
    visitor.open(path)
    page = visitor.page
    missing = page.get_by_role("heading", name="Not found")
    expect(page.get_by_role("alert").or_(missing)).to_be_visible()
    told = page.get_by_role("main").inner_text()
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", told)


def _stay(page: Page) -> None:
    page.evaluate("window.stayed = true")


def _expect_not_reloaded(page: Page) -> None:
    assert page.evaluate("window.stayed === true"), "the page was loaded anew"
