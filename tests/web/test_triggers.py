"""Schedules and webhooks: the lists say what came of each, as it happens."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.web.browsers import DESKTOP, PHONE
from tests.web.conftest import Visit
from tests.web.installations import Tenant
from tests.web.work import script


def _starts(*lines: str) -> dict[str, object]:
    """What starts a session that does what this script says."""
    return {"session": {"prompt": "Count them", "instructions": script(*lines), "model": "demo"}}


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_last_run_of_a_schedule(visit: Visit, tenant: Tenant, size: tuple[int, int]) -> None:
    body = {"name": "Count", "every_seconds": 86_400, **_starts("say There are seven.")}
    schedule = tenant.call("POST", "/api/schedules", body)["id"]
    visitor = visit(size=size)
    visitor.enter(tenant.owner)
    visitor.open("/schedules?view=list")
    page = visitor.page
    row = page.get_by_role("main").get_by_role("listitem").filter(has_text="Count")
    expect(row).to_contain_text("Last runNone")
    assert not visitor.scrolls_sideways()
    tenant.call("POST", f"/api/schedules/{schedule}/run")
    last = row.get_by_role("link", name="Succeeded : the last run of Count")
    last.click()
    run = page.get_by_role("main").get_by_role("listitem").filter(has_text="Succeeded")
    expect(run.get_by_role("button", name="Succeeded")).to_have_attribute("aria-expanded", "true")
    expect(run.get_by_role("region", name="Prompt")).to_have_text("Count them")
    expect(run.get_by_role("region", name="Result")).to_contain_text("There are seven.")


def test_the_last_run_of_a_webhook(visit: Visit, tenant: Tenant) -> None:
    body = {"name": "Builds", **_starts("fail invalid It made no sense.")}
    made = tenant.call("POST", "/api/webhooks", body)
    visitor = visit()
    visitor.enter(tenant.owner)
    visitor.open("/webhooks")
    page = visitor.page
    row = page.get_by_role("main").get_by_role("listitem").filter(has_text="Builds")
    expect(row).to_contain_text("Last runNone")
    tenant.call("POST", made["path"])
    row.get_by_role("link", name="Failed : the last run of Builds").click()
    error = page.get_by_role("region", name="Error")
    expect(error).to_contain_text("It made no sense.")
