"""From a past window to a comparison to the facts of a row, without a mouse."""

from __future__ import annotations

import re

import pytest

from tests.dashboard.browser.looking import until

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
pytestmark = pytest.mark.long

# What has the focus: its name or text, whether the focus is drawn, and whether it is on the screen.
FOCUSED = """() => {
  const one = document.activeElement, box = one.getBoundingClientRect(), style = getComputedStyle(one);
  return {
    name: one.getAttribute('aria-label') ?? one.labels?.[0]?.textContent.trim() ?? one.textContent.trim(),
    side: one.closest('section[aria-label]')?.getAttribute('aria-label') ?? '',
    drawn: one.matches(':focus-visible') && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1,
    seen: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
  };
}"""


def press_until(page, key, name, side="", most=60):
    """Press a key until an element of this name has the focus; whatever has it in between can be seen."""
    for _ in range(most):
        page.keyboard.press(key)
        found = page.evaluate(FOCUSED)
        if re.fullmatch(name, found["name"]) and side in found["side"]:
            assert found["drawn"], found
            assert found["seen"], found
            return
    raise AssertionError(f"{key} does not reach {name}")


def test_from_a_window_to_a_comparison_to_a_row(look, few):
    page = look(few.url, place="/time?query=largest")
    expect(page.locator(".time-parts tr.line")).to_have_count(10)
    newest = page.locator(".time-parts h2 time").get_attribute("datetime")
    press_until(page, "Tab", "Previous window")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    until(page, f"document.querySelector('.time-parts h2 time').getAttribute('datetime') < '{newest}'")
    until(page, "location.hash.includes('at=')")
    press_until(page, "Tab", "Compare", "Ranking of the selected window")
    page.keyboard.press("Enter")
    expect(page.locator(".compare-side tr.line")).to_have_count(20)

    # Another window on the first side, found by its time.
    press_until(page, "Tab", "First window")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", name=re.compile("^Newest of"))).to_be_visible()
    page.keyboard.type("09:33")
    expect(page.locator(".offered li")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("at=2024-01-01T09%3A33"))
    first = page.get_by_role("region", name="First window")
    expect(first.get_by_role("combobox")).to_have_value("1 Jan 2024, 09:33:00")
    expect(page.locator(".offered")).to_have_count(0)
    expect(first.locator("tr.line")).to_have_count(10)

    # The third row of the second side, and back.
    second = page.get_by_role("region", name="Second window")
    top = second.locator("tr.line button").first.inner_text()
    press_until(page, "Tab", re.escape(top), "Second window")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    third = second.locator("tr.line button").nth(2)
    expect(third).to_be_focused()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("h2")).to_have_text(third.inner_text())
    expect(dialog.locator("dd").first).to_have_text("3 of 10")
    for name in ("All facts of the row", "Copy link"):
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUSED)["name"] == name
        assert page.evaluate("document.activeElement.closest('dialog') !== null")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(third).to_be_focused()
    press_until(page, "Tab", "Copy link", "Second window")

    # And back again to where it began.
    press_until(page, "Shift+Tab", "Time")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/time"))
