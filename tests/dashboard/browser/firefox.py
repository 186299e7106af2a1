"""Debian's Firefox, driven by Playwright over WebDriver BiDi.

Playwright has Firefox builds of its own, which must be downloaded. It drives a stock Firefox, too (the channel
`moz-firefox`), but expects the newest one. `firefox_driver.cjs` answers the commands that the extended-support release
does not know.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path

FIREFOX = Path("/usr/bin/firefox-esr")
SHIM = Path(__file__).with_name("firefox_driver.cjs")
UNKNOWN = ("is_mobile", "has_touch")  # options of contexts that Firefox does not have


@contextmanager
def driver_options():
    """Let the driver that Playwright starts now load the shim, if there is a Firefox."""
    if not FIREFOX.exists():
        yield
        return
    before = os.environ.get("NODE_OPTIONS")
    os.environ["NODE_OPTIONS"] = f"{before or ''} --require {SHIM}".strip()
    try:
        yield
    finally:
        if before is None:
            del os.environ["NODE_OPTIONS"]
        else:
            os.environ["NODE_OPTIONS"] = before


class Firefox:
    """As a browser of Playwright. There is one Firefox for each combination of preferences, started when needed."""

    def __init__(self, playwright) -> None:
        self._playwright = playwright
        self._running = {}

    def new_context(self, *, color_scheme: str = "light", reduced_motion: str = "no-preference", **options):
        found = self._running.get((color_scheme, reduced_motion))
        if found is None:
            found = self._running[color_scheme, reduced_motion] = self._playwright.firefox.launch(
                channel="moz-firefox",
                executable_path=str(FIREFOX),
                headless=True,
                firefox_user_prefs={
                    "layout.css.prefers-color-scheme.content-override": 0 if color_scheme == "dark" else 1,
                    "ui.prefersReducedMotion": int(reduced_motion == "reduce"),
                    "network.captive-portal-service.enabled": False,
                    "network.connectivity-service.enabled": False,
                },
            )
        return found.new_context(**{name: value for name, value in options.items() if name not in UNKNOWN})

    def close(self) -> None:
        for one in self._running.values():
            one.close()
