"""Random rows and TopK queries over them, with the answers that the oracle gives."""

from __future__ import annotations

import math
import random

import pyarrow as pa

import skyband as sb
from tests.drive import count_query, time_query
from tests.oracle import Asked, answers, count_answers

SCORES = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, -0.0, 2.5, math.inf, -math.inf, math.nan, None]
STEPS = [0, 0, 0, 1, 1, 2, 3, 5, 11, 150]
WHERE = {None: lambda row: True, "w > 1": lambda row: row["w"] is not None and row["w"] > 1}
BY = {"v": lambda row: row["v"], "v * 2 + 1": lambda row: None if row["v"] is None else row["v"] * 2 + 1, "-v": None}
BY["-v"] = lambda row: None if row["v"] is None else -row["v"]
GROUPS = [(), (), ("g",), ("g", "h"), ("h", "g")]


def rows_of(rng, most=40):
    """Rows in order of time, some without a time, a score, a group or a number to filter by."""
    at, found = rng.randint(-60, 60), []
    ids = rng.sample(range(-5000, 5000), most)
    for number in range(rng.randint(0, most)):
        at += rng.choice(STEPS)
        found.append(
            {
                "ts": None if rng.random() < 0.05 else at,
                "v": rng.choice(SCORES),
                "id": ids[number],
                "g": rng.choice(["a", "b", "c", None]),
                "h": rng.choice([1, 2, None]),
                "w": rng.choice([0, 1, 2, 3, None]),
            }
        )
    return found


KINDS = pa.schema(
    {
        "ts": pa.timestamp("us"),
        "v": pa.float64(),
        "id": pa.int64(),
        "g": pa.string(),
        "h": pa.int32(),
        "w": pa.int64(),
    }
)


def table_of(rows):
    """The rows as an Arrow table."""
    return pa.table({name: pa.array([row[name] for row in rows], KINDS.field(name).type) for name in KINDS.names})


def asked_of(rng, size=None):
    """A query in plain numbers."""
    size = size or rng.randint(1, 24)
    return Asked(
        k=rng.choice([1, 1, 2, 3, 5, 40]),
        size=size,
        slide=rng.randint(1, size),
        origin=rng.randint(-30, 30),
        full_only=rng.random() < 0.3,
        ascending=rng.random() < 0.4,
        tied=rng.random() < 0.3,
    )


class Case:
    """A workload, and what the oracle answers for it."""

    def __init__(self, rng, axis="time"):
        self.axis = axis
        self.parts = [
            (asked_of(rng), rng.choice(list(BY)), rng.choice(list(WHERE)), rng.choice(GROUPS))
            for _ in range(rng.choice([1, 1, 2, 3, 4]))
        ]
        query = time_query if axis == "time" else count_query
        self.queries = [
            query(asked, name=f"q{place}", by=by, where=where, partition_by=list(groups))
            for place, (asked, by, where, groups) in enumerate(self.parts)
        ]
        self.workload = sb.Workload(self.queries)

    @property
    def group_names(self):
        """The group columns of answers."""
        return list(dict.fromkeys(name for *_, groups in self.parts for name in groups))

    def expected(self, rows):
        """[(query, values of group columns, start, end, rank, id, score), ...] in any order.

        In the answers of queries without a group, its column has the row's own value.
        """
        found, of_id = [], {row["id"]: row for row in rows}
        for place, (asked, by, where, groups) in enumerate(self.parts):
            kept = [row for row in rows if WHERE[where](row) and row["ts"] is not None]
            scored = [(row, BY[by](row)) for row in kept]
            scored = [(row, score) for row, score in scored if score is not None and not math.isnan(score)]
            first = min((row["ts"] for row, _ in scored), default=None)
            for group in {tuple(row[name] for name in groups) for row, _ in scored}:
                mine = [(row, score) for row, score in scored if tuple(row[name] for name in groups) == group]
                if self.axis == "time":
                    objects = [(row["ts"], score, row["id"]) for row, score in mine]
                    answered = answers(asked, objects, first=first)
                else:
                    ordered = sorted(mine, key=lambda pair: (pair[0]["ts"], pair[0]["id"]))
                    answered = count_answers(asked, [(score, row["id"]) for row, score in ordered])
                for line in answered:
                    own = {**of_id[line[3]], **dict(zip(groups, group, strict=True))}
                    found.append((f"q{place}", tuple(own[name] for name in self.group_names), *line))
        return found

    def read(self, table):
        """A table of answers as the oracle writes them."""
        table = table.to_arrow() if isinstance(table, sb.Answers) else table
        if self.axis == "time":
            bounds = [table[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end")]
        else:
            bounds = [table[name].to_pylist() for name in ("window_start", "window_end")]
        groups = zip(*(table[name].to_pylist() for name in self.group_names), strict=True)
        shown = list(groups) if self.group_names else [()] * table.num_rows
        rest = [table[name].to_pylist() for name in ("rank", "id", "score")]
        return list(zip(table["query"].to_pylist(), shown, *bounds, *rest, strict=True))

    def in_order(self, lines):
        """Answers by window end, query, group (nulls last) and rank, and newest id last among equal ranks."""

        def key(line):
            query, shown, _, end, rank, _, _ = line
            groups = self.parts[int(query.removeprefix("q"))][3]
            mine = [value for name, value in zip(self.group_names, shown, strict=True) if name in groups]
            return end, query, [(value is None, value or 0) for value in mine], rank

        return sorted(lines, key=key)


def comparable(lines):
    """Lines in an order of their own, to compare what is in them."""
    return sorted(lines, key=repr)


def shuffled(rng, table):
    """The table's rows in random order, in random chunks."""
    order = list(range(table.num_rows))
    rng.shuffle(order)
    mixed = table.take(pa.array(order, pa.int64()))
    cuts = sorted(rng.randint(0, table.num_rows) for _ in range(rng.randint(0, 3)))
    parts = [mixed.slice(low, high - low) for low, high in zip([0, *cuts], [*cuts, table.num_rows], strict=True)]
    return pa.concat_tables(parts)


def numbered(seed):
    """A generator of its own for every seed."""
    return random.Random(f"frames {seed}")
