"""What a task keeps of its rows, against brute force: all that can matter, and not more than it must."""

from __future__ import annotations

import numpy as np
import pytest

from skyband.aggregate.reducer import AggregateNote
from skyband.sharding import envelope
from skyband.sharding.envelope import MILLISECOND, Histogram, Note
from skyband.topk import reducer
from skyband.topk.reducer import TopKNote
from skyband.uncertain.reducer import UncertainNote
from skyband.windows import ALWAYS, NEVER
from tests import oracle
from tests.sharding import cases
from tests.sharding.pipeline import plan_of, scored

SEEDS = 48
ONE_FEED = ({"by": "s"},), ({"by": "s", "partition_by": ["g"]},)


def drawn(seed):
    """Queries of one feed, of both directions, half of the seeds with ties, and the rows of one task in any order."""
    random = cases.rng(seed)
    scale = random.choice([1, 1000])
    kinds = ONE_FEED[seed % 2]
    ties = seed % 4 >= 2
    posed = [
        cases.draw_posed(random, f"q{i}", scale=scale, kinds=kinds, ties=ties) for i in range(random.randint(1, 4))
    ]
    rows = cases.draw_rows(random, random.choice([5, 40, 90]), scale=scale)
    random.shuffle(rows)
    return posed, rows


def kept(posed, rows, *, may_be_late, timely=NEVER):
    plan = plan_of([one.query() for one in posed], shards=2, may_be_late=may_be_late)
    envelopes = list(reducer.reduce_rows(plan, scored(plan, rows).to_batches(max_chunksize=7), timely))
    ids = [id_ for envelope in envelopes for id_ in envelope.rows["id"].to_pylist()]
    assert len(set(ids)) == len(ids), "a row of one feed goes to one shard"
    return set(ids), envelopes


def needed(posed, rows, watermark=None):
    """The ids of the rows that some window ranks, were these all there is and those before the watermark late."""
    found = set()
    for one in posed:
        mine = [row for row in cases.ranked_by(one, rows) if row[1] is not None]
        mine = [row for row in mine if watermark is None or row[0] >= watermark]
        for group in {row[3] for row in mine} if "partition_by" in one.kind else ["-"]:
            inside = [row[:3] for row in mine if group in ("-", row[3])]
            found |= {row[3] for row in oracle.answers(cases.plain(one).asked, inside)}
    return found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_where_nothing_is_late_a_task_keeps_what_its_own_windows_rank(seed):
    posed, rows = drawn(seed)
    assert kept(posed, rows, may_be_late=False)[0] == needed(posed, rows)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_row_is_dropped_that_some_watermark_would_need(seed):
    posed, rows = drawn(seed)
    ids, _ = kept(posed, rows, may_be_late=True)
    for watermark in sorted({row[0] + more for row in rows for more in (0, 1)}):
        assert needed(posed, rows, watermark) <= ids


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_row_is_dropped_that_a_watermark_up_to_the_known_one_would_need(seed):
    """Also keeps no more than without that knowledge, and counts the rows behind each such watermark."""
    posed, rows = drawn(seed)
    moments = sorted({row[0] + more for row in rows for more in (0, 1)})
    timely = cases.rng("timely", seed).choice([ALWAYS, *moments])
    ids, envelopes = kept(posed, rows, may_be_late=True, timely=timely)
    assert ids <= kept(posed, rows, may_be_late=True)[0]
    for watermark in [None, *(moment for moment in moments if moment <= timely)]:
        assert needed(posed, rows, watermark) <= ids
    scored_rows = [row for row in rows if row[1] is not None]
    histogram = next(envelope.note.histogram for envelope in envelopes if envelope.note.histogram is not None)
    whole = timely // MILLISECOND * MILLISECOND
    assert histogram.before(whole) == sum(row[0] < whole for row in scored_rows)


@pytest.mark.parametrize("tied", [False, True])
def test_a_task_drops_most_of_a_long_pane(tied):
    posed = [cases.Posed("q", oracle.Asked(k=3, size=10_000_000, slide=1_000_000, tied=tied), {"by": "s"})]
    rows = [(1000 * number, float(number * 7919 % 1009), number, "a") for number in range(1000)]
    assert len(kept(posed, rows, may_be_late=False)[0]) == 3
    assert 3 <= len(kept(posed, rows, may_be_late=True)[0]) < 50
    assert kept(posed, rows, may_be_late=True, timely=ALWAYS)[0] == kept(posed, rows, may_be_late=False)[0]
    assert 3 < len(kept(posed, rows, may_be_late=True, timely=500_000)[0]) < 30


@pytest.mark.parametrize("may_be_late", [False, True])
def test_of_one_score_a_task_drops_nothing_for_a_query_with_ties(may_be_late):
    rows = [(1000 * number, 2.0, number, "a") for number in range(300)]
    plain = cases.Posed("plain", oracle.Asked(k=3, size=10_000_000, slide=1_000_000), {"by": "s"})
    tied = cases.Posed("tied", oracle.Asked(k=1, size=10_000_000, slide=1_000_000, tied=True), {"by": "s"})
    assert len(kept([plain, tied], rows, may_be_late=may_be_late)[0]) == 300
    assert kept([plain], rows, may_be_late=may_be_late)[0] == {297, 298, 299}


@pytest.mark.parametrize("seed", range(8))
def test_with_many_lattices_the_same_rows_are_kept(monkeypatch, seed):
    """Window ends from a sorted list, or computed from the lattices."""
    random = cases.rng("lattices", seed)
    slides = random.sample(range(1000, 90_000), 70)
    asked = [oracle.Asked(k=random.randint(1, 3), size=90_000, slide=slide) for slide in slides]
    posed = [cases.Posed(f"q{i}", one, {"by": "s"}) for i, one in enumerate(asked)]
    rows = [(position, float(random.randint(0, 9)), n, "a") for n, position in enumerate(sorted(
        random.randint(0, 200_000) for _ in range(3000)))]  # fmt: skip
    listed = kept(posed, rows, may_be_late=True)[0]
    assert needed(posed, rows) <= listed
    assert len(listed) < 3000
    timely = kept(posed, rows, may_be_late=True, timely=ALWAYS)[0]
    assert needed(posed, rows) <= timely < listed
    monkeypatch.setattr(reducer, "MOST_LATTICES", 100)
    assert kept(posed, rows, may_be_late=True)[0] == listed
    assert kept(posed, rows, may_be_late=True, timely=ALWAYS)[0] == timely


def test_with_more_ends_than_rows_all_rows_are_kept(monkeypatch):
    monkeypatch.setattr(reducer, "MOST_LATTICES", 1)
    asked = [oracle.Asked(k=1, size=9000, slide=slide) for slide in (2, 3)]
    posed = [cases.Posed(f"q{i}", one, {"by": "s"}) for i, one in enumerate(asked)]
    rows = [(1000 * number, float(number), number, "a") for number in range(9)]
    assert len(kept(posed, rows, may_be_late=True)[0]) == 9


def test_long_inputs_are_reduced_a_stretch_at_a_time(monkeypatch):
    posed, rows = drawn(3)
    want = needed(posed, rows)
    monkeypatch.setattr(envelope, "CHUNK_ROWS", 10)
    ids, envelopes = kept(posed, rows, may_be_late=False)
    assert want <= ids
    assert sum(envelope.taken for envelope in envelopes) == len(rows)


def test_the_note_counts_every_row_once():
    posed = [
        cases.Posed("a", oracle.Asked(k=1, size=9000, slide=3000), {"by": "s"}),
        cases.Posed("b", oracle.Asked(k=1, size=9000, slide=3000), {"by": "s", "where": "odd"}),
    ]
    rows = [(1000 * number, float(number), number, "a") for number in range(20)]
    rows += [(30_000, None, 100, "a"), (None, 1.0, 101, "a")]
    plan = plan_of([one.query() for one in posed], shards=3)
    envelopes = list(reducer.reduce_rows(plan, scored(plan, rows).to_batches()))
    assert sum(envelope.taken for envelope in envelopes) == 22
    assert sum(envelope.dropped_null for envelope in envelopes) == 2
    survivors = {id_ for envelope in envelopes for id_ in envelope.rows["id"].to_pylist()}
    assert sum(envelope.pruned for envelope in envelopes) == 20 - len(survivors)
    assert {envelope.note.newest for envelope in envelopes} == {30_000}, "a row without a score moves time"
    counted = [envelope.note.histogram for envelope in envelopes if envelope.note.histogram]
    assert [histogram.before(5000) for histogram in counted] == [5]


def test_rows_without_a_time_or_a_score_leave_nothing_but_their_count():
    plan = plan_of([cases.Posed("a", oracle.Asked(k=1, size=9, slide=3), {"by": "s"}).query()], shards=1)
    (envelope,) = reducer.reduce_rows(plan, scored(plan, [(None, 1.0, 1, "a"), (None, None, 2, "a")]).to_batches())
    assert (envelope.rows.num_rows, envelope.taken, envelope.dropped_null, envelope.pruned) == (0, 2, 2, 0)
    assert envelope.note.newest == ALWAYS
    assert list(reducer.reduce_rows(plan, scored(plan, []).to_batches())) == []


@pytest.mark.parametrize("seed", range(12))
def test_a_histogram_tells_how_many_rows_are_behind_any_watermark(seed):
    random = np.random.default_rng(seed)
    spread = int(random.choice([10, 10_000, 10**6, 10**15]))
    positions = random.integers(-spread, spread, int(random.choice([0, 1, 5, 300])))
    histogram = Histogram.of(positions)
    somewhere = [*positions, *random.integers(-spread, spread, 20)]
    for position in {int(at) // MILLISECOND * MILLISECOND + more for at in somewhere for more in (0, MILLISECOND)}:
        assert histogram.before(position) == np.count_nonzero(positions < position)


def test_a_note_travels():
    for positions in ([], [1, 5000, 5000, 2**40], [-(2**50), 2**50]):
        note = TopKNote(7, 3, Histogram.of(np.array(positions, np.int64)), firsts={"a": np.array([1, 2])})
        there = TopKNote.from_bytes(note.to_bytes())
        assert (there.newest, there.oldest, there.histogram) == (7, 3, note.histogram)
        assert {name: list(cells) for name, cells in there.firsts.items()} == {"a": [1, 2]}
    assert TopKNote.from_bytes(Note(7, 3).to_bytes()) == TopKNote(7, 3), "a part of an envelope says no more"
    cut = UncertainNote.from_bytes(UncertainNote(7, 3, newest_cut=(5, ALWAYS)).to_bytes())
    assert list(cut.newest_cut) == [5, ALWAYS]
    panes = AggregateNote(7, 3, pane_ends=np.array([10]), pane_firsts=np.array([4]))
    there = AggregateNote.from_bytes(panes.to_bytes())
    assert (there.pane_ends.tolist(), there.pane_firsts.tolist()) == ([10], [4])
