"""One browser and one seeded run for all tests of the page; tests whose browser is missing are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dashboard.browser import firefox, looking

HERE = Path(__file__).parent
CHROMIUM = (looking.CHROMIUM, "chromium")
FIREFOX = (firefox.FIREFOX, "firefox-esr")


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE not in item.path.parents or item.path.name == "test_built.py":
            continue
        path, package = FIREFOX if item.path.name == "test_firefox.py" else CHROMIUM
        if missing := looking.missing(path, package):
            item.add_marker(pytest.mark.skip(reason=missing))


@pytest.fixture(scope="session")
def playwright():
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=looking.WAIT)
    starting = sync_playwright()
    with firefox.driver_options():
        found = starting.start()
    yield found
    found.stop()


@pytest.fixture(scope="session")
def browser(playwright):
    found = looking.launched(playwright)
    yield found
    found.close()


@pytest.fixture(scope="session")
def seeded(tmp_path_factory):
    """Made-up answers of all families, a thousand queries among them; windows come when a test gives them."""
    from tests.dashboard.browser.seeding import Seeded

    with Seeded(tmp_path_factory.mktemp("seeded"), windows=12) as found:
        yield found


@pytest.fixture(scope="session")
def few(tmp_path_factory):
    """The same with few queries, which is quicker to open."""
    from tests.dashboard.browser.seeding import Seeded

    with Seeded(tmp_path_factory.mktemp("few"), windows=12, many=20) as found:
        yield found


@pytest.fixture
def look(browser):
    """Open a page; at the end it must have done nothing wrong."""
    opened = []

    def look(url, **options):
        one = looking.page_of(browser, url, **options)
        page, looked = one.__enter__()
        opened.append((one, looked))
        return page

    yield look
    for one, _ in opened:
        one.__exit__(None, None, None)
    assert [looked.wrong for _, looked in opened] == [[] for _ in opened]
