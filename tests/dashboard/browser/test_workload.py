"""The workload is changed from the page: explained first, then applied; dropped only when confirmed."""

from __future__ import annotations

import pytest

from tests.dashboard.browser.looking import page_of
from tests.dashboard.browser.seeding import Seeded

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect

SQL = "fresh: TOPK price, 4 OVER 5 MINUTES EVERY 1 MINUTE"


def test_a_query_is_added_after_it_was_explained_and_dropped_again(look, seeded):
    page = look(seeded.url, place="/workload")
    form = page.get_by_role("form", name="Add a query")
    expect(form.get_by_role("button", name="Add", exact=True)).to_be_disabled()
    form.get_by_label("Add a query").fill(SQL)
    form.get_by_role("button", name="Explain").click()
    expect(form.locator(".explained")).to_contain_text("sharing classes")
    expect(form.locator(".chip")).to_contain_text("cost")
    assert "fresh" not in seeded.show.queries()  # nothing has been done yet
    form.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator(".reply")).to_contain_text("'fresh'")
    seeded.give()
    page.get_by_role("link", name="Leaderboards", exact=True).click()
    page.get_by_label("Find queries").fill("fresh")
    expect(page.get_by_role("option", name="fresh")).to_have_attribute("aria-selected", "true")  # among the first six
    expect(page.locator('.card[data-query="fresh"] tr.line')).to_have_count(4)

    page.get_by_role("link", name="Workload").click()
    page.locator(".queries-scroll").evaluate("box => box.scrollTop = 0")
    drop = page.get_by_role("button", name="Drop fresh")
    expect(drop).to_be_visible()
    drop.click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert "fresh" in seeded.show.queries()
    drop.click()
    page.get_by_role("button", name="Drop query").click()
    expect(page.locator(".reply")).to_contain_text("dropped 'fresh'")
    expect(drop).to_have_count(0)


def test_a_query_added_between_two_connections_is_listed(look, tmp_path):
    with Seeded(tmp_path, windows=2, many=9) as seeded:
        page = look(seeded.url)
        expect(page.get_by_role("option")).to_have_count(16)
        held, is_held = [], True

        def hold(route):
            held.append(route) if is_held else route.continue_()

        page.route("**/api/events*", hold)
        page.get_by_role("option", name="q0008").click()  # another card: another connection
        while not held:
            page.wait_for_timeout(10)
        page.wait_for_timeout(300)  # cards that are opened together are requested together
        seeded.show.control.add(SQL, "trades")
        seeded.show.refresh()  # before the new connection is made
        is_held = False
        for one in held:
            one.continue_()
        expect(page.get_by_role("option", name="fresh")).to_be_visible()
        page.context.close()


def test_what_makes_no_sense_is_refused_with_the_reason(browser, seeded):
    with page_of(browser, seeded.url, place="/workload") as (page, looked):
        form = page.get_by_role("form", name="Add a query")
        form.get_by_label("Add a query").fill("TOPK <b>nothing</b>")
        form.get_by_role("button", name="Explain").click()
        expect(page.locator(".reply.error")).to_be_visible()
        expect(form.get_by_role("button", name="Add", exact=True)).to_be_disabled()
        assert page.locator(".reply b").count() == 0
    assert all("422" in one for one in looked.wrong)  # the browser notes the refused request itself


def test_without_the_token_it_can_only_be_looked_at(look, seeded):
    page = look(seeded.url.partition("#")[0], place="/workload")
    expect(page.get_by_text("It contains the token.")).to_be_visible()
    assert page.get_by_role("button", name="Drop").count() == 0
    assert page.get_by_role("textbox").count() == 0
