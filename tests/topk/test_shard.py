"""Shards against the definitions. The pipeline here resumes every shard from bytes at every batch."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import skyband as sb
from skyband.topk.reducer import TopKNote, reduce_rows
from skyband.topk.shard import TopKShard
from tests import oracle
from tests.drive import ALGORITHMS, WITH_TIES, time_query
from tests.oracle import Asked
from tests.sharding import cases
from tests.sharding.pipeline import Pipeline, plan_of, scored

MINIMAL = ("mintopk", "mtopband", "mtoplist", "panes", "pretopk")


@pytest.mark.parametrize("axis", ["time", "count"])
@pytest.mark.parametrize("seed", range(60))
def test_answers_are_those_of_the_definitions(seed, axis):
    check_answers(seed, axis, ALGORITHMS[seed % len(ALGORITHMS)])


@pytest.mark.parametrize("axis", ["time", "count"])
@pytest.mark.parametrize("seed", range(40))
def test_answers_with_ties_are_those_of_the_definitions(seed, axis):
    check_answers(seed, axis, WITH_TIES[seed % len(WITH_TIES)], ties=True)


def check_answers(seed, axis, algorithm, *, ties=False):
    """A random workload over a random stream, some of it late, against the oracle."""
    random = cases.rng(seed, axis)
    scale = random.choice([1, 1000, 1000, 500])
    posed = [cases.draw_posed(random, f"q{i}", axis=axis, scale=scale, ties=ties) for i in range(random.randint(1, 5))]
    delay = random.choice([0, 3, 20]) * scale
    may_be_late = random.random() < 0.8
    held_up = delay * random.choice([1, 1, 3]) if may_be_late else delay
    rows = cases.disordered(random, cases.draw_rows(random, random.choice([5, 30, 80, 200]), scale=scale), held_up)
    plan = plan_of(
        [one.query(axis) for one in posed],
        algorithm=algorithm,
        shards=random.choice([1, 2, 3]),
        may_be_late=may_be_late,
    )
    pipeline = Pipeline(
        plan,
        delay=(delay if may_be_late else delay + 999) // 1000 * 1000,
        foresees=seed % 2 == 1,
        tells_tasks=seed % 3 == 0,
    )
    accepted, late = [], []
    for batch in cases.draw_cuts(random, rows):
        watermark = pipeline.watermark
        for row in batch:
            (late if watermark is not None and row[0] < watermark else accepted).append(row)
        pipeline.batch(cases.draw_tasks(random, batch))
    pipeline.batch([], end=True)
    want = {}
    for one in posed:
        want |= cases.wanted(one, accepted, axis)
    assert cases.answered(pipeline.found, posed) == want
    if may_be_late:
        ranked_at_all = {row[2] for one in posed for row in cases.ranked_by(one, late) if row[1] is not None}
        assert pipeline.late == len(ranked_at_all)
    else:
        assert not late


@pytest.mark.parametrize("axis", ["time", "count"])
@pytest.mark.parametrize("seed", range(20))
def test_who_foresees_the_watermark_is_ahead_by_one_batch(seed, axis):
    """After every batch, what another one without rows would bring is there already; late rows are the same."""
    random = cases.rng("ahead", seed, axis)
    posed = [cases.draw_posed(random, f"q{i}", axis=axis) for i in range(3)]
    delay = random.choice([0, 3000, 20_000])
    rows = cases.disordered(random, cases.draw_rows(random, 120), 2 * delay)
    plan = plan_of([one.query(axis) for one in posed], shards=random.choice([1, 3]))
    plain, ahead = Pipeline(plan, delay), Pipeline(plan, delay, foresees=True)
    for batch in cases.draw_cuts(random, rows):
        tasks = cases.draw_tasks(random, batch)
        plain.batch(tasks)
        ahead.batch(tasks)
        after = Pipeline(plan, delay)
        after.newest, after.states, after.found = plain.newest, dict(plain.states), list(plain.found)
        after.batch([])
        assert cases.answered(ahead.found, posed) == cases.answered(after.found, posed)
        assert (ahead.late, ahead.candidates) == (plain.late, after.candidates)


# Workloads that change between two batches.


def run_changing(random, before, after, rows, *, axis="time", shards=3, algorithms=ALGORITHMS):
    """Run `before` over a part of the rows and `after` over the rest; also return the newest position of the part."""
    change = len(rows) // 2
    plans = [
        plan_of([one.query(axis) for one in posed], algorithm=random.choice(algorithms), shards=shards)
        for posed in (before, after)
    ]
    pipeline = Pipeline(plans[0])
    for batch in cases.draw_cuts(random, rows[:change]):
        pipeline.batch(cases.draw_tasks(random, batch))
    pipeline.plan = plans[1]
    for batch in cases.draw_cuts(random, rows[change:]):
        pipeline.batch(cases.draw_tasks(random, batch))
    pipeline.batch([], end=True)
    return cases.answered(pipeline.found, [*before, *after]), max(row[0] for row in rows[:change])


def of_query(found, name):
    return {key: rows for key, rows in found.items() if key[0] == name}


@pytest.mark.parametrize("axis", ["time", "count"])
@pytest.mark.parametrize("seed", range(8))
def test_a_query_removed_leaves_the_others_as_they_were(seed, axis):
    random = cases.rng(seed, axis)
    posed = [cases.draw_posed(random, f"q{i}", axis=axis) for i in range(4)]
    rows = cases.draw_rows(random, 120)
    found, _ = run_changing(random, posed, posed[:1] + posed[2:], rows, axis=axis)
    for one in posed[:1] + posed[2:]:
        assert of_query(found, one.name) == cases.wanted(one, rows, axis)
    whole = cases.wanted(posed[1], rows, axis)
    assert all(set(answers) <= set(whole[key]) for key, answers in of_query(found, "q1").items())
    assert of_query(found, "q1") != whole


def since(found, position):
    kept = {key: [row for row in rows if row[0] > position] for key, rows in found.items()}
    return {key: rows for key, rows in kept.items() if rows}


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_a_query_added_is_exact_from_the_first_window_after_all_that_was_seen(seed, ties):
    random = cases.rng(seed)
    posed = [cases.draw_posed(random, f"q{i}", ties=ties) for i in range(3)]
    rows = cases.draw_rows(random, 160)
    found, newest = run_changing(random, posed[:2], posed, rows, algorithms=WITH_TIES if ties else ALGORITHMS)
    for one in posed[:2]:
        assert of_query(found, one.name) == cases.wanted(one, rows)
    # Full windows: where the objects of the query begin is known only if another such query has the same ones.
    full = [one.query().scan_key() for one in posed[:2] if one.asked.full_only]
    new = posed[2] if posed[2].query().scan_key() in full else cases.plain(posed[2])
    assert of_query(found, "q2") == since(cases.wanted(new, rows), newest)


@pytest.mark.parametrize("first", [17, 30])
@pytest.mark.parametrize("noted", [False, True])
def test_full_windows_of_a_query_that_was_added(noted, first):
    """Its first own row comes after the change, in the middle of a window; or another query noted an earlier one."""
    old = cases.Posed("old", Asked(k=1, size=4000, slide=1000), {"by": "s"})
    same = cases.Posed("same", Asked(k=1, size=2000, slide=1000, full_only=True), {"by": "s", "where": "odd"})
    new = cases.Posed("new", Asked(k=1, size=4000, slide=1000, full_only=True), {"by": "s", "where": "odd"})
    odd = range(first, 41)
    rows = [(1000 * at + 500, float(-at), 2 * at + (at in odd), "a") for at in range(1, 41)]
    before = [old, same] if noted else [old]
    found, newest = run_changing(cases.rng(first), before, [*before, new], rows)
    for one in before:
        assert of_query(found, one.name) == cases.wanted(one, rows)
    want = since(cases.wanted(new if noted else cases.plain(new), rows), newest)
    assert of_query(found, "new") == want
    if first == 30:
        starts = [row[0] for row in want["new", "-"]]
        assert (min(starts) < 30_500) == (not noted)


def test_a_query_added_in_a_shard_that_held_nothing():
    old = cases.Posed("old", Asked(k=1, size=4000, slide=1000), {"by": "s"})
    new = cases.Posed("new", Asked(k=1, size=4000, slide=1000), {"by": "s", "where": "odd"})
    rows = [(1000 * number, float(-number), number, "a") for number in range(1, 41)]
    for shards in range(1, 8):
        found, newest = run_changing(cases.rng(shards), [old], [old, new], rows, shards=shards)
        assert of_query(found, "old") == cases.wanted(old, rows)
        assert of_query(found, "new") == since(cases.wanted(new, rows), newest), shards


@pytest.mark.parametrize("change", ["k", "ties"])
@pytest.mark.parametrize("seed", range(6))
def test_a_query_changed_under_its_name_is_one_added_anew(seed, change):
    random = cases.rng(seed)
    old = cases.plain(cases.draw_posed(random, "q", kinds=cases.KINDS[:1]))
    changed = {"k": old.asked.k + 2} if change == "k" else {"tied": True}
    new = old._replace(asked=replace(old.asked, **changed))
    rows = cases.draw_rows(random, 120)
    found, newest = run_changing(random, [old], [new], rows, algorithms=WITH_TIES if change == "ties" else ALGORITHMS)
    answers = found.get(("q", "-"), [])
    before = cases.wanted(old, rows)["q", "-"]
    after = since(cases.wanted(new, rows), newest).get(("q", "-"), [])
    assert [row for row in answers if row[0] > newest] == after
    assert set(answers) - set(after) <= set(before)


def resumed(plan, **changed):
    """What a shard of `plan` says when it is resumed under a plan with something changed."""
    other = replace(plan_of(changed.pop("queries", plan.queries), shards=plan.shards), **changed)
    shard = TopKShard(plan, 0)
    (arrived,) = reduce_rows(plan, scored(plan, [(1000, 1.0, 1, "a")]).to_batches())
    shard.step([arrived.rows], [arrived.note], None)
    with pytest.raises(sb.SnapshotError) as caught:
        TopKShard.resume(other, 0, shard.state())
    return str(caught.value)


TIME = sb.TopK(name="t", k=2, size="2 seconds", slide="1 second", by="s")
COUNT = sb.TopK(name="c", k=2, size=10, slide=5, by="s")


def test_what_a_shard_cannot_go_on_with_is_refused():
    plan = plan_of([TIME], shards=1)
    assert "shards=1, but the stream was started with shards=2" in resumed(plan, shards=2)
    assert "columns=['ts', 'id', 'g', 's'], but the stream was started with columns=['ts']" in resumed(
        plan, columns=("ts",)
    )
    assert "time='ts', but the stream was started with time='at'" in resumed(plan, time="at")
    assert "id='id', but the stream was started with id='key'" in resumed(plan, id="key")
    assert "belongs to a workload with time windows, but this workload has count windows" in resumed(
        plan, queries=[COUNT]
    )


@pytest.mark.parametrize("output", ["answers", "changes", "both"])
def test_groups_by_a_new_expression_begin_with_rows_to_come(output):
    """Rows that are held lack its value; none of them is of a query that is grouped by it."""
    grouped = sb.TopK(name="g", k=2, size="2 seconds", by="s", partition_by=["upper(g)"])
    before, after = (replace(plan_of(asked, shards=1), output=output) for asked in ([TIME], [TIME, grouped]))
    shard = TopKShard(before, 0)
    (arrived,) = reduce_rows(before, scored(before, [(1000, 1.0, 1, "a")]).to_batches())
    shard.step([arrived.rows], [arrived.note], None)
    shard = TopKShard.resume(after, 0, shard.state())
    shard = TopKShard.resume(after, 0, shard.state())
    found, _ = shard.step([], [], 2_000_000)  # no row has the new column yet
    assert {name for table in found for name in table["query"].to_pylist()} == {"t"}
    rows = scored(after, [(2_500_000, 3.0, 2, "b"), (2_600_000, 2.0, 3, "c")])
    rows = rows.append_column("upper(g)", pa.array(["B", "C"]))
    (arrived,) = reduce_rows(after, rows.to_batches())
    found, _ = shard.step([arrived.rows], [arrived.note], None, end=True)
    answers = [row for table in found for row in table.to_pylist() if row["query"] == "g" and row["rank"]]
    assert {(row["upper(g)"], row["score"]) for row in answers} == {("B", 3.0), ("C", 2.0)}


def test_a_query_added_to_count_windows_is_refused():
    other = sb.TopK(name="other", k=2, size=4, slide=2, by="s")
    said = resumed(plan_of([COUNT], shards=1), queries=[COUNT, other])
    assert "query 'other' is not in this checkpoint" in said
    assert "query 'c' is not in this checkpoint" in resumed(
        plan_of([COUNT], shards=1), queries=[sb.TopK(name="c", k=3, size=10, slide=5, by="s")]
    )


def test_damaged_bytes_are_refused():
    plan = plan_of([TIME], shards=1)
    state = TopKShard(plan, 0).state()
    for damaged in (b"", b"PAR1", state[:-1], state + b"\0", state[:40] + b"\xff" + state[41:]):
        with pytest.raises(sb.SnapshotError):
            TopKShard.resume(plan, 0, damaged)
    TopKShard.resume(plan, 0, state)


# What is held, and when the next answer is due.


def stepped(random, posed, rows, algorithm, delay):
    """A shard after each of its steps, the rows it has accepted so far, and the clock."""
    plan = plan_of([one.query() for one in posed], algorithm=algorithm, shards=1)
    shard, accepted, newest = TopKShard(plan, 0), [], None
    for batch in cases.draw_cuts(random, rows):
        watermark = None if newest is None else newest // 1000 * 1000 - delay
        arrived = list(reduce_rows(plan, scored(plan, batch).to_batches()))
        shard.step(
            [one.rows for one in arrived], [TopKNote.from_bytes(one.note.to_bytes()) for one in arrived], watermark
        )
        accepted += [row for row in batch if watermark is None or row[0] >= watermark]
        newest = max([row[0] for row in batch] + ([] if newest is None else [newest]), default=None)
        yield shard, accepted, watermark


def open_windows(asked, objects, watermark):
    """(end, objects inside) of all windows that end after the watermark and hold an object."""
    if objects:
        low = min(o[0] for o in objects) if watermark is None else watermark
        for end in oracle.ends_between(asked, low, max(o[0] for o in objects) + asked.size):
            inside = [o for o in objects if end - asked.size <= o[0] < end]
            if inside:
                yield end, inside


@pytest.mark.parametrize(
    ("seed", "algorithm", "ties"),
    [*((seed, MINIMAL[seed % len(MINIMAL)], False) for seed in range(20)), *((s, "panes", True) for s in range(12))],
)
def test_what_is_held_is_what_some_open_window_ranks(seed, algorithm, ties):
    random = cases.rng(seed)
    posed = [cases.draw_posed(random, f"q{i}", kinds=cases.KINDS[:3], ties=ties) for i in range(random.randint(1, 3))]
    delay = random.choice([0, 3000, 20_000])
    rows = cases.disordered(random, cases.draw_rows(random, 80), 2 * delay)
    for shard, accepted, watermark in stepped(random, posed, rows, algorithm, delay):
        needed, ends = set(), []
        for one in posed:
            objects = [row[:3] for row in cases.ranked_by(one, accepted) if row[1] is not None]
            for end, inside in open_windows(one.asked, objects, watermark):
                best = oracle.best(inside, one.asked.k, one.asked.ascending, one.asked.tied)
                needed |= {id_ for _, (_, _, id_) in best}
                ends.append(end)
        held = [] if shard.rows is None else shard.rows["id"].to_pylist()
        assert sorted(held) == sorted(needed)
        if ends:
            assert shard.next_end is not None
            assert shard.next_end <= min(ends)
        else:
            assert shard.next_end is None
        if shard.next_end is not None and watermark is not None:
            assert shard.next_end > watermark


def test_the_next_end_of_count_windows_is_when_a_row_can_be_numbered():
    plan = plan_of([COUNT], shards=1)
    shard = TopKShard(plan, 0)
    assert shard.next_end is None
    (arrived,) = reduce_rows(plan, scored(plan, [(7000, 1.0, 1, "a"), (9000, 2.0, 2, "a")]).to_batches())
    shard.step([arrived.rows], [arrived.note], None)
    assert shard.next_end == 7001
    shard.step([], [], 8000)
    assert shard.next_end == 9001
    shard.step([], [], 10_000)
    assert shard.next_end is None


def test_a_step_tells_what_it_did():
    asked = Asked(k=1, size=2000, slide=1000)
    plan = plan_of([time_query(asked, name="q", by="s")], shards=1)
    shard = TopKShard(plan, 0)
    (arrived,) = reduce_rows(plan, scored(plan, [(1000, 1.0, 1, "a"), (2500, 2.0, 2, "a")]).to_batches())
    shard.step([arrived.rows], [arrived.note], None)
    answers, tally = shard.step([], [], 3000)
    assert [row["id"] for table in answers for row in table.to_pylist()] == [1, 2]
    assert (tally.windows, tally.answers, tally.candidates, tally.newest, tally.last_end) == (2, 2, 1, 2500, 3000)
    (arrived,) = reduce_rows(plan, scored(plan, [(2900, 9.0, 3, "a"), (3000, 0.0, 4, "a")]).to_batches())
    answers, tally = shard.step([arrived.rows], [arrived.note], 1000, end=True)  # time does not go back
    assert [(row["id"], row["rank"]) for table in answers for row in table.to_pylist()] == [(2, 1), (4, 1)]
    assert tally.late == 1
    assert shard.rows.num_rows == 0
