"""Shards of keys: any cut of a stream into tasks and steps, asleep in between, gives what one process gives."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from zlib import crc32

import pyarrow as pa
import pytest

import skyband as sb
from skyband.aggregate import open_panes, state_store
from skyband.aggregate.plan import AggregatePlan
from skyband.aggregate.reducer import AggregateNote, sum_rows
from skyband.aggregate.shard import AggregateShard, merged
from skyband.data.arrow import from_bytes, to_bytes
from skyband.sharding.shard import MemorySegments
from tests.aggregate import cases, oracle

SHARDS = 2


def plan_of(queries, *, grouped=False, valued=True, identified=True):
    has_rows = any(query.row for query in queries)
    return AggregatePlan(
        queries=tuple(queries),
        shards=SHARDS,
        time="ts",
        groups=(("g",) if grouped else (),),
        keys=("key",),
        values=("value" if valued else None,),
        wanted=("wanted",),
        homes=("home",),
        id="id" if identified or has_rows else None,
        ids_given=identified,
        returned=("id", "text") if has_rows else (),
        utc=True,
    )


def home(row):
    key = row.key + 0.0 if isinstance(row.key, float) else row.key
    return crc32(repr((row.group, key)).encode()) % SHARDS


def text_of(row):
    """A column of the row that says which row it is."""
    return None if row.id is None else f"{row.key} {row.value} {row.id}"


def task(rows, kind, valued):
    """Rows as Spark hands them to a task."""
    return pa.record_batch(
        {
            "ts": pa.array([row.position for row in rows], pa.int64()),
            "g": pa.array([row.group for row in rows], pa.string()),
            "key": pa.array([row.key for row in rows], kind),
            "value": pa.array([row.value for row in rows], pa.float64()),
            "wanted": pa.array([oracle.is_object(row, True, valued) for row in rows], pa.bool_()),
            "home": pa.array([home(row) for row in rows], pa.int32()),
            "id": pa.array([row.id for row in rows], pa.int64()),
            "text": pa.array([text_of(row) for row in rows], pa.string()),
        }
    )


class Shards:
    """Two shards, asleep between steps."""

    def __init__(self, plan, kind, valued=True):
        self.plan, self.kind, self.valued = plan, kind, valued
        self.segments = [MemorySegments() for _ in range(SHARDS)]
        self.blobs = [None] * SHARDS
        self.held, self.late, self.dropped_null, self.rows = 0, 0, 0, 0

    def step(self, tasks, watermark, **more):
        arrived = [([], []) for _ in range(SHARDS)]
        for rows in tasks:
            for envelope in sum_rows(self.plan, [task(rows, self.kind, self.valued)]):
                arrived[envelope.shard][0].append(from_bytes(to_bytes(envelope.rows)))
                arrived[envelope.shard][1].append(AggregateNote.from_bytes(envelope.note.to_bytes()))
                self.rows += envelope.taken
                self.dropped_null += envelope.dropped_null
        tables, self.held, clocks = [], 0, set()
        for unit, (partials, notes) in enumerate(arrived):
            shard = AggregateShard(self.plan, unit, self.segments[unit])
            if self.blobs[unit] is not None:
                shard = AggregateShard.resume(self.plan, unit, self.blobs[unit], self.segments[unit])
            answers, tally = shard.step(partials, notes, watermark, **more)
            self.blobs[unit] = shard.state()
            self.held += tally.candidates
            self.late += tally.late
            clocks.add(shard.clock)
            tables += answers
        assert len(clocks) == 1  # else a window would be answered in parts
        return self.told(merged(self.plan, 0, tables)) if tables else []

    def told(self, table):
        return told(self.plan, table)


def told(plan, table):
    """Answers as the tuples of the oracle."""
    described = ["key", "id", "score"] if plan.returned else ["key", "score"]
    described += ["share"] if any(query.share for query in plan.queries) else []
    rows = zip(
        table["query"].to_pylist(),
        table["g"].to_pylist() if plan.groups[0] else [None] * table.num_rows,
        *(table[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end", "rank")),
        *([oracle.comparable(value) for value in table[name].to_pylist()] for name in described),
        strict=True,
    )
    if plan.returned:
        for row in table.select(["key", "score", "id", "text"]).to_pylist():
            assert (row["id"] is None) == (row["text"] is None)
            if row["text"] is not None:
                *_, value, name = row["text"].split(" ")
                assert (float(value), int(name)) == (row["score"], row["id"])
    places = {query.name: place for place, query in enumerate(plan.queries)}
    return sorted(rows, key=lambda row: (row[3], places[row[0]], row[1] is None, row[1] or "", row[4]))


def of_one_scan(random, queries):
    """Some of the queries, with partials in common: those of sums are not those of distinct values."""
    shared = random.choice(sorted({query.scan_key() for query in queries}, key=repr))
    return [query for query in queries if query.scan_key() == shared]


@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("segment", [1, 1 << 15])
def test_any_steps_give_the_same(seed, segment, monkeypatch):
    monkeypatch.setattr(state_store, "_SEGMENT", segment)
    monkeypatch.setattr(open_panes, "_SEGMENT", segment)
    random = Random(seed)
    grouped = random.random() < 0.4
    case = cases.draw(random, axis="time", grouped=grouped, most=80, identified=True)
    # One feed: all queries have groups, or none has.
    queries = [
        sb.AggregateTopK(**{**query.to_dict(), "partition_by": ["g"] if grouped else ()}) for query in case.queries
    ]
    queries = of_one_scan(random, queries)
    plan = plan_of(queries, grouped=grouped, valued=case.valued)
    shards = Shards(plan, case.key_kind, case.valued)
    length, offset = plan.shape(0).panes
    disordered = sorted(case.rows, key=lambda row: (row.position or 0) + random.randint(0, 12))
    delay, newest, watermark = random.choice([3, 10, 20]), None, None
    accepted, late, found = [], 0, []
    while disordered:
        cut = random.randint(1, 25)
        batch, disordered = disordered[:cut], disordered[cut:]
        for row in batch:
            if oracle.is_object(row, False, case.valued):
                end = row.position - (row.position - offset) % length + length
                if watermark is not None and end <= watermark:
                    late += 1
                else:
                    accepted.append(row)
        half = random.randint(0, len(batch))
        before = watermark
        seen = [row.position for row in batch if row.position is not None] + ([] if newest is None else [newest])
        if seen:
            newest = max(seen)
            watermark = newest - delay
        found += shards.step([batch[:half], batch[half:]], before, next_watermark=watermark if seed % 2 else None)
    found += shards.step([], None, end=True)
    accepted.sort(key=lambda row: row.position)
    assert found == oracle.answers(queries, accepted, valued=case.valued, grouped=grouped)
    assert (shards.late, shards.rows) == (late, len(case.rows))
    assert shards.dropped_null == sum(not oracle.is_object(row, False, case.valued) for row in case.rows)
    assert shards.held == 0
    assert [len(segments) for segments in shards.segments] == [0, 0]


QUERY = sb.AggregateTopK(k=2, size="60 microseconds", slide="10 microseconds", key="k", value="v")


def test_partials_are_written_once_in_windows_and_never_again():
    written = []

    class Watched(MemorySegments):
        def put(self, number, data):
            written.append(number)
            super().put(number, data)

    shards = Shards(plan_of([QUERY]), pa.int64())
    shards.segments = [Watched(), Watched()]
    for pane in range(30):
        rows = [oracle.Row(10 * pane + place, place % 7, 1.0) for place in range(10)]
        shards.step([rows], 10 * pane)
        assert all(len(segments) <= 9 for segments in shards.segments)
    closed = [number for number in written if number >= 0]
    assert sorted(closed) == sorted([*range(29), *range(29)])


def test_state_follows_keys_not_the_length_of_the_window():
    sizes = []
    for minutes in (10, 100):
        query = sb.AggregateTopK(k=2, size=f"{minutes} minutes", slide="1 minute", key="k", value="v", aggregate="max")
        shards = Shards(plan_of([query]), pa.int64())
        for minute in range(120):
            rows = [oracle.Row(60_000_000 * minute + place, place, float(minute * place % 7)) for place in range(50)]
            shards.step([rows], 60_000_000 * minute)
        sizes.append(sum(map(len, shards.blobs)))
    assert sizes[1] < 3 * sizes[0]


def test_other_keys_are_refused():
    shard = AggregateShard(plan_of([QUERY]), 0, MemorySegments())
    other = plan_of([sb.AggregateTopK(k=2, size="60 microseconds", slide="10 microseconds", key="other", value="v")])
    with pytest.raises(sb.SnapshotError, match="other keys, values or groups"):
        AggregateShard.resume(other, 0, shard.state(), MemorySegments())


def test_a_late_row_is_refused_if_the_plan_says_so():
    """Only the row of a pane that has ended is late: the one at 103 is behind the watermark, and its pane is open."""
    rows = [oracle.Row(position, "a", 1.0) for position in (50, 103)]
    counting = Shards(plan_of([QUERY]), pa.string())
    refusing = Shards(replace(plan_of([QUERY]), refuse_late=True), pa.string())
    for shards in (counting, refusing):
        shards.step([[oracle.Row(110, "a", 1.0)]], 105)
        shards.step([rows[1:]], 105)
    counting.step([rows], 105)
    assert counting.late == 1
    with pytest.raises(sb.InvalidInputError, match="a row at 50 is behind the watermark 105"):
        refusing.step([rows], 105)


@pytest.mark.parametrize("seed", range(80))
def test_the_workload_changes_between_two_steps(seed):
    random = Random(seed)
    case = cases.draw(random, axis="time", grouped=False, most=120, identified=True)
    others = [
        cases.draw_query(random, f"new{place}", False, False, case.valued) for place in range(random.randint(0, 3))
    ]
    before = of_one_scan(random, case.queries)
    others = [query for query in others if query.scan_key() == before[0].scan_key()]
    kept = random.sample(before, random.randint(0 if others else 1, len(before)))
    after = random.sample(kept + others, len(kept + others))
    half = len(case.rows) // 2
    shards = Shards(plan_of(before, valued=case.valued), case.key_kind, case.valued)
    seen = [row.position for row in case.rows[:half] if row.position is not None]
    found = shards.step([case.rows[: half // 2]], None)
    found += shards.step([case.rows[half // 2 : half]], min(seen, default=0))
    found = [row for row in found if row[0] in {query.name for query in kept}]
    shards.plan = plan_of(after, valued=case.valued)
    found += shards.step([], max(seen, default=-1000) - 5 if seen else None)
    found += shards.step([case.rows[half:]], None)
    found += shards.step([], None, end=True)
    places = {query.name: place for place, query in enumerate(after)}
    expected = [
        row
        for row in oracle.answers(after, case.rows, valued=case.valued)
        if row[0] in {query.name for query in kept} or not seen or row[2] > max(seen)
    ]
    assert sorted(found, key=lambda row: (row[3], places[row[0]], row[4])) == expected
    assert shards.held == 0


@pytest.mark.parametrize(("kept", "again"), [("count", "sum"), ("avg", "stddev"), ("max", "stddev")])
def test_sums_that_are_asked_for_again_hold_nothing_from_before(kept, again):
    window = {"k": 3, "size": "60 microseconds", "slide": "10 microseconds", "key": "k", "value": "v"}
    stays, gone, back = (
        sb.AggregateTopK(name=name, aggregate=aggregate, **window)
        for name, aggregate in (("stays", kept), ("gone", again), ("back", again))
    )
    rows = [oracle.Row(place, place % 5, 1e10 * place if place < 60 else place / 8) for place in range(300)]
    shards, found = Shards(plan_of([stays, gone]), pa.int64()), []
    for low in range(0, 300, 20):
        if low == 60:
            shards.plan = plan_of([stays])
        if low == 80:
            shards.plan = plan_of([stays, back])
        found += shards.step([rows[low : low + 20]], low - 10)
    found += shards.step([], None, end=True)
    expected = oracle.answers([stays, back], rows)
    assert [row for row in found if row[0] == "stays"] == [row for row in expected if row[0] == "stays"]
    assert [row for row in found if row[0] == "back"] == [row for row in expected if row[0] == "back" and row[2] > 79]
