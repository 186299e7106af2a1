"""Windows that slide and windows that grow in one stream: changes between answers, and queries that come and go."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import skyband as sb
from skyband.local.micro_batches import MicroBatches
from tests.sharding.test_reported_answers import (
    SECOND,
    boards,
    differences,
    draw_rows,
    micros,
    plan_of,
    reported,
    table_of,
)

WINDOWS = [
    {"size": "14 seconds", "slide": "7 seconds"},
    {"size": "20 seconds", "slide": "5 seconds", "cumulative": True},
    {"size": None, "slide": "5 seconds", "origin": 0},
    {"size": None, "slide": "3 seconds", "origin": 10 * SECOND},
    {"size": "1 day", "slide": "1 minute", "cumulative": True, "zone": "Asia/Kathmandu"},
]
SCORES = [
    {"aggregate": "latest", "delete": "v = 0"},
    {"aggregate": "latest", "delete": "v < 2", "having": "score > 2"},
    {"aggregate": "count_distinct"},
    {"aggregate": "median"},
    {"aggregate": "max"},
    {"aggregate": "sum"},
]


def drawn_queries(random, names, windows=WINDOWS):
    return [
        sb.AggregateTopK(
            name=name,
            k=random.randint(1, 3),
            key="who",
            value="v",
            order=random.choice(["asc", "desc"]),
            partition_by=random.choice([(), ("g",)]),
            **random.choice(windows),
            **random.choice(SCORES),
        )
        for name in names
    ]


def streamed(random, plan, cuts, changed=None, at=None):
    """The output of micro-batches; shards are stored and resumed, the queries are changed before batch `at`."""
    engine, found = MicroBatches(plan, "ts", 0), []
    for number, batch in enumerate([*cuts, None]):
        if random.random() < 0.5 or number == at:
            stored = {
                name: (shard.state(), shard.segments)
                for name, shard in zip(plan.unit_names, engine.shards, strict=True)
            }
            plan = changed if number == at else plan
            engine = MicroBatches(plan, "ts", 0, watermark=engine.watermark, newest=engine.newest, stored=stored)
        found.append(engine.step([table_of(batch or [])], [{"kind": "end"}] if batch is None else []).answers)
    return pa.concat_tables(found, promote_options="default")


def cut(random, rows):
    cuts = []
    while rows:
        size = random.randint(1, 12)
        cuts, rows = [*cuts, rows[:size]], rows[size:]
    return cuts


def rows_of(random):
    return [(at + SECOND, *rest) for at, *rest in draw_rows(random, random.choice([8, 40, 60]))]


def lines(table, names=None):
    columns = ["query", "g", "window_start", "window_end", "rank", "key", "score"]
    rows = [tuple(row.get(name) for name in columns) for row in table.to_pylist()]
    return sorted(map(repr, (row for row in rows if names is None or row[0] in names)))


@pytest.mark.parametrize("seed", range(40))
def test_changes_are_the_differences_of_the_answers(seed):
    random = Random(f"changes {seed}")
    queries, rows = drawn_queries(random, [f"q{n}" for n in range(random.randint(1, 4))]), rows_of(random)
    cuts, shards = cut(random, rows), random.choice([1, 2, 3])
    answers = streamed(random, plan_of(queries, "answers", shards), cuts)
    assert lines(answers) == lines(sb.replay(queries, table_of(rows), time="ts", id="id").to_arrow())
    changes = streamed(random, plan_of(queries, "changes", shards), cuts)
    windows, newest, want = {query.name: query.window for query in queries}, rows[-1][0], []
    for (name, group), found in boards(answers.to_pylist(), "aggregate").items():
        by_end = {micros(end): board for end, board in found.items()}
        for end in sorted(by_end):
            following = windows[name].first_end_after(end)
            if following <= newest or following < max(by_end):
                by_end.setdefault(following, {})
        want += [(name, group, *change) for change in differences(by_end)]
    assert reported(changes.to_pylist()) == sorted(want, key=repr)


@pytest.mark.parametrize("seed", range(40))
def test_queries_that_come_and_go_at_a_restart(seed):
    random = Random(f"come and go {seed}")
    rows = rows_of(random)
    cuts, shards = cut(random, rows), 1
    at = random.randrange(1, len(cuts) + 1)
    before = drawn_queries(random, ["stays", "goes"])
    newest = max(row[0] for batch in cuts[:at] for row in batch)
    joining = [one for one in WINDOWS if one["size"] is not None]
    joining.append({"size": None, "slide": "3 seconds", "origin": newest + 7 * SECOND})
    after = random.sample([before[0], *drawn_queries(random, ["comes", "too"], joining)], 3)
    found = streamed(random, plan_of(before, "answers", shards), cuts, plan_of(after, "answers", shards), at)
    whole = sb.replay(after, table_of(rows), time="ts", id="id").to_arrow()
    assert lines(found, {"stays"}) == lines(whole, {"stays"})
    starts = [micros(moment) > newest for moment in whole["window_start"].to_pylist()]
    assert lines(found, {"comes", "too"}) == lines(whole.filter(pa.array(starts, pa.bool_())), {"comes", "too"})
