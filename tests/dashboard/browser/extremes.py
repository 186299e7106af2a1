"""Answers with values that are hard to show: infinite, huge, negative and missing numbers, odd texts and groups."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa

from skyband.dashboard.board_state import LiveShow
from skyband.workload_file import read_workload
from tests.dashboard.browser.seeding import Served

OPENING = 1_704_101_400_000_000  # 2024-01-01T09:30:00 UTC
MINUTE = 60_000_000
WINDOWS = 12
BEHIND = 4  # windows that the group LEFT_BEHIND lacks at the end
LARGEST = 1.7976931348623157e308
INF = math.inf

ARABIC = "شركة النفط الوطنية"
HEBREW = "חברת החשמל (2024)"
OVERRIDE = "\u202eenola dna tfel\u202d"
LONG = "W" * 600
SPACED = "two\nlines\tand a tab"
MARKUP = "<b onmouseover=alert(1)>bold</b>"
LEFT_BEHIND = "left behind"
NAMES = [ARABIC, HEBREW, OVERRIDE, LONG, SPACED, MARKUP, "", "😀" * 90]
GROUPS = ["ordinary", ARABIC, LONG, "", None, LEFT_BEHIND, MARKUP]
LONG_QUERY = "the largest of all orders by the net amount after taxes, fees and discounts " * 2
RTL_QUERY = "الأكبر (أعلى ٥)"

# By query: the scores, best first.
SCORES = {
    "all kinds": [INF, LARGEST, 1e15, 12.5, 0.0, -0.25, -LARGEST, -INF],
    "below zero": [-1.0, -50.0, -99.5, -100.0, -INF],
    "lowest first": [-INF, -100.0, -50.0, -1.0],
    "huge": [LARGEST, -LARGEST],
    "only infinite": [INF, INF, -INF],
    "tiny": [3e-300, 2e-300, 5e-324, -1e-300],
    "one value": [7.0, 7.0, 7.0],
    LONG_QUERY.strip(): [2.5, 1.5],
    RTL_QUERY: [3.5, 2.5, 1.5],
}
BY_GROUP = [4.5, 3.5, -2.0]
MISSING = [5.0, 4.0, math.nan, None]
BEST = [INF, LARGEST, math.nan, None]
PROBABILITIES = [1.0, 1e-300, math.nan, None]

YAML = """\
streams:
  orders: {{path: orders, format: parquet, time: ts, id: name}}
  clients: {{path: clients, format: parquet, time: ts}}
  flows: {{path: flows, format: parquet, time: ts}}
  cars: {{path: cars, format: parquet, time: ts, id: name}}
engine: {{checkpoint: state}}
queries:
{queries}
  - {{stream: orders, name: by region, k: 3, size: 10 minutes, slide: 1 minute, by: amount, partition_by: [region]}}
  - {{stream: clients, type: aggregate, name: means, k: 4, size: 10 minutes, slide: 1 minute, key: client,
     aggregate: avg, value: amount}}
  - {{stream: flows, type: incomplete, name: intervals, k: 4, size: 5 minutes, every: 1 minute, object: flow,
     stream_by: router, value: bytes, streams: [north, south], bounds: [0, 1000], intervals: true}}
  - {{stream: cars, type: uncertain, name: chances, k: 4, size: 20 minutes, every: 1 minute, by: speed,
     probability: p}}
sinks: [{{type: parquet, path: answers}}]
"""


class Extremes:
    """A show of extreme answers, all windows of which are there from the start."""

    def __init__(self, home: Path) -> None:
        path = home / "extremes.yaml"
        lines = [
            f"  - {{stream: orders, name: {name!r}, k: 10, size: 10 minutes, slide: 1 minute, by: amount, "
            f"order: {'asc' if name == 'lowest first' else 'desc'}}}"
            for name in SCORES
        ]
        path.write_text(YAML.format(queries="\n".join(lines)), encoding="utf-8")
        file = read_workload(path)
        self.show = LiveShow("extremes")
        self.show.begin(lambda: file, dict)
        for number in range(1, WINDOWS + 1):
            for stream, rows in answers(number).items():
                self.show.history.outlet(stream).take(number, rows)
        self._served = Served(self.show)

    @property
    def url(self) -> str:
        return self._served.url

    def __enter__(self):
        self._served.__enter__()
        return self

    def __exit__(self, *given):
        self._served.__exit__(*given)


def moment(number: int) -> str:
    """The end of a window, as the page writes it into its elements."""
    return (np.datetime64(OPENING + number * MINUTE, "us").astype("datetime64[s]").item()).isoformat() + "+00:00"


def answers(number: int, groups: list[str | None] | None = None) -> dict[str, pa.Table]:
    """The answers of the window that ends after so many minutes, by stream; of these groups, if given."""
    if groups is None:
        groups = [group for group in GROUPS if group != LEFT_BEHIND or number <= WINDOWS - BEHIND]
    orders = [_ranked(name, scores, number, size=10) for name, scores in SCORES.items()]
    orders += [_ranked("by region", BY_GROUP, number, size=10, region=group) for group in groups]
    means = _ranked("means", MISSING, number, size=10)
    means = means.set_column(means.column_names.index("name"), "key", means["name"])
    flows = _ranked("intervals", MISSING, number)
    flows = flows.set_column(flows.column_names.index("name"), "object", flows["name"])
    flows = flows.append_column("best", pa.array(BEST, from_pandas=False))
    flows = flows.append_column("sure", pa.array([True, False, None, False]))
    cars = _ranked("chances", MISSING, number).append_column("probability", pa.array(PROBABILITIES))
    return {
        "orders": pa.concat_tables(orders, promote_options="permissive"),
        "clients": means,
        "flows": flows,
        "cars": cars,
    }


def _ranked(query: str, scores: list, number: int, *, size: int | None = None, **columns) -> pa.Table:
    """The rows of one window. Names change places from window to window."""
    count = len(scores)
    end = OPENING + number * MINUTE
    names = [NAMES[(place + number * (place > 1)) % len(NAMES)] for place in range(count)]
    found = {"query": pa.array([query] * count)}
    found |= {name: pa.array([value] * count, pa.string()) for name, value in columns.items()}
    if size is None:
        found["time"] = _times(end, count)
    else:
        found |= {"window_start": _times(end - size * MINUTE, count), "window_end": _times(end, count)}
    found |= {
        "rank": pa.array(range(1, count + 1), pa.int32()),
        "name": pa.array(names),
        "note": pa.array([NAMES[(place + 2 * number) % len(NAMES)] for place in range(count)]),
        "score": pa.array(scores, pa.float64(), from_pandas=False),
    }
    return pa.table(found)


def _times(value: int, count: int) -> pa.Array:
    return pa.array([value] * count, pa.int64()).cast(pa.timestamp("us", "UTC"))
