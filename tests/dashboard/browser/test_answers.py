"""The page shows the answers the definition gives, window by window, now and looking back."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from skyband.dashboard.board_state import LiveShow
from skyband.workload_file import read_workload
from tests import oracle
from tests.dashboard.browser.looking import SHOWN, card, page_of, shown, until
from tests.dashboard.browser.seeding import Served

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect

OPENING = 1_704_101_400_000_000
SECOND = 1_000_000
K, SIZE, SLIDE = 5, 60 * SECOND, 10 * SECOND

YAML = """\
streams:
  trades: {path: trades, format: parquet, time: ts, id: id}
engine: {checkpoint: state}
queries:
  - {stream: trades, sql: "best: TOPK value, 5 OVER 1 MINUTE EVERY 10 SECONDS"}
sinks: [{type: parquet, path: answers}]
"""


@pytest.fixture(scope="module")
def stream():
    """Objects with few different scores, so that ties are common, and some that cannot be ranked."""
    rng = np.random.default_rng(41)
    positions = OPENING + np.sort(rng.integers(0, 300 * SECOND, 900))
    scores = rng.integers(-20, 60, 900) / 4
    scores[rng.random(900) < 0.05] = np.nan
    return positions, scores, np.arange(900)


@pytest.fixture(scope="module")
def expected(stream):
    """By window end, in order: [(rank, id, score), ...] as the definition has it."""
    rows = [(int(p), float(s), int(i)) for p, s, i in zip(*stream, strict=True)]
    found = {}
    for _, end, rank, id_, score in oracle.answers(oracle.Asked(K, SIZE, SLIDE), rows):
        found.setdefault(end, []).append((rank, id_, score))
    return found


@pytest.fixture(scope="module")
def answers(stream):
    """What the engine answers, by window end, as a run would hand it on."""
    query = sb.TopK(name="best", k=K, size="1 minute", slide="10 seconds", by="value")
    table = sb.replay(query, *stream)
    for name in ("window_start", "window_end"):
        times = table[name].cast(pa.timestamp("us", "UTC"))
        table = table.set_column(table.schema.get_field_index(name), name, times)
    ends = pc.unique(table["window_end"]).to_pylist()
    return {end: table.filter(pc.equal(table["window_end"], pa.scalar(end, table["window_end"].type))) for end in ends}


@pytest.fixture
def show(tmp_path):
    path = tmp_path / "trades.yaml"
    path.write_text(YAML, encoding="utf-8")
    file = read_workload(path)
    found = LiveShow("oracle")
    found.begin(lambda: file, dict)
    return found


def give(show, number, table):
    show.history.outlet("trades").take(number, table)


def as_read(rows):
    """Rows as they can be read off the page again."""
    return [(rank, str(id_), score) for rank, id_, score in rows]


def read(rows):
    return [(rank, id_, float(score)) for rank, id_, score in rows]


def settled(page, moment):
    page.wait_for_selector(f'.card time[datetime="{moment}"]')


def test_shows_what_the_definition_gives_and_follows_it(look, show, answers, expected):
    assert len(expected) == len(answers) > 30
    with Served(show) as served:
        ends = list(answers)
        for number, end in enumerate(ends[:20]):
            give(show, number, answers[end])
        page = look(served.url)
        before = None
        for number, end in enumerate(ends[19:], 19):
            if number > 19:
                give(show, number, answers[end])
            moment = end.isoformat()
            settled(page, moment)
            now = expected[int(end.timestamp()) * SECOND]
            assert read(shown(page, "best")) == as_read(now), moment
            if before is not None:
                assert moves(page) == moved(before, now), moment
            before = now
        page.context.close()


def moves(page):
    marks = card(page, "best").locator("tbody tr.line .move").evaluate_all("all => all.map(one => one.className)")
    return [mark.split()[1] for mark in marks]


def moved(before, now):
    """What happened to each row since the window before."""
    old = {id_: rank for rank, id_, _ in before}
    return [
        "entered" if id_ not in old else "same" if old[id_] == rank else "up" if old[id_] > rank else "down"
        for rank, id_, _ in now
    ]


def test_looks_back_at_any_window(look, show, answers, expected):
    for number, end in enumerate(answers):
        give(show, number, answers[end])
    ends = list(answers)
    with Served(show) as served:
        page = look(served.url, place="/time?query=best")
        page.wait_for_selector(".ranking tr.line")
        slider = page.get_by_role("slider", name="Window")
        expect(slider).to_have_attribute("max", str(len(ends) - 1))  # all windows are known
        for index in (0, 7, 20, len(ends) - 2):
            slider.fill(str(index))
            page.wait_for_selector(f'.time-parts time[datetime="{ends[index].isoformat()}"]')
            rows = page.locator(".time-parts table.ranking").evaluate(SHOWN)
            assert read(rows) == as_read(expected[int(ends[index].timestamp()) * SECOND])
        until(page, "location.hash.includes('at=')")  # it can be linked to
        page.keyboard.press("l")
        page.wait_for_selector(f'.time-parts time[datetime="{ends[-1].isoformat()}"]')
        page.locator("body").click(position={"x": 5, "y": 400})
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector(f'.time-parts time[datetime="{ends[-2].isoformat()}"]')
        page.get_by_role("button", name="Back to live").click()
        page.wait_for_selector(f'.time-parts time[datetime="{ends[-1].isoformat()}"]')
        until(page, f"document.querySelectorAll('.bump .trace').length > {K}")
        expect(page.locator(".scores canvas")).to_have_count(1)
        page.context.close()


def test_a_past_window_can_be_linked_to_and_played_from(look, show, answers, expected):
    ends = list(answers)
    for number, end in enumerate(ends):
        give(show, number, answers[end])
    linked = ends[-4]
    with Served(show) as served:
        page = look(served.url, place=f"/time?query=best&at={linked.isoformat().replace('+', '%2B')}")
        page.wait_for_selector(f'.time-parts time[datetime="{linked.isoformat()}"]')
        rows = page.locator(".time-parts table.ranking").evaluate(SHOWN)
        assert read(rows) == as_read(expected[int(linked.timestamp()) * SECOND])
        page.get_by_label("Windows per second").select_option("20")
        page.get_by_role("button", name="Play").click()
        page.wait_for_selector(f'.time-parts time[datetime="{ends[-1].isoformat()}"]')
        until(page, "!location.hash.includes('at=')")
        page.context.close()


def test_survives_a_restart_of_the_server(browser, show, answers, expected):
    ends = list(answers)
    for number, end in enumerate(ends[:10]):
        give(show, number, answers[end])
    with Served(show) as first:
        port = first.port
        opened = page_of(browser, first.url)
        page, looked = opened.__enter__()
        settled(page, ends[9].isoformat())
    page.wait_for_selector(".banner")
    assert "The server is not responding." in page.locator(".banner").inner_text()
    for number, end in enumerate(ends[10:15], 10):
        give(show, number, answers[end])
    with Served(show, port):
        page.wait_for_selector(".banner", state="detached")
        settled(page, ends[14].isoformat())
        assert read(shown(page, "best")) == as_read(expected[int(ends[14].timestamp()) * SECOND])
        give(show, 15, answers[ends[15]])
        settled(page, ends[15].isoformat())
        opened.__exit__(None, None, None)
    assert [one for one in looked.wrong if "net::ERR_" not in one] == []  # that nobody answers may be said


def test_windows_are_the_ones_asked_for(expected):
    """The definition's windows end every ten seconds: the tests above would pass on none at all."""
    ends = sorted(expected)
    assert {b - a for a, b in pairwise(ends)} == {SLIDE}
    assert timedelta(microseconds=ends[-1] - ends[0]) > timedelta(minutes=5)
