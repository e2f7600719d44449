"""The dashboard's own tests, and what the gateway expects of its build."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos import web_build
from agentos.gateway.ui import load_ui

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.skipif(web_build.is_skipped(), reason=f"{web_build.SKIP} is set")


@pytest.mark.timeout(600)
def test_the_dashboards_own_tests_pass() -> None:
    node = web_build.install(ROOT, print)
    # Fails with what they said.
    node.npm(ROOT / "web", "test")


def test_it_is_built_from_its_sources() -> None:
    assert web_build.complaint() is None


def test_the_page_learns_where_it_is() -> None:
    page = load_ui("/agentos").find({"method": "GET", "path": "/"})
    assert page is not None
    assert b'<base href="/agentos/">' in page.plain.content


def test_the_page_needs_nothing_that_its_policy_forbids() -> None:
    page = load_ui("").find({"method": "GET", "path": "/"})
    assert page is not None
    text = page.plain.content.decode()
    assert "<style" not in text
    assert " style=" not in text
    assert text.count("<script") == text.count("<script ")
    for script in text.split("<script ")[1:]:
        assert " src=" in f" {script.partition('>')[0]}", "no script inside the page"
