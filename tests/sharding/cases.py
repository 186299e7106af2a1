"""Random workloads and streams for the pipeline: small numbers, so that ties and equal times are common."""

from __future__ import annotations

import datetime as dt
import math
import random
from dataclasses import replace
from typing import NamedTuple

from tests import oracle
from tests.drive import count_query, time_query
from tests.oracle import Asked

KINDS = (
    {"by": "s"},
    {"by": "-s"},
    {"by": "s", "where": "odd"},
    {"by": "s", "partition_by": ["g"]},
    {"by": "-s", "partition_by": ["g"]},
)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Posed(NamedTuple):
    """A query in plain numbers, and what the pipeline is told of its score, filter and groups."""

    name: str
    asked: Asked
    kind: dict

    def query(self, axis="time"):
        return (time_query if axis == "time" else count_query)(self.asked, name=self.name, **self.kind)


def draw_posed(random_, name, *, axis="time", scale=1000, kinds=KINDS, ties=False):
    """A query; with `ties` every other one has ``ties="rank"``."""
    most = 24 if axis == "time" else 12
    scale = scale if axis == "time" else 1
    size = random_.randint(1, most)
    asked = Asked(
        k=random_.choice([1, 2, 3, 5]),
        size=size * scale,
        slide=random_.randint(1, size) * scale,
        origin=random_.randint(-30, 30) * scale,
        full_only=random_.random() < 0.3,
        ascending=random_.random() < 0.3,
    )
    if ties:
        asked = replace(asked, tied=random_.random() < 0.5)
    return Posed(name, asked, random_.choice(kinds))


def plain(posed):
    """The query with all its windows reported, full or not."""
    return posed._replace(asked=replace(posed.asked, full_only=False))


def draw_rows(random_, count, *, scale=1000):
    """Rows ``(position, score, id, group)`` by position; ids are distinct and in no order."""
    position, rows = random_.randint(1, 2000) * scale, []
    for number in range(count):
        step = random_.choice([0, 0, 0, 1, 1, 2, 3, 5, 11, random_.choice([1, 150])])
        position += step * random_.choice([scale, scale, 1])
        plain = [float(random_.randint(0, 6)) for _ in range(3)]
        score = random_.choice([*plain, math.inf, -math.inf, -0.0, 2.5, None])
        rows.append((position, score, (number + 1) * 7919 % 10007 - 5000, random_.choice(["a", "b", "c", None])))
    return rows


def disordered(random_, rows, most):
    """The rows as they arrive when each is held up by at most so long."""
    return sorted(rows, key=lambda row: row[0] + random_.randint(0, most))


def draw_cuts(random_, rows):
    """The rows in consecutive batches of any size, empty ones included."""
    cuts = sorted(random_.randint(0, len(rows)) for _ in range(random_.choice([0, 1, 5, 20])))
    return [rows[low:high] for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def draw_tasks(random_, rows):
    tasks = random_.randint(1, 3)
    return [rows[number::tasks] for number in range(tasks)]


def ranked_by(posed, rows):
    """The rows as the query sees them: its score, and only what its filter lets through."""
    sign = -1 if posed.kind["by"] == "-s" else 1
    return [
        (position, None if score is None else sign * score + 0.0, id_, group)
        for position, score, id_, group in rows
        if posed.kind.get("where") != "odd" or id_ % 2
    ]


def wanted(posed, rows, axis="time"):
    """{(query, group): answers} by the definitions."""
    mine = ranked_by(posed, rows)
    first = min((row[0] for row in mine if row[1] is not None), default=None)
    found = {}
    for group in {row[3] for row in mine} if "partition_by" in posed.kind else ["-"]:
        inside = [row[:3] for row in mine if group in ("-", row[3])]
        if axis == "count":
            in_order = sorted(inside, key=lambda row: (row[0], row[2]))
            answers = oracle.count_answers(posed.asked, [(score, id_) for _, score, id_ in in_order])
        else:
            answers = oracle.answers(posed.asked, inside, first=first)
        if answers:
            found[posed.name, group] = answers
    return found


def answered(rows, posed):
    """{(query, group): answers} of rows as the library gives them back, in the oracle's plain values."""
    grouped = {one.name for one in posed if "partition_by" in one.kind}
    found = {}
    for row in rows:
        group = row["g"] if row["query"] in grouped else "-"
        bounds = [micros(row[name]) for name in ("window_start", "window_end")]
        found.setdefault((row["query"], group), []).append((*bounds, row["rank"], row["id"], row["score"]))
    return {key: sorted(rows, key=lambda row: row[1:3]) for key, rows in found.items()}


def micros(bound):
    return (bound - EPOCH) // dt.timedelta(microseconds=1) if isinstance(bound, dt.datetime) else bound


def rng(*seeds):
    return random.Random(repr(seeds))
