"""The past of queries whose windows or groups need all rows in order: sessions, groups, ascending order and ties."""

from __future__ import annotations

import json
from random import Random

import pytest

import skyband as sb
from skyband.jobs.history import RepeatedBatches
from skyband.sharding.past_message import past_message
from tests.sharding.test_past_message import DELAY, Stream, micros, planned
from tests.sharding.test_reported_answers import SECOND, draw_rows, table_of


def aggregate(name, **more):
    return sb.AggregateTopK(**{"name": name, "k": 2, "key": "who", "value": "v", **more})


def incomplete(name, **more):
    fields = {"k": 2, "size": "8 seconds", "every": "4 seconds", "object": "who", "value": "v"}
    fields |= {"stream": "if(p < 1, 'a', 'b')", "streams": ["a", "b"], "bounds": (0, 9), "occurrences": 99}
    return sb.IncompleteTopK(**{"name": name, **fields, **more})


def uncertain(name, **more):
    fields = {"k": 2, "size": "14 seconds", "every": "4 seconds", "by": "v", "probability": "p"}
    return sb.UncertainTopK(**{"name": name, **fields, **more})


SLIDING = {"size": "8 seconds", "slide": "4 seconds"}
SESSIONS = {"gap": "3 seconds", "partition_by": ["g"]}
QUERIES = {
    "sessions beside sessions": (
        aggregate("base", **SESSIONS),
        aggregate("new", **SESSIONS, k=1, aggregate="max", row=True),
        aggregate("more", gap="2 seconds", max_length="9 seconds"),
    ),
    "sessions beside windows": (
        aggregate("base", **SLIDING),
        aggregate("new", **SESSIONS),
        aggregate("more", gap="3 seconds", aggregate="count", value=None),
    ),
    "windows beside sessions": (
        aggregate("base", **SESSIONS),
        aggregate("new", size="20 seconds", slide="4 seconds", partition_by=["g"]),
        aggregate("more", size=None, slide="8 seconds", partition_by=["g"], aggregate="max"),
    ),
    "incomplete groups": (
        incomplete("base"),
        incomplete("new", partition_by=["g"], size="20 seconds"),
        incomplete("more", partition_by=["g"], order="asc", value="-v", bounds=(-9, 0), ties="rank", k=1),
    ),
    "incomplete beside groups": (
        incomplete("base", partition_by=["g"]),
        incomplete("new", order="asc", value="-v", bounds=(-9, 0), size="20 seconds"),
        incomplete("more", ties="rank", k=1, size="12 seconds"),
    ),
    "uncertain groups": (
        uncertain("base"),
        uncertain("new", partition_by=["g"], semantics="u-kranks"),
        uncertain("more", partition_by=["g"], order="asc", where="v > 0"),
    ),
    "uncertain beside groups": (
        uncertain("base", partition_by=["g"]),
        uncertain("new", order="asc", semantics="u-topk"),
        uncertain("more", partition_by=["g"], where="v > 0", semantics="expected-rank"),
    ),
    "uncertain groups of two kinds": (
        uncertain("base", partition_by=["g"]),
        uncertain("new", partition_by=["who"], order="asc", semantics="global-topk"),
        uncertain("more", partition_by=["g", "who"], where="v > 0"),
    ),
}  # fmt: skip


class Resumed(Stream):
    """A stream whose shards are found by what they read: a plan with other queries can have other shards."""

    def change(self, plan, past=frozenset()):
        stored = {
            name: (shard.state(), shard.segments) for name, shard in zip(self.plan.unit_names, self.shards, strict=True)
        }
        newest = max(shard.newest for shard in self.shards)
        self.shards, self.plan = plan.resumed(stored, newest, past=past), plan


@pytest.mark.parametrize("shards", [1, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("case", QUERIES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 25))])
def test_joining_queries_are_answered_as_if_they_had_been_there(seed, case, shards):
    random = Random(repr((seed, case, shards)))
    base, *new = QUERIES[case]
    if any(query.family == "uncertain" and not query.groups for query in (base, *new)):
        shards = 1  # its answers depend on all rows
    rows = draw_rows(random, 90)
    # No row is late, because the windows of a new query can divide time at other moments.
    rows = [(max(0, at - random.choice([0, 0, 1, 2]) * SECOND) + 100 * SECOND, *rest) for at, *rest in rows]
    cuts = [rows[at : at + 9] for at in range(0, 90, 9)]
    joins, since = random.randint(2, 8), random.choice([10, 40, 1000]) * SECOND
    again = random.choice([None, *range(joins + 1, 10)])
    names = {query.name: since for query in new}
    start, joined, alone = (Resumed(planned(queries, shards)) for queries in ([base, *new], [base], [base]))
    clock = None
    for number, batch in enumerate(cuts):
        messages = []
        if number == joins:
            plan = planned([base, *new], shards)
            repeated = RepeatedBatches(plan, "ts", DELAY, names)
            for earlier in cuts[:number]:
                repeated.step([table_of(earlier)])
            clock = max(shard.clock for shard in repeated.engine.shards)
            reported_from = repeated.reported_from(clock)
            messages = [[json.dumps(past_message(shard, reported_from, 7)) for shard in repeated.engine.shards]]
            joined.change(plan, frozenset(names))
        if number == again:  # a restart, with the past in the state
            joined.change(joined.plan, frozenset(names))
        joined.step(batch, messages)
        start.step(batch)
        alone.step(batch)
    for stream in (start, joined, alone):
        stream.end()
    assert joined.of("base") == alone.of("base") == start.of("base")
    for query in new:
        wanted = [
            row
            for row in start.answers
            if row["query"] == query.name
            and end_of(row) > clock
            and (getattr(query, "window_kind", "") == "landmark" or begin_of(row, query) >= clock - since)
        ]
        start.answers = [row for row in start.answers if row["query"] != query.name] + wanted
        assert joined.of(query.name) == start.of(query.name), query.name


def end_of(row):
    return micros(row["window_end"] if "window_end" in row else row["time"])


def begin_of(row, query):
    return micros(row["window_start"]) if "window_start" in row else end_of(row) - query.window.size
