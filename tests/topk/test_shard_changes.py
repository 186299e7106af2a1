"""The change feed against answers compared one by one, and against a board that a reader keeps by following it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sharding import cases
from tests.sharding.differences import by_order, compared, reported
from tests.sharding.pipeline import Pipeline, plan_of


def run(random, posed, rows, *, axis="time", output="changes", delay=0):
    plan = plan_of([one.query(axis) for one in posed], shards=random.choice([1, 2, 3]))
    pipeline = Pipeline(replace(plan, output=output), delay=delay)
    accepted = []
    for batch in cases.draw_cuts(random, rows):
        watermark = pipeline.watermark
        accepted += [row for row in batch if watermark is None or row[0] >= watermark]
        pipeline.batch(cases.draw_tasks(random, batch))
    pipeline.batch([], end=True)
    return pipeline.found, accepted


@pytest.mark.parametrize("axis", ["time", "count"])
@pytest.mark.parametrize("seed", range(40))
def test_changes_are_the_differences_of_the_answers(seed, axis):
    random = cases.rng(seed, axis)
    scale = random.choice([1, 1000])
    ties = seed % 2 == 1  # half of the runs mix queries whose equal scores share ranks with others
    posed = [cases.draw_posed(random, f"q{i}", axis=axis, scale=scale, ties=ties) for i in range(random.randint(1, 4))]
    delay = random.choice([0, 5]) * scale // 1000 * 1000
    rows = cases.disordered(random, cases.draw_rows(random, random.choice([5, 60, 150]), scale=scale), delay * 2)
    found, accepted = run(random, posed, rows, axis=axis, delay=delay)
    newest = max(row[0] for row in rows)
    want = {}
    for one in posed:
        for key, answers in cases.wanted(one, accepted, axis).items():
            want[key] = sorted(compared(one, answers, newest, axis), key=by_order)
    assert {key: sorted(rows, key=by_order) for key, rows in reported(found, posed).items()} == want


@pytest.mark.parametrize("seed", range(6))
def test_who_follows_the_feed_has_every_answer(seed):
    random = cases.rng(seed)
    posed = [cases.draw_posed(random, f"q{i}") for i in range(3)]
    found, _ = run(random, posed, cases.draw_rows(random, 150), output="both")
    answers = cases.answered([row for row in found if row["change"] is None], posed)
    scans = reported([row for row in found if row["change"] is not None], posed)
    assert answers.keys() == scans.keys()
    for key, changes in scans.items():
        board = {}
        boards = {end: {} for _, end, _, _, _ in answers[key]}
        for _, end, rank, id_, _ in answers[key]:
            boards[end][id_] = rank
        waiting = iter([*sorted(changes, key=by_order), None])
        change = next(waiting)
        for end, want in sorted(boards.items()):
            while change is not None and change[0] <= end:
                _, what, rank, old_rank, id_ = change
                assert board.get(id_) == old_rank
                if what == "left":
                    del board[id_]
                else:
                    board[id_] = rank
                change = next(waiting)
            assert board == want


def test_one_row_moves_one_row_leaves():
    slow = cases.Posed("q", cases.Asked(k=3, size=4000, slide=1000), {"by": "s"})
    rows = [(500, 9.0, 1, "a"), (1500, 5.0, 2, "a"), (2500, 7.0, 3, "a"), (4200, 1.0, 4, "a")]
    found, _ = run(cases.rng(0), [slow], rows)
    assert sorted(reported(found, [slow])["q", "-"], key=by_order)[:7] == [
        (1000, "entered", 1, None, 1),
        (2000, "entered", 2, None, 2),
        (3000, "entered", 2, None, 3),
        (3000, "moved", 3, 2, 2),
        (5000, "left", None, 1, 1),
        (5000, "moved", 1, 2, 3),
        (5000, "moved", 2, 3, 2),
    ]


def test_a_silent_group_leaves_when_time_passes_its_first_empty_window():
    each = cases.Posed("q", cases.Asked(k=2, size=2000, slide=1000), {"by": "s", "partition_by": ["g"]})
    plan = replace(plan_of([each.query()], shards=1), output="changes")
    pipeline = Pipeline(plan)
    pipeline.batch([[(500, 1.0, 1, "a"), (600, 1.0, 2, "b")]])
    pipeline.batch([[(3200, 1.0, 3, "b")]])
    pipeline.found.clear()
    pipeline.batch([[(3300, 1.0, 4, "b")]])
    left = {key: rows for key, rows in reported(pipeline.found, [each]).items() if rows[-1][1] == "left"}
    assert left == {("q", "a"): [(1000, "entered", 1, None, 1), (3000, "left", None, 1, 1)],
                    ("q", "b"): [(1000, "entered", 1, None, 2), (3000, "left", None, 1, 2)]}  # fmt: skip


def test_what_is_shown_is_not_counted_as_held():
    one = cases.Posed("q", cases.Asked(k=5, size=1000, slide=1000), {"by": "s"})
    plan = replace(plan_of([one.query()], shards=1), output="changes")
    pipeline = Pipeline(plan)
    pipeline.batch([[(1, 1.0, 1, "a"), (2, 1.0, 2, "a")]])
    pipeline.batch([[(1500, 1.0, 3, "a")]])
    pipeline.batch([[(1600, 1.0, 4, "a")]])
    assert [row["change"] for row in pipeline.found] == ["entered", "entered"]
    assert pipeline.candidates == 2


@pytest.mark.parametrize("seed", range(8))
def test_a_query_that_stays_goes_on_where_another_comes_or_goes(seed):
    random = cases.rng(seed)
    posed = [cases.draw_posed(random, f"q{i}") for i in range(3)]
    rows = cases.draw_rows(random, 120)
    half = len(rows) // 2
    plans = [
        replace(plan_of([one.query() for one in some], shards=2), output="changes") for some in (posed[:2], posed[1:])
    ]
    pipeline = Pipeline(plans[0])
    for plan, part in zip(plans, (rows[:half], rows[half:]), strict=True):
        pipeline.plan = plan
        for batch in cases.draw_cuts(random, part):
            pipeline.batch(cases.draw_tasks(random, batch))
    pipeline.batch([], end=True)
    found = reported(pipeline.found, posed)
    newest = max(row[0] for row in rows)
    for key, answers in cases.wanted(posed[1], rows).items():
        assert sorted(found[key], key=by_order) == sorted(compared(posed[1], answers, newest, "time"), key=by_order)
