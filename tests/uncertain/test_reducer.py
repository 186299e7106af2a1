"""What tasks leave behind of uncertain streams is missed by nobody: not in answers, not at restarts."""

from __future__ import annotations

import random
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.kernels.reduce import mark_outweighed
from skyband.uncertain.plan import UncertainPlan
from skyband.uncertain.reducer import ID, TIME, columns_of, stream_column, weigh_rows
from skyband.uncertain.retention import needed_mean
from skyband.uncertain.shard import UncertainShard
from tests.uncertain import oracle

MS = 1000
MEANINGS = ("pk-topk", "pt-k", "u-kranks", "u-topk")


def query(draw, name, size, *, stream=False, semantics=None, longest=None):
    semantics = "pk-topk" if stream else semantics or draw.choice(MEANINGS)
    return sb.UncertainTopK(
        name=name, k=draw.randint(1, 3), size=f"{size} milliseconds", by="s", probability="p", rule="r",
        every=f"{draw.randint(1, longest or size)} milliseconds", semantics=semantics,
        threshold=0.2 if semantics == "pt-k" else None, stream="site" if stream else None,
    )  # fmt: skip


def drawn(draw, n, *, sure=0.6, gaps=(0, 0, 300, 700, 1500)):
    """Tuples of which many are certain, with ties in score and time; those with a rule have a small probability."""
    rows, position = [], 10_000
    for number in range(n):
        position += draw.choice(gaps)
        rule = draw.choice(["a", "b"]) if draw.random() < 0.15 else None
        chance = 1 / 64 if rule else 1.0 if draw.random() < sure else draw.randint(1, 16) / 16
        rows.append((position, float(draw.randint(0, 6)), chance, rule, number, draw.choice(["x", "y", "z"])))
    return rows


def table_of(rows, classes=1):
    positions, scores, chances, rules, ids, sites = zip(*rows, strict=True) if rows else [()] * 6
    columns = {
        TIME: pa.array(positions, pa.int64()).cast(pa.timestamp("us", "UTC")),
        ID: pa.array(ids, pa.int64()),
    }
    for number in range(classes):
        kinds = (pa.float64(), pa.float64(), pa.string())
        for name, kind, values in zip(columns_of(number), kinds, (scores, chances, rules), strict=True):
            columns[name] = pa.array(values, kind)
        columns[stream_column(number)] = pa.array(sites, pa.string())
    return pa.table(columns)


def plan_of(queries, *, cut=True, **more):
    options = {"method": "greedy", "refuse_late": False, "may_be_late": True, **more}
    plan = UncertainPlan(queries=tuple(queries), **options)
    if not cut:
        plan.__dict__["cuts"] = (None,) * len(plan.classes)
    return plan


class Run:
    """A shard that gets rows in tasks and micro-batches, as Spark would bring them."""

    def __init__(self, plan):
        self.plan, self.shard = plan, UncertainShard(plan, 0)
        self.tables, self.late, self.pruned, self.taken, self.watermark = [], 0, 0, 0, None
        self.next_watermark = None  # the next watermark, where it is foreseen

    def batch(self, draw, rows):
        """One micro-batch, its rows spread over tasks; the watermark is that of the batches before."""
        tasks = [rows] if draw.random() < 0.5 else [rows[::2], rows[1::2]]
        envelopes = [
            one for task in tasks for one in weigh_rows(self.plan, table_of(task, len(self.plan.classes)).to_batches())
        ]
        self.taken += sum(one.taken for one in envelopes)
        self.pruned += sum(one.pruned for one in envelopes)
        self.step(
            [one.rows for one in envelopes],
            [one.note for one in envelopes],
            self.watermark,
            next_watermark=self.next_watermark,
        )

    def step(self, *arguments, **more):
        found, tally = self.shard.step(*arguments, **more)
        self.tables += found
        self.late += tally.late

    def restart(self, plan=None):
        self.plan = plan or self.plan
        self.shard = UncertainShard.resume(self.plan, 0, self.shard.state())

    def end(self):
        self.step([], [], self.watermark, end=True)
        return self.told()

    def told(self):
        found = defaultdict(list)
        for row in pa.concat_tables(self.tables, promote_options="permissive").to_pylist():
            found[row["query"], row["time"]].append(
                (row["id"], row["score"], round(row["probability"], 12), row.get("stream"))
            )
        return found


def batched(draw, rows, delay):
    """Rows in disorder in batches of any size, and the watermark before each; some rows may be late."""
    arrival = sorted(rows, key=lambda row: row[0] + draw.randint(0, delay))
    newest, found = None, []
    while arrival:
        size = draw.choice([1, 5, 20, 60])
        watermark = None if newest is None else (newest - delay) // MS * MS
        found.append((arrival[:size], watermark))
        newest = max([row[0] for row in arrival[:size]] + ([] if newest is None else [newest]))
        arrival = arrival[size:]
    return found


@pytest.mark.parametrize("seed", range(40))
def test_the_same_answers_as_from_all_rows(seed):
    draw = random.Random(seed)
    size = draw.choice([4, 9, 12])
    queries = [query(draw, f"q{i}", size, stream=i == 0 and seed % 2 == 0) for i in range(draw.randint(1, 3))]
    rows = drawn(draw, 150)
    delay = draw.choice([0, 2500, 6000])
    watermarks = batched(draw, rows, delay)
    runs = [Run(plan_of(queries, cut=cut)) for cut in (True, False)]
    seeds = [random.Random(seed), random.Random(seed)]
    next_ones = [*(watermark for _, watermark in watermarks[1:]), None]
    for (batch, watermark), next_watermark in zip(watermarks, next_ones, strict=True):
        restart = draw.random() < 0.2
        runs[seed % 2].next_watermark = next_watermark  # one of the two knows
        for run, mine in zip(runs, seeds, strict=True):
            run.watermark = watermark
            run.batch(mine, batch)
            if restart:
                run.restart()
    assert runs[0].end() == runs[1].end()
    assert runs[0].late == runs[1].late
    assert runs[0].taken == runs[1].taken == len(rows)
    assert runs[1].pruned == 0
    in_order = sorted(rows)
    table = sb.uncertain.replay(
        queries, *zip(*[row[:5] for row in in_order], strict=True), streams=[row[5] for row in in_order]
    )
    once = Run(plan_of(queries, may_be_late=False))
    once.batch(draw, rows)
    once.end()
    assert len(once.told()) == len({(row["query"], row["time"]) for row in table.to_pylist()})
    whole = defaultdict(list)
    for row in table.to_pylist():
        whole[row["query"], row["time"]].append(
            (row["id"], row["score"], round(row["probability"], 12), row.get("stream"))
        )
    assert once.told() == whole


CROWD = [
    {"k": 2},
    {"k": 5, "semantics": "global-topk"},
    {"k": 3, "semantics": "u-kranks"},
    {"k": 3, "semantics": "pt-k", "threshold": 0.05},
    {"k": 3, "stream": "site"},
    {"k": 3, "semantics": "prf", "weights": [1.0, -0.5, 0.25]},
    {"k": 3, "semantics": "prf", "alpha": 0.2},
]


@pytest.mark.parametrize("asked", [*([one] for one in CROWD), CROWD], ids=lambda asked: str(len(asked)))
def test_the_same_answers_if_no_tuple_is_certain(asked):
    """Many uncertain tuples in a unit: those with enough better ones behind them are in no answer."""
    shared = {"size": "20 milliseconds", "every": "10 milliseconds", "by": "s", "probability": "p", "rule": "r"}
    queries = [sb.UncertainTopK(name=f"q{at}", **shared, **more) for at, more in enumerate(asked)]
    draw = random.Random(5)
    rows = [
        (10_000 + 10 * at, float(draw.randint(0, 2000)), draw.uniform(0.4, 0.99), None, at, draw.choice("xyz"))
        if draw.random() < 0.99 else (10_000 + 10 * at, float(draw.randint(0, 2000)), 1 / 128, "a", at, "x")
        for at in range(4000)
    ]  # fmt: skip
    found = []
    for cut in (True, False):
        run, mine = Run(plan_of(queries, cut=cut)), random.Random(1)
        for low in range(0, len(rows), 1500):
            run.batch(mine, rows[low : low + 1500])
            run.restart()
        found.append(run.end())
        assert (run.pruned > 100) == cut
    assert found[0] == found[1]
    assert found[0]


def test_the_most_probable_list_may_have_any_tuple():
    rows = [(1000 + at, float(at), 0.9, None, at, "x") for at in range(900)]
    lists = sb.UncertainTopK(**ONE, name="lists", semantics="u-topk")
    assert len(kept_of([lists], rows)[0]) == 900
    assert len(kept_of([sb.UncertainTopK(**ONE), lists], rows)[0]) == 900
    kept = kept_of([sb.UncertainTopK(**ONE)], rows)[0]
    assert kept == list(range(900 - len(kept), 900))
    assert len(kept) == 1 + int(needed_mean(1, 1e-30) / 0.9)


@pytest.mark.parametrize("seed", range(20))
def test_what_outweighs_a_tuple(seed):
    """The tuples of the kernel are those of the definition; equal scores at one position do not beat each other."""
    draw = np.random.default_rng(seed)
    n, unit, needed = 120, 40, float(draw.integers(1, 12))
    scores, positions = draw.integers(0, 12, n).astype(float), draw.integers(0, 100, n)
    weights = draw.integers(0, 9, n) / 8  # sums are exact
    found = np.zeros(n, bool)
    order = np.argsort(positions, kind="stable")
    mark_outweighed(scores, positions, order, weights, needed, unit, np.empty(n, np.int64), found)
    better = (scores[None] > scores[:, None]) | (
        (scores[None] == scores[:, None]) & (positions[None] > positions[:, None])
    )
    places = np.argsort(order)
    later = (places[None] > places[:, None]) & (positions[None] // unit == positions[:, None] // unit)
    assert found.tolist() == ((better & later) @ weights >= needed).tolist()


def kept_of(queries, rows):
    found = list(weigh_rows(plan_of(queries), table_of(rows).to_batches()))
    return [row["id"] for one in found for row in one.rows.to_pylist()], found


ONE = {"k": 1, "size": "10 milliseconds", "every": "5 milliseconds", "by": "s", "probability": "p", "rule": "r"}


def test_what_is_cut_and_what_is_not():
    rows = [
        (1000, 5.0, 0.5, None, 0, "x"),  # beaten by a later and certain one in its unit
        (1500, 5.0, 0.5, "a", 1, "x"),  # the same, but what its rule comes to must be known
        (2000, 7.0, 1.0, None, 2, "x"),
        (2500, 6.0, 1.0, None, 3, "x"),  # beaten by an earlier one, which may turn out to be late
        (4999, 1.0, 1.0, None, 4, "x"),
        (5000, 9.0, 1.0, None, 5, "x"),  # beats all of the unit before, but a window ends between
        (5000, 9.0, 0.5, None, 6, "x"),  # which of the two is better, ids tell
        (5500, 9.0, 0.9, None, 7, "x"),
    ]
    kept, (found,) = kept_of([sb.UncertainTopK(**ONE)], rows)
    assert kept == [1, 2, 3, 4, 5, 6, 7]
    assert (found.taken, found.dropped_null, found.pruned, found.note.newest) == (8, 0, 1, 5500)
    assert list(found.note.newest_cut) == [1000]


def test_the_newest_tuple_of_a_ranked_stream_stays():
    rows = [
        (1000, 1.0, 0.5, None, 0, "x"),
        (1100, 1.0, 0.5, None, 1, "y"),
        (1200, 1.0, 0.5, None, 2, "x"),
        (2000, 7.0, 1.0, None, 3, "z"),
        (6000, 1.0, 0.5, None, 4, "x"),
        (7000, 7.0, 1.0, None, 5, "z"),
    ]
    assert kept_of([sb.UncertainTopK(**ONE)], rows)[0] == [3, 5]
    assert kept_of([sb.UncertainTopK(stream="site", **ONE)], rows)[0] == [1, 2, 3, 4, 5]


def test_what_needs_every_tuple_gets_every_tuple():
    rows = drawn(random.Random(1), 100)
    ranks = sb.UncertainTopK(**ONE, name="ranks", semantics="expected-rank")
    counted = sb.UncertainTopK(**{**ONE, "size": 10, "every": 5})
    for queries in ([sb.UncertainTopK(**ONE), ranks], [counted]):
        assert len(kept_of(queries, rows)[0]) == 100
    assert len(kept_of([sb.UncertainTopK(**ONE)], rows)[0]) < 60


def test_a_row_that_two_classes_want_is_late_once():
    queries = [sb.UncertainTopK(**ONE), sb.UncertainTopK(**{**ONE, "name": "other", "by": "s + 1"})]
    run = Run(plan_of(queries))
    run.batch(random.Random(2), [(50_000, 1.0, 1.0, None, 0, "x")])
    run.watermark = 50_000
    run.batch(random.Random(2), [(1000, 1.0, 0.5, None, 1, "x"), (1500, 2.0, 1.0, None, 2, "x")])
    assert run.late == 2
    refusing = Run(plan_of(queries, refuse_late=True))
    refusing.watermark = 1200
    with pytest.raises(sb.InvalidInputError, match=r"a row at 1000 is behind the watermark.* late='refuse'"):
        refusing.batch(random.Random(2), [(1000, 1.0, 0.5, None, 1, "x"), (1500, 2.0, 1.0, None, 2, "x")])


# -- other queries at a restart --


def truth(query, rows, time):
    """The answer at `time`, from the definitions, or one of its equals: [(id or stream, probability)]."""
    size = query.window.size
    mine = sorted((row for row in rows if time - size <= row[0] < time), key=lambda row: (row[0], row[4]))
    found = oracle.tuples([r[1] for r in mine], [Fraction(r[2]) for r in mine], [r[3] for r in mine])
    tops = oracle.tops_by_counting(found, query.k)
    if query.stream is None:
        order = oracle.by_probability(found, tops)[: query.k]
        return [(mine[i][4], float(tops[i])) for i in order]
    sums, last = defaultdict(Fraction), {}
    for row, top in zip(mine, tops, strict=True):
        sums[row[5]] += top
        last[row[5]] = row[0]
    order = sorted((one for one in sums if sums[one] > 0), key=lambda one: (sums[one], last[one], one), reverse=True)
    return [(one, float(sums[one])) for one in order[: query.k]]


def check_all(queries, rows, told):
    """Whether every answer is the right one."""
    for (name, time), answer in told.items():
        mine = queries[name]
        found = [(row[0] if mine.stream is None else row[3], row[2]) for row in answer]
        wanted = truth(mine, rows, time)
        assert [row[0] for row in found] == [row[0] for row in wanted], (name, time)
        assert [row[1] for row in found] == pytest.approx([row[1] for row in wanted], abs=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_queries_come_and_go_at_restarts(seed):
    """Every answer is exact, new queries begin with what has not been seen, and nobody waits for longer than `every`.

    But for queries that stay when others go while tuples were cut: they are answered at the next whole unit.
    """
    draw = random.Random(seed)
    size = draw.choice([6, 12])
    here = [query(draw, f"q{i}", size, semantics="pk-topk") for i in range(2)]
    everyone = {one.name: one for one in here}
    since, left = {}, {}
    sure = draw.choice([0.0, 0.6])
    rows = drawn(draw, 200, sure=sure, gaps=(0, 300, 700, 1500))
    run, accepted, gaps_from = Run(plan_of(here)), [], {}
    number = 2
    for batch, watermark in batched(draw, rows, 3000):
        run.watermark = watermark
        accepted += [row for row in batch if watermark is None or row[0] >= max(watermark, run.shard.clock)]
        run.batch(draw, batch)
        if draw.random() < 0.3:
            fresh = query(draw, f"q{number}", size, stream=draw.random() < 0.4, semantics="pk-topk")
            number += 1
            going = draw.choice(here) if draw.random() < 0.5 else None
            kept = [one for one in here if one is not going]
            for one in kept:
                gaps_from.setdefault(one.name, [])
            if going is not None:
                left[going.name] = run.shard.clock
                for one in kept:
                    gaps_from[one.name].append(run.shard.clock)
            here = [*kept, fresh]
            draw.shuffle(here)
            everyone[fresh.name], since[fresh.name] = fresh, run.shard.newest
            run.restart(plan_of(here))
        elif draw.random() < 0.2:
            run.restart()
    told = run.end()
    check_all(everyone, accepted, told)
    for name, one in everyone.items():
        times = sorted(time for asked, time in told if asked == name)
        if name in since:
            assert all(time - one.window.size > since[name] for time in times)
        until = left.get(name, accepted[-1][0])
        for before, after in pairwise(times):
            changes = [at for at in gaps_from.get(name, []) if before <= at < after]
            assert after - before <= one.window.slide * (2 if changes and sure else 1), (name, before, after)
        assert name in left or name in since or until - times[-1] <= one.window.slide


@pytest.mark.parametrize("cut_in", [7, 13])
def test_no_window_ends_where_a_tuple_was_cut_for_a_later_one(cut_in):
    """A restart at millisecond 7 lets a query go; in the unit around it, or in one to come, a tuple has been cut."""
    stays, goes = (
        sb.UncertainTopK(**{**ONE, "name": name, "size": "12 milliseconds", "every": f"{every} milliseconds"})
        for name, every in [("stays", 6), ("goes", 4)]
    )
    pair = [(cut_in * MS - 500, 5.0, 0.5, None, 1, "x"), (cut_in * MS + 500, 9.0, 1.0, None, 2, "x")]
    rows = [(1000, 3.0, 0.5, None, 0, "x"), *pair, (23_000, 1.0, 0.5, None, 3, "x")]
    run, draw = Run(plan_of([stays, goes])), random.Random(0)
    draw.random = lambda: 0  # all rows of a batch in one task
    batches = [rows[:3], rows[3:]] if cut_in == 7 else [rows[:1], rows[1:]]
    run.batch(draw, batches[0])
    assert run.pruned == (cut_in == 7)
    run.step([], [], 7 * MS)
    run.restart(plan_of([stays]))
    run.batch(draw, batches[1])
    assert run.pruned == 1
    told = run.end()
    check_all({"stays": stays, "goes": goes}, rows, told)
    assert {time // MS for name, time in told if name == "stays"} >= ({12, 18, 24} if cut_in == 7 else {7, 12, 18, 24})


def test_rows_that_wait_stay_with_their_class():
    """Classes may have other numbers after a restart, and what waits was read for the old ones."""
    high, low = (sb.UncertainTopK(**{**ONE, "name": name, "by": by}) for name, by in [("high", "s"), ("low", "-s")])
    rows = [(position, float(position), 1.0, None, position, "x") for position in range(1000, 60_000, 1000)]
    run = Run(plan_of([high, low]))
    table = table_of(rows[:20], 2).set_column(6, columns_of(1)[0], pa.array([-row[1] for row in rows[:20]]))
    (envelope,) = weigh_rows(run.plan, table.to_batches())
    run.step([envelope.rows], [envelope.note], None)
    run.restart(plan_of([low, high]))
    run.step([], [], None, end=True)
    told = run.told()
    for (name, time), answer in told.items():
        mine = [row[0] for row in rows[:20] if time - 10_000 <= row[0] < time]
        assert answer[0][0] == (max(mine) if name == "high" else min(mine))
    assert {name for name, _ in told} == {"high", "low"}


def test_tuples_that_are_counted_go_on_being_counted():
    counted = {**ONE, "size": 6, "every": 3}
    often = sb.UncertainTopK(**counted)
    rows = drawn(random.Random(3), 60, sure=0.1)
    run = Run(plan_of([often]))
    run.batch(random.Random(3), rows[:30])
    run.watermark = rows[29][0] // MS * MS
    run.step([], [], run.watermark)
    deep = sb.UncertainTopK(**{**counted, "name": "deep", "k": 3})
    run.restart(plan_of([often, deep]))
    seen = run.shard.monitors[0].metrics()["tuples"]
    run.batch(random.Random(3), rows[30:])
    told = run.end()
    in_order = sorted(rows, key=lambda row: (row[0], row[4]))
    numbered = [(number, *row[1:]) for number, row in enumerate(in_order)]
    for (name, time), answer in told.items():
        asked = often if name == "topk" else deep
        assert [row[0] for row in answer] == [one[0] for one in truth(asked, numbered, time)]
    assert min(time for name, time in told if name == "deep") >= seen + 6
    for fresh in (
        sb.UncertainTopK(**{**counted, "name": "deep", "by": "-s"}),
        sb.UncertainTopK(**{**counted, "name": "deep", "stream": "site"}),
    ):
        with pytest.raises(sb.SnapshotError, match="query 'deep' is not in this checkpoint"):
            UncertainShard.resume(plan_of([often, fresh]), 0, run.shard.state())


def test_another_plan_at_a_restart():
    queries = [sb.UncertainTopK(**{**ONE, "name": f"q{n}", "k": n, "every": f"{n} milliseconds"}) for n in (2, 3, 5)]
    run = Run(plan_of(queries))
    rows = drawn(random.Random(4), 80, sure=0)
    run.batch(random.Random(4), rows[:40])
    run.restart(plan_of(queries, method="none"))
    assert run.shard.monitors[0].plan.method == "none"
    run.batch(random.Random(4), rows[40:])
    check_all({one.name: one for one in queries}, rows, run.end())


def test_a_full_rule_is_told_with_its_queries():
    run = Run(plan_of([sb.UncertainTopK(**ONE)]))
    rows = [(1000, 1.0, 0.75, "a", 0, "x"), (2000, 1.0, 0.5, "a", 1, "x")]
    message = r"queries 'topk' .*: the probabilities of rule 'a' add up to 1\.25 in the window \[-7999, 2001\)"
    run.batch(random.Random(1), rows)
    with pytest.raises(sb.InvalidInputError, match=message):
        run.end()


@pytest.mark.parametrize(("chance", "shown"), [(0.0, "0.0"), (-0.5, "-0.5"), (1.5, "1.5"), (float("nan"), "null")])
def test_what_exists_in_no_world_is_refused(chance, shown):
    rows = [(1000, 5.0, chance, None, 1, "x")]
    with pytest.raises(sb.InvalidInputError, match=rf"probability='.*' must be in \(0, 1\], got {shown}\. "):
        kept_of([sb.UncertainTopK(**ONE)], rows)
    kept_of([sb.UncertainTopK(**ONE)], [(1000, np.nan, chance, None, 1, "x")])  # what has no score is no tuple


def test_a_tuple_of_no_stream_is_refused():
    with pytest.raises(sb.InvalidInputError, match=r"query 'topk': stream='site' must not be null"):
        kept_of([sb.UncertainTopK(stream="site", **ONE)], [(1000, 5.0, 0.5, None, 1, None)])
