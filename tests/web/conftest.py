from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.web.browsers import CHROMIUM, Visitor, chromium, visiting
from tests.web.installations import Installation, Tenant, installed

_numbers = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/tests/web/" in str(item.path):
            item.add_marker(pytest.mark.timeout(240))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    # Not a skip: `make test` installs it, and a dashboard that nobody has looked at is not tested.
    assert shutil.which(CHROMIUM), "Chromium is missing: apt-get install chromium"
    with sync_playwright() as playwright, chromium(playwright) as started:
        yield started


@pytest.fixture(scope="session")
def installation() -> Iterator[Installation]:
    """One for all tests that bring a tenant of their own."""
    with installed() as running:
        yield running


@pytest.fixture
def newcomer(installation: Installation) -> Iterator[Tenant]:
    """A tenant in which nobody has made the first steps."""
    with _tenant(installation) as made:
        yield made


@pytest.fixture
def tenant(installation: Installation) -> Iterator[Tenant]:
    """A tenant whose first steps are done, as most tests want it."""
    with _tenant(installation) as made:
        yield welcomed(made)


@pytest.fixture
def other(installation: Installation) -> Iterator[Tenant]:
    """Somebody else's."""
    with _tenant(installation) as made:
        yield welcomed(made)


def welcomed(tenant: Tenant) -> Tenant:
    tenant.call("PATCH", f"/api/tenants/{tenant.id}", {"settings": {"welcomed": True}})
    return tenant


@contextmanager
def _tenant(installation: Installation) -> Iterator[Tenant]:
    made = installation.tenant(f"tenant-{next(_numbers)}")
    with made.api:
        yield made


Visit = Callable[..., Visitor]


@pytest.fixture
def visit(browser: Browser, installation: Installation) -> Iterator[Visit]:
    """Opens a browser window of a new visitor; call it again for another person."""
    with ExitStack() as stack:

        def opened(place: Installation = installation, **options: Any) -> Visitor:
            window: AbstractContextManager[Visitor] = visiting(browser, place, **options)
            return stack.enter_context(window)

        yield opened
