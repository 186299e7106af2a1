"""The address of a page is what it shows: opened directly it shows the same, and back and forward move through it."""

from __future__ import annotations

import re

import pytest

from tests.dashboard.browser.looking import card, until
from tests.dashboard.browser.seeding import Seeded, Served
from tests.waiting import wait_for

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect


@pytest.fixture(scope="module")
def still(tmp_path_factory):
    """A run that gives no windows while a test looks, unless it asks for one."""
    with Seeded(tmp_path_factory.mktemp("still"), windows=12, many=3) as found:
        yield found


# Charts are left out: which of their lines is marked depends on the pointer and the focus.
TEXT = """() => [
  [...document.querySelectorAll('main :is(h2, p, th, td, time, dt, dd)')].map(one => one.textContent),
  [...document.querySelectorAll('dialog :is(h2, dt, dd)')].map(one => one.textContent),
  [...document.querySelectorAll('main :is(input, select)')].map(one => one.value),
]"""
ROWS = """side => [...side.querySelectorAll('tr.line')]
  .map(row => [row.dataset.key, row.querySelector('.move').className])"""


def text_of(page):
    """What is read on a page: its text, its dialog, and what its fields hold."""
    return page.evaluate(TEXT)


def come_to_rest(page):
    """The text of a page once it no longer changes."""
    seen = []

    def is_same():
        page.wait_for_timeout(300)
        seen.append(text_of(page))
        return len(seen) > 3 and seen[-1] == seen[-2] == seen[-3]

    wait_for(is_same, pause=0)
    return seen[-1]


def pick_group(page):
    field = card(page, "by symbol").get_by_role("combobox")
    field.click()
    field.fill("S017")
    page.get_by_role("option", name="S017").click()
    expect(page).to_have_url(re.compile("S017"))


def earlier_window(page):
    page.wait_for_selector(".bump .trace")
    before = page.locator(".time-parts h2 time").get_attribute("datetime")
    page.get_by_role("button", name="Previous window").click()
    expect(page).to_have_url(re.compile("at="))
    expect(page.locator(".time-parts h2 time")).not_to_have_attribute("datetime", before)


def open_row(page):
    card(page, "largest").locator("tr.line").nth(2).click()
    page.wait_for_selector("dialog[open]")
    expect(page).to_have_url(re.compile("row="))


def open_row_of_a_window(page):
    earlier_window(page)
    page.locator(".time-parts tr.line").nth(1).click()
    page.wait_for_selector("dialog[open]")


def name_by_price(page):
    page.wait_for_selector(".time-parts tr.line")
    page.get_by_label("Named by").select_option("price")
    expect(page.locator(".time-parts tr.line button").first).to_have_text(re.compile(r"\d+\.\d+"))


def fewer_windows(page):
    page.wait_for_selector(".bump .trace")
    page.locator(".charts select").select_option("60")
    expect(page).to_have_url(re.compile("last=60"))


def compare_windows(page):
    page.wait_for_selector(".time-parts tr.line")
    page.get_by_role("link", name="Compare", exact=True).last.click()
    expect(page.locator(".compare-side tr.line")).to_have_count(20)


def compare_groups(page):
    expect(page.locator(".compare-side tr.line")).to_have_count(6)
    second = page.get_by_role("region", name="Second window").get_by_role("combobox").first
    second.click()
    second.fill("S009")
    page.get_by_role("option", name="S009").click()
    expect(page).to_have_url(re.compile("to-group"))
    expect(second).to_have_value("S009")


def another_stream(page):
    page.get_by_role("link", name="flows").click()
    page.wait_for_selector(".lags")


WAYS = {
    "a card": ("/boards?card=largest", lambda page: page.get_by_role("option", name="thousand").click()),
    "a group": ("/boards?card=by+symbol", pick_group),
    "a window": ("/time?query=largest", earlier_window),
    "a row": ("/boards?card=largest", open_row),
    "a row of a window": ("/time?query=largest", open_row_of_a_window),
    "a label": ("/time?query=largest", name_by_price),
    "a span": ("/time?query=largest", fewer_windows),
    "two windows": ("/time?query=largest", compare_windows),
    "two groups": ("/compare?query=by+symbol", compare_groups),
    "a stream": ("/engine?stream=trades", another_stream),
}


# Each opens the dashboard twice.
FIRST = ("a group", "a row of a window", "two windows")


@pytest.mark.parametrize("way", [pytest.param(way, marks=() if way in FIRST else pytest.mark.long) for way in WAYS])
def test_an_address_shows_what_it_showed(look, still, way):
    place, walk = WAYS[way]
    page = look(still.url, place=place)
    first = come_to_rest(page)
    walk(page)
    after = come_to_rest(page)
    assert after != first
    fragment = page.url.partition("#")[2]
    other = look(still.url, place=fragment)
    wait_for(lambda: text_of(other) == after or other.wait_for_timeout(50), pause=0)
    assert other.url.partition("#")[2] == fragment
    if "engine" in place:
        return  # its numbers go on
    for _ in range(10):
        page.go_back()
        if come_to_rest(page) == first:
            break
    assert text_of(page) == first
    for _ in range(10):
        page.go_forward()
        if come_to_rest(page) == after:
            break
    assert text_of(page) == after


def test_a_copied_link_stays_at_its_window(look, still):
    page = look(still.url, place="/boards?card=by+symbol")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    expect(card(page, "by symbol").locator("tr.line")).to_have_count(3)
    moment = card(page, "by symbol").locator("time").get_attribute("datetime")
    group = card(page, "by symbol").get_by_role("combobox").input_value()
    card(page, "by symbol").get_by_role("button", name="Copy link").click()
    expect(page.locator(".unseen[role=status]").last).to_have_text("Link copied")
    link = page.evaluate("navigator.clipboard.readText()")
    assert "token" not in link
    still.give()
    other = look(still.url, place=link.partition("#")[2])
    expect(other.locator(".time-parts h2 time")).to_have_attribute("datetime", moment)
    expect(other.get_by_role("combobox").nth(1)).to_have_value(group)


def test_a_row_that_is_not_there_is_said(look, still):
    page = look(still.url, place="/boards?card=largest&row=%5B%22largest%22%2C%22nobody%22%5D")
    expect(page.get_by_role("dialog")).to_contain_text("Not among the 10 rows")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page).not_to_have_url(re.compile("row="))


def test_two_windows_are_compared_row_by_row(look, still):
    page = look(still.url, place="/compare?query=flows")
    expect(page.locator(".compare-side tr.line")).to_have_count(30)
    first, second = (dict(one.evaluate(ROWS)) for one in page.locator(".compare-side").all())
    places = [list(first), list(second)]
    for key, mark in second.items():
        kind = "entered" if key not in first else "up" if places[1].index(key) < places[0].index(key) else None
        kind = kind or ("same" if places[1].index(key) == places[0].index(key) else "down")
        assert mark == f"move {kind}"
    assert {key for key, mark in first.items() if mark == "move left"} == set(first) - set(second)
    counts = page.locator(".compare-head strong").all_inner_texts()
    moved = sum(mark in ("move up", "move down") for mark in second.values())
    assert counts[:3] == [str(len(set(second) - set(first))), str(len(set(first) - set(second))), str(moved)]
    page.get_by_role("button", name="Swap").click()
    expect(page.locator(".compare-head strong").first).to_have_text(counts[1])
    expect(page.locator(".compare-head strong").nth(1)).to_have_text(counts[0])


def test_cards_outside_the_view_lose_their_ranking(look, tmp_path):
    """A server that was started again without answers: no card, seen or not, keeps the rows of before."""
    from skyband.dashboard.board_state import LiveShow

    with Seeded(tmp_path, windows=2, many=3) as seeded:
        page = look(seeded.url.partition("#")[0], width=900, height=420)
        expect(page.locator("article.card tr.line").first).to_be_visible()
        for place in range(6):
            expect(page.locator("article.card").nth(place).locator("tr.line").first).to_be_attached()
        port = seeded._served.port
        seeded._served.__exit__(None, None, None)
        show = LiveShow("again")
        show.begin(lambda: seeded.run.file, seeded.run.numbers)
        with Served(show, port) as again:
            until(page, "document.querySelector('.status.live') !== null")
            for place in range(6):
                expect(page.locator("article.card").nth(place).locator(".empty")).to_have_text("No results yet")
            seeded.run.give(show.history)
            for place in range(6):
                expect(page.locator("article.card").nth(place).locator("tr.line").first).to_be_attached()
            assert again.port == port
        page.context.close()


def test_every_card_says_at_once_that_there_is_nothing_yet(look, tmp_path):
    with Seeded(tmp_path, windows=0, many=3) as seeded:
        page = look(seeded.url, width=900, height=300)
        expect(page.locator("article.card")).to_have_count(6)
        for place in range(6):
            expect(page.locator("article.card").nth(place).locator(".empty")).to_have_text("No results yet")
        page.context.close()
