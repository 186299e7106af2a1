"""How quick the page of a folder is with many groups. `measure.py` runs it.

The folder has 2,000,000 rows of answers: 20 windows of 10,000 groups with 10 rows each, a file a window. The server is
`skyband page` in a process of its own, as users start it.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from tests.dashboard.browser.looking import page_of

GROUPS, K, WINDOWS = 10_000, 10, 20
ROUNDS = 7
OPENING = 1_704_101_400_000_000
MINUTE = 60_000_000
FIRST = """() => new Promise(done => new PerformanceObserver(list => done(list.getEntries()[0].startTime))
  .observe({type: 'paint', buffered: true}))"""
# Scroll a list for some seconds, by a few rows each frame, and note when the frames came.
SCROLL = """([selector, seconds]) => new Promise(done => {
  const box = document.querySelector(selector), times = [], begin = performance.now();
  let step = 40;
  const frame = now => {
    times.push(now);
    const before = box.scrollTop;
    box.scrollTop += step;
    if (box.scrollTop === before) step = -step;
    if (now - begin < seconds * 1000) requestAnimationFrame(frame); else done(times);
  };
  requestAnimationFrame(frame);
})"""
HEAP = "performance.memory.usedJSHeapSize"


def window(number: int) -> pa.Table:
    """The answers of all groups at the end of a minute."""
    rng = np.random.default_rng(number)
    count = GROUPS * K
    scores = -np.sort(-rng.lognormal(5, 1, (GROUPS, K)), axis=1)
    end = OPENING + number * MINUTE
    return pa.table(
        {
            "query": pa.array(["largest by customer"] * count),
            "customer": pa.array([f"customer {group:05}" for group in range(GROUPS)]).take(
                pa.array(np.repeat(np.arange(GROUPS), K))
            ),
            "window_start": _times(end - 10 * MINUTE, count),
            "window_end": _times(end, count),
            "rank": pa.array(np.tile(np.arange(1, K + 1), GROUPS), pa.int32()),
            "order_id": rng.integers(0, 2**40, count),
            "amount": np.round(scores.ravel(), 2),
            "score": np.round(scores.ravel(), 2),
        }
    )


def measure(browser, home: Path, say: Callable[..., None]) -> None:
    """Measure the page of the folder in this browser."""
    for number in range(1, WINDOWS + 1):
        pq.write_table(window(number), home / f"answers-{number:08}.parquet")
    with _served(home) as (url, server):
        what = f"{GROUPS * K * WINDOWS:,} rows, {GROUPS:,} groups"
        begin = time.perf_counter()
        with page_of(browser, url, place="/boards") as (page, _):
            page.wait_for_selector(".card tr.line")
            say(f"{what}: all files read, and the first card shown", "", f"{time.perf_counter() - begin:.1f} s")
        paints, cards, opened, searched, chosen, heaps = [], [], [], [], [], []
        for place in range(ROUNDS):
            with page_of(browser, url, place="/boards") as (page, _):
                page.wait_for_selector(".card tr.line")
                cards.append(page.evaluate("performance.now()"))
                paints.append(page.evaluate(FIRST))
                field = page.locator(".card").get_by_role("combobox")
                opened.append(_timed(page, field.click, "document.querySelectorAll('.offered li').length > 5"))
                wanted = f"customer {9_000 + place:05}"
                searched.append(_timed(
                    page, lambda field=field, wanted=wanted: field.fill(wanted),
                    f"[...document.querySelectorAll('.offered li')].map(one => one.textContent).join() === '{wanted}'",
                ))  # fmt: skip
                chosen.append(_timed(
                    page, lambda field=field: field.press("Enter"),
                    f"document.querySelector('.card table')?.ariaLabel.endsWith('{wanted}')",
                ))  # fmt: skip
                heaps.append(page.evaluate(HEAP))
        say(f"first paint, median of {ROUNDS}", "under 1 s", _median(paints))
        say(f"first card shown, median of {ROUNDS}", "", _median(cards))
        say(f"group picker of {GROUPS:,} groups opened", "", _median(opened))
        say("a group found by its whole name, typing included", "", _median(searched))
        say("another group chosen, its rows shown", "", _median(chosen))
        with page_of(browser, url, place="/time?query=largest+by+customer") as (page, _):
            page.wait_for_selector(".bump .trace")
            page.get_by_role("combobox").nth(1).click()
            page.wait_for_selector(".offered li")
            say("frames while the group picker scrolls", "60 per second", _frames(page, ".offered-scroll"))
            page.keyboard.press("Escape")
            heaps.append(page.evaluate(HEAP))
            delays = []
            for number in range(WINDOWS + 1, WINDOWS + 4):
                hidden = home / f".answers-{number:08}.parquet"
                pq.write_table(window(number), hidden)
                moment = f"{np.datetime64(OPENING + number * MINUTE, 'us').astype('datetime64[s]')}+00:00"
                shown = f"document.querySelector('.time-parts h2 time').dateTime === '{moment}'"
                target = home / hidden.name[1:]
                delays.append(_timed(page, lambda hidden=hidden, target=target: hidden.rename(target), shown))
            say(f"a new file with {GROUPS * K:,} rows, from written to on screen, median of 3", "", _median(delays))
        say("JavaScript heap, most", "", f"{max(heaps) / 1e6:.1f} MB")
        say("memory of the server", "", f"{server.memory_info().rss / 2**20:,.0f} MB")


@contextmanager
def _served(home: Path) -> Iterator[tuple[str, psutil.Process]]:
    command = [sys.executable, "-m", "skyband.cli", "page", "--answers", str(home), "--at", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = None
            while found is None:
                line = process.stderr.readline()
                assert line, "the server ended"
                found = re.search(r"http://\S+", line)
            yield found[0], psutil.Process(process.pid)
        finally:
            process.terminate()


def _timed(page, act: Callable[[], object], expression: str) -> float:
    """Milliseconds from before an act until an expression is true in a frame of the page."""
    page.evaluate(
        f"""() => {{ window.reached = new Promise(done => {{
          const frame = () => {expression} ? done(Date.now()) : requestAnimationFrame(frame);
          requestAnimationFrame(frame);
        }}); }}"""
    )
    begin = time.time()
    act()
    return page.evaluate("window.reached") - 1000 * begin


def _frames(page, selector: str) -> str:
    times = page.evaluate(SCROLL, [selector, 5])
    gaps = sorted(after - before for before, after in pairwise(times))
    rate = 1000 * len(gaps) / (times[-1] - times[0])
    late = 100 * sum(gap > 25 for gap in gaps) / len(gaps)
    return f"{rate:.1f} ({late:.1f}% of frames took longer than 25 ms)"


def _median(values: list[float]) -> str:
    return f"{statistics.median(values):.0f} ms, at most {max(values):.0f}"


def _times(value: int, count: int) -> pa.Array:
    return pa.array(np.full(count, value)).cast(pa.timestamp("us", "UTC"))
