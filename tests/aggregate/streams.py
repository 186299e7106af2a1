"""Streams of data frames for aggregate queries: random rows, the frames of micro-batches, and answers as tuples."""

from __future__ import annotations

import pyarrow as pa

import skyband as sb
from skyband.local.micro_batches import MicroBatches
from skyband.local.pipeline import plan_for
from skyband.sharding.projection import ProjectionRequest
from tests.aggregate import cases
from tests.aggregate.oracle import Row

MS = 1000
TIMES = pa.timestamp("us")


def drawn(random, *, axis, most=70, session=None):
    """Queries over the columns of `frame`, and rows with times and ids, in the order of arrival."""
    case = cases.draw(random, axis=axis, grouped=True, identified=True, most=most)
    queries = [over_columns(query, case.valued) for query in case.queries]
    position, rows = 50 * MS, []
    for row in case.rows:
        position += random.choice([0, 0, 300, 1000, 2500, 4000])
        rows.append(row._replace(position=None if random.random() < 0.03 else position))
    return case, queries, rows


def over_columns(query, valued, **changed):
    """The query with expressions over the columns of `frame`."""
    fields = {**query.to_dict(), "key": "player", "value": "points" if valued else None, **changed}
    if query.having:
        fields["having"] = query.having.replace("(value)", "(points)")
    return sb.AggregateTopK(**fields)


def frame(rows, kind):
    """Rows as a data frame."""
    return pa.table(
        {
            "ts": pa.array([row.position for row in rows], TIMES),
            "player": pa.array([row.key for row in rows], kind),
            "points": pa.array([row.value for row in rows], pa.float64()),
            "game": pa.array([row.id for row in rows], pa.int64()),
            "g": pa.array([row.group for row in rows], pa.string()),
        }
    )


def told(table, queries, *, ids=True):
    """Answers as the tuples of the oracle."""
    asked = {query.name: query for query in queries}
    with_rows = any(query.row for query in queries)
    names = table.column_names
    bounds = {name: table[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end")}
    columns = {name: table[name].to_pylist() for name in names if name not in bounds} | bounds
    found = []
    for place in range(table.num_rows):
        row = {name: values[place] for name, values in columns.items()}
        query = asked[row["query"]]
        group = row["g"] if query.partition_by else None
        described = [row["key"]]
        if with_rows:
            described.append(row["game"] if query.row else None)
        described.append("nan" if row["score"] != row["score"] else row["score"])
        if "share" in names:
            described.append(row["share"])
        found.append((row["query"], group, row["window_start"], row["window_end"], int(row["rank"]), *described))
    return found


class Stream:
    """A stream in micro-batches, which can be stored and resumed between them."""

    def __init__(self, queries, schema, *, delay=0, shards=2, **request):
        workload = sb.Workload(queries)
        self.plan = plan_for(
            schema, ProjectionRequest(workload, "ts", "game", shards=shards, may_be_late=True, delay=delay, **request)
        )
        self.delay, self.counts = delay, []
        self.batches = MicroBatches(self.plan, "ts", delay)

    def step(self, table, messages=()):
        result = self.batches.step([table] if table is not None else [], messages)
        self.counts.append(result.counts)
        return result.answers

    def end(self):
        return self.step(None, [{"kind": "end"}])

    def restart(self, plan=None):
        """Store all shards, and continue with their states."""
        stored = {
            name: (shard.state(), shard.segments)
            for name, shard in zip(self.plan.unit_names, self.batches.shards, strict=True)
        }
        self.plan = self.plan if plan is None else plan
        before = self.batches
        self.batches = MicroBatches(
            self.plan, "ts", self.delay, watermark=before.watermark, newest=before.newest, stored=stored
        )


def in_any_order(rows):
    """Rows of answers for a comparison without an order, with 0.0 for -0.0."""
    plain = [tuple(value + 0.0 if isinstance(value, float) else value for value in row) for row in rows]
    return sorted(plain, key=repr)


def arrived(random, rows, reach):
    """The rows in an order in which none is more than `reach` behind a row before it."""
    return sorted(rows, key=lambda row: (row.position or 0) + random.randint(0, reach))


def pieces(random, rows, most=20):
    while rows:
        cut = random.randint(1, most)
        yield rows[:cut]
        rows = rows[cut:]


__all__ = ["MS", "Row", "Stream", "arrived", "drawn", "frame", "in_any_order", "over_columns", "pieces", "told"]
