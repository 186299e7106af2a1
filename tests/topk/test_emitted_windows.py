"""Provisional and corrected answers of shards against the definitions. Shards are resumed from bytes in each batch."""

from __future__ import annotations

import pytest

from skyband.sharding.emission import Emission
from skyband.windows import ALWAYS
from tests.drive import ALGORITHMS, WITH_TIES
from tests.sharding import cases
from tests.sharding.pipeline import Pipeline, plan_of


class Drawn:
    """A random workload, a stream of which some rows are late, and its batches."""

    def __init__(self, *seeds, ties=False, scale=None):
        self.random = random = cases.rng(*seeds)
        self.scale = random.choice([1, 1000, 1000, 500]) if scale is None else scale
        count = random.randint(1, 4)
        self.posed = [cases.draw_posed(random, f"q{i}", scale=self.scale, ties=ties) for i in range(count)]
        self.delay = -(-random.choice([0, 3, 20]) * self.scale // 1000) * 1000
        rows = cases.draw_rows(random, random.choice([5, 30, 80, 200]), scale=self.scale)
        self.batches = cases.draw_cuts(random, cases.disordered(random, rows, random.choice([1, 3]) * self.delay))
        self.shards = random.choice([1, 2, 3])
        self.algorithm = random.choice(WITH_TIES if ties else ALGORITHMS)
        self.ahead, self.tells_tasks = random.random() < 0.5, random.random() < 0.5

    def pipeline(self, emission, delay=None):
        plan = plan_of(
            [one.query() for one in self.posed], algorithm=self.algorithm, shards=self.shards, emission=emission
        )
        delay = self.delay if delay is None else delay
        return Pipeline(plan, delay, foresees=self.ahead, tells_tasks=self.tells_tasks)

    def run(self, pipeline):
        """Yield the rows that have been accepted, after each batch; then end the stream."""
        accepted, lateness = [], pipeline.plan.emission.lateness
        for batch in self.batches:
            oldest = ALWAYS if pipeline.watermark is None else pipeline.watermark - lateness
            accepted += [row for row in batch if row[0] >= oldest]
            pipeline.batch(cases.draw_tasks(self.random, batch))
            yield accepted
        pipeline.batch([], end=True)


def by_window(rows, posed):
    """{(query, group, start, end): [(rank, id, score), …]} of rows as shards return them."""
    found = {}
    for (name, group), answers in cases.answered(rows, posed).items():
        for start, end, *row in answers:
            found.setdefault((name, group, start, end), []).append(tuple(row))
    return found


def wanted_windows(posed, accepted):
    found = {}
    for one in posed:
        for (name, group), answers in cases.wanted(one, accepted).items():
            for start, end, *row in answers:
                found.setdefault((name, group, start, end), []).append(tuple(row))
    return found


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_open_windows_are_answered_from_the_rows_that_have_arrived(seed, ties):
    """After each batch, the newest answer of every window is that of the rows so far; final answers come once."""
    drawn = Drawn("provisional", seed, ties=ties)
    pipeline, plain = drawn.pipeline(Emission(provisional=True)), drawn.pipeline(Emission())
    newest, final, ends = {}, set(), {one.name: one.query().window for one in drawn.posed}
    for accepted in drawn.run(pipeline):
        fresh = pipeline.emitted[-1]
        for is_final in (False, True):
            found = by_window([row for row in fresh if row["final"] is is_final], drawn.posed)
            assert not final & found.keys()  # nothing after the final answer
            if not is_final:
                assert all(newest.get(window) != rows for window, rows in found.items())  # not repeated
            final |= found.keys() if is_final else set()
            newest |= found
        if pipeline.newest is None:
            continue
        wanted = {
            window: rows
            for window, rows in wanted_windows(drawn.posed, accepted).items()
            if window[3] <= ends[window[0]].first_end_after(pipeline.newest)
        }
        assert newest == wanted
    rows = [row for row in pipeline.found if row["final"]]
    for _ in Drawn.run(drawn, plain):
        pass
    assert by_window(rows, drawn.posed) == by_window(plain.found, drawn.posed)
    assert pipeline.late == plain.late


@pytest.mark.parametrize("seed", range(20))
def test_open_windows_are_answered_after_enough_event_time(seed):
    """Between two provisional answers the stream advances by at least that much; final ones are as usual."""
    drawn = Drawn("every", seed)
    every = drawn.random.choice([1, 7, 40]) * drawn.scale
    pipeline, plain = drawn.pipeline(Emission(provisional=True, every=every)), drawn.pipeline(Emission())
    last = None
    ends = {one.name: one.query().window for one in drawn.posed}
    newest = {}
    for accepted in drawn.run(pipeline):
        newest |= by_window(pipeline.emitted[-1], drawn.posed)
        due = pipeline.newest is not None and (last is None or pipeline.newest - last >= every)
        assert due or all(row["final"] for row in pipeline.emitted[-1])
        if due:
            last = pipeline.newest
            wanted = {
                window: rows
                for window, rows in wanted_windows(drawn.posed, accepted).items()
                if window[3] <= ends[window[0]].first_end_after(pipeline.newest)
            }
            assert newest == wanted
    final = by_window([row for row in pipeline.found if row["final"]], drawn.posed)
    for _ in drawn.run(plain):
        pass
    assert final == by_window(plain.found, drawn.posed)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_the_last_revision_is_the_answer_of_a_stream_in_which_the_rows_were_in_time(seed, ties):
    drawn = Drawn("late", seed, ties=ties)
    lateness = drawn.random.choice([1, 5, 20, 1000]) * 1000
    provisional = drawn.random.random() < 0.5
    pipeline = drawn.pipeline(Emission(provisional=provisional, lateness=lateness))
    last, accepted = {}, []
    for so_far in drawn.run(pipeline):
        accepted = so_far
        check_revisions(pipeline.emitted[-1], drawn.posed, last)
    check_revisions(pipeline.emitted[-1], drawn.posed, last)
    found = {window: rows for window, (_, rows) in last.items()}
    assert found == wanted_windows(drawn.posed, accepted)
    dropped = sum(map(len, drawn.batches)) - len(accepted)
    assert (pipeline.late > 0) <= (dropped > 0)
    patient = drawn.pipeline(Emission(), drawn.delay + lateness)
    for _ in drawn.run(patient):
        pass
    assert found == by_window(patient.found, drawn.posed)
    assert pipeline.late == patient.late
    plain = drawn.pipeline(Emission())
    for _ in drawn.run(plain):
        pass
    assert pipeline.late + pipeline.late_used == plain.late


def check_revisions(rows, posed, last):
    """Add the final rows of a batch to `last`: {window: (revision, rows)}; a correction is newer and different."""
    for revision in {row["revision"] for row in rows}:
        mine = [row for row in rows if row["revision"] == revision and row.get("final", True)]
        for window, answer in by_window(mine, posed).items():
            before, shown = last.get(window, (-1, None))
            assert before < revision
            assert shown != answer
            last[window] = revision, answer


@pytest.mark.parametrize("seed", range(10))
def test_the_state_without_these_options_has_nothing_of_them(seed):
    drawn = Drawn("state", seed)
    plain = drawn.pipeline(Emission())
    for _ in drawn.run(plain):
        for state in plain.states.values():
            assert b"settled" not in state
            assert b"corrections" not in state
