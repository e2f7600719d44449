"""Every screen, empty and filled, light and dark, wide and on a phone: for everybody to use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.web.browsers import DESKTOP, PHONE, Visitor, visiting
from tests.web.conftest import Visit, welcomed
from tests.web.filled import fill
from tests.web.installations import Installation

ROUTER = Path(__file__).resolve().parents[2] / "web/src/router.tsx"
TENANT = ["general", "members", "plan", "providers", "budgets"]
SECTIONS = [*TENANT, "tools", "vault", "keys", "audit", "account"]
OUTSIDE = ["/sign-in", "/register", "/join?token=none"]
EMPTY = [
    "/",
    "/welcome",
    "/welcome?step=model",
    "/welcome?step=team",
    "/needs-you",
    "/chat",
    "/teams",
    "/teams/new",
    "/sessions",
    "/sessions?q=nothing",
    "/sessions/new",
    "/chains",
    "/chains/new",
    "/schedules",
    "/schedules?new=1",
    "/webhooks",
    "/webhooks?new=1",
    "/usage",
    "/nowhere",
    *(f"/settings/{section}" for section in SECTIONS),
]
# In capitals: the ids of what the tenant has.
FILLED = [
    "/",
    "/needs-you",
    "/needs-you?state=approved",
    "/chat/TEAM",
    "/chat/TEAM?q=hello",
    "/teams",
    "/teams/TEAM",
    *(f"/teams/TEAM?tab={tab}" for tab in ("agents", "skills", "mcp", "logs", "settings")),
    "/sessions",
    *(f"/sessions/DONE?tab={tab}" for tab in ("result", "timeline", "files", "cost", "setup")),
    "/sessions/DONE?step=6",
    "/sessions/FAILED",
    "/sessions/WAITING",
    "/sessions/WAITING?tab=checks",
    "/chains",
    "/chains/CHAIN",
    "/chains/CHAIN?view=list",
    "/schedules",
    "/schedules?view=list",
    "/schedules/SCHEDULE",
    "/webhooks",
    "/webhooks/WEBHOOK",
    "/usage",
    *(f"/settings/{section}" for section in SECTIONS),
]


@pytest.fixture(scope="module")
def at_empty(browser: Browser, installation: Installation) -> Iterator[Visitor]:
    tenant = installation.tenant("bare")
    with tenant.api, visiting(browser, installation) as visitor:
        visitor.enter(welcomed(tenant).owner)
        yield visitor


@pytest.fixture(scope="module")
def at_filled(
    browser: Browser, installation: Installation
) -> Iterator[tuple[Visitor, dict[str, str]]]:
    tenant = installation.tenant("rich")
    with tenant.api, visiting(browser, installation) as visitor:
        visitor.enter(welcomed(tenant).owner)
        yield visitor, fill(tenant)


@pytest.mark.parametrize("path", OUTSIDE)
def test_everybody_can_come_in(visit: Visit, path: str) -> None:
    visitor = visit()
    visitor.expected.append("401")
    _expect_usable(visitor, path)


@pytest.mark.parametrize("path", EMPTY)
def test_everybody_can_use_an_empty(at_empty: Visitor, path: str) -> None:
    _expect_usable(at_empty, path)


@pytest.mark.parametrize("path", FILLED)
def test_everybody_can_use_a_filled(at_filled: tuple[Visitor, dict[str, str]], path: str) -> None:
    visitor, ids = at_filled
    _expect_usable(visitor, re.sub("[A-Z]{2,}", lambda name: ids[name.group()], path))


def test_no_screen_is_left_out() -> None:
    routes = set(re.findall(r'path: "([^"]+)"', ROUTER.read_text())) - {"/settings"}
    looked_at = {path.partition("?")[0] for path in (*OUTSIDE, *EMPTY, *FILLED)}
    for route in routes:
        pattern = re.sub(r"\$\w+", "[A-Za-z]+", route)
        assert any(re.fullmatch(pattern, path) for path in looked_at), route


def _expect_usable(visitor: Visitor, path: str) -> None:
    """Readable and operable in both themes, and no wider than a phone."""
    page = visitor.page
    page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
    page.emulate_media(color_scheme="light")
    visitor.open(path)
    visitor.settle()
    assert visitor.accessibility() == [], "light"
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    visitor.settle()
    assert visitor.accessibility() == [], "dark"
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert not visitor.scrolls_sideways(), "on a phone it is wider than the window"
    assert visitor.unexpected() == []
