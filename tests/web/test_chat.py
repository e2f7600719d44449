"""Talking with a team: what is said is whole, whatever happens to the line."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, WebSocketRoute, expect

from tests.web.conftest import Visit
from tests.web.installations import Tenant
from tests.web.work import script, team

# Slow enough that the answer is still being written when the line is lost.
PIECES = 300
SLOW = [line for number in range(PIECES) for line in (f"say piece-{number}.", "wait 20")]


def test_a_streamed_answer_comes_with_code_that_can_be_copied(visit: Visit, tenant: Tenant) -> None:
    code = ["say Here you are:", "say", "say ~~~python", "say print(6 * 7)", "say ~~~"]
    page = _chat(visit, tenant, *code)
    _say(page, "Show me")
    expect(page.get_by_role("region", name="Code, python")).to_contain_text("print(6 * 7)")
    page.get_by_role("button", name="Copy code").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").strip() == "print(6 * 7)"


def test_messages_wait_while_an_answer_is_written_and_can_be_taken_back(
    visit: Visit, tenant: Tenant
) -> None:
    page = _chat(visit, tenant, "say Begun", "wait 5000", "say and done")
    _say(page, "The first")
    expect(_exchange(page, "The first")).to_contain_text("Begun")
    _say(page, "The second", button="Queue")
    _say(page, script("say Here is the third answer"), button="Queue")
    second = _exchange(page, "The second")
    expect(second).to_contain_text("Queued")
    second.get_by_role("button", name="Cancel").click()
    expect(second).to_contain_text("Stopped")
    expect(_exchange(page, "The first")).to_contain_text("and done")
    expect(_exchange(page, "third answer")).to_contain_text(
        re.compile("third answer.*third answer", re.S)
    )


def test_escape_stops_the_answer(visit: Visit, tenant: Tenant) -> None:
    page = _chat(visit, tenant, "say Begun", "wait 5000", "wait 5000", "say and never done")
    _say(page, "Go on")
    expect(_exchange(page)).to_contain_text("Begun")
    page.keyboard.press("Escape")
    expect(_exchange(page)).to_contain_text("Stopped")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    expect(_exchange(page)).not_to_contain_text("never done")


def test_a_lost_line_leaves_no_gap_and_says_nothing_twice(visit: Visit, tenant: Tenant) -> None:
    visitor = visit()
    lines: list[WebSocketRoute] = []

    def through(line: WebSocketRoute) -> None:
        line.connect_to_server()
        lines.append(line)

    page = visitor.page
    page.route_web_socket(re.compile("/api/events"), through)
    visitor.enter(tenant.owner)
    visitor.open(f"/chat/{team(tenant, *SLOW)}")
    _say(page, "Go on")
    expect(_exchange(page)).to_contain_text("piece-20.")
    lines[-1].close()
    expect(_exchange(page)).to_contain_text("piece-120.")
    assert len(lines) == 2, "it went on over a new line"
    lines[-1].close()
    _expect_whole(page)


def test_a_reload_in_the_middle_shows_the_whole_answer(visit: Visit, tenant: Tenant) -> None:
    page = _chat(visit, tenant, *SLOW)
    _say(page, "Go on")
    expect(_exchange(page)).to_contain_text("piece-20.")
    page.reload()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    expect(_exchange(page)).to_contain_text("piece-0.")
    assert _copy(page).count() == 0, "it is said again while it is written"
    _expect_whole(page)


def test_an_answer_in_thousands_of_pieces_is_whole(visit: Visit, tenant: Tenant) -> None:
    # Each line is two pieces of the stream: its word, and the break before it.
    page = _chat(visit, tenant, *(f"say piece-{number}." for number in range(1_000)))
    _say(page, "Go on")
    _expect_whole(page, 1_000)


def test_what_is_being_written_survives_a_reload(visit: Visit, tenant: Tenant) -> None:
    page = _chat(visit, tenant, "say Hello")
    _box(page).fill("Half a thought")
    page.reload()
    expect(_box(page)).to_have_value("Half a thought")
    expect(page.get_by_role("article")).to_have_count(0)


def _chat(visit: Visit, tenant: Tenant, *lines: str) -> Page:
    visitor = visit(permissions=["clipboard-read", "clipboard-write"])
    visitor.enter(tenant.owner)
    visitor.open(f"/chat/{team(tenant, *lines)}")
    return visitor.page


def _box(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message to Crew")


def _say(page: Page, text: str, button: str = "Send") -> None:
    _box(page).fill(text)
    page.get_by_role("button", name=button, exact=True).click()


def _exchange(page: Page, words: str = "") -> Locator:
    return page.get_by_role("log").get_by_role("article").filter(has_text=words)


def _copy(page: Page) -> Locator:
    """There once an answer is finished."""
    return page.get_by_role("button", name="Copy the answer")


def _expect_whole(page: Page, pieces: int = PIECES) -> None:
    """All that was said is there once and in order."""
    expect(_copy(page)).to_be_visible(timeout=60_000)
    said = re.findall(r"piece-(\d+)\.", _exchange(page).inner_text())
    assert [int(number) for number in said] == list(range(pieces))
