"""Pictures of every view for the docs: `python -m tests.dashboard.browser.screenshots` writes docs/images/page-*.png.

The trades and their rankings are real (a seeded stream, answered by the engine); clients, flows and cars wander about.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from PIL import Image

import skyband as sb
from skyband import streams
from skyband.dashboard.board_state import LiveShow
from skyband.dashboard.control import RunControl
from skyband.jobs.mailbox import Mailbox
from skyband.workload_file import read_workload
from tests.dashboard.browser.looking import card, launched, page_of
from tests.dashboard.browser.seeding import Served

TARGET = Path(__file__).resolve().parents[3] / "docs" / "images"
SECOND = 1_000_000
SLIDE = 10 * SECOND
LENGTHS = ["20 SECONDS", "30 SECONDS", "40 SECONDS", "50 SECONDS", "1 MINUTE", "90 SECONDS", "2 MINUTES", "4 MINUTES"]

YAML = """\
streams:
  trades: {{path: trades, format: parquet, time: ts, id: trade_id}}
  clients: {{path: clients, format: parquet, time: ts}}
  flows: {{path: flows, format: parquet, time: ts}}
  cars: {{path: cars, format: parquet, time: ts, id: plate}}
engine: {{checkpoint: state}}
queries:
  - {{stream: trades, sql: "'largest trades': TOPK price * size, 10 OVER 2 MINUTES EVERY 10 SECONDS"}}
  - {{stream: trades, sql: "'by symbol': TOPK price * size, 10 BY symbol OVER 4 MINUTES EVERY 10 SECONDS"}}
  - {{stream: clients, type: aggregate, name: busiest clients, k: 10, size: 1 minute, slide: 10 seconds, key: client,
     value: bytes}}
  - stream: flows
    type: incomplete
    name: widest flows
    k: 8
    size: 1 minute
    every: 10 seconds
    object: flow
    stream_by: router
    value: bytes
    streams: [north, south, west]
    bounds: [0, 1500]
    intervals: true
  - {{stream: cars, sql: "'fastest cars': TOPK speed, 8 PROBABILITY p OVER 1 MINUTE FREQUENCY 20 SECONDS"}}
  - {{stream: cars, sql: "'fastest, often': TOPK speed, 3 PROBABILITY p OVER 1 MINUTE FREQUENCY 10 SECONDS"}}
{more}
sinks: [{{type: parquet, path: answers}}]
"""


def main() -> None:
    from playwright.sync_api import sync_playwright

    TARGET.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as home, sync_playwright() as driver:
        show = Pictured(Path(home))
        with Served(show.show) as served:
            browser = launched(driver)
            for name, take in PICTURES.items():
                options = {"color_scheme": "dark" if "dark" in name else "light", "reduced_motion": "reduce"}
                wide = {"width": 390, "height": 844} if "phone" in name else {"width": 1360, "height": 850}
                with page_of(browser, served.url, place=take[0], device_scale_factor=1.5, **wide, **options) as (
                    page,
                    _,
                ):
                    page.wait_for_selector(take[1])
                    for _ in range(3):  # figures need some seconds to have a trail
                        show.give()
                        page.wait_for_timeout(1200 if "engine" in name else 250)
                    for step in take[2:]:
                        step(page)
                    page.wait_for_timeout(400)
                    _kept(page.screenshot(), TARGET / f"page-{name}.png")
                    sys.stdout.write(f"docs/images/page-{name}.png\n")
            browser.close()


def _kept(picture: bytes, path: Path) -> None:
    """Written with as many colours as a page has, which is few."""
    Image.open(BytesIO(picture)).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def _open_row(page) -> None:
    card(page, "largest trades").locator("tr.line").nth(1).click()


def _back(page) -> None:
    page.get_by_role("slider", name="Window").fill("24")
    page.wait_for_timeout(700)
    page.locator(".time-parts tr.line button").nth(2).focus()


def _explain(page) -> None:
    page.get_by_role("textbox").fill("'small caps': TOPK price * size, 5 OVER 1 MINUTE EVERY 10 SECONDS")
    page.get_by_role("button", name="Explain").click()
    page.wait_for_selector(".explained")


def _pick(page) -> None:
    card(page, "by symbol").get_by_role("combobox").click()
    page.wait_for_selector(".offered li")


BOARDS = "/boards"
PICTURES = {
    "leaderboards": (BOARDS, ".card tr.line"),
    "leaderboards-dark": (BOARDS, ".card tr.line"),
    "group": ("/boards?card=by+symbol&card=busiest+clients", ".card tr.line", _pick),
    "details": (BOARDS, ".card tr.line", _open_row),
    "families": ("/boards?card=widest+flows&card=fastest+cars", ".card tr.line"),
    "time": ("/time?query=busiest+clients", ".bump .trace", _back),
    "compare": ("/compare?query=widest+flows", ".compare-side tr.line"),
    "engine": ("/engine?stream=trades", ".lane"),
    "engine-incomplete": ("/engine?stream=flows", ".lags tr"),
    "engine-uncertain": ("/engine?stream=cars", ".lane"),
    "workload": ("/workload", ".queries tr", _explain),
    "phone": ("/boards?card=busiest+clients", ".card tr.line"),
    "phone-time-dark": ("/time?query=busiest+clients", ".bump .trace"),
}


class Pictured:
    """A show of several families, given a window at a time."""

    def __init__(self, home: Path) -> None:
        line = (
            "  - {{stream: trades, sql: \"'top {k}, {low}': TOPK price * size, {k} OVER {length} EVERY 10 SECONDS\"}}"
        )
        more = [line.format(k=k, low=length.lower(), length=length) for k in (3, 5, 10, 20) for length in LENGTHS]
        path = home / "market.yaml"
        path.write_text(YAML.format(more="\n".join(more)), encoding="utf-8")
        self.file = read_workload(path)
        self.number = 0
        self._answers = _of_trades(self.file.workloads["trades"])
        self._ends = sorted(self._answers)
        self._others = [
            Wanderers("clients", "busiest clients", 10, [f"10.0.{a}.{b}" for a in range(4) for b in range(10, 14)], 7),
            Wanderers("flows", "widest flows", 8, [f"flow {letter}" for letter in "ABCDEFGHIJKL"], 11),
            Wanderers("cars", "fastest cars", 8, [f"KX {number}" for number in range(4010, 4024)], 13),
            Wanderers("cars", "fastest, often", 3, [f"KX {number}" for number in range(4010, 4024)], 13),
        ]
        self.show = LiveShow("market", control=RunControl(Mailbox(home / "box"), lambda: self.file))
        self.show.begin(lambda: self.file, self.numbers)
        for _ in range(40):
            self.give()

    def give(self) -> None:
        if self.number >= len(self._ends):
            return
        end = self._ends[self.number]
        self.number += 1
        self.show.history.outlet("trades").take(self.number, self._answers[end])
        for place, other in enumerate(self._others):
            self.show.history.outlet(other.stream).take((self.number, place), other.step(end, self.number))

    def numbers(self):
        number = self.number
        base = {"algorithm": "panes", "dropped_null": 0, "late": 0, "batches": number, "restarts": 0, "changes": 1}
        wave = np.sin(number / 3)
        return {
            stream: base
            | {
                "rows": int(4090 * number * rate),
                "late": late,
                "pruned": int(4030 * number * rate),
                "windows": number * len(self.file.workloads[stream]),
                "answers": number * sum(query.k for query in self.file.workloads[stream]),
                "candidates": int(310 * rate + 30 * wave),
                "bound": int(800 * rate),
                "state_bytes": int(184_000 * rate + 9000 * wave),
                "emit_lag": 0.42 + 0.1 * wave,
                "seconds": number * 0.5,
                "queries": len(self.file.workloads[stream]),
                **({"lags": {"north": 0.3, "south": 4.1, "west": 1.2}} if stream == "flows" else {}),
            }
            for stream, rate, late in (("trades", 1.0, 12), ("clients", 0.7, 0), ("flows", 0.4, 0), ("cars", 0.2, 0))
        }


def _of_trades(workload) -> dict[int, pa.Table]:
    """What the engine answers to the queries about trades, by window end."""
    trades = streams.trades(230_000, seed=5)
    tables = []
    for query in workload:
        groups = {"groups": trades.symbol} if query.groups else {}
        found = sb.replay(replace(query, by=None), trades.position, trades.score, trades.trade_id, **groups)
        ids = found["id"].to_numpy()
        columns = {name: found[name] for name in ("query", "window_start", "window_end", "rank")}
        columns |= {
            "symbol": pa.array(trades.symbol[ids]),
            "trade_id": pa.array(ids),
            "price": pa.array(trades.price[ids]),
            "size": pa.array(trades.size[ids]),
            "ts": pa.array(trades.position[ids]).cast(pa.timestamp("us", "UTC")),
            "score": found["score"],
        }
        tables.append(pa.table(columns))
    whole = pa.concat_tables(tables)
    ends = whole["window_end"].to_numpy()
    found = {}
    for end in np.unique(ends):
        part = whole.filter(pa.array(ends == end))
        for name in ("window_start", "window_end"):
            times = part[name].cast(pa.timestamp("us", "UTC"))
            part = part.set_column(part.schema.get_field_index(name), name, times)
        found[int(end)] = part
    return found


class Wanderers:
    """Objects whose scores wander: the best of them change places now and then."""

    def __init__(self, stream: str, query: str, k: int, names: list[str], seed: int) -> None:
        self.stream, self._query, self._k, self._names = stream, query, k, names
        self._rng = np.random.default_rng(seed)
        self._scores = np.sort(self._rng.uniform(300, 1400, len(names)))[::-1].copy()
        self._chances = self._rng.uniform(0.2, 0.98, len(names))

    def step(self, end: int, number: int) -> pa.Table:
        self._scores += self._rng.normal(0, 38, self._scores.size) - 0.02 * (self._scores - 850)
        self._chances = np.clip(self._chances + self._rng.normal(0, 0.03, self._chances.size), 0.05, 0.99)
        best = np.argsort(-self._scores)[: self._k]
        time = lambda value: pa.array([value] * self._k).cast(pa.timestamp("us", "UTC"))  # noqa: E731
        columns = {"query": pa.array([self._query] * self._k)}
        scores = pa.array(np.round(self._scores[best], 1))
        names = pa.array([self._names[place] for place in best])
        if self.stream == "clients":
            columns |= {"window_start": time(end - 60 * SECOND), "window_end": time(end)}
            return pa.table(columns | {"rank": _ranks(self._k), "key": names, "score": scores})
        columns |= {"time": time(end), "rank": _ranks(self._k)}
        if self.stream == "flows":
            width = 30.0 + 60 * (np.arange(self._k) / self._k)
            sure = pa.array([place < 5 for place in range(self._k)])
            extra = {"object": names, "score": scores, "best": pa.array(np.round(self._scores[best] + width, 1))}
            return pa.table(columns | extra | {"sure": sure})
        chances = pa.array(np.round(self._chances[best], 4))
        return pa.table(columns | {"plate": names, "score": scores, "probability": chances})


def _ranks(k: int) -> pa.Array:
    return pa.array(np.arange(1, k + 1), pa.int32())


if __name__ == "__main__":
    main()
