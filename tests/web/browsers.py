"""A real browser that notices what a person would not: errors, leaks, broken rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    Playwright,
    Request,
    Response,
    expect,
)

from tests.web.installations import Installation, Person

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
AXE = Path(__file__).resolve().parents[2] / "web/node_modules/axe-core/axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
DESKTOP, PHONE = (1360, 860), (390, 844)

Theme = Literal["light", "dark"]

expect.set_options(timeout=15_000)


@contextmanager
def chromium(playwright: Playwright) -> Iterator[Browser]:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
    try:
        yield browser
    finally:
        browser.close()


@dataclass
class Visitor:
    """One person at one browser, with all that went wrong behind the screen."""

    page: Page
    context: BrowserContext
    installation: Installation
    troubles: list[str] = field(default_factory=list)
    # What a test brings about on purpose, as patterns of troubles.
    expected: list[str] = field(default_factory=list)

    def sign_in(self, person: Person) -> None:
        """Through the screen, as a person does."""
        self.page.goto("/sign-in")
        self.page.get_by_label("E-mail").fill(person.email)
        self.page.get_by_label("Password").fill(person.password)
        self.page.get_by_role("button", name="Sign in", exact=True).click()
        self.page.wait_for_url(re.compile(r"^((?!sign-in).)*$"))

    def enter(self, person: Person) -> None:
        """The same without the screen, for tests that are about something else."""
        # As a browser asks: it is the server's own page that signs in.
        answer = self.context.request.post(
            "/api/auth/token?cookie=true",
            data={"email": person.email, "password": person.password},
            headers={"Origin": self.installation.url},
        )
        assert answer.ok, answer.text()

    def open(self, path: str) -> None:
        """Goes there and waits until the screen has its title."""
        self.page.goto(path)
        expect(self.page.get_by_role("heading", level=1).first).to_be_visible()

    def settle(self) -> None:
        """Waits until nothing on the screen is still on its way."""
        expect(self.page.get_by_role("status", name="Loading")).to_have_count(0)
        # A colour on its way to another is nobody's to read; what moves for ever is not waited for.
        self.page.evaluate(
            """() => Promise.allSettled(document.getAnimations()
            .filter(each => Number.isFinite(each.effect.getComputedTiming().endTime))
            .map(each => each.finished))"""
        )

    def accessibility(self) -> list[str]:
        """What breaks WCAG 2.2 AA on this screen."""
        # By evaluate: the page's own policy refuses scripts from elsewhere, and should.
        self.page.evaluate(AXE.read_text())
        found = self.page.evaluate(
            """rules => axe.run(document, {runOnly: rules}).then(done => done.violations.map(each =>
            each.id + ": " + each.nodes.map(node => node.html.slice(0, 160)).join(" | ")))""",
            RULES,
        )
        return cast(list[str], found)

    def scrolls_sideways(self) -> bool:
        # The content scrolls in a box of its own, not with the window.
        wide = """[document.documentElement, document.querySelector("main")]
        .some(each => each && each.scrollWidth > each.clientWidth)"""
        return cast(bool, self.page.evaluate(wide))

    def unexpected(self) -> list[str]:
        return [
            trouble
            for trouble in self.troubles
            if not any(re.search(pattern, trouble) for pattern in self.expected)
        ]


@contextmanager
def visiting(
    browser: Browser,
    installation: Installation,
    *,
    theme: Theme = "light",
    size: tuple[int, int] = DESKTOP,
    **options: Any,
) -> Iterator[Visitor]:
    """A new visitor; in the end nothing may have gone wrong behind the screen."""
    context = browser.new_context(
        base_url=installation.url,
        viewport={"width": size[0], "height": size[1]},
        color_scheme=theme,
        **options,
    )
    visitor = Visitor(context.new_page(), context, installation)
    _watch(visitor)
    try:
        yield visitor
    finally:
        context.close()
    assert not visitor.unexpected(), visitor.unexpected()


def _watch(visitor: Visitor) -> None:
    page, troubles = visitor.page, visitor.troubles
    home = urlsplit(visitor.installation.url).netloc

    def answered(response: Response) -> None:
        if response.status >= 500:
            troubles.append(f"{response.status} {response.request.method} {response.url}")

    def said(message: ConsoleMessage) -> None:
        if message.type == "error":
            troubles.append(f"console: {message.text}")

    def asked(request: Request) -> None:
        if urlsplit(request.url).netloc not in (home, ""):
            troubles.append(f"left this machine: {request.url}")

    def failed(error: Error) -> None:
        troubles.append(f"error: {error}")

    page.on("console", said)
    page.on("pageerror", failed)
    page.on("response", answered)
    page.on("request", asked)
    # Told to the console, which is listened to; the page cannot call back into the test.
    page.add_init_script(
        """addEventListener("securitypolicyviolation", event =>
        console.error("policy: " + event.violatedDirective + " " + event.blockedURI))"""
    )
