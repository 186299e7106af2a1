"""Windows given by arrays of starts and ends: engines and monitors against the definitions."""

from __future__ import annotations

import math
import pickle
import random

import numpy as np
import pytest

import skyband as sb
from skyband.errors import InvalidQueryError, UnsupportedError
from skyband.topk.algorithms import ENGINES
from skyband.topk.query import ListedTopK, topk_from
from skyband.windows import NEVER, ListedWindows, SlidingWindow
from tests import oracle
from tests.drive import WITH_LISTS, push_time, read, time_query
from tests.listed_windows import KINDS, draw_kind, draw_listed
from tests.oracle import Asked

DAY = 86_400_000_000
MINUTE = 60_000_000
REFUSING = sorted(set(ENGINES) - set(WITH_LISTS))


def rng(*seeds):
    return random.Random(repr(seeds))


def draw_rows(random_, count):
    """Rows ``(position, score, id)`` with equal times, ties, silences and infinities."""
    position, rows = random_.randint(-20, 20), []
    for number in range(count):
        position += random_.choice([0, 0, 0, 1, 1, 2, 3, 7, random_.choice([1, 60])])
        score = random_.choice([*(float(random_.randint(0, 6)) for _ in range(3)), math.inf, -math.inf, -0.0, 2.5])
        rows.append((position, score, (number + 1) * 7919 % 10007))
    return rows


def draw_sliding(random_, *, ties=False):
    size = random_.randint(1, 24)
    return Asked(
        k=random_.choice([1, 2, 3]),
        size=size,
        slide=random_.randint(1, size),
        origin=random_.randint(-9, 9),
        full_only=random_.random() < 0.3,
        tied=ties and random_.random() < 0.5,
    )


def draw_workload(random_, rows, *, ties=False):
    """Some queries with listed windows, and sometimes one without."""
    low, high = rows[0][0], rows[-1][0]
    found = [draw_listed(random_, low, high, ties=ties) for _ in range(random_.randint(1, 3))]
    return [*found, draw_sliding(random_, ties=ties)] if random_.random() < 0.4 else found


def batches(random_, rows):
    cuts = sorted(random_.randint(0, len(rows)) for _ in range(random_.choice([0, 1, 4, 12])))
    return [rows[low:high] for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def by_query(table, queries):
    found = {query.name: [] for query in queries}
    for name, *row in read(table, "query"):
        found[name].append(tuple(row))
    return found


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("algorithm", WITH_LISTS)
@pytest.mark.parametrize("seed", range(40))
def test_answers_are_those_of_the_definitions(seed, algorithm, ties):
    """Also with other batches, and with a monitor that is resumed from bytes between them."""
    random_ = rng(seed, ties)
    rows = draw_rows(random_, random_.choice([1, 20, 120, 300]))
    asked = draw_workload(random_, rows, ties=ties)
    queries = [time_query(one, name=f"q{place}") for place, one in enumerate(asked)]
    want = {query.name: oracle.answers(one, rows) for query, one in zip(queries, asked, strict=True)}
    monitor, tables = sb.Monitor(queries, algorithm), []
    for batch in batches(random_, rows):
        push_time(monitor, batch)
        if random_.random() < 0.3:
            tables.append(monitor.answers())
        if random_.random() < 0.4:
            monitor = sb.Monitor.resume(monitor.snapshot(), queries)
    monitor.finish()
    found = {query.name: [] for query in queries}
    for table in [*tables, monitor.answers()]:
        for name, answered in by_query(table, queries).items():
            found[name] += answered
    assert found == want
    assert by_query(sb.replay(queries, *np.array(rows, object).T.tolist(), algorithm=algorithm), queries) == want


@pytest.mark.parametrize("algorithm", [*WITH_LISTS, "auto"])
def test_cumulative_windows_from_midnight_with_an_end_every_minute(algorithm):
    random_ = rng("minutes")
    midnight = 20_000 * DAY  # some day, in UTC
    days = [midnight + day * DAY for day in range(3)]
    listed = tuple((day, end) for day in days for end in range(day + MINUTE, day + DAY + 1, MINUTE))
    position, rows = midnight + DAY // 2, []
    while position < midnight + 2 * DAY + 3 * MINUTE:
        rows.append((position, float(random_.randint(0, 50)), len(rows)))
        position += random_.choice([0, 1, MINUTE, 9 * MINUTE, random_.randint(1, 40 * MINUTE)])
    asked = Asked(k=3, size=DAY, slide=1, listed=listed)
    table = sb.replay(time_query(asked), *np.array(rows, object).T.tolist(), algorithm=algorithm)
    assert read(table) == oracle.answers(asked, rows)
    assert table.num_rows > 5000


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_panes_hold_the_minimal_candidate_set(seed, ties):
    random_ = rng("held", seed, ties)
    rows = draw_rows(random_, 150)
    asked = [
        Asked(k=one.k, size=one.size, slide=one.slide, origin=one.origin, tied=ties, listed=one.listed)
        for one in draw_workload(random_, rows)
    ]
    queries = [time_query(one, name=f"q{place}") for place, one in enumerate(asked)]
    monitor, seen = sb.Monitor(queries, "panes"), []
    for batch in batches(random_, rows):
        push_time(monitor, batch)
        seen += batch
        if seen:
            want = oracle.minimal_candidates_together(asked, seen, seen[-1][0])
            assert monitor.candidates == len(want)


@pytest.mark.parametrize("algorithm", WITH_LISTS)
@pytest.mark.parametrize("seed", range(25))
def test_each_group_has_its_own_answers(seed, algorithm):
    random_ = rng("groups", seed)
    rows = draw_rows(random_, 200)
    groups = [random_.choice("abc") for _ in rows]
    asked = draw_workload(random_, rows, ties=seed % 2 == 1)
    queries = [time_query(one, name=f"q{place}") for place, one in enumerate(asked)]
    monitor, at, found = sb.Monitor(queries, algorithm), 0, {}
    for batch in batches(random_, rows):
        monitor.push(*np.array(batch, object).reshape(-1, 3).T.tolist(), groups=groups[at : at + len(batch)])
        at += len(batch)
        if random_.random() < 0.4:
            monitor = sb.Monitor.resume(monitor.snapshot())
    monitor.finish()
    for name, group, *row in read(monitor.answers(), "query", "group"):
        found.setdefault((name, group), []).append(tuple(row))
    want = {}
    for query, one in zip(queries, asked, strict=True):
        for group in sorted(set(groups)):
            mine = [row for row, its in zip(rows, groups, strict=True) if its == group]
            if answers := oracle.answers(one, mine, first=rows[0][0]):
                want[query.name, group] = answers
    assert found == want


@pytest.mark.parametrize("algorithm", WITH_LISTS)
@pytest.mark.parametrize("seed", range(15))
def test_a_query_that_joins_answers_from_where_it_is_exact(seed, algorithm):
    random_ = rng("joins", seed)
    rows = draw_rows(random_, 120)
    first, second = (draw_listed(random_, rows[0][0], rows[-1][0]) for _ in range(2))
    monitor = sb.Monitor(time_query(first, name="first"), algorithm)
    push_time(monitor, rows[:60])
    end = monitor.add(time_query(second, name="second"))
    push_time(monitor, rows[60:])
    monitor.remove("first")
    monitor.finish()
    found = [row for name, *row in read(monitor.answers(), "query") if name == "second"]
    want = [list(row) for row in oracle.answers(second, rows) if row[0] > rows[59][0]]
    assert found == want
    assert not want or end <= want[0][1]


@pytest.mark.parametrize("algorithm", REFUSING)
def test_the_papers_algorithms_refuse_them(algorithm):
    query = ListedTopK(name="so far", k=1, windows=ListedWindows([0, 0], [10, 20]))
    with pytest.raises(UnsupportedError, match=rf"'so far'.*listed.*{algorithm}.*algorithm='panes' or 'naive'"):
        sb.Monitor(query, algorithm)
    with pytest.raises(UnsupportedError, match="one size and one slide"):
        sb.Workload([query]).explain()


@pytest.mark.parametrize("seed", range(20))
def test_changes_lead_from_each_answer_to_the_next(seed):
    """Every window that ends is an answer, with rows or without."""
    random_ = rng("changes", seed)
    rows = draw_rows(random_, 100)
    asked = draw_listed(random_, rows[0][0], rows[-1][0])
    query = time_query(asked)
    answers = sb.replay(query, *np.array(rows, object).T.tolist())
    feed, found = sb.ChangeFeed(query), []
    cut = answers.num_rows // 2
    while 0 < cut < answers.num_rows and answers["rank"][cut].as_py() != 1:
        cut += 1
    for part, now in ((answers.slice(0, cut), None), (answers.slice(cut), rows[-1][0] + 10_000)):
        found += feed.take(part, now).to_pylist()
    want = {}
    for start, end, rank, id_, _ in oracle.answers(asked, rows):
        want.setdefault((start, end), {})[id_] = rank
    shown, changes = {}, []
    for start, end in asked.listed:
        now = want.get((start, end), {})
        changes += [(start, end, "left", id_, None, shown[id_]) for id_ in shown if id_ not in now]
        changes += [
            (start, end, "moved" if id_ in shown else "entered", id_, rank, shown.get(id_))
            for id_, rank in now.items()
            if shown.get(id_) != rank
        ]
        shown = now
    columns = ("window_start", "window_end", "change", "id", "rank", "old_rank")
    assert sorted(map(repr, changes)) == sorted(repr(tuple(row[name] for name in columns)) for row in found)


@pytest.mark.parametrize("kind", [*KINDS, "sliding"])
@pytest.mark.parametrize("seed", range(10))
def test_windows_tell_their_ends_and_starts(seed, kind):
    random_ = rng("interface", seed)
    if kind == "sliding":
        asked = draw_sliding(random_)
        windows = SlidingWindow(size=asked.size, slide=asked.slide, origin=asked.origin)
    else:
        listed = draw_kind(random_, kind, 0, 60)
        asked = Asked(k=1, size=max(end - start for start, end in listed), slide=1, listed=listed)
        windows = ListedWindows(*zip(*listed, strict=True))
    known = oracle.windows_between(asked, -400, 400)
    assert windows.longest == max(end - start for start, end in known)
    assert [(windows.start(end), end) for end in windows.ends_between(-400, 400)] == known
    holding = [sum(start <= at < end for start, end in known) for at in range(-300, 300)]
    assert windows.most_alive == max(holding)
    for at in range(-50, 120, 7):
        assert windows.first_end_after(at) == min((end for _, end in known if end > at), default=NEVER)
        assert windows.first_end_from(at) == min((end for start, end in known if start >= at), default=NEVER)


def test_the_end_of_all_windows_starts_never():
    windows = ListedWindows([0], [10])
    assert windows.first_end_after(10) == windows.start(NEVER) == windows.first_end_from(1) == NEVER


@pytest.mark.parametrize(
    ("starts", "ends", "message"),
    [
        ([], [], "0 starts and 0 ends"),
        ([0, 1], [5], "2 starts and 1 ends"),
        ([5], [5], "must end after its start"),
        ([0], [2**62], "2\\*\\*62"),
        ([0, 0], [5, 5], "ends must increase"),
        ([3, 0], [5, 6], "starts must not decrease"),
    ],
)
def test_lists_that_are_no_windows_are_refused(starts, ends, message):
    with pytest.raises(InvalidQueryError, match=message):
        ListedWindows(starts, ends)


def test_a_listed_query_travels():
    query = ListedTopK(name="q", k=2, windows=ListedWindows(np.array([0, 0, 9]), np.array([5, 9, 12])), ties="rank")
    assert pickle.loads(pickle.dumps(query)) == topk_from(query.to_dict()) == query
    assert hash(pickle.loads(pickle.dumps(query))) == hash(query)
    assert query != ListedTopK(name="q", k=2, windows=ListedWindows([0, 0], [5, 9]), ties="rank")
    assert (
        str(query)
        == repr(query)
        == "ListedTopK(name='q', k=2, ties='rank', windows=<ListedWindows: 3 from [0, 5) … [9, 12)>)"
    )
