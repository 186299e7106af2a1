"""Provisional answers of keys in a stream, against the definitions: those of the rows so far, if they have changed."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from skyband.aggregate import open_panes, state_store
from skyband.sharding.emission import Emission
from tests.aggregate import cases, oracle, streams
from tests.aggregate.streams import MS, Stream, in_any_order

SCALE = 500
PROVISIONAL = Emission(provisional=True)


def micros(ticks):
    return f"{ticks * SCALE} microseconds"


def drawn(seed, most=70):
    """Queries over the columns of a frame, and rows in the order of arrival, at most `delay` behind others."""
    random = Random(f"open {seed}")
    case = cases.draw(random, axis="time", grouped=True, identified=True, most=most)
    queries = [
        streams.over_columns(
            query,
            case.valued,
            size=micros(query.window.size),
            slide=micros(query.window.slide),
            origin=query.window.origin * SCALE,
        )
        for query in case.queries
    ]
    rows = [
        row._replace(position=None if row.position is None else 200 * MS + row.position * SCALE) for row in case.rows
    ]
    delay = random.choice([0, 2, 7]) * MS
    return random, case, queries, streams.arrived(random, rows, delay), delay


def by_window(rows):
    found = {}
    for row in rows:
        found.setdefault(row[:4], []).append(row[4:])
    return {window: in_any_order(mine) for window, mine in found.items()}


def wanted(case, queries, rows, **more):
    """{(query, group, start, end): rows} of all windows, from these rows."""
    timed = sorted((row for row in rows if row.position is not None), key=lambda row: row.position)
    return by_window(oracle.answers(queries, timed, valued=case.valued, grouped=any(q.groups for q in queries), **more))


def still_open(windows, queries, clock, newest):
    """Those windows that end after the clock, up to the first end after the newest row."""
    until = {query.name: query.window.first_end_after(newest) for query in queries}
    return {window: rows for window, rows in windows.items() if clock < window[3] <= until[window[0]]}


def of(table, queries, *, final):
    return by_window(streams.told(table.filter(pc.equal(table["final"], final)), queries))


def check(random, case, queries, batches, stream, *, every=0, listed=None):
    """Compare the provisional answers of each batch with the definitions, and return the final ones."""
    rows, shown, final, answered = [], {}, {}, None
    for batch in batches:
        table, rows = stream.step(streams.frame(batch, case.key_kind)), rows + batch
        clock, newest = stream.batches.shards[0].clock, stream.batches.shards[0].newest
        assert len({(shard.clock, shard.newest) for shard in stream.batches.shards}) == 1
        want = {}
        if newest > 0 and (answered is None or newest - answered >= every):
            now = still_open(wanted(case, queries, rows, listed_windows=listed), queries, clock, newest)
            want = {window: mine for window, mine in now.items() if mine != shown.get(window)}
            shown, answered = now, newest
        assert of(table, queries, final=False) == want
        final |= of(table, queries, final=True)
        if random.random() < 0.4:
            stream.restart()
    end = stream.end()
    assert pc.all(end["final"]).as_py() in (True, None)
    return final | of(end, queries, final=True)


@pytest.mark.parametrize("seed", range(80))
@pytest.mark.parametrize("segment", [1, pytest.param(1 << 15, marks=pytest.mark.long)])
def test_open_windows_have_the_answers_of_the_rows_so_far(seed, segment, monkeypatch):
    """For any batches and restarts; final answers are those without provisional ones."""
    monkeypatch.setattr(state_store, "_SEGMENT", segment)
    monkeypatch.setattr(open_panes, "_SEGMENT", segment)
    random, case, queries, rows, delay = drawn(seed)
    every = random.choice([0, 0, 3 * MS])
    emission = Emission(provisional=True, every=every)
    schema = streams.frame([], case.key_kind).schema
    stream = Stream(queries, schema, delay=delay, shards=random.choice([1, 3]), emission=emission)
    batches = list(streams.pieces(random, rows))
    found = check(random, case, queries, batches, stream, every=every)
    assert found == wanted(case, queries, rows)


VARIANTS = {
    "cumulative": {"size": "21 milliseconds", "slide": "3 milliseconds", "cumulative": True, "aggregate": "max"},
    "landmark": {"size": None, "slide": "4 milliseconds", "origin": 0, "aggregate": "avg"},
    "calendar": {"size": "1 day", "zone": "America/New_York", "aggregate": "sum"},
    "decayed": {"size": "9 milliseconds", "slide": "3 milliseconds", "half_life": "2 milliseconds"},
    "decayed mean": {
        "size": "9 milliseconds",
        "slide": "2 milliseconds",
        "half_life": "2 milliseconds",
        "aggregate": "avg",
    },
    "sketch": {"size": "9 milliseconds", "slide": "3 milliseconds", "method": "sketch", "counters": 2},
    "deletes": {
        "size": "9 milliseconds",
        "slide": "3 milliseconds",
        "aggregate": "latest",
        "delete": "points = 0",
        "having": "score > 0.1",
    },
    "limited": {"size": "9 milliseconds", "slide": "3 milliseconds", "max_keys": 100, "row": True, "aggregate": "min"},
    "items": {"size": "9 milliseconds", "slide": "1 milliseconds", "aggregate": "median"},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(12))
def test_open_windows_have_the_answers_of_a_stream_that_ends_now(seed, variant):
    random, case, _, rows, delay = drawn(seed, most=40)
    rows = [row if row.value is None or abs(row.value) < 1e3 else row._replace(value=4.0) for row in rows]
    query = sb.AggregateTopK(
        name="open",
        k=2,
        key="player",
        value="abs(points)" if variant == "sketch" else "points",
        partition_by=random.choice([(), ("g",)]),
        full_only=random.random() < 0.2,
        **VARIANTS[variant],
    )
    schema = streams.frame([], case.key_kind).schema
    stream = Stream([query], schema, delay=delay, emission=PROVISIONAL)
    shown, batches = {}, []
    for batch in streams.pieces(random, rows, 12):
        batches.append(streams.frame(batch, case.key_kind))
        table = stream.step(batches[-1])
        clock, newest = stream.batches.shards[0].clock, stream.batches.shards[0].newest
        plain = Stream([query], schema, delay=delay)
        before = [plain.step(one) for one in batches]
        ended = by_rows(plain.end(), query)
        assert by_rows(table.filter(table["final"]).drop_columns("final"), query) == by_rows(before[-1], query)
        now = still_open(ended, [query], clock, newest)
        want = {window: mine for window, mine in now.items() if mine != shown.get(window)}
        assert by_rows(table.filter(pc.invert(table["final"])).drop_columns("final"), query) == want
        shown = now
        if random.random() < 0.4:
            stream.restart()
    plain = Stream([query], schema, delay=delay)
    for one in batches:
        plain.step(one)
    assert by_rows(stream.end().drop_columns("final"), query) == by_rows(plain.end(), query)


@pytest.mark.parametrize("seed", range(12))
def test_late_rows_that_are_used_are_in_open_windows(seed):
    """Open windows have the answers of a patient stream that ends now; so has the last revision of final ones."""
    random, case, _, rows, delay = drawn(seed, most=60)
    rows, lateness = streams.arrived(random, rows, delay + 9 * MS), 9 * MS
    queries = [
        sb.AggregateTopK(
            name=name, k=2, key="player", aggregate="count", size=f"{size} milliseconds", slide="3 milliseconds", **more
        )
        for name, size, more in [("all", 9, {}), ("each", 6, {"partition_by": ("g",)})]
    ]
    schema = streams.frame([], case.key_kind).schema
    stream = Stream(queries, schema, delay=delay, emission=Emission(provisional=True, lateness=lateness))
    shown, batches, last = {}, [], {}
    for batch in [*streams.pieces(random, rows, 12), None]:
        if batch is not None:
            batches.append(streams.frame(batch, case.key_kind))
        table = stream.end() if batch is None else stream.step(batches[-1])
        patient = Stream(queries, schema, delay=delay + lateness)
        found = [patient.step(one) for one in batches] + [patient.end()]
        ended = of(marked(pa.concat_tables(found)), queries, final=True)
        last |= of(table, queries, final=True)
        open_now = {}
        if batch is not None:
            clock, newest = stream.batches.shards[0].clock, stream.batches.shards[0].newest
            open_now = still_open(ended, queries, clock, newest)
            assert {window for window in ended if window[3] <= clock} <= {*last}
        assert of(table, queries, final=False) == {
            window: mine for window, mine in open_now.items() if mine != shown.get(window)
        }
        shown = open_now
        if random.random() < 0.4:
            stream.restart()
    assert last == ended


def marked(table):
    return table.append_column("final", pa.repeat(True, table.num_rows))


def by_rows(table, query):
    """{(query, group, start, end): rows} of answers with all their columns."""
    found = {}
    bounds = {name: table[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end")}
    for place, row in enumerate(table.to_pylist()):
        window = (
            row["query"],
            row["g"] if query.groups else None,
            bounds["window_start"][place],
            bounds["window_end"][place],
        )
        found.setdefault(window, []).append(repr(row))
    return found
