"""Somebody who has just installed it, up to the first answer."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.web.conftest import Visit
from tests.web.installations import Installation, Tenant, installed


@pytest.fixture
def fresh() -> Iterator[Installation]:
    """Nobody has been there: the first steps are still to be made."""
    with installed() as running:
        yield running


def test_a_newcomer_comes_to_a_first_answer(fresh: Installation, visit: Visit) -> None:
    visitor = visit(fresh)
    visitor.expected.append("401")
    page = visitor.page
    page.goto("/")
    page.get_by_role("button", name="Continue as the demo owner").click()
    expect(_title(page)).to_have_text("Name your tenant")
    page.get_by_label("Tenant").fill("Acme Robotics")
    page.get_by_role("button", name="Continue").click()
    expect(_title(page)).to_have_text("Choose a model")
    expect(page.get_by_role("radio", name=re.compile("^Built-in"))).to_be_checked()
    page.get_by_role("button", name="Continue").click()
    expect(_title(page)).to_have_text("Meet your first team")
    page.get_by_role("radio", name=re.compile("^Personal assistant", re.I)).check()
    page.get_by_label("Your first message").fill("What is 12 * 7?")
    page.get_by_role("button", name="Create the team and say hello").click()

    page.wait_for_url(re.compile("/chat/"))
    exchange = page.get_by_role("log").get_by_role("article").first
    expect(exchange).to_contain_text("What is 12 * 7?")
    expect(exchange).to_contain_text("12 * 7 = 84")
    expect(page.get_by_role("button", name=re.compile("Acme Robotics"))).to_be_visible()
    page.goto("/")
    expect(_title(page)).to_contain_text("Good ")


def test_the_first_steps_can_be_skipped_and_do_not_come_back(
    visit: Visit, newcomer: Tenant
) -> None:
    visitor = visit()
    visitor.enter(newcomer.owner)
    page = visitor.page
    page.goto("/")
    expect(_title(page)).to_have_text("Name your tenant")
    page.get_by_role("button", name="Skip, I will look around").click()
    expect(_title(page)).to_contain_text("Good ")
    expect(page.get_by_role("link", name="Create a team")).to_be_visible()
    page.reload()
    expect(_title(page)).to_contain_text("Good ")


def _title(page: Page) -> Locator:
    return page.get_by_role("heading", level=1)
