"""A real browser for the tests of pages: one for each test module, and visits that note whatever goes wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

_HINT = (
    "expected Chromium or Chrome: install one (Debian and Ubuntu: `apt-get install chromium`), or set "
    "HOLDFAST_CHROMIUM to where it is"
)
_NAMES = ("chromium", "chromium-browser", "google-chrome")
# It talks to nobody, not even to update itself.
_QUIETLY = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_chromium() -> str:
    """Where the browser is; without one the test is skipped, except where CI is set: there it fails."""
    found = os.environ.get("HOLDFAST_CHROMIUM") or next(
        filter(None, map(shutil.which, _NAMES)), None
    )
    if found:
        return found
    if os.environ.get("CI"):
        pytest.fail(_HINT)
    pytest.skip(_HINT)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for the module."""
    executable = find_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable, args=_QUIETLY)
        yield launched
        launched.close()


@dataclass
class Visits:
    """Opens files, each in a context of its own, and notes every message, error and request but for the file itself."""

    browser: Browser
    troubles: list[str] = field(default_factory=list)
    contexts: list[BrowserContext] = field(default_factory=list)

    def __call__(self, path: Path, after: str = "", **context: Any) -> Page:
        """The page, once its script has run."""
        self.contexts.append(
            self.browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        )
        page = self.contexts[-1].new_page()
        own = path.resolve().as_uri()
        page.on("console", lambda message: self.troubles.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("request", lambda request: self._note(request.url, own))
        page.goto(own + after)
        if context.get("java_script_enabled", True):
            page.wait_for_selector("html[data-ready]", state="attached")
        return page

    def _note(self, url: str, own: str) -> None:
        if url.split("#")[0] != own:
            self.troubles.append(f"request: {url}")


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visits]:
    """Opens files; whatever a test does with them, nothing may go wrong and nothing may be fetched."""
    visits = Visits(browser)
    yield visits
    for context in visits.contexts:
        context.close()
    assert visits.troubles == []
