"""How quick the page is: `python -m tests.dashboard.browser.measure [--write]`. Nothing is asserted.

First paint and the first ranking; from an answer's being written to its being on screen; frames a second with twenty
cards and five updates a second; the size of the whole; a folder with 10,000 groups. What else the machine does shows in
the numbers. `--write` puts them into benchmarks/reports/page.md.
"""

from __future__ import annotations

import gzip
import statistics
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import skyband.dashboard
from benchmarks import report
from tests.dashboard.browser import measure_groups
from tests.dashboard.browser.looking import launched, page_of
from tests.dashboard.browser.seeding import Seeded
from tests.dashboard.seeded import step

PAGE = report.REPORTS / "page.md"
ROWS: list[tuple[str, str, str]] = []
CARDS = "&".join(f"card=q{number:04}" for number in range(20))

# When each window of a card was on screen: in the frame after the one that changed it.
NOTE = """() => {
  window.seen = {};
  const when = document.querySelector('.card time');
  const note = () => {
    const moment = when.getAttribute('datetime');
    const seen = () => window.seen[moment] = Date.now();
    if (!(moment in window.seen)) requestAnimationFrame(() => requestAnimationFrame(seen));
  };
  new MutationObserver(note).observe(when, {attributes: true});
}"""
COUNT = """seconds => new Promise(done => {
  const times = [], begin = performance.now();
  const frame = now => {
    times.push(now);
    if (now - begin < seconds * 1000) requestAnimationFrame(frame); else done(times);
  };
  requestAnimationFrame(frame);
})"""
FIRST = """() => new Promise(done => new PerformanceObserver(list => done(list.getEntries()[0].startTime))
  .observe({type: 'paint', buffered: true}))"""


def main() -> None:
    from playwright.sync_api import sync_playwright

    machine = report.machine()
    with sync_playwright() as driver:
        browser = launched(driver, "--enable-precise-memory-info")
        machine += f" Chromium {browser.version}, without a screen or a graphics card."
        with TemporaryDirectory() as home, Seeded(Path(home), windows=60, many=1000) as seeded:
            _paint(browser, seeded)
            _arrival(browser, seeded)
            _frames(browser, seeded)
        say("the whole front end, compressed", "under 300 KB", f"{size() / 1000:.1f} KB")
        seen = list(ROWS)
        ROWS.clear()
        with TemporaryDirectory() as home:
            measure_groups.measure(browser, Path(home), say)
        browser.close()
    if "--write" in sys.argv:
        heads = ("what", "target", "measured")
        report.show("page-browser", "A thousand queries in a browser", heads, seen, write=True, page=PAGE)
        report.show("page-groups", "Ten thousand groups in a browser", heads, ROWS, write=True, page=PAGE)
        report.into_page("page-browser-machine", machine, page=PAGE)


def say(what: str, target: str, value: str) -> None:
    ROWS.append((what, target, value))
    sys.stdout.write(f"{what:<66} {value}\n")
    sys.stdout.flush()


def size() -> int:
    folder = Path(skyband.dashboard.__file__).parent / "assets"
    return sum(len(gzip.compress(path.read_bytes(), 9)) for path in folder.iterdir())


def _paint(browser, seeded) -> None:
    paints, rankings = [], []
    for _ in range(7):
        with page_of(browser, seeded.url) as (page, _):
            paints.append(page.evaluate(FIRST))
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        page.goto(seeded.url, wait_until="commit")
        page.wait_for_selector(".ranking tr.line")
        rankings.append(page.evaluate("performance.now()"))
        context.close()
    say("first paint, median of 7", "under 1 s", f"{statistics.median(paints):.0f} ms, at most {max(paints):.0f}")
    say(
        "first ranking shown, with 1,007 queries, median of 7",
        "",
        f"{statistics.median(rankings):.0f} ms, at most {max(rankings):.0f}",
    )


def _frames(browser, seeded) -> None:
    with page_of(browser, seeded.url, place=f"/boards?{CARDS}", height=1400) as (page, _):
        page.wait_for_selector('.card[data-query="q0019"] tr.line')
        _counted(page, "no updates", "")
        for every, what in ((0.2, "5 updates per second"), (0.5, "2 updates per second, rows sliding")):
            ended = threading.Event()
            tables = _coming(seeded, int(10 / every))
            thread = threading.Thread(target=_give, args=(seeded, tables, every, ended))
            thread.start()
            page.wait_for_timeout(1000)
            _counted(page, what, "60 per second" if every < 0.3 else "")
            ended.set()
            thread.join()


def _coming(seeded, count: int):
    """The windows to come of the thousand queries, made before anything is measured."""
    first = seeded.run.steps + 1
    seeded.run.steps += count
    return [(number, step(seeded.run.file, number)["many"]) for number in range(first, first + count)]


def _give(seeded, tables, every: float, ended: threading.Event) -> None:
    for number, table in tables:
        seeded.show.history.outlet("many").take(number, table)
        if ended.wait(every):
            return


def _counted(page, what: str, target: str) -> None:
    times = page.evaluate(COUNT, 6)
    gaps = [b - a for a, b in pairwise(times)]
    rate = 1000 * len(gaps) / (times[-1] - times[0])
    late = 100 * sum(gap > 25 for gap in gaps) / len(gaps)
    say(f"frames of 20 cards, {what}", target, f"{rate:.1f} ({late:.1f}% of frames took longer than 25 ms)")


def _arrival(browser, seeded) -> None:
    with page_of(browser, seeded.url, place="/boards?card=largest") as (page, _):
        page.wait_for_selector(".card tr.line")
        page.evaluate(NOTE)
        written = {}
        for _ in range(30):
            seeded.run.steps += 1
            table = step(seeded.run.file, seeded.run.steps)["trades"]
            moment = max(table["window_end"].to_pylist()).isoformat()
            written[moment] = time.time()
            seeded.show.history.outlet("trades").take(seeded.run.steps, table)
            page.wait_for_timeout(230 + 7 * len(written))
        seen = page.evaluate("window.seen")
        delays = sorted(seen[moment] - 1000 * begin for moment, begin in written.items() if moment in seen)
        median, late = statistics.median(delays), delays[int(0.95 * len(delays))]
        shown = f"median {median:.0f} ms, 95% under {late:.0f} ms"
        say(f"from written to on screen, {len(delays)} windows", "under 300 ms", shown)


if __name__ == "__main__":
    main()
