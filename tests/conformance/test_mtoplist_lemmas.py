"""The lemmas of the MTopS paper (section 6) as invariants of MTopList's structure, checked after every push.

A view is named by its start. Where the paper compares scores, ties are broken by the library's total order, so that
"smaller" reads "ranks behind". Marks are those that MTopList stores, translated from view numbers to starts.
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.topk.algorithms.mtoplist import MTopList
from skyband.topk.kernels.views import NEWEST, live_numbers
from tests import oracle
from tests.conformance.test_many_queries import named
from tests.drive import push_time, time_query
from tests.streams import asked, time_rows


@pytest.fixture(autouse=True, scope="module", params=[MTopList.batches_from, 0], ids=["single", "batches"])
def one_way_to_move_pointers(request):
    """Pointers and marks move with each new object, or once for all objects of a push."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MTopList, "batches_from", request.param)
        yield


class IntegratedList:
    """MTopList's structure in plain values: the list best first, marks, each live view's k and minimum pointer."""

    def __init__(self, monitor):
        (engine,) = monitor._executors.engines
        chain, view_marks, views = engine._list, engine._view_marks, engine._meta.views
        slots, self.newest = engine.slots(), int(views.registers[NEWEST])
        self.ids = [int(chain.ids[slot]) for slot in slots]
        self.place = {id_: place for place, id_ in enumerate(self.ids)}
        self.position = {int(chain.ids[slot]): int(chain.positions[slot]) for slot in slots}
        live = live_numbers(views)
        rings = [int(w) % views.starts.size for w in live]
        start_of = {int(w): int(views.starts[ring]) for w, ring in zip(live, rings, strict=True)}
        # A mark on a view that is not live would be a KeyError here.
        self.marks = {
            int(chain.ids[slot]): tuple(start_of[int(mark)] for mark in view_marks.marks[slot]) for slot in slots
        }
        self.views = [int(views.starts[ring]) for ring in rings]
        self.k = {int(views.starts[ring]): int(views.ks[ring]) for ring in rings}
        self.count = {int(views.starts[ring]): int(views.counts[ring]) for ring in rings}
        self.minimum = {int(views.starts[ring]): int(chain.ids[view_marks.minima[ring]]) for ring in rings}

    def is_member(self, id_, view):
        """Lemma 6.3: the view is between the stored marks, and the object not behind its minimum."""
        first, last = self.marks[id_]
        return first <= view <= last and self.place[id_] <= self.place[self.minimum[view]]

    def career(self, id_):
        """The views that the object is in, oldest first."""
        return [view for view in self.views if self.is_member(id_, view)]

    def topk(self, view):
        """The view's top k as marks and pointers tell it; positions are not looked at."""
        return [id_ for id_ in self.ids if self.is_member(id_, view)]


def live_views(queries, objects, watermark):
    """By brute force: the start of every live view that holds an object, with its k and its top k."""
    newest = max(position for position, _, _ in objects)
    ks = {}
    for query in queries:
        for end in oracle.ends_between(query, watermark, newest + query.size):
            ks[end - query.size] = max(query.k, ks.get(end - query.size, 0))
    found = {}
    for start in sorted(ks):
        view = [row for row in objects if row[0] >= start]
        found[start] = (ks[start], [id_ for _, _, id_ in oracle.ranked(view)[: ks[start]]])
    return found


def structures(queries, rows, batch=1):
    """The structure after every push, with the views that brute force finds."""
    monitor = sb.Monitor(named(queries, time_query), "mtoplist")
    for stop in range(batch, len(rows) + batch, batch):
        push_time(monitor, rows[stop - batch : stop])
        objects = [row for row in rows[:stop] if oracle.is_object(row)]
        watermark = rows[min(stop, len(rows)) - 1][0]
        yield IntegratedList(monitor), live_views(queries, objects, watermark) if objects else {}


@st.composite
def several(draw, **fixed):
    """Queries of one direction."""
    drawn = draw(st.lists(asked(), min_size=1, max_size=6))
    return [oracle.Asked(fixed.get("k", query.k), query.size, query.slide, query.origin) for query in drawn]


batches = st.sampled_from([1, 1, 2, 5, 30])


@given(queries=several(), rows=time_rows(most=30), batch=batches)
def test_theorem_51_the_list_is_the_union_of_all_views(queries, rows, batch):
    for found, views in structures(queries, rows, batch):
        assert found.views == list(views)
        assert found.k == {start: k for start, (k, _) in views.items()}
        assert set(found.ids) == {id_ for _, best in views.values() for id_ in best}


@given(k=st.sampled_from([1, 2, 3, 5]), data=st.data(), rows=time_rows(most=30), batch=batches)
def test_lemma_61_with_one_k_the_minimum_falls_with_the_view(k, data, rows, batch):
    for found, _ in structures(data.draw(several(k=k)), rows, batch):
        full = [view for view in found.views if found.count[view] == k]
        assert full == found.views[: len(full)]  # a view that is not full wants everything, and so do all after it
        for older, view in pairwise(full):
            assert found.place[found.minimum[older]] <= found.place[found.minimum[view]]


@given(queries=several(), rows=time_rows(most=30), batch=batches)
def test_lemma_63_marks_and_pointers_generate_every_views_topk(queries, rows, batch):
    for found, views in structures(queries, rows, batch):
        for start, (_, best) in views.items():
            assert found.topk(start) == best
            assert found.count[start] == len(best)
            assert found.minimum[start] == best[-1]


@given(queries=several(), rows=time_rows(most=30), batch=batches)
def test_marks_are_an_objects_first_and_last_view(queries, rows, batch):
    for found, views in structures(queries, rows, batch):
        for id_ in found.ids:
            career = [start for start, (_, best) in views.items() if id_ in best]
            assert found.marks[id_] == (career[0], career[-1])
            assert found.career(id_) == career


def test_marks_follow_when_views_are_numbered_anew():
    """Long enough for the ring of views to be compacted, with dead views between live ones."""
    draw = random.Random(3)
    queries = [
        oracle.Asked(k=draw.choice([1, 3, 8]), size=size, slide=slide, origin=slide)
        for size, slide in ((400, 50), (50, 1), (9, 2), (120, 40), (30, 30))
    ]
    rows = [(i, float(draw.randint(0, 40)), i) for i in range(1200)]
    newest = []
    for found, views in structures(queries, rows, batch=61):
        newest.append(found.newest)
        for id_ in found.ids:
            career = [start for start, (_, best) in views.items() if id_ in best]
            assert found.marks[id_] == (career[0], career[-1])
    assert newest != sorted(newest)  # numbers have started from 0 again


#   position        0   1   2   3
#                           A B C              scores: A 9, B 8, C 5
#   view 0, k = 3  [- - - - - - - - - - -      A B C
#   view 1, k = 1      [- - - - - - - - -      A            B and C are missing
#   view 2, k = 3          [- - - - - - -      A B C        and are there again
A, B, C = (2, 9.0, 1), (2, 8.0, 2), (3, 5.0, 3)
LEAVE_AND_REAPPEAR = [
    oracle.Asked(k=3, size=10, slide=2, origin=0),
    oracle.Asked(k=1, size=8, slide=8, origin=9),
]


def test_lemma_62_objects_leave_and_reappear():
    monitor = sb.Monitor(named(LEAVE_AND_REAPPEAR, time_query), "mtoplist")
    push_time(monitor, [(0, 0.0, 0), A, B, C])
    found = IntegratedList(monitor)
    assert [found.k[view] for view in (0, 1, 2)] == [3, 1, 3]
    assert found.ids == [1, 2, 3]
    assert found.marks[2] == found.marks[3] == (-6, 2)
    assert found.career(3) == [-6, -4, -2, 0, 2]  # and not 1
    assert [found.topk(view) for view in (0, 1, 2)] == [[1, 2, 3], [1], [1, 2, 3]]
    # The minimum of the view between is in front of those around it: pointers do not fall with the view.
    assert found.place[found.minimum[1]] < found.place[found.minimum[0]]
    # A newcomer that beats C but not A goes around the view between, too.
    push_time(monitor, [(3, 6.0, 4)])
    found = IntegratedList(monitor)
    assert [found.topk(view) for view in (0, 1, 2)] == [[1, 2, 4], [1], [1, 2, 4]]
    assert found.marks[2] == found.marks[4] == (-6, 2)
    assert 3 not in found.marks  # it has lost all its views
