"""Leaderboards: many queries, long rankings, groups, whole rows, and all of it by keyboard."""

from __future__ import annotations

import re

import pytest

from tests.dashboard.browser.looking import card, shown, until
from tests.dashboard.browser.seeding import Seeded
from tests.dashboard.seeded import HOSTILE
from tests.waiting import wait_for

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect


def test_a_thousand_queries_are_searched_and_few_are_drawn(look, seeded):
    page = look(seeded.url)
    count = len(seeded.show.queries())
    expect(page.locator(".count")).to_have_text(f"{count:,} queries")
    expect(page.locator(".card")).to_have_count(6)
    assert page.locator(".entry").count() < 60
    page.get_by_label("Find queries").fill("q07 value")
    expect(page.locator(".count")).to_have_text(f"100 of {count:,} queries")
    page.locator(".query-list").evaluate("list => list.scrollTop = 1e6")
    expect(page.get_by_role("option", name=re.compile("^q0799"))).to_be_visible()
    assert page.locator(".entry").count() < 60
    page.get_by_role("option", name=re.compile("^q0799")).click()
    expect(card(page, "q0799").locator("tr.line")).to_have_count(5)
    expect(page).to_have_url(re.compile("find=q07"))
    expect(page).to_have_url(re.compile("card=q0799"))  # what is shown can be linked to


def test_cards_come_and_go_by_keyboard(look, seeded):
    page = look(seeded.url, place="/boards?card=largest")
    expect(card(page, "largest")).to_be_visible()
    page.keyboard.press("Tab")
    until(page, "document.activeElement.textContent === 'Skip to content'")
    page.get_by_label("Find queries").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press(" ")
    expect(card(page, "thousand")).to_be_visible()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(card(page, "largest")).to_have_count(0)


def test_a_ranking_of_a_thousand_stays_small(look, seeded):
    page = look(seeded.url, place="/boards?card=thousand")
    one = card(page, "thousand")
    expect(one.locator("table")).to_have_attribute("aria-rowcount", "1001")
    assert one.locator("tr.line").count() <= 30
    one.locator(".ranking-box").evaluate("box => box.scrollTop = 1e6")
    expect(one.locator("tr.line").last.locator(".rank .number")).to_have_text("1000")
    assert one.locator("tr.line").count() <= 30
    before = one.locator("time").get_attribute("datetime")
    seeded.give()
    expect(one.locator("time")).not_to_have_attribute("datetime", before)
    expect(one.locator("tr.line").last.locator(".rank .number")).to_have_text(
        "1000"
    )  # it stays where it was scrolled to
    one.locator(".ranking-box").evaluate("box => box.scrollTop = 0")
    expect(one.locator("tr.line").first.locator(".rank .number")).to_have_text("1")
    one.locator("tr.line button").first.focus()
    for row in range(3, 43):
        page.keyboard.press("ArrowDown")
        until(page, f"document.activeElement.closest('tr')?.getAttribute('aria-rowindex') === '{row}'")
    assert one.locator("tr.line").count() <= 30


def test_a_group_is_picked_among_hundreds(look, seeded):
    page = look(seeded.url, place="/boards?card=by+symbol")
    field = card(page, "by symbol").get_by_role("combobox")
    expect(field).to_have_value(re.compile("S"))
    field.click()
    expect(page.get_by_text(re.compile("200 of 300"))).to_be_visible()
    field.fill("S17")
    expect(page.get_by_text(re.compile("of 300"))).to_have_count(0)  # the list is that for what was typed
    expect(page.get_by_role("option", name="S173")).to_be_visible()
    field.press("ArrowDown")
    field.press("ArrowDown")
    expect(page.locator('.offered li.at[aria-posinset="3"]')).to_be_visible()
    chosen = page.locator(".offered li.at").inner_text()
    field.press("Enter")
    expect(field).to_have_value(chosen)
    expect(card(page, "by symbol").locator("table")).to_have_attribute("aria-label", f"by symbol, {chosen}")
    expect(page).to_have_url(re.compile(f"%22{chosen}%22"))
    field.click()
    field.press("Escape")
    expect(page.locator(".offered")).to_have_count(0)


def test_whole_rows_are_shown_on_click_and_closed_by_escape(look, seeded):
    page = look(seeded.url, place="/boards?card=flows")
    rows = [text for _, text, _ in shown(page, "flows")]
    long = next((place for place, text in enumerate(rows) if text.startswith("xxxx")), None)
    while long is None:  # it is in most windows
        before = card(page, "flows").locator("time").get_attribute("datetime")
        seeded.give()
        expect(card(page, "flows").locator("time")).not_to_have_attribute("datetime", before)
        rows = [text for _, text, _ in shown(page, "flows")]
        long = next((place for place, text in enumerate(rows) if text.startswith("xxxx")), None)
    assert len(rows[long]) < 200
    card(page, "flows").locator("tr.line").nth(long).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    assert HOSTILE[3] in dialog.locator("dl").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    until(page, "document.activeElement.closest('tr') !== null")  # back where it was opened from


def test_focus_stays_on_its_row_when_ranks_change(look, seeded):
    page = look(seeded.url, place="/boards?card=thousand")
    button = card(page, "thousand").locator("tr.line button").nth(3)
    button.focus()
    before = card(page, "thousand").locator("time").get_attribute("datetime")
    seeded.give()
    expect(card(page, "thousand").locator("time")).not_to_have_attribute("datetime", before)
    until(page, "document.activeElement.closest('table.ranking') !== null")


def test_cards_wait_for_the_first_answers(look, tmp_path):
    with Seeded(tmp_path, windows=0, many=3) as seeded:
        page = look(seeded.url)
        expect(page.locator("article.card")).to_have_count(6)
        for place in range(6):
            one = page.locator("article.card").nth(place)
            expect(one.get_by_text("No results yet")).to_be_visible()
        seeded.give()
        expect(card(page, "largest").locator("tr.line")).to_have_count(10)
        expect(card(page, "by symbol").locator("tr.line")).to_have_count(3)  # of the group that came first
        before = card(page, "by symbol").locator("time").get_attribute("datetime")
        seeded.give()
        expect(card(page, "by symbol").locator("time")).not_to_have_attribute("datetime", before)
        page.context.close()


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_rows_slide_to_their_places_unless_motion_is_unwanted(look, seeded, motion):
    page = look(seeded.url, place="/boards?card=largest", reduced_motion=motion)
    when = card(page, "largest").locator("time")

    def slid():
        """What has slid so far, when another window was shown."""
        page.wait_for_timeout(400)  # what comes at once changes in place
        before = when.get_attribute("datetime")
        seeded.give()
        expect(when).not_to_have_attribute("datetime", before)
        return page.evaluate("window.slid")

    page.evaluate(
        """() => {
          const real = Element.prototype.animate;
          window.slid = [];
          Element.prototype.animate = function (frames, options) {
            window.slid.push([this.tagName, Object.keys(frames[0])[0]]);
            return real.call(this, frames, options);
          };
        }"""
    )
    found = slid()
    if motion == "reduce":
        assert found == slid() == []
        return
    wait_for(lambda: found or found.extend(slid()), pause=0)  # on a busy machine two windows may come at once
    assert {tag for tag, _ in found} == {"TR"}
    assert {how for _, how in found} <= {"transform", "opacity"}  # which no layout has to follow
