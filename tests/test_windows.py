"""Window arithmetic against brute force over a stretch of integers, with the windows drawn above the assertions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.errors import InvalidQueryError
from skyband.windows import SlidingWindow

AXIS = range(-40, 41)

windows = st.integers(1, 15).flatmap(
    lambda size: st.builds(SlidingWindow, size=st.just(size), slide=st.integers(1, size), origin=st.integers(-20, 20))
)


def ends(window):
    """All window ends on a stretch of the axis that is wide enough for every position in AXIS."""
    return [end for end in range(-120, 121) if (end - window.origin) % window.slide == 0]


def boundaries(window):
    return sorted({*ends(window), *(end - window.size for end in ends(window))})


@given(windows)
def test_ends_and_starts_against_brute_force(window):
    for position in AXIS:
        holding = [end for end in ends(window) if end - window.size <= position < end]
        assert list(window.ends_holding(position)) == holding
        assert window.first_end_after(position) == holding[0]
        assert window.last_end_at(position) == max(end for end in ends(window) if end <= position)
        assert window.latest_start(position) == window.start(holding[-1])
        assert list(window.views_alive(position)) == [end - window.size for end in holding]


@given(windows)
def test_an_object_is_in_at_most_that_many_windows(window):
    counts = [len(window.ends_holding(position)) for position in AXIS]
    assert max(counts) == window.most_alive
    assert min(counts) >= 1, "with a slide of at most the size, every object is in some window"


@given(windows)
def test_panes_against_brute_force(window):
    marks = boundaries(window)
    for position in AXIS:
        low = max(mark for mark in marks if mark <= position)
        high = min(mark for mark in marks if mark > position)
        assert window.pane(position) == (low, high)


@given(windows)
def test_objects_of_one_pane_share_all_windows(window):
    for low, high in window.panes(-30, 30):
        assert len({tuple(window.ends_holding(position)) for position in range(low, high)}) == 1


@given(windows, st.integers(-40, 40), st.integers(0, 30))
def test_panes_cover_a_stretch_without_gap_or_overlap(window, low, length):
    found = list(window.panes(low, low + length))
    covered = [position for pane in found for position in range(*pane)]
    assert covered == list(range(covered[0], covered[-1] + 1)) if covered else length == 0
    assert set(range(low, low + length)) <= set(covered)
    assert all(a < low + length and b > low for a, b in found)


@given(windows, st.integers(-50, 50))
def test_moving_origin_and_position_together_changes_nothing(window, by):
    moved = SlidingWindow(size=window.size, slide=window.slide, origin=window.origin + by)
    for position in range(-10, 10):
        assert [end + by for end in window.ends_holding(position)] == list(moved.ends_holding(position + by))


def test_slide_divides_size():
    window = SlidingWindow(size=6, slide=2)
    #           0   1   2   3   4   5   6   7   8   9
    #  W(2) ────────)
    #  W(4) ────────────────)
    #  W(6)     [───────────────────────)
    #  W(8)             [───────────────────────)
    #  panes    |───────|───────|───────|───────|
    assert list(window.ends_holding(0)) == [2, 4, 6]
    assert list(window.ends_holding(1)) == [2, 4, 6]
    assert list(window.ends_holding(2)) == [4, 6, 8]
    assert window.latest_start(3) == 2
    assert window.pane(3) == (2, 4)
    assert window.most_alive == 3


def test_slide_does_not_divide_size():
    window = SlidingWindow(size=5, slide=3)
    #          -2  -1   0   1   2   3   4   5   6   7   8   9
    #  W(3)     [───────────────────)
    #  W(6)                 [───────────────────)
    #  W(9)                             [───────────────────)
    #  panes    |───────|───|───────|───|───────|───|───────|
    assert list(window.ends_holding(0)) == [3]
    assert list(window.ends_holding(1)) == [3, 6]
    assert list(window.ends_holding(2)) == [3, 6]
    assert list(window.ends_holding(3)) == [6]
    assert list(window.ends_holding(4)) == [6, 9]
    assert list(window.panes(-2, 9)) == [(-2, 0), (0, 1), (1, 3), (3, 4), (4, 6), (6, 7), (7, 9)]
    assert window.most_alive == 2


def test_tumbling_windows():
    window = SlidingWindow(size=4, slide=4, origin=1)
    #          -3  -2  -1   0   1   2   3   4   5
    #  W(1)     [───────────────)
    #  W(5)                     [───────────────)
    assert list(window.ends_holding(0)) == [1]
    assert list(window.ends_holding(1)) == [5]
    assert list(window.panes(-3, 5)) == [(-3, 1), (1, 5)]


def test_before_the_origin():
    window = SlidingWindow(size=4, slide=3, origin=10)
    #          -6  -5  -4  -3  -2  -1   0   1   2
    #  W(-2)    [───────────────)
    #  W(1)                 [───────────────)
    assert list(window.ends_holding(-6)) == [-5, -2]
    assert list(window.ends_holding(-4)) == [-2]
    assert list(window.ends_holding(-3)) == [-2, 1]
    assert window.last_end_at(-2) == -2
    assert window.first_end_after(-2) == 1


def test_an_end_is_outside_and_a_start_inside():
    window = SlidingWindow(size=10, slide=5)
    #           0         5        10        15
    #  W(10)    [─────────────────)
    assert 10 in window.ends_holding(0)
    assert 10 in window.ends_holding(9)
    assert 10 not in window.ends_holding(10)
    assert 10 not in window.ends_holding(-1)


def test_slide_of_one_has_a_pane_per_tick():
    window = SlidingWindow(size=3, slide=1, origin=7)
    assert [window.pane(position) for position in (-1, 0, 1)] == [(-1, 0), (0, 1), (1, 2)]


@pytest.mark.parametrize(("size", "slide", "origin"), [(2**61, 1, 2**61), (2**61, 2**61, -(2**61)), (1, 1, 2**61)])
def test_far_out_on_the_axis(size, slide, origin):
    window = SlidingWindow(size=size, slide=slide, origin=origin)
    for position in (-(2**61), -1, 0, 2**61):
        found = window.ends_holding(position)
        assert found[0] - window.size <= position < found[0]
        assert found[-1] - window.size <= position < found[-1]


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"size": 0, "slide": 1}, "size must be at least 1, got 0"),
        ({"size": 5, "slide": 0}, "slide must be between 1 and 5 (the window size), got 0"),
        ({"size": 5, "slide": 6}, "slide must be between 1 and 5 (the window size), got 6"),
        ({"size": 2**62, "slide": 1}, "must be below"),
    ],
)
def test_refused(fields, rule):
    with pytest.raises(InvalidQueryError) as caught:
        SlidingWindow(**fields)
    assert rule in str(caught.value)
