"""Long lists: only what is in sight exists, and filters are in the address."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

from playwright.sync_api import expect

from tests.web.conftest import Visit
from tests.web.installations import Tenant
from tests.web.work import session

MANY = 600


def test_a_long_list_is_scrolled_to_its_end_with_few_rows_in_the_page(
    visit: Visit, tenant: Tenant
) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: session(tenant, title=f"Job {n}", run=False), range(MANY)))
    visitor = visit()
    visitor.enter(tenant.owner)
    visitor.open("/sessions")
    page = visitor.page
    rows = page.get_by_role("region", name="Sessions").get_by_role("listitem")
    expect(rows.first).to_be_visible()
    page.get_by_role("region", name="Sessions").focus()
    end = page.get_by_role("status").filter(has_text=re.compile(f"^{MANY} sessions$"))
    most = 0
    for _ in range(60):
        page.keyboard.press("End")
        most = max(most, rows.count())
        if end.is_visible() and rows.last.get_attribute("aria-posinset") == str(MANY):
            break
        page.wait_for_timeout(50)
    expect(end).to_be_visible()
    expect(rows.last).to_have_attribute("aria-posinset", str(MANY))
    assert most < 100, "rows out of sight are in the page"


def test_filters_are_in_the_address_and_survive_a_reload(visit: Visit, tenant: Tenant) -> None:
    session(tenant, title="Spring report", run=False)
    session(tenant, title="Autumn report", run=False)
    session(tenant, "say Done.", title="Spring cleaning")
    visitor = visit()
    visitor.enter(tenant.owner)
    visitor.open("/sessions")
    page = visitor.page
    rows = page.get_by_role("region", name="Sessions").get_by_role("listitem")
    expect(rows).to_have_count(3)
    page.get_by_label("Words in the title").fill("spring")
    expect(rows).to_have_count(2)
    page.get_by_label("State").select_option(label="Not started")
    expect(rows).to_have_count(1)
    expect(page).to_have_url(re.compile(r"q=spring.*state=created"))
    page.reload()
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("Spring report")
    expect(page.get_by_label("Words in the title")).to_have_value("spring")
    rows.first.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Spring report")
    page.go_back()
    expect(page).to_have_url(re.compile(r"q=spring.*state=created"))
    expect(rows).to_have_count(1)
