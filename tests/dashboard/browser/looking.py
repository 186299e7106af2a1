"""A browser that looks at pages and notes whatever a page should not do."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import wait_for

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",  # root runs it here, and in CI
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WAIT = 300_000  # ms; on a busy machine everything comes, but later

# What a table of the page shows, row by row; numbers as they came, not as they are rounded for the eye.
SHOWN = """table => [...table.querySelectorAll('tbody tr.line')].map(row => [
  Number(row.querySelector('.rank .number').textContent),
  row.querySelector('.object button').textContent,
  row.querySelector('.score data').getAttribute('value'),
])"""

# What the page's policy forbade, said aloud.
REPORT = """addEventListener('securitypolicyviolation', event =>
  console.error(`forbidden: ${event.violatedDirective} ${event.blockedURI}`))"""


def launched(playwright, *flags: str):
    """Debian's Chromium; no other is fetched."""
    return playwright.chromium.launch(executable_path=str(CHROMIUM), args=[*FLAGS, *flags], headless=True)


def missing(path: Path, package: str) -> str | None:
    """Why there can be no browser, if so."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "playwright is not installed"
    if not path.exists():
        return f"there is no {path} (apt-get install {package})"
    return None


class Looked:
    """What a page did that it should not have done."""

    def __init__(self, origin: str) -> None:
        self.origin = origin.rstrip("/")
        self.wrong: list[str] = []

    def at(self, page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", self._request)
        page.add_init_script(REPORT)

    def _console(self, message) -> None:
        if "net::ERR_NETWORK_CHANGED" in message.text:
            return  # tests of faults add network interfaces to this machine meanwhile; the page connects again
        if message.type in ("error", "warning"):
            self.wrong.append(f"{message.type}: {message.text}")

    def _dialog(self, dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request) -> None:
        if not request.url.startswith((self.origin + "/", "data:")):
            self.wrong.append(f"request: {request.url}")


@contextmanager
def page_of(browser, url: str, *, place: str = "", width: int = 1440, height: int = 900, **options):
    """A page in a context of its own, and what it did wrong."""
    base, _, fragment = url.partition("#")
    looked = Looked(base)
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    context.set_default_timeout(WAIT)
    try:
        page = context.new_page()
        looked.at(page)
        if fragment and place:  # the token, which the page takes out of the address and keeps
            fragment = f"{place}{'&' if '?' in place else '?'}{fragment}"
        page.goto(f"{base}#{fragment or place}")
        page.wait_for_selector(".status.live, .status.ended")
        assert "token" not in page.url
        yield page, looked
    finally:
        context.close()


def until(page, expression: str) -> None:
    """Wait for it to be true. (Playwright's own way evaluates a text in the page, which the page's policy forbids.)"""
    wait_for(lambda: page.evaluate(expression) or page.wait_for_timeout(25), WAIT / 1000, pause=0)


def card(page, query: str):
    return page.locator(f'.card[data-query="{query}"]')


def shown(page, query: str):
    """The rows of a card that are in the document."""
    return card(page, query).locator("table").evaluate(SHOWN)


def axe_script() -> str | None:
    """The source of axe-core, where the distribution that carries it is installed."""
    try:
        import axe_playwright_python
    except ImportError:
        return None
    return (Path(os.fspath(axe_playwright_python.__file__)).parent / "axe.min.js").read_text(encoding="utf-8")
