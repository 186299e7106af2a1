"""Shards and the batch reducer with windows given by arrays of starts and ends, against the definitions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyband.topk.shard import TopKShard
from tests import oracle
from tests.drive import WITH_LISTS
from tests.listed_windows import draw_listed
from tests.oracle import Asked
from tests.sharding import cases
from tests.sharding.pipeline import Pipeline, plan_of

DAY = 86_400_000_000
MINUTE = 60_000_000


def draw_posed(random_, rows, scale, *, ties):
    """Some queries with listed windows, and sometimes one without."""
    low, high = min(row[0] for row in rows), max(row[0] for row in rows)
    found = [
        cases.Posed(f"q{i}", draw_listed(random_, low, high, scale=scale, ties=ties), random_.choice(cases.KINDS))
        for i in range(random_.randint(1, 3))
    ]
    if random_.random() < 0.4:
        found.append(cases.draw_posed(random_, "sliding", scale=scale, ties=ties))
    return found


def wanted(posed, accepted):
    want = {}
    for one in posed:
        want |= cases.wanted(one, accepted)
    return want


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("algorithm", WITH_LISTS)
@pytest.mark.parametrize("seed", range(40))
def test_answers_are_those_of_the_definitions(seed, algorithm, ties):
    """Rows are late or not, shards are resumed from bytes at every batch, and some foresee the watermark."""
    random_ = cases.rng("listed", seed, ties)
    scale = random_.choice([1, 1000, 1000, 500])
    delay = random_.choice([0, 3, 20]) * scale
    may_be_late = random_.random() < 0.7
    held_up = delay * random_.choice([1, 1, 3]) if may_be_late else delay
    rows = cases.disordered(random_, cases.draw_rows(random_, random_.choice([5, 30, 80, 200]), scale=scale), held_up)
    posed = draw_posed(random_, rows, scale, ties=ties)
    plan = plan_of(
        [one.query() for one in posed], algorithm=algorithm, shards=random_.choice([1, 3]), may_be_late=may_be_late
    )
    pipeline = Pipeline(
        plan,
        delay=(delay if may_be_late else delay + 999) // 1000 * 1000,
        foresees=seed % 2 == 1,
        tells_tasks=seed % 3 == 0,
    )
    accepted = []
    for batch in cases.draw_cuts(random_, rows):
        watermark = pipeline.watermark
        accepted += [row for row in batch if watermark is None or row[0] >= watermark]
        pipeline.batch(cases.draw_tasks(random_, batch))
    pipeline.batch([], end=True)
    assert cases.answered(pipeline.found, posed) == wanted(posed, accepted)


@pytest.mark.parametrize("algorithm", WITH_LISTS)
@pytest.mark.parametrize("may_be_late", [False, True])
def test_cumulative_windows_from_midnight_with_an_end_every_minute(algorithm, may_be_late):
    """With panes, what is held stays small although a window stays open for a day."""
    random_ = cases.rng("minutes", may_be_late)
    midnight = 20_000 * DAY
    listed = tuple(
        (day, end) for day in (midnight, midnight + DAY) for end in range(day + MINUTE, day + DAY + 1, MINUTE)
    )
    rows, position = [], midnight + 23 * 60 * MINUTE
    while position < midnight + DAY + 60 * MINUTE:
        rows.append((position, float(random_.randint(0, 99)), len(rows), random_.choice("ab")))
        position += random_.choice([0, 1, MINUTE // 6, MINUTE])
    posed = [
        cases.Posed("so far", Asked(k=2, size=DAY, slide=1, listed=listed), {"by": "s"}),
        cases.Posed("of each", Asked(k=1, size=DAY, slide=1, listed=listed), {"by": "s", "partition_by": ["g"]}),
    ]
    plan = plan_of([one.query() for one in posed], algorithm=algorithm, shards=1, may_be_late=may_be_late)
    pipeline, held = Pipeline(plan, delay=1000), []
    for low in range(0, len(rows), 40):
        pipeline.batch([rows[low : low + 40]])
        held.append(pipeline.candidates)
    pipeline.batch([], end=True)
    assert cases.answered(pipeline.found, posed) == wanted(posed, rows)
    if algorithm == "panes":
        # Two views are open at most, and rows of the last batch may still be waiting.
        assert max(held) <= 2 * (2 + 2) + 80
    assert pipeline.candidates == 0


@pytest.mark.parametrize("seed", range(10))
def test_a_query_that_joins_begins_after_all_that_was_seen(seed):
    random_ = cases.rng("joins", seed)
    rows = cases.draw_rows(random_, 120)
    before, after = (draw_posed(random_, rows, 1000, ties=False)[:1] for _ in range(2))
    after = [one._replace(name="new", asked=replace(one.asked, full_only=False)) for one in after]
    pipeline = Pipeline(plan_of([one.query() for one in before]))
    pipeline.batch([rows[:60]])
    pipeline.plan = plan_of([one.query() for one in [*before, *after]])
    pipeline.batch([rows[60:]])
    pipeline.batch([], end=True)
    late = [row for row in rows[60:] if row[0] < rows[59][0] // 1000 * 1000]
    assert not late
    found = cases.answered(pipeline.found, [*before, *after])
    want = wanted(before, rows)
    for key, answers in wanted(after, rows).items():
        joined = [row for row in answers if row[0] >= rows[59][0] + 1000]
        certain = [row for row in found.get(key, []) if row[0] >= rows[59][0] + 1000]
        assert certain == joined
        assert all(row in answers for row in found.get(key, []))
    assert {key: rows for key, rows in found.items() if key[0] != "new"} == want


def test_no_timer_is_set_after_the_last_window():
    asked = Asked(k=1, size=10_000, slide=1, listed=((0, 10_000), (20_000, 30_000)))
    posed = cases.Posed("q", asked, {"by": "s"})
    pipeline = Pipeline(plan_of([posed.query()], shards=1))
    pipeline.batch([[(5_000, 1.0, 1, "a"), (15_000, 2.0, 2, "a"), (25_000, 3.0, 3, "a")]])
    assert TopKShard.resume(pipeline.plan, 0, pipeline.states[0]).next_end == 10_000
    pipeline.batch([])
    assert TopKShard.resume(pipeline.plan, 0, pipeline.states[0]).next_end == 30_000
    pipeline.batch([[(40_000, 1.0, 4, "a")]])
    pipeline.batch([])
    assert TopKShard.resume(pipeline.plan, 0, pipeline.states[0]).next_end is None
    assert cases.answered(pipeline.found, [posed])["q", "-"] == oracle.answers(
        asked, [(5_000, 1.0, 1), (15_000, 2.0, 2), (25_000, 3.0, 3)]
    )
