"""The meta query: the four cases of the MTopS paper's section 4, with its examples, and the same by brute force."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.topk.meta_query import MetaQuery, SharingClass, sharing_classes


def query(name, size, slide, k=3, origin=8):
    return sb.TopK(name=name, size=size, slide=slide, k=k, origin=origin)


def serving(meta, now):
    return {view.start: view.queries for view in meta.views(now)}


def test_only_k_differs_so_all_share_every_view():
    meta = MetaQuery([query(f"q{k}", 8, 2, k) for k in (5, 100, 20)])
    assert [view.start for view in meta.views(8)] == [0, 2, 4, 6]
    assert {view.k for view in meta.views(8)} == {100}
    assert all(view.queries == ("q5", "q100", "q20") for view in meta.views(8))


def test_only_the_slide_differs():
    """Example 4.1: windows of 8, slides of 6, 2 and 3, all ending at 8.

    ```text
    time  0 . 2 3 4 . 6 . 8 . 10 11 12 . 14
    q1    [ - - - - - - - )                    then 14: begins at 6
    q2    [ - - - - - - - )                    then 10, 12, 14: begin at 2, 4, 6
    q3    [ - - - - - - - )                    then 11, 14: begin at 3, 6
    ```
    """
    meta = MetaQuery([query("q1", 8, 6), query("q2", 8, 2), query("q3", 8, 3)])
    assert serving(meta, 8) == {
        0: ("q1", "q2", "q3"),
        2: ("q2",),
        3: ("q3",),
        4: ("q2",),
        6: ("q1", "q2", "q3"),
    }
    # The slide is adaptive: 2, then 1, 1 and 2 to the next answers.
    ends = [8]
    while ends[-1] < 14:
        ends.append(meta.next_end(ends[-1]))
    assert ends == [8, 10, 11, 12, 14]
    assert [[q.name for q in meta.answering(end)] for end in ends[1:]] == [["q2"], ["q3"], ["q2"], ["q1", "q2", "q3"]]


def test_only_the_size_differs():
    """Sizes that are multiples of the slide add no view; others begin in between."""
    meta = MetaQuery([query("q1", 6, 2), query("q2", 4, 2), query("q3", 8, 2)])
    assert serving(meta, 8) == {0: ("q3",), 2: ("q1", "q3"), 4: ("q1", "q2", "q3"), 6: ("q1", "q2", "q3")}
    odd = MetaQuery([query("q1", 6, 2), query("q2", 7, 2), query("q3", 8, 2)])
    assert serving(odd, 8) == {
        0: ("q3",),
        1: ("q2",),
        2: ("q1", "q3"),
        3: ("q2",),
        4: ("q1", "q3"),
        5: ("q2",),
        6: ("q1", "q3"),
        7: ("q2",),
    }


def test_everything_differs():
    """Example 4.2: five views instead of the nine of independent runs."""
    meta = MetaQuery([query("q1", 8, 4, 2), query("q2", 6, 3, 2), query("q3", 4, 2, 2)])
    assert meta.size == 8
    assert serving(meta, 8) == {0: ("q1",), 2: ("q2",), 4: ("q1", "q3"), 5: ("q2",), 6: ("q3",)}
    assert meta.next_end(8) == 10


def test_k_is_the_largest_of_the_queries_that_a_view_still_serves():
    meta = MetaQuery([query("short", 4, 4, k=9), query("long", 8, 4, k=2)])
    # At 9 the short query's window that began at 4 has been answered; the long one's is open.
    assert {view.start: view.k for view in meta.views(8)} == {0: 2, 4: 9}
    assert {view.start: view.k for view in meta.views(9)} == {4: 2, 8: 9}


@st.composite
def metas(draw):
    sizes = draw(st.lists(st.integers(1, 20), min_size=1, max_size=5))
    return MetaQuery(
        [
            query(f"q{i}", size, draw(st.integers(1, size)), draw(st.integers(1, 9)), draw(st.integers(-9, 9)))
            for i, size in enumerate(sizes)
        ]
    )


@given(meta=metas(), now=st.integers(-50, 50))
def test_views_and_moments_by_brute_force(meta, now):
    windows = [
        (q.origin + i * q.slide - q.size, q.origin + i * q.slide, q) for q in meta.queries for i in range(-200, 200)
    ]
    alive = {}
    for start, end, q in windows:
        if start < now <= end:
            alive.setdefault(start, []).append(q)
    assert {view.start: (set(view.queries), view.k) for view in meta.views(now)} == {
        start: ({q.name for q in served}, max(q.k for q in served)) for start, served in alive.items()
    }
    assert meta.next_end(now) == min(end for _, end, _ in windows if end > now)
    assert meta.next_start(now) == min(start for start, _, _ in windows if start > now)
    moments = {bound for start, end, _ in windows for bound in (start, end)}
    assert list(meta.moments(now, now + 30)) == sorted(m for m in moments if now < m <= now + 30)


def test_classes_are_told_apart_by_score_filter_groups_and_direction():
    same = {"k": 1, "size": "1 hour", "by": "price"}
    queries = [
        sb.TopK(name="a", **same),
        sb.TopK(name="b", **{**same, "k": 7, "size": "1 day"}),
        sb.TopK(name="c", **same, where="size > 1"),
        sb.TopK(name="d", **same, partition_by=["symbol"]),
        sb.TopK(name="e", **same, order="asc"),
        sb.TopK(name="f", **{**same, "by": "size"}),
    ]
    found = [[q.name for q in meta.queries] for meta in sharing_classes(queries).values()]
    assert found == [["a", "b"], ["c"], ["d"], ["e"], ["f"]]
    assert SharingClass.of(queries[0]) == SharingClass.of(queries[1])


class TestExplain:
    def test_the_page_has_every_class_and_figure(self):
        work = sb.Workload(
            [
                sb.TopK(name="big", k=10, size="10 minutes", slide="1 minute", by="price * size"),
                sb.TopK(name="bigger", k=50, size="1 hour", slide="1 minute", by="price * size"),
                sb.TopK(name="low", k=3, size="1 hour", slide="7 minutes", by="price", order="asc"),
            ]
        )
        page = work.explain()
        summary, work_line, memory, *_ = page.splitlines()
        assert summary == (
            "3 queries over event time: the 10 best in 10 minutes, every 1 minute, by price * size; "
            "the 50 best in 1 hour, every 1 minute, by price * size; the 3 lowest in 1 hour, every 7 minutes, by price."
        )
        assert work_line == "Each row is processed 2 times, once per sharing class, for all 3 queries together."
        assert memory == "Memory: about 242 candidate rows (at most 3,027)."
        assert "2 sharing classes" in page
        assert "60 open, for 70 open windows of the queries" in page
        assert "50 (60 views)" in page
        assert "never more than 3000" in page
        assert "4 minutes" in page  # 60 = 8 * 7 + 4: where the starts of "low" cut its slides
        assert page.count("algorithm     panes") == 2

    @pytest.mark.parametrize("slide", [1_000_000, 100_000, 10_000])
    def test_expected_candidates_follow_the_law(self, slide):
        page = sb.Workload(sb.TopK(k=100, size=1_000_000, slide=slide)).explain()
        law = 100 * sum(1 / i for i in range(1, 1_000_000 // slide + 1))
        assert f"about {law:.0f} expected" in page

    def test_the_summary_names_the_memory_of_the_algorithm_that_runs(self):
        short, timed = sb.TopK(name="a", k=10, size=1_000_000, slide=10), sb.TopK(name="b", k=10, size="1 day")
        assert "Memory: 8 to 24 bytes for each of the 1,000,000 rows of a window" in sb.Workload(short).explain()
        assert "It keeps more if it switches to the algorithm sap" in sb.Workload(timed).explain()
        for page in (
            sb.Workload(short).explain(on_spark=True),
            sb.Workload([short, sb.TopK(name="low", k=10, size=1_000_000, slide=20_000, order="asc")]).explain(),
            sb.Workload([timed, sb.TopK(name="low", k=10, size="1 day", order="asc")]).explain(),
        ):
            assert "sap" not in page  # several queries with long slides run on panes, as all do on Spark
        together = sb.Workload([short, sb.TopK(name="low", k=10, size=1_000, slide=10)]).explain()
        assert "of the 1,000,000 rows of the longest window, because the algorithm is sap-shared" in together

    def test_windows_too_many_to_list_are_explained_at_once(self):
        page = sb.Workload(sb.TopK(k=10, size="1 day", slide="1 millisecond")).explain()
        assert "86400000 open" in page

    def test_thousands_of_queries_make_a_short_page(self):
        work = sb.Workload(
            [sb.TopK(name=f"q{i}", k=1 + i % 100, size=1000 + i, slide=100 + i % 7) for i in range(3000)]
        )
        assert len(work.explain().splitlines()) < 15


class TestCost:
    work = sb.Workload([sb.TopK(name="day", k=20, size="1 day", slide="1 hour")])

    def test_a_query_inside_another_adds_nothing_to_hold(self):
        cost = self.work.cost(sb.TopK(name="half", k=20, size="12 hours", slide="1 hour"))
        assert (cost.views, cost.candidates) == (0, 0)
        assert cost.time > 0

    def test_a_larger_k_adds_candidates_but_no_views(self):
        cost = self.work.cost(sb.TopK(name="more", k=40, size="1 day", slide="1 hour"))
        assert cost.views == 0
        assert cost.candidates > 0

    def test_other_starts_add_views(self):
        assert self.work.cost(sb.TopK(name="odd", k=20, size="1 day", slide="50 minutes")).views > 20

    def test_another_class_shares_nothing(self):
        cost = self.work.cost(sb.TopK(name="low", k=20, size="1 day", slide="1 hour", order="asc"))
        assert cost.views == 24

    def test_what_could_not_be_added_is_refused(self):
        with pytest.raises(sb.InvalidQueryError, match="one axis"):
            self.work.cost(sb.TopK(name="count", k=1, size=5))
