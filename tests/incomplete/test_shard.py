"""Incomplete streams in shards: whatever the batches, the shards and the restarts, answers are those of one monitor."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from skyband.incomplete.plan import IncompletePlan
from skyband.incomplete.reducer import ID, TIME, columns_of, gather_rows
from skyband.incomplete.shard import IncompleteShard, merged
from tests.incomplete.drive import listed, some_question, some_tuples

SHARED = {"object": "o", "stream": "s", "value": "v"}


def rows_of(positions, objects, streams, values, ids):
    names = columns_of(0)
    return pa.table(
        {
            TIME: pa.array(positions).cast(pa.timestamp("us", "UTC")),
            ID: pa.array(ids),
            names[0]: pa.array(objects),
            names[1]: pa.array(streams, pa.string()),
            names[2]: pa.array(values, pa.float64()),
        }
    )


def asked(rng, **more):
    query, plain = some_question(rng, count_axis=False)
    fields = query.to_dict()
    # Spark tells time in milliseconds, and so do the windows here.
    fields |= {"size": f"{plain.size} milliseconds", "every": f"{plain.every} milliseconds", "origin": 0, **SHARED}
    return sb.IncompleteTopK(**{**fields, **more}), plain


def run(plan, batches, restarts=False, foresees=False):
    """The answers over batches of (rows, watermark), merged per batch, with the tallies."""
    shards = [IncompleteShard(plan, number) for number in range(plan.shards)]
    tables, tallies = [], []

    def all_step(envelopes, watermark, **more):
        found = []
        for number, shard in enumerate(shards):
            mine = [one for one in envelopes if one.shard == number]
            out, tally = shard.step([one.rows for one in mine], [one.note for one in mine], watermark, **more)
            found += out
            tallies.append(tally)
            if restarts:
                shards[number] = IncompleteShard.resume(plan, number, shard.state())
        if found:
            tables.append(merged(plan, found))

    next_ones = [*(watermark for _, watermark in batches[1:]), None]
    for (rows, watermark), next_watermark in zip(batches, next_ones, strict=True):
        envelopes = list(gather_rows(plan, rows.to_batches(max_chunksize=7)))
        all_step(envelopes, watermark, next_watermark=next_watermark if foresees else None)
    all_step([], None, end=True)
    return pa.concat_tables(tables) if tables else None, tallies


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("seed", range(12))
def test_as_one_monitor_over_the_ordered_stream(shards, seed):
    rng = np.random.default_rng(seed)
    query, plain = asked(rng)
    positions, objects, streams, values = some_tuples(rng, plain, 200, count_axis=False, text=seed % 2 == 0)
    positions = (positions + 60) * 1000
    ids = np.arange(200)
    expected = listed(sb.incomplete.replay(query, positions, objects, streams, values))
    # Rows come late by up to 20 milliseconds; the watermark waits as long.
    arrival = np.argsort(positions + rng.integers(0, 20_000, 200), kind="stable")
    rows = rows_of(positions, objects, streams, values, ids).take(pa.array(arrival))
    cuts = sorted(rng.integers(0, 200, 6).tolist())
    batches, watermark = [], None
    for low, high in zip([0, *cuts], [*cuts, 200], strict=True):
        part = rows.slice(low, high - low)
        batches.append((part, watermark))
        if high:
            watermark = max(0, int(positions[arrival[:high]].max()) - 20_000) // 1000 * 1000
    plan = IncompletePlan(queries=(query,), shards=shards, refuse_late=False)
    found, tallies = run(plan, batches, restarts=seed % 3 == 0, foresees=seed % 2 == 1)
    assert sum(tally.late for tally in tallies) == 0
    assert listed(found) == expected


@pytest.mark.parametrize("shards", [1, 3])
def test_queries_that_share_and_streams_in_another_order(shards):
    """Several queries over one scan, restarted after every batch; one of them names its streams in another order."""
    rng = np.random.default_rng(shards)
    fields = {"every": "5 milliseconds", "occurrences": "once", "bounds": {"a": (0, 1), "b": (0, 4)}, **SHARED}
    fields["aggregate"] = "2 * a + sqrt(b)"
    queries = [
        sb.IncompleteTopK(name=f"q{k}", k=k, size=f"{size} milliseconds", streams=streams, **fields)
        for k, size, streams in ((3, 40, ["a", "b"]), (1, 20, ["a", "b"]), (2, 30, ["b", "a"]))
    ]
    pairs = rng.permutation(160)
    positions, objects = np.arange(160) * 700, (pairs // 2).tolist()
    streams, values = ["ab"[pair % 2] for pair in pairs], rng.random(160)
    plan = IncompletePlan(queries=tuple(queries), shards=shards, refuse_late=False)
    rows = rows_of(positions, objects, streams, values, np.arange(160))
    batches = [(rows.slice(low, 40), None if low == 0 else int(positions[low - 1])) for low in range(0, 160, 40)]
    found, _ = run(plan, batches, restarts=True)
    assert len(IncompleteShard(plan, 0).groups) == 1
    for query in queries:
        expected = sb.incomplete.replay(query, positions, objects, streams, values)
        mine = found.filter(pc.equal(found["query"], query.name))
        assert listed(mine) == listed(expected)


def test_late_tuples_are_left_out_and_counted():
    query = sb.IncompleteTopK(k=2, size="10 milliseconds", streams=["a", "b"], **SHARED)
    plan = IncompletePlan(queries=(query,), shards=2, refuse_late=False)
    first = rows_of([1_000, 25_000], ["x", "y"], ["a", "a"], [0.5, 0.5], [1, 2])
    second = rows_of([2_000, 26_000], ["x", "y"], ["b", "b"], [0.5, 0.25], [3, 4])
    found, tallies = run(plan, [(first, None), (second, 20_000)])
    assert sum(tally.late for tally in tallies) == 1
    assert listed(found) == [(10_000, [("x", 0.5)]), (30_000, [("y", 0.75)])]
    strict = IncompletePlan(queries=(query,), shards=2, refuse_late=True)
    with pytest.raises(sb.InvalidInputError, match="is behind the watermark"):
        run(strict, [(first, None), (second, 20_000)])


def test_too_often_is_counted_once():
    query = sb.IncompleteTopK(k=1, size="10 milliseconds", streams=["a"], **SHARED)
    plan = IncompletePlan(queries=(query,), shards=3, refuse_late=False)
    rows = rows_of([1_000, 2_000, 3_000], ["x", "x", "y"], ["a", "a", "a"], [0.5, 0.75, 0.25], [1, 2, 3])
    found, tallies = run(plan, [(rows, None)], restarts=True)
    assert sum(tally.over_limit for tally in tallies) == 1
    assert listed(found) == [(10_000, [("x", 0.5)])]


@pytest.mark.parametrize(
    ("streams", "values", "said"),
    [
        (["a", "c"], [0.5, 0.5], r"the stream 'c', which is not among streams=\['a', 'b'\]"),
        (["a", "b"], [0.5, 7.0], "a value of 7.0 is outside"),
    ],
)
def test_what_no_query_can_take_is_refused(streams, values, said):
    query = sb.IncompleteTopK(k=1, size="10 milliseconds", streams=["a", "b"], **SHARED)
    plan = IncompletePlan(queries=(query,), shards=2, refuse_late=False)
    rows = rows_of([1_000, 2_000], ["x", "y"], streams, values, [1, 2])
    with pytest.raises(sb.SkybandError, match=said):
        list(gather_rows(plan, rows.to_batches()))


def test_rows_that_lack_something_are_counted_and_move_time():
    query = sb.IncompleteTopK(k=1, size="10 milliseconds", streams=["a"], **SHARED)
    plan = IncompletePlan(queries=(query,), shards=2, refuse_late=False)
    rows = rows_of(
        [1_000, 2_000, 3_000, None, 99_000, 5_000],
        ["x", None, "z", "w", "v", "u"],
        ["a", "a", None, "a", "a", "a"],
        [0.5, 0.5, 0.5, 0.5, float("nan"), None],  # null: the filter removes it
        [1, 2, 3, 4, 5, 6],
    )
    found = list(gather_rows(plan, rows.to_batches()))
    assert sum(one.dropped_null for one in found) == 4
    assert sum(one.taken for one in found) == 6
    assert sum(one.rows.num_rows for one in found) == 1
    assert {one.note.newest for one in found} == {99_000}


def test_a_filter_has_been_applied_before():
    query = sb.IncompleteTopK(k=1, size="10 milliseconds", streams=["a"], where="v > 1", **SHARED)
    plan = IncompletePlan(queries=(query,), shards=2, refuse_late=False)
    rows = rows_of([1_000, 2_000], ["x", "y"], ["a", "a"], [0.5, None], [1, 2])
    found, _ = run(plan, [(rows, None)], restarts=True)
    assert listed(found) == [(10_000, [("x", 0.5)])]


def test_a_query_that_joins_answers_for_windows_after_all_that_was_seen():
    old = sb.IncompleteTopK(name="old", k=1, size="10 milliseconds", streams=["a"], **SHARED)
    new = sb.IncompleteTopK(name="new", k=2, size="20 milliseconds", every="10 milliseconds", streams=["a"], **SHARED)
    before = IncompletePlan(queries=(old,), shards=1, refuse_late=False)
    shard = IncompleteShard(before, 0)
    rows = rows_of([1_000, 12_000], ["x", "y"], ["a", "a"], [0.5, 0.25], [1, 2])
    envelopes = list(gather_rows(before, rows.to_batches()))
    shard.step([one.rows for one in envelopes], [one.note for one in envelopes], None)
    after = IncompletePlan(queries=(new, old), shards=1, refuse_late=False)
    again = IncompleteShard.resume(after, 0, shard.state())
    more = rows_of([21_000, 44_000], ["z", "z"], ["a", "a"], [0.5, 0.75], [3, 4])
    envelopes = list(gather_rows(after, more.to_batches()))
    out, _ = again.step([one.rows for one in envelopes], [one.note for one in envelopes], 5_000)
    end, _ = again.step([], [], None, end=True)
    found = merged(after, [*out, *end])
    mine = found.filter(pa.compute.equal(found["query"], "new"))
    assert min(mine["time"].to_pylist()) == 40_000  # the first that begins after 12,000
    assert found.filter(pa.compute.equal(found["query"], "old"))["time"].to_pylist() == [10_000, 20_000, 30_000, 50_000]
