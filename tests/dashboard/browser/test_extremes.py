"""Infinite, huge, negative and missing scores, odd names and groups that lag behind: nothing misleads or breaks."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from urllib.parse import unquote_plus, urlencode

import pytest

from tests.dashboard.browser.extremes import (
    ARABIC,
    BY_GROUP,
    GROUPS,
    LARGEST,
    LEFT_BEHIND,
    LONG,
    MISSING,
    SCORES,
    WINDOWS,
    Extremes,
    answers,
    moment,
)
from tests.dashboard.browser.looking import axe_script, card, page_of, shown
from tests.waiting import wait_for

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
pytestmark = pytest.mark.long

TEXTS = {
    "all kinds": ["∞", "1.7977e308", "1.0000e15", "12.50", "0.00", "−0.25", "−1.7977e308", "−∞"],
    "below zero": ["−1.0", "−50.0", "−99.5", "−100.0", "−∞"],
    "lowest first": ["−∞", "−100", "−50", "−1"],
    "huge": ["1.7977e308", "−1.7977e308"],
    "only infinite": ["∞", "∞", "−∞"],
    "tiny": ["3.0000e−300", "2.0000e−300", "4.9407e−324", "−1.0000e−300"],
    "one value": ["7", "7", "7"],
}
LAST = {
    "all kinds": "−∞",
    "below zero": "−∞",
    "huge": "−1.80e308",
    "tiny": "−1.00e−300",
    "by region": "−2",
    "means": "–",
}
SHORTEST = Fraction(8, 100)  # the bar of the worst of negative scores

# Where each bar of a table is, as fractions of its track.
BARS = """table => [...table.querySelectorAll('tr.line td.score')].map(cell => {
  const track = cell.getBoundingClientRect(), left = track.left + 4, width = track.width - 24;
  const bar = cell.querySelector('.bar:not(.best)').getBoundingClientRect();
  return [(bar.left - left) / width, bar.width / width];
})"""


def place(view: str, *pairs: tuple[str, object]) -> str:
    return f"/{view}?" + urlencode(
        [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in pairs]
    )


PLACES = {
    "leaderboards": place("boards", *(("card", name) for name in SCORES)),
    "leaderboards of families": place(
        "boards", *(("card", name) for name in ("by region", "means", "intervals", "chances"))
    ),
    "time": place("time", ("query", "all kinds")),
    "time of the huge": place("time", ("query", "huge")),
    "time of a group": place("time", ("query", "by region"), ("group", [LEFT_BEHIND])),
    "compare": place("compare", ("query", "all kinds")),
    "compare of missing": place("compare", ("query", "intervals")),
    "compare of groups": place("compare", ("query", "by region"), ("group", [ARABIC]), ("to-group", [LONG])),
    "compare of empty groups": place("compare", ("query", "by region"), ("group", [""]), ("to-group", [None])),
}


@pytest.fixture(scope="module")
def extremes(tmp_path_factory):
    with Extremes(tmp_path_factory.mktemp("extremes")) as found:
        yield found


def bars(scores, *, ascending=False):
    """Where the bars have to be, by the definition: from zero, or from below the worst where all are negative."""
    known = [Fraction(score) for score in scores if score is not None and math.isfinite(score)]
    if not known:
        return [(0, 1 if score == math.inf else 0) for score in scores]
    low, high = min(known), max(known)
    if high < 0 and not ascending:
        base = low = low - SHORTEST / (1 - SHORTEST) * (high - low or -high)
    else:
        base, low, high = Fraction(0), min(low, Fraction(0)), max(high, Fraction(0))
    found = []
    for score in scores:
        if score is None or math.isnan(score):
            found.append((0, 0))
            continue
        value = high if score == math.inf else low if score == -math.inf else Fraction(score)
        ends = sorted((base, value))
        found.append(tuple(float(part / (high - low)) for part in (ends[0] - low, ends[1] - ends[0])))
    return found


@pytest.mark.parametrize("query", [*SCORES, "means", "by region"])
def test_bars_and_texts_are_those_of_the_scores(look, extremes, query):
    page = look(extremes.url, place=place("boards", ("card", query)))
    one = page.locator(".card")
    scores = SCORES.get(query, MISSING if query == "means" else BY_GROUP)
    expect(one.locator("tr.line")).to_have_count(len(scores))
    drawn = one.locator("table").evaluate(BARS)
    for (left, width), (begin, size) in zip(drawn, bars(scores, ascending=query == "lowest first"), strict=True):
        assert width == pytest.approx(size, abs=0.01)
        if size > 0:
            assert left == pytest.approx(begin, abs=0.01)
    if query in TEXTS:
        assert one.locator("td.score data").all_inner_texts() == TEXTS[query]
        exact = [float(value.replace("Infinity", "inf")) for _, _, value in shown(page, query)]
        assert exact == scores  # nothing is lost on the way
    if query in LAST:
        entry = page.get_by_role("option", name=query)
        expect(entry.locator(".entry-trend .number")).to_have_text(LAST[query])


@pytest.mark.parametrize("name", ["compare", "compare of missing"])
def test_the_bars_of_two_windows_have_one_scale(look, extremes, name):
    page = look(extremes.url, place=PLACES[name])
    scores = SCORES["all kinds"] if name == "compare" else MISSING
    expect(page.locator(".compare-side tr.line")).to_have_count(2 * len(scores))
    expected = bars(scores) if name == "compare" else [(0, 0)] * 4  # beside the best case, 5 bytes are nothing
    for table in page.locator(".compare-side table").all():
        assert [width for _, width in table.evaluate(BARS)] == pytest.approx([size for _, size in expected], abs=0.01)


@pytest.mark.parametrize("width", [1440, 360])
@pytest.mark.parametrize("name", PLACES)
def test_no_view_breaks(look, extremes, name, width):
    page = look(extremes.url, place=PLACES[name], width=width, color_scheme="dark" if width == 360 else "light")
    page.wait_for_selector("tr.line")
    if name.startswith("time"):
        page.wait_for_selector(".bump .trace")
        page.wait_for_selector(".scores .plot canvas" if name == "time of a group" else ".scores .empty")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    written = page.evaluate(
        "[...document.querySelectorAll('[style], path, circle, text')]"
        ".map(one => one.getAttribute('style') ?? one.outerHTML).filter(text => /NaN|Infinity/.test(text))"
    )
    assert written == []
    names = page.locator("tr.line .object button")
    assert all(text.strip() for text in names.all_inner_texts())
    # The name and the columns beside it stay in their cell, and do not run into the score.
    assert page.evaluate(
        """[...document.querySelectorAll('tr.line .object button')].every(one =>
          one.getBoundingClientRect().right <= one.closest('th').getBoundingClientRect().right + 1)"""
    )
    # Names beside the lines end before the edge of the chart.
    assert page.evaluate(
        """[...document.querySelectorAll('.bump .trace text')].every(one =>
          one.getBoundingClientRect().right <= one.closest('svg').getBoundingClientRect().right + 1)"""
    )


def test_names_without_letters_can_be_seen_and_opened(look, extremes):
    page = look(extremes.url, place=place("time", ("query", "all kinds")))
    page.locator("tr.line").get_by_role("button", name="(empty)", exact=True).click()
    expect(page.get_by_role("dialog").locator("h2")).to_have_text("(empty)")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_every_group_can_be_chosen(look, extremes):
    page = look(extremes.url, place=place("boards", ("card", "by region")))
    field = card(page, "by region").get_by_role("combobox")
    field.click()
    expect(page.get_by_role("option")).to_have_count(len(GROUPS) + len(extremes.show.queries()))
    for group, text in (("", "(empty)"), (None, "–"), (ARABIC, ARABIC), (LONG, LONG)):
        card(page, "by region").locator(".offered li", has_text=text[:40]).first.click()
        expect(field).to_have_value(text)
        wanted = json.dumps(["by region", [group]], ensure_ascii=False, separators=(",", ":"))
        wait_for(lambda wanted=wanted: wanted in unquote_plus(page.url) or page.wait_for_timeout(25), pause=0)
        expect(card(page, "by region").locator("tr.line")).to_have_count(len(BY_GROUP))
        field.click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_group_without_rows_in_the_newest_window_says_so(look, tmp_path):
    with Extremes(tmp_path) as extremes:
        behind = "No rows of this group in the newest window, "
        page = look(
            extremes.url,
            place=place("compare", ("query", "by region"), ("group", [LEFT_BEHIND]), ("to-group", ["ordinary"])),
        )
        first = page.get_by_role("region", name="First window")
        second = page.get_by_role("region", name="Second window")
        expect(first.locator(".behind")).to_have_text(f"{behind}09:42:00")
        expect(second.locator("tr.line")).to_have_count(len(BY_GROUP))
        expect(second.locator(".behind")).to_have_count(0)
        cards = look(extremes.url, place=place("boards", ("card", json.dumps(["by region", [LEFT_BEHIND]]))))
        expect(cards.locator(".card .behind")).to_have_text(f"{behind}09:42:00")
        time = look(extremes.url, place=place("time", ("query", "by region"), ("group", [LEFT_BEHIND])))
        expect(time.locator(".time-parts .behind")).to_have_text(f"{behind}09:42:00")
        # An earlier window of the group is not behind: it is chosen.
        time.get_by_role("button", name="Previous window").click()
        expect(time.locator(".time-parts .behind")).to_have_count(0)
        # The next window has rows of the group again.
        number = WINDOWS + 1
        rows = answers(number, groups=[*GROUPS])["orders"]
        extremes.show.history.outlet("orders").take(number, rows)
        expect(cards.locator(".card time")).to_have_attribute("datetime", moment(number))
        expect(cards.locator(".card .behind")).to_have_count(0)
        expect(first.locator(".behind")).to_have_count(0)
        # Then it is the other one that is behind.
        number += 1
        rows = answers(number, groups=[LEFT_BEHIND])["orders"]
        extremes.show.history.outlet("orders").take(number, rows)
        expect(second.locator(".behind")).to_have_text(f"{behind}09:44:00")
        expect(first.locator(".behind")).to_have_count(0)
        for one in (page, cards, time):
            one.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["leaderboards of families", "time", "compare", "compare of empty groups"])
def test_axe_finds_nothing(browser, extremes, name, scheme):
    script = axe_script()
    if script is None:
        pytest.skip("axe-playwright-python is not installed")
    with page_of(browser, extremes.url, place=PLACES[name], color_scheme=scheme, reduced_motion="reduce") as (
        page,
        looked,
    ):
        page.wait_for_selector("tr.line")
        if name == "time":
            page.wait_for_selector(".scores .empty")
        page.evaluate(f"() => {{ {script} }}")
        found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        assert [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found["violations"]] == []
    assert looked.wrong == []


def test_the_largest_numbers_are_the_largest_there_are():
    """Otherwise differences of scores do not overflow, and the tests above see less."""
    assert math.isinf(LARGEST - -LARGEST)
