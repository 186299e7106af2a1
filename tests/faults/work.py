"""A workload file with queries of all four families over one folder of files: its rows, and what it must answer.

File number n has rows from ten seconds of event time, in order. The definitions say what is wanted, without the
library's code.
"""

from __future__ import annotations

import datetime as dt
import math
import os
from collections import defaultdict
from fractions import Fraction
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb
from tests.aggregate import oracle as totals
from tests.incomplete import oracle as parts
from tests.sharding import cases
from tests.spark.frames import read_answers, read_lines

SECOND = 1_000_000
STEP = 10 * SECOND  # of event time, a file
PER_FILE = 12
BEGIN = 1_000_000_000  # the time of the first file
EIGHTHS = 8  # of which probabilities are multiples
ALL = cases.Posed("all", cases.Asked(k=3, size=20 * SECOND, slide=5 * SECOND), {"by": "s"})
EACH = cases.Posed("each", cases.Asked(k=2, size=30 * SECOND, slide=30 * SECOND), {"by": "s", "partition_by": ["g"]})
MORE = cases.Posed("more", cases.Asked(k=5, size=15 * SECOND, slide=5 * SECOND), {"by": "s"})  # joins while it runs
BUSY = sb.AggregateTopK(name="busy", k=2, size="30 seconds", slide="10 seconds", key="client", value="load")
HEAVY = parts.Asked(k=2, size=30 * SECOND, every=10 * SECOND, streams=("a", "b"), bounds=(0.0, 9.0), occurrences=100)
LIKELY = sb.UncertainTopK(
    name="likely", k=3, size="30 seconds", every="10 seconds", by="load", probability="p", rule="car"
)
KINDS = {
    "ts": pa.timestamp("us", "UTC"),
    "id": pa.int64(),
    **dict.fromkeys(("s", "load", "p"), pa.float64()),
}  # all other columns are text
FILE = """
streams:
  rows: &stream
    path: in
    format: parquet
    schema: {{ts: timestamp, id: bigint, s: double, g: string, client: string, router: string, load: double,
      p: double, car: string}}
    time: ts
    id: id
    watermark: {watermark}
    files_per_batch: {files}
  requests: *stream
  flows: *stream
  readings: *stream
queries: [{queries}]
sinks: [{{type: parquet, path: {sink}}}, {{type: jsonl, path: lines}}]
engine: {{master: "local[2]", memory: 768m, checkpoint: {checkpoint}, trigger: {trigger}}}
"""
QUERIES = {
    "rows": """{name: all, stream: rows, k: 3, size: 20 seconds, slide: 5 seconds, by: s},
        {name: each, stream: rows, sql: "TOPK s, 2 BY g OVER 30 SECONDS"}""",
    "requests": """{name: busy, stream: requests, type: aggregate, k: 2, size: 30 seconds, slide: 10 seconds,
        key: client, value: load}""",
    "flows": """{name: heavy, stream: flows, type: incomplete, k: 2, size: 30 seconds, every: 10 seconds,
        object: client, stream_by: router, value: load, streams: [a, b], bounds: [0, 9], occurrences: 100}""",
    "readings": """{name: likely, stream: readings, type: uncertain, k: 3, size: 30 seconds, every: 10 seconds,
        by: load, probability: p, rule: car}""",
}
STREAMS = tuple(QUERIES)


class Row(NamedTuple):
    ts: int
    id: int
    s: float | None
    g: str | None
    client: str
    router: str
    load: float
    p: float
    car: str | None  # at most two rows have it, and their probabilities sum to at most 1


def rows_of(number, count=PER_FILE, *, ruled=True):
    """The rows of a file."""
    random = cases.rng("faults", number)
    moments = sorted(random.sample(range(STEP), count))
    return [
        Row(
            ts=number * STEP + moment,
            id=number * count + place,
            s=random.choice([*(float(random.randint(0, 6)) for _ in range(3)), math.inf, -0.0, 2.5, None]),
            g=random.choice(["a", "b", "c", None]),
            client=random.choice(["x", "y", "z"]),
            router=random.choice(["a", "b"]),
            load=float(random.randint(0, 9)),
            p=random.choice([0.25, 0.5]),
            car=f"{number}-{place // 2}" if ruled and place < 8 else None,
        )
        for place, moment in enumerate(moments)
    ]


def last_row(ts):
    """A row so late that everything before it becomes final."""
    return Row(ts, 10**9, 1.0, "a", "x", "a", 1.0, 0.5, None)


def write_workload(
    folder,
    *,
    watermark="0 seconds",
    files=4,
    checkpoint="state",
    sink="out",
    streams=STREAMS,
    trigger="1 second",
):
    """The workload file; `files` is how many a micro-batch takes, `streams` those that are asked about."""
    path = folder / "work.yaml"
    queries = ", ".join(QUERIES[name] for name in streams)
    places = {"checkpoint": checkpoint, "sink": sink, "queries": queries}
    path.write_text(FILE.format(watermark=watermark, files=files, trigger=trigger, **places))
    return path


def table_of(rows):
    """The columns of a file."""
    columns = zip(Row._fields, zip(*rows, strict=True), strict=True)
    return pa.table({name: pa.array(values, KINDS.get(name, pa.string())) for name, values in columns})


def write_rows(folder, number, rows, at=None):
    """A file of rows. Spark reads the older file first: by default each is a second older than the next."""
    folder.mkdir(exist_ok=True)
    unfinished = folder / f".{number:05}.parquet"
    pq.write_table(table_of(rows), unfinished)
    at = BEGIN + number if at is None else at
    os.utime(unfinished, (at, at))
    unfinished.rename(folder / f"{number:05}.parquet")


def wanted(rows, posed=(ALL, EACH), streams=STREAMS):
    """All windows that hold a row, of all queries: ``(query, group, moment, rank, what, score, …)``."""
    rows = sorted(rows)
    found = []
    for part in _stretches(rows):
        for one in posed if "rows" in streams else ():
            answers = cases.wanted(one, [(row.ts, row.s, row.id, row.g) for row in part])
            found += [(*key, *row[1:]) for key, answer in answers.items() for row in answer]
        if "requests" in streams:
            answers = totals.answers([BUSY], [totals.Row(row.ts, row.client, row.load) for row in part])
            found += [("busy", "-", end, rank, key, score) for _, _, _, end, rank, key, score in answers]
        if "flows" in streams:
            tuples = [parts.Tuple(row.ts, row.client, row.router, row.load) for row in part]
            for end, best in parts.answers(HEAVY, tuples):
                found += [("heavy", "-", end, rank, *one) for rank, one in enumerate(best, 1)]
    if "readings" in streams:
        found += list(_likely(rows))
    return found


def _likely(rows):
    """Answers to LIKELY: the tuples that are most often among the best k, over all possible worlds.

    Their probabilities are counted in whole numbers of EIGHTHS, better tuple by better tuple.
    """
    k, size, every = LIKELY.k, 30 * SECOND, 10 * SECOND
    windows = defaultdict(list)
    for row in rows:
        first = row.ts // every * every + every
        for end in range(first, row.ts + size + 1, every):
            windows[end].append(row)
    for end, mine in sorted(windows.items()):
        best_first = sorted(mine, key=lambda row: (row.load, row.ts, row.id), reverse=True)
        chances, sums = [], {}  # sums: by rule, how many eighths better tuples of it have
        for place, row in enumerate(best_first):
            rule = ("alone", place) if row.car is None else row.car
            law, others = [1] + [0] * (k - 1), 0  # how many better tuples of other rules exist
            for other, eighths in sums.items():
                if other != rule:
                    law = [law[j] * (EIGHTHS - eighths) + (law[j - 1] * eighths if j else 0) for j in range(k)]
                    others += 1
            own = round(row.p * EIGHTHS)
            chances.append(Fraction(own * sum(law), EIGHTHS ** (others + 1)))
            sums[rule] = sums.get(rule, 0) + own
        order = sorted(range(len(chances)), key=lambda place: (-chances[place], place))
        for rank, place in enumerate(order[:k], 1):
            row = best_first[place]
            yield "likely", "-", end, rank, row.id, row.load, round(float(chances[place]), 12)


def _stretches(rows):
    """The rows, cut where no window reaches across: the definitions look at every window between the first and last."""
    begin = 0
    for number in range(1, len(rows) + 1):
        if number == len(rows) or rows[number].ts - rows[number - 1].ts > 10 * STEP:
            yield rows[begin:number]
            begin = number


def found_in(folder, sink="out"):
    """What the run has written, by sink."""
    parquet, lines = read_answers(folder / sink), read_lines(folder / "lines")
    return {"parquet": list(map(plain_row, parquet)), "jsonl": list(map(plain_row, lines))}


def reached(folder, sink="out", streams=STREAMS):
    """By stream, how many files of answers it has written."""
    return {name: len(list((folder / sink).glob(f"{name}-*.parquet"))) for name in streams}


def files_in(folder, sink="out"):
    """How many files of answers there are; those that are being written have hidden names."""
    return sum(len(list(place.glob("[!.]*-*.*"))) for place in (folder / sink, folder / "lines"))


def plain_row(row):
    """A row of answers in the form of `wanted`; what is ranked goes by another name in every family."""
    moment = plain_moment(row["window_end"] if "window_end" in row else row["time"])
    what = next(row[name] for name in ("key", "object", "id") if name in row)
    group = row["g"] if row["query"] == "each" else "-"
    more = (round(row["probability"], 12),) if "probability" in row else ()
    return row["query"], group, moment, row["rank"], what, float(row["score"]), *more


def plain_moment(moment):
    """A time as a sink has it, in microseconds."""
    moment = dt.datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return cases.micros(moment) if isinstance(moment, dt.datetime) else moment
