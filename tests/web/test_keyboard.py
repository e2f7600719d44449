"""Everything without a mouse: signing in, going places, starting, allowing, talking."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.web.conftest import Visit
from tests.web.installations import Tenant
from tests.web.work import script, session, team

# Whether whoever uses the keyboard sees where they are.
RING = """() => {
  const style = getComputedStyle(document.activeElement);
  return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
}"""


def test_from_the_sign_in_to_a_conversation_without_a_mouse(visit: Visit, tenant: Tenant) -> None:
    team(tenant, "say Hello, keyboard.", name="Typists")
    visitor = visit()
    visitor.expected.append("401")
    page = visitor.page
    page.goto("/sign-in")
    _tab_to(page, "textbox", "E-mail")
    page.keyboard.type(tenant.owner.email)
    _tab_to(page, "textbox", "Password")
    page.keyboard.type(tenant.owner.password)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Good ")

    _go(page, "start a session")
    expect(page.get_by_label("Task")).to_be_focused()
    page.keyboard.type("Say it is done\n" + script("say It is done."))
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Complete")

    gate = {"kind": "approval", "name": "ship", "question": "Ship it?"}
    session(tenant, "say Ready.", title="Release", gates=[gate])
    page.keyboard.press("g")
    page.keyboard.press("n")
    expect(page.get_by_role("article")).to_contain_text("Release")
    _tab_to(page, "button", "Approve")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Nothing needs you")).to_be_visible()

    _go(page, "typists")
    expect(page.get_by_role("textbox", name="Message to Typists")).to_be_focused()
    page.keyboard.type("Are you there?")
    page.keyboard.press("Enter")
    expect(page.get_by_role("article")).to_contain_text("Hello, keyboard.")


def test_the_focus_is_seen_wherever_it_is(visit: Visit, tenant: Tenant) -> None:
    visitor = visit()
    visitor.enter(tenant.owner)
    for path in ("/", "/sessions", "/teams", "/settings/general"):
        visitor.open(path)
        visitor.settle()
        for _ in range(25):
            visitor.page.keyboard.press("Tab")
            where = visitor.page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
            seen = visitor.page.evaluate(RING) or where.startswith("<body")
            assert seen, f"{path}: the focus is not seen on {where}"


def test_the_content_is_one_key_away(visit: Visit, tenant: Tenant) -> None:
    visitor = visit()
    visitor.enter(tenant.owner)
    visitor.open("/teams")
    page = visitor.page
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    expect(page.get_by_role("heading", level=1)).to_have_text("Teams")


def test_a_window_keeps_the_focus_and_gives_it_back(visit: Visit, tenant: Tenant) -> None:
    visitor = visit()
    visitor.enter(tenant.owner)
    visitor.open("/settings/members")
    page = visitor.page
    _tab_to(page, "button", "Invite")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    for _ in range(12):
        page.keyboard.press("Tab")
        inside = "document.activeElement === document.body || !!document.activeElement.closest"
        assert page.evaluate(f"{inside}('dialog')"), "the focus has left the window"
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Invite")).to_be_focused()


def test_the_shortcuts_are_told(visit: Visit, tenant: Tenant) -> None:
    visitor = visit()
    visitor.enter(tenant.owner)
    visitor.open("/")
    visitor.page.keyboard.press("?")
    expect(visitor.page.get_by_role("dialog")).to_contain_text("Go to Sessions")


def _tab_to(page: Page, role: str, name: str) -> None:
    """Presses Tab until this control has the focus."""
    wanted = page.get_by_role("main").get_by_role(role, name=name)  # type: ignore[arg-type]
    expect(wanted.first).to_be_visible()
    for _ in range(60):
        if wanted.first.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"no way to {name} with the Tab key")


def _go(page: Page, words: str) -> None:
    """Through the command palette."""
    page.keyboard.press("Control+k")
    page.keyboard.type(words)
    expect(page.get_by_role("option").first).to_contain_text(words.split()[-1], ignore_case=True)
    page.keyboard.press("Enter")
