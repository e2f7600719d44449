"""Sessions as people lead them: started, held, allowed, forked, taken back, looked into."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.web.conftest import Visit
from tests.web.installations import Tenant
from tests.web.work import ended, script, session

WRITES = [
    'call write_file {"path": "one.txt", "content": "one"}',
    "then",
    'call write_file {"path": "two.txt", "content": "two"}',
    "say Both are written.",
]


def test_a_session_is_started_from_the_form_and_watched_to_its_end(
    visit: Visit, tenant: Tenant
) -> None:
    page = _open(visit, tenant, "/sessions/new")
    page.get_by_label("Task").fill(script('call write_file {"path": "a.txt"}', "say It is done."))
    page.get_by_text("More settings").click()
    page.get_by_label("Title").fill("From the form")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(_title(page)).to_contain_text("From the form")
    expect(_title(page)).to_contain_text("Complete")
    page.get_by_role("link", name="Result", exact=True).click()
    expect(page.get_by_role("main")).to_contain_text("It is done.")


def test_it_is_paused_and_resumed(visit: Visit, tenant: Tenant) -> None:
    page = _open(visit, tenant, "/sessions")
    session(tenant, "wait 5000", 'call write_file {"path": "a.txt"}', "say Done.", title="Slow")
    page.get_by_role("link", name=re.compile("^Slow")).click()
    page.get_by_role("button", name="Pause").click()
    expect(_title(page)).to_contain_text("Paused")
    page.get_by_role("button", name="Resume").click()
    expect(_title(page)).to_contain_text("Complete")


def test_an_approval_is_given_with_the_keyboard(visit: Visit, tenant: Tenant) -> None:
    gate = {"kind": "approval", "name": "ship", "question": "Ship it?"}
    made = session(tenant, "say Ready.", title="Release", gates=[gate])
    page = _open(visit, tenant, "/needs-you")
    card = page.get_by_role("article", name=re.compile("ship", re.I))
    expect(card).to_contain_text("Release")
    page.keyboard.press("a")
    expect(card).to_have_count(0)
    expect(page.get_by_text("Nothing needs you")).to_be_visible()
    page.goto(f"/sessions/{made}")
    expect(_title(page)).to_contain_text("Complete")


def test_a_rejection_tells_why(visit: Visit, tenant: Tenant) -> None:
    gate = {"kind": "approval", "name": "ship", "question": "Ship it?"}
    made = session(tenant, "say Ready.", title="Release", gates=[gate])
    page = _open(visit, tenant, f"/sessions/{made}")
    page.get_by_role("button", name=re.compile("^Reject")).click()
    page.get_by_label(re.compile("^Why not")).fill("Not on a Friday")
    page.get_by_role("button", name="Reject", exact=True).click()
    expect(_title(page)).to_contain_text("Failed")
    page.goto("/needs-you?state=rejected")
    expect(page.get_by_role("article")).to_contain_text("Not on a Friday")


def test_a_fork_is_a_session_of_its_own(visit: Visit, tenant: Tenant) -> None:
    made = session(tenant, *WRITES, title="The first way")
    ended(tenant, made)
    page = _open(visit, tenant, f"/sessions/{made}")
    page.get_by_role("button", name="Fork").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("What to do instead").fill(script("say Another way."))
    dialog.get_by_role("button", name="Fork", exact=True).click()
    expect(page).not_to_have_url(re.compile(made))
    expect(_title(page)).to_contain_text("Complete")
    page.get_by_role("link", name="Result", exact=True).click()
    expect(page.get_by_role("main")).to_contain_text("Another way.")
    assert tenant.call("GET", f"/api/sessions/{made}")["state"] == "COMPLETE"


def test_a_roll_back_says_first_what_it_undoes(visit: Visit, tenant: Tenant) -> None:
    made = session(tenant, *WRITES, title="Taken back")
    ended(tenant, made)
    steps = tenant.call("GET", f"/api/sessions/{made}/steps?limit=200")["items"]
    first = next(step["seq"] for step in steps if step["kind"] == "tool")
    page = _open(visit, tenant, f"/sessions/{made}?step={first}")
    page.get_by_role("button", name="Roll back to here").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("steps undone")
    dialog.get_by_text("Files that change").click()
    expect(dialog).to_contain_text("two.txt")
    dialog.get_by_role("button", name=re.compile("^Roll back to step")).click()
    expect(_title(page)).to_contain_text("Rolled back")
    expect(page.get_by_text("Undo the rollback")).to_be_visible()
    files = tenant.call("GET", f"/api/sessions/{made}/files")["files"]
    assert [file["path"] for file in files] == ["one.txt"]


def test_a_link_leads_to_a_step(visit: Visit, tenant: Tenant) -> None:
    made = session(tenant, *WRITES)
    ended(tenant, made)
    steps = tenant.call("GET", f"/api/sessions/{made}/steps?limit=200")["items"]
    second = [step["seq"] for step in steps if step["kind"] == "tool"][1]
    page = _open(visit, tenant, f"/sessions/{made}?step={second}")
    step = page.get_by_role("region", name=re.compile(f"^Step {second}:"))
    expect(step).to_contain_text("two.txt")
    page.get_by_role("region", name="Timeline").get_by_role("link").first.click()
    expect(page).to_have_url(re.compile(r"step=1\b"))
    expect(page.get_by_role("region", name=re.compile("^Step 1:"))).to_be_visible()


def test_a_failed_session_says_why_and_what_to_do(visit: Visit, tenant: Tenant) -> None:
    made = session(tenant, "fail invalid The request made no sense.")
    page = _open(visit, tenant, f"/sessions/{made}")
    expect(_title(page)).to_contain_text("Failed")
    expect(page.get_by_role("status").filter(has_text="It failed")).to_contain_text(
        "The request made no sense."
    )
    page.get_by_role("button", name="Continue with a prompt").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").first.fill(script("say It works now."))
    dialog.get_by_role("button", name=re.compile("^Continue")).click()
    expect(_title(page)).to_contain_text("Complete")


def _open(visit: Visit, tenant: Tenant, path: str) -> Page:
    visitor = visit()
    visitor.enter(tenant.owner)
    visitor.open(path)
    return visitor.page


def _title(page: Page) -> Locator:
    return page.get_by_role("heading", level=1)
