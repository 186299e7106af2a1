"""Every view: for everybody, on a phone, in light and dark; and hostile data do nothing in any of them."""

from __future__ import annotations

import pytest

from tests.dashboard.browser.looking import axe_script, card, page_of, until

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect

VIEWS = {
    "leaderboards": "/boards?card=largest&card=by+symbol&card=flows&card=fast",
    "time": "/time?query=flows",
    "compare": "/compare?query=flows",
    "compare of groups": "/compare?query=by+symbol&group=%5B%22S000%22%5D&to-group=%5B%22S009%22%5D",
    "engine": "/engine?stream=trades",
    "engine of uncertain": "/engine?stream=cars",
    "engine of incomplete": "/engine?stream=flows",
    "workload": "/workload",
}
READY = {
    "leaderboards": ".card .ranking tr.line",
    "time": ".bump .trace",
    "compare": ".compare-side + .compare-side tr.line",
    "compare of groups": ".compare-side + .compare-side tr.line",
    "engine": ".lane",
    "engine of uncertain": ".lane",
    "engine of incomplete": ".lags tr",
    "workload": ".queries tr",
}

LONG = ("compare of groups",)


def views(names=VIEWS):
    """All views; those that differ little from another one are long."""
    return [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in names]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", views())
def test_axe_finds_nothing(browser, few, view, scheme):
    script = axe_script()
    if script is None:
        pytest.skip("axe-playwright-python is not installed")
    still = {"color_scheme": scheme, "reduced_motion": "reduce"}
    with page_of(browser, few.url, place=VIEWS[view], **still) as (page, looked):
        page.wait_for_selector(READY[view])
        page.evaluate(f"() => {{ {script} }}")
        found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        problems = [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found["violations"]]
        assert problems == []
        if view in ("leaderboards", "compare"):
            page.locator("table[aria-label^=flows]").last.locator("tr.line").nth(1).click()
            page.wait_for_selector("dialog[open]")
            found = page.evaluate("() => axe.run(document.querySelector('dialog'), {resultTypes: ['violations']})")
            assert [one["id"] for one in found["violations"]] == []
    assert looked.wrong == []


@pytest.mark.parametrize("view", views())
def test_is_readable_on_a_phone(look, few, view):
    page = look(few.url, place=VIEWS[view], width=360, height=740, has_touch=True, is_mobile=True)
    page.wait_for_selector(READY[view])
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    small = page.evaluate(
        "[...document.querySelectorAll('main p, main td, main th, main dd, main button')]"
        ".filter(one => one.offsetParent && parseFloat(getComputedStyle(one).fontSize) < 11).length"
    )
    assert small == 0


@pytest.mark.parametrize("view", ["leaderboards", "time", "compare", "engine of incomplete", "workload"])
def test_hostile_data_do_nothing(look, few, view):
    page = look(few.url, place=VIEWS[view])
    title = page.title()
    for _ in range(3):  # the notes of some rows and the names of some flows are hostile
        few.give()
        page.wait_for_timeout(150)
    page.wait_for_selector(READY[view])
    if view in ("leaderboards", "time", "compare"):
        expect(page.get_by_text("<script>document.title").or_(page.get_by_text("<img src=x")).first).to_be_visible()
    assert page.title() == title != "hit"
    assert page.locator("script").count() == 1
    assert page.locator("main img").count() == 0
    assert page.evaluate(
        "document.documentElement.scrollWidth <= innerWidth"
    )  # ten thousand letters push nothing aside
    # What reads from right to left turns only itself.
    assert page.evaluate(
        "[...document.querySelectorAll('bdi')].every(one => getComputedStyle(one).unicodeBidi.startsWith('isolate'))"
    )


def test_light_and_dark_are_chosen_and_kept(look, few):
    page = look(few.url, color_scheme="light")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Colours: system").click()
    until(page, f"{ground} !== '{light}'")
    dark = page.evaluate(ground)
    page.reload()
    page.wait_for_selector(".status.live")
    until(page, f"{ground} === '{dark}'")
    page.get_by_role("button", name="Colours: dark").click()
    page.get_by_role("button", name="Colours: light").click()
    expect(page.get_by_role("button", name="Colours: system")).to_be_visible()


def test_the_engine_view_follows_its_figures(look, few):
    page = look(few.url, place="/engine?stream=trades")
    rows = page.locator(".tile", has=page.get_by_text("Windows", exact=True)).locator(".value")
    before = rows.inner_text()
    few.give(2)
    expect(rows).not_to_have_text(before)
    meter = page.get_by_role("meter")
    assert 0 < int(meter.get_attribute("aria-valuenow")) <= 100
    lanes = page.get_by_role("listbox", name="Views of the meta query")
    lanes.focus()
    page.keyboard.press("End")
    until(page, "document.querySelector('.lane.chosen') !== null")
    expect(page.locator(".served")).to_contain_text("thousand")


def test_probabilities_and_what_is_sure_are_marked(look, few):
    page = look(few.url, place="/boards?card=fast&card=flows")
    expect(card(page, "fast").locator("td.chance .bar")).to_have_count(8)
    expect(card(page, "flows").locator("td.sure").first).to_be_visible()
    assert {"sure", "possible"} == set(card(page, "flows").locator("td.sure").all_inner_texts())


def test_nothing_is_drawn_without_a_frame_to_draw_in(look, few):
    """A page in a hidden tab gets no frames; what arrives meanwhile is kept, and drawn when there are frames again."""
    page = look(few.url, place="/boards?card=largest")
    when = card(page, "largest").locator("time")
    before = when.get_attribute("datetime")
    page.evaluate(
        """() => {
          const real = window.requestAnimationFrame.bind(window), waiting = window.waiting = [];
          window.requestAnimationFrame = work => waiting.push(work);
          window.framesAgain = () => { window.requestAnimationFrame = real; waiting.forEach(work => real(work)); };
          window.changed = 0;
          new MutationObserver(all => window.changed += all.length)
            .observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true});
          return new Promise(done => real(() => real(done)));
        }"""
    )
    page.evaluate("window.changed = 0")  # what had been asked to be drawn before
    few.give(3)
    until(page, "window.waiting.length > 0")
    page.wait_for_timeout(400)
    assert page.evaluate("window.changed") == 0
    page.evaluate("window.framesAgain()")
    expect(when).not_to_have_attribute("datetime", before)
