"""Windows given by arrays of starts and ends over data frames: with groups, several queries, restarts, and on Spark."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet
import pytest

import skyband as sb
from skyband.topk.query import ListedTopK
from skyband.windows import ListedWindows
from tests import oracle
from tests.listed_windows import draw_listed
from tests.topk.test_listed_query import batches, draw_rows, draw_sliding, rng

TIME = pa.timestamp("us", "UTC")
MILLISECOND = 1000


def query_of(asked, name, **more):
    order = "asc" if asked.ascending else "desc"
    fields = {
        "order": order,
        "k": asked.k,
        "full_only": asked.full_only,
        "ties": "rank" if asked.tied else "row_number",
        "by": "x",
    }
    if asked.listed:
        return ListedTopK(name=name, windows=ListedWindows(*zip(*asked.listed, strict=True)), **fields, **more)
    sizes = {"size": f"{asked.size} microseconds", "slide": f"{asked.slide} microseconds", "origin": asked.origin}
    return sb.TopK(name=name, **sizes, **fields, **more)


def draw_case(random_, rows, ties):
    """Queries with listed windows and one without, some of them for each group."""
    low, high = rows[0][0], rows[-1][0]
    asked = [draw_listed(random_, low, high, ties=ties) for _ in range(random_.randint(1, 3))]
    asked.append(draw_sliding(random_, ties=ties))
    return [(one, f"q{place}", random_.random() < 0.6) for place, one in enumerate(asked)]


def frame_of(rows, groups):
    at, x, ids = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {"at": pa.array(at, pa.int64()).cast(TIME), "x": pa.array(x, pa.float64())}
    return pa.table({**columns, "id": pa.array(ids, pa.int64()), "g": pa.array(groups, pa.string())})


def expected(case, rows, groups):
    found = {}
    for asked, name, grouped in case:
        for group in sorted(set(groups)) if grouped else [None]:
            mine = [row for row, its in zip(rows, groups, strict=True) if group in (None, its)]
            answers = oracle.answers(asked, mine, first=rows[0][0])
            if answers:
                found[name, group] = [tuple(row) for row in answers]
    return found


def answered(tables, case):
    grouped = {name for _, name, is_grouped in case if is_grouped}
    found = {}
    for table in tables:
        shown = table
        for bound in ("window_start", "window_end"):
            shown = shown.set_column(shown.column_names.index(bound), bound, shown[bound].cast(pa.int64()))
        for row in shown.to_pylist():
            key = row["query"], row["g"] if row["query"] in grouped else None
            found.setdefault(key, []).append(tuple(row[name] for name in COLUMNS))
    return found


COLUMNS = ("window_start", "window_end", "rank", "id", "score")


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_groups_several_queries_and_restarts(seed, ties):
    random_ = rng("frames", seed, ties)
    rows = draw_rows(random_, random_.choice([20, 120]))
    rows = [(at + 1000, *rest) for at, *rest in rows]
    groups = [random_.choice("abc") for _ in rows]
    case = draw_case(random_, rows, ties)
    queries = [query_of(one, name, partition_by=["g"] if grouped else []) for one, name, grouped in case]
    want = expected(case, rows, groups)
    assert answered([sb.replay(queries, frame_of(rows, groups), time="at", id="id")], case) == want
    monitor, at, tables = sb.Monitor(queries, time="at", id="id"), 0, []
    for batch in batches(random_, rows):
        monitor.push(frame_of(batch, groups[at : at + len(batch)]))
        at += len(batch)
        if random_.random() < 0.3:
            tables.append(monitor.answers())
        if random_.random() < 0.5:
            monitor = type(monitor).resume(monitor.snapshot())
            assert list(monitor.queries) == queries
    monitor.finish()
    assert answered([*tables, monitor.answers()], case) == want


@pytest.mark.parametrize("seed", range(6))
def test_groups_that_change_and_queries_that_join(seed):
    """A change feed of groups, and a query that is added and removed between two restarts."""
    random_ = rng("feeds", seed)
    rows = [(at + 1000, *rest) for at, *rest in draw_rows(random_, 100)]
    groups = [random_.choice("ab") for _ in rows]
    first, second = (draw_listed(random_, rows[0][0], rows[-1][0]) for _ in range(2))
    one, other = (query_of(asked, name, partition_by=["g"]) for asked, name in ((first, "one"), (second, "other")))
    monitor = sb.Monitor(one, time="at", id="id")
    monitor.push(frame_of(rows[:50], groups[:50]))
    monitor.add(other)
    monitor = type(monitor).resume(monitor.snapshot())
    monitor.push(frame_of(rows[50:], groups[50:]))
    monitor.finish()
    found = answered([monitor.answers()], [(first, "one", True), (second, "other", True)])
    after = replace(second, full_only=False)  # windows that start after it was added are full
    want = expected([(first, "one", True), (after, "other", True)], rows, groups)
    for key, answers in want.items():
        if key[0] == "other":  # exact from the first window that starts after the rows before it was added
            late = [row for row in answers if row[0] > rows[49][0]]
            assert found.get(key, []) == late, key
        else:
            assert found.get(key, []) == answers, key
    feed, shown = sb.ChangeFeed(one), {}
    for row in feed.take(sb.replay(one, frame_of(rows, groups), time="at", id="id")).to_pylist():
        mine = shown.setdefault(row["g"], {})
        mine.pop(row["id"], None)
        if row["change"] != "left":
            mine[row["id"]] = row["rank"]
    last = {}
    for (_, group), answers in expected([(first, "one", True)], rows, groups).items():
        end = max(row[1] for row in answers)
        last[group] = {row[3]: row[2] for row in answers if row[1] == end}
    assert {group: ranks for group, ranks in shown.items() if ranks and ranks != last.get(group)} == {}


@pytest.mark.long
def test_on_spark_with_a_restart(spark, tmp_path):
    """The checkpoint contains the windows; the state continues with the same ones."""
    from skyband.spark import read_files, start
    from tests.spark.frames import read_answers

    random_ = rng("spark")
    rows = [(1_000_000 + at * MILLISECOND, *rest) for at, *rest in draw_rows(random_, 120)]
    groups = [random_.choice("ab") for _ in rows]
    asked = [draw_listed(random_, rows[0][0], rows[-1][0], scale=MILLISECOND) for _ in range(2)]
    case = [(one, f"q{place}", place == 0) for place, one in enumerate(asked)]
    queries = [query_of(one, name, partition_by=["g"] if grouped else []) for one, name, grouped in case]
    (tmp_path / "in").mkdir()
    for number, cut in enumerate((slice(0, 60), slice(60, None))):
        pa.parquet.write_table(frame_of(rows[cut], groups[cut]), tmp_path / "in" / f"{number}.parquet")
        handle = start(
            read_files(str(tmp_path / "in"), format="parquet", spark=spark),
            queries,
            time="at",
            id="id",
            watermark="0 seconds",
            sinks=[sb.sinks.Parquet(path=str(tmp_path / "out"))],
            checkpoint=str(tmp_path / "checkpoint"),
        )
        handle.query.processAllAvailable()
        if number:
            handle.finish()
        handle.stop()
    found = {}
    for row in read_answers(tmp_path / "out"):
        bounds = (round(row[name].timestamp() * 1e6) for name in ("window_start", "window_end"))
        key = row["query"], row["g"] if row["query"] == "q0" else None
        found.setdefault(key, []).append((*bounds, row["rank"], row["id"], row["score"]))
    assert found == expected(case, rows, groups)


def test_what_cannot_have_listed_windows_says_so():
    with pytest.raises(TypeError, match="windows"):
        sb.AggregateTopK(name="a", k=1, key="g", windows=ListedWindows([0], [10]))
    query = ListedTopK(name="q", k=1, windows=ListedWindows([0], [10]), by="x")
    assert query.to_sql() is None
    with pytest.raises(sb.UnsupportedError, match="listed"):
        sb.Monitor(query, "mintopk")
    with pytest.raises(sb.InvalidQueryError, match="ends must increase"):
        ListedWindows([0, 0], [10, 10])
