"""Totals that late rows correct: after each batch, all answers are those of the rows so far, by the definitions."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

import skyband as sb
from skyband.errors import UnsupportedError
from skyband.sharding.emission import Emission
from tests.aggregate import cases, oracle
from tests.aggregate.streams import MS, Row, Stream, arrived, drawn, frame, in_any_order, pieces, told

LASTING = (None, "count(*) >= 2", "max(points) >= 0.3 and count(*) > 1")


class Drawn:
    """Queries of one scan, rows in the order of arrival, and a watermark that is too short for some of them."""

    def __init__(self, seed, **fields):
        random = self.random = Random(f"corrections {seed}")
        self.case, queries, rows = drawn(random, axis="time", most=80)
        fields = {"partition_by": random.choice([(), ("g",)]), **fields}
        self.queries = []
        for query in queries:
            slide = random.randint(1, 12)
            sizes = {"size": f"{slide * random.randint(1, 5)} milliseconds", "slide": f"{slide} milliseconds"}
            lasting = LASTING if self.case.valued and query.aggregate not in cases.OF_VALUES else LASTING[:2]
            having = random.choice(lasting) if query.having else None
            changed = {**query.to_dict(), **sizes, "having": having, **fields}
            self.queries.append(sb.AggregateTopK(**changed))
        shared = random.choice(sorted({query.scan_key() for query in self.queries}, key=repr))
        self.queries = [query for query in self.queries if query.scan_key() == shared]
        self.delay = random.choice([0, 3, 8]) * MS
        self.lateness = random.choice([1, 5, 20, 1000]) * MS
        self.rows = arrived(random, rows, random.choice([5, 20, 60]) * MS)
        self.shards = random.choice([1, 2, 3])

    def stream(self, lateness, delay=0, **request):
        schema = frame([], self.case.key_kind).schema
        return Stream(
            self.queries,
            schema,
            delay=self.delay + delay,
            shards=self.shards,
            emission=Emission(lateness=lateness),
            **request,
        )

    def wanted(self, rows):
        """{window: rows} by the definitions."""
        objects = sorted((row for row in rows if row.position is not None), key=lambda row: row.position)
        return by_window(oracle.answers(self.queries, objects, valued=self.case.valued, grouped=False))


def by_window(rows):
    found = {}
    for name, group, start, end, *row in rows:
        found.setdefault((name, group, start, end), []).append(tuple(row))
    return {window: in_any_order(rows) for window, rows in found.items()}


class Seen:
    """The newest answers of a stream, as a sink with one answer per window holds them."""

    def __init__(self, queries):
        self.queries, self.newest, self.revisions, self.firsts = queries, {}, {}, 0

    def take(self, table):
        revisions = table["revision"].to_pylist()
        for revision in set(revisions):
            part = table.filter(np.array(revisions) == revision)
            for window, rows in by_window(told(part.drop_columns(["revision"]), self.queries)).items():
                assert revision > self.revisions.get(window, -1)
                self.firsts += not revision
                assert self.newest.get(window) != rows  # an answer that has not changed is not repeated
                self.newest[window], self.revisions[window] = rows, revision


@pytest.mark.parametrize("seed", range(120))
def test_after_each_batch_all_answers_are_those_of_the_rows_so_far(seed):
    case = Drawn(seed)
    stream, seen, accepted, late = case.stream(case.lateness), Seen(case.queries), [], 0
    panes = stream.plan.plan.shape(0).panes
    for batch in pieces(case.random, case.rows):
        watermark = stream.batches.watermark
        for row in batch:
            if not oracle.is_object(row, False, case.case.valued):
                continue
            is_late = watermark is not None and panes.ends_of(np.array([row.position]))[0] <= watermark - case.lateness
            late += is_late
            accepted += [] if is_late else [row]
        seen.take(stream.step(frame(batch, case.case.key_kind)))
        clock = stream.batches.shards[0].clock
        due = {window: rows for window, rows in case.wanted(accepted).items() if window[3] <= clock}
        assert seen.newest == due
        if case.random.random() < 0.4:
            stream.restart()
    seen.take(stream.end())
    assert seen.newest == case.wanted(accepted)
    assert sum(counts.late for counts in stream.counts) == late
    assert not seen.revisions or max(seen.revisions.values()) <= len(stream.counts)


@pytest.mark.parametrize("seed", range(30))
def test_the_last_answers_are_those_of_a_longer_watermark(seed):
    """The same batches with a watermark that is longer by the allowed lateness; late rows are used or dropped."""
    case = Drawn(seed)
    streams = [case.stream(case.lateness), case.stream(0, case.lateness), case.stream(0)]
    seen, found = Seen(case.queries), [[], [], []]
    for batch in pieces(case.random, case.rows):
        for stream, answers in zip(streams, found, strict=True):
            answers.append(stream.step(frame(batch, case.case.key_kind)))
    for stream, answers in zip(streams, found, strict=True):
        answers.append(stream.end())
    for table in found[0]:
        seen.take(table)
    assert seen.newest == by_window([row for table in found[1] for row in told(table, case.queries)])
    late = [sum(counts.late for counts in stream.counts) for stream in streams]
    used = sum(counts.late_used for counts in streams[0].counts)
    assert late[0] == late[1]
    assert late[0] + used == late[2]
    windows = [sum(counts.windows for counts in stream.counts) for stream in streams]
    assert windows[0] == seen.firsts


@pytest.mark.parametrize("seed", range(12))
def test_the_allowed_lateness_can_change_at_a_restart(seed):
    """Without a lateness, windows that were emitted are not emitted again; with one again, later ones are corrected."""
    case = Drawn(seed)
    batches = list(pieces(case.random, case.rows, 8))
    stream, first = case.stream(case.lateness), {}
    for number, batch in enumerate(batches):
        if number % 3 == 2:
            lateness = 0 if stream.plan.plan.emission.lateness else case.random.choice([5, 1000]) * MS
            stream.restart(case.stream(lateness).plan)
        table = stream.step(frame(batch, case.case.key_kind))
        if "revision" in table.column_names:
            table = table.filter(np.array(table["revision"].to_pylist()) == 0).drop_columns(["revision"])
        for window in by_window(told(table, case.queries)):
            assert window not in first
            first[window] = number
    stream.end()
    assert first or len(case.rows) < 30


def test_corrections_beside_a_change_feed():
    query = sb.AggregateTopK(name="q", k=2, size="4 milliseconds", slide="2 milliseconds", key="player", value="points")
    rows = [Row(at * MS, key, 1.0, None, at) for at, key in enumerate("abcabcabcabc")]
    late = [Row(5 * MS, "z", 9.0, None, 99)]
    schema = frame([], "string").schema
    feeds = []
    for extra, emission in ([], Emission()), (late, Emission(lateness=100 * MS)):
        stream = Stream([query], schema, output="both", emission=emission)
        tables = [stream.step(frame(rows[:9], "string")), stream.step(frame(extra + rows[9:], "string")), stream.end()]
        feeds.append([row for table in tables for row in table.to_pylist()])
    plain, both = feeds
    corrections = [row for row in both if row["revision"]]
    assert {row["key"] for row in corrections} >= {"z"}
    assert all(row["change"] is None for row in corrections)
    kept = [{name: value for name, value in row.items() if name != "revision"} for row in both if not row["revision"]]
    assert [row for row in kept if row["change"] is None and row["window_end"].microsecond <= 6000] == [
        row for row in plain if row["change"] is None and row["window_end"].microsecond <= 6000
    ]


@pytest.mark.parametrize("fields", [{"delete": "points < 0", "aggregate": "latest"}, {"having": "score < 3"}])
def test_answers_that_could_become_empty_are_rejected(fields):
    query = sb.AggregateTopK(k=1, size="1 second", key="player", value="points", **fields)
    with pytest.raises(UnsupportedError, match="an answer without rows cannot replace it"):
        Stream([query], frame([], "string").schema, emission=Emission(lateness=MS))


def test_count_windows_and_changes_alone_are_rejected():
    schema = frame([], "string").schema
    query = sb.AggregateTopK(k=1, size=3, key="player", value="points")
    with pytest.raises(UnsupportedError, match="count windows"):
        Stream([query], schema, emission=Emission(lateness=MS))
    query = replace(query, size="1 second", slide=None)
    with pytest.raises(UnsupportedError, match="only changes are written"):
        Stream([query], schema, output="changes", emission=Emission(lateness=MS))
