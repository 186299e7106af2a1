"""The change feed in process, against answers compared one by one."""

from __future__ import annotations

import pyarrow as pa
import pytest

import skyband as sb
from tests.sharding import cases
from tests.sharding.differences import by_order, compared


def in_order(table):
    found = {}
    for row in table.to_pylist():
        key = (row["query"], row.get("group") if "group" in row else "-")
        change = (row["window_end"], row["change"], row["rank"], row["old_rank"], row["id"])
        found.setdefault(key, []).append(change)
    return {key: sorted(changes, key=by_order) for key, changes in found.items()}


@pytest.mark.parametrize("axis", ["time", "count"])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_changes_are_the_differences_of_the_answers(seed, grouped, axis):
    random = cases.rng(seed, axis)
    kinds = ({"by": "s", "partition_by": ["g"]},) if grouped else ({"by": "s"},)
    posed = [cases.draw_posed(random, f"q{i}", axis=axis, scale=1, kinds=kinds) for i in range(random.randint(1, 4))]
    rows = cases.draw_rows(random, random.choice([5, 60, 150]), scale=1)
    rows.sort(key=lambda row: (row[0], row[2]))
    monitor = sb.Monitor([one.query(axis) for one in posed])
    feed = sb.ChangeFeed(monitor.queries)
    told = []
    for batch in [*cases.draw_cuts(random, rows), None]:
        now = None
        if batch is None:
            monitor.finish()
            now = rows[-1][0] if axis == "time" else None
        elif batch:
            positions, scores, ids, groups = zip(*batch, strict=True)
            time = list(positions) if axis == "time" else None
            monitor.push(time, list(scores), list(ids), groups=list(groups) if grouped else None)
            now = positions[-1] if axis == "time" and random.random() < 0.5 else None
        told.append(feed.take(monitor.answers(), now=now))
    found = in_order(pa.concat_tables(told, promote_options="permissive"))
    newest = rows[-1][0]
    want = {
        key: sorted(compared(one, answers, newest, axis), key=by_order)
        for one in posed
        for key, answers in cases.wanted(one, rows, axis).items()
    }
    assert found == want


def test_an_answer_of_another_query_is_refused():
    feed = sb.ChangeFeed(sb.TopK(name="a", k=1, size=2))
    with pytest.raises(sb.InvalidInputError, match="query 'b', which is not a query of this ChangeFeed"):
        feed.take(sb.replay(sb.TopK(name="b", k=1, size=2), None, [1.0, 2.0]))
    assert feed.take(sb.replay(sb.TopK(name="a", k=1, size=2), None, [1.0, 2.0])).num_rows == 1


def test_bounds_come_back_as_the_answers_have_them():
    query = sb.TopK(k=1, size="10 seconds", slide="5 seconds")
    times = pa.array([1_000_000], pa.timestamp("us", "UTC"))
    answers = sb.replay(query, times, [1.0], ["first"])
    changes = sb.ChangeFeed(query).take(answers)
    assert changes.schema.field("window_start").type == answers.schema.field("window_start").type
    assert changes["window_start"].to_pylist() == answers["window_start"].to_pylist()[:1]
    assert changes.column_names == [
        "query",
        "window_start",
        "window_end",
        "change",
        "rank",
        "old_rank",
        "id",
        "score",
    ]
