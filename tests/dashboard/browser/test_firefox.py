"""Firefox shows the same: tests of the other files, with another browser."""

from __future__ import annotations

import pytest

from tests.dashboard.browser import (
    firefox,
    test_answers,
    test_boards,
    test_extremes,
    test_keyboard,
    test_links,
    test_views,
)

pytestmark = pytest.mark.long

# Fixtures of the tests below.
stream, expected, answers, show = test_answers.stream, test_answers.expected, test_answers.answers, test_answers.show
extremes, still = test_extremes.extremes, test_links.still

# What is shown is what was answered.
test_follows = test_answers.test_shows_what_the_definition_gives_and_follows_it
test_looks_back = test_answers.test_looks_back_at_any_window
test_plays = test_answers.test_a_past_window_can_be_linked_to_and_played_from
test_survives_a_restart = test_answers.test_survives_a_restart_of_the_server
test_bars_and_texts = test_extremes.test_bars_and_texts_are_those_of_the_scores
test_behind = test_extremes.test_a_group_without_rows_in_the_newest_window_says_so

# Each engine lays out, scrolls, focuses and draws in its own way.
test_no_view_breaks = test_extremes.test_no_view_breaks
test_phone = test_views.test_is_readable_on_a_phone
test_axe = test_views.test_axe_finds_nothing
test_hostile_data = test_views.test_hostile_data_do_nothing
test_light_and_dark = test_views.test_light_and_dark_are_chosen_and_kept
test_without_frames = test_views.test_nothing_is_drawn_without_a_frame_to_draw_in
test_thousand_rows = test_boards.test_a_ranking_of_a_thousand_stays_small
test_focus = test_boards.test_focus_stays_on_its_row_when_ranks_change
test_keyboard_only = test_keyboard.test_from_a_window_to_a_comparison_to_a_row

# The address and the history of the browser.
test_addresses = test_links.test_an_address_shows_what_it_showed
test_compared = test_links.test_two_windows_are_compared_row_by_row


@pytest.fixture(scope="session")
def browser(playwright):
    found = firefox.Firefox(playwright)
    yield found
    found.close()
