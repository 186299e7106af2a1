"""Aggregates of the keys of sessions: of arrays, of frames and in shards, in any order of arrival, with restarts."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import skyband as sb
from skyband.aggregate import Monitor, key_sessions
from skyband.aggregate.brute_force import by_definition
from skyband.local.pipeline import plan_for
from skyband.sharding.projection import ProjectionRequest
from tests.aggregate import cases, oracle, streams
from tests.aggregate.streams import MS, Stream, in_any_order

QUERY = sb.AggregateTopK(name="top", k=2, gap="5 milliseconds", key="player", value="points", partition_by=["g"])


def in_sessions(random, query, unit="microseconds"):
    """The query with sessions instead of its windows."""
    gap = random.randint(1, 8)
    most = random.choice([None, random.randint(1, 20)])
    return sb.AggregateTopK(
        **{
            **query.to_dict(),
            "size": None,
            "slide": None,
            "origin": None,
            "full_only": False,
            "gap": f"{gap} {unit}",
            "max_length": None if most is None else f"{most} {unit}",
        }
    )


def mixed(random, queries, unit="microseconds"):
    """Some of the queries with sessions, at least one."""
    first = random.randrange(len(queries))
    return [
        in_sessions(random, query, unit) if place == first or random.random() < 0.6 else query
        for place, query in enumerate(queries)
    ]


@pytest.mark.parametrize("seed", range(100))
def test_arrays_in_any_pieces_with_restarts(seed, monkeypatch):
    monkeypatch.setattr(key_sessions, "FEW", 1 if seed % 2 else 1024)
    random = Random(seed)
    case = cases.draw(random, axis="time", most=80)
    case = case._replace(queries=mixed(random, case.queries))
    expected = oracle.answers(case.queries, case.rows, valued=case.valued, grouped=case.grouped)
    together = sb.aggregate.replay(case.queries, **case.columns(0, len(case.rows)))
    assert oracle.listed(together) == expected
    found = [row for table in cases.in_pieces(case, random) for row in oracle.listed(table)]
    assert in_any_order(found) == in_any_order(expected)


@pytest.mark.parametrize("seed", range(60))
def test_streams_in_disorder_with_late_rows_and_restarts(seed, monkeypatch):
    monkeypatch.setattr(key_sessions, "FEW", 1 if seed % 2 else 1024)
    random = Random(seed)
    case, queries, rows = streams.drawn(random, axis="time")
    queries = [in_sessions(random, query, "milliseconds") for query in queries]
    scans = len({query.scan_key() for query in queries})
    delay, reach = random.choice([2, 9]) * MS, random.choice([2, 30]) * MS
    stream = Stream(queries, streams.frame([], case.key_kind).schema, delay=delay, shards=random.choice([1, 3]))
    found, accepted, late, newest, watermark = [], [], 0, None, None
    for part in streams.pieces(random, streams.arrived(random, rows, reach)):
        for row in part:
            if oracle.is_object(row, False, case.valued):
                if watermark is not None and row.position < watermark:
                    late += scans
                else:
                    accepted.append(row)
        newest = max([row.position for row in part if row.position is not None] + [newest or 0])
        watermark = max(watermark or 0, (newest - delay) // MS * MS) or None
        found += streams.told(stream.step(streams.frame(part, case.key_kind)), queries)
        if random.random() < 0.5:
            stream.restart()
    found += streams.told(stream.end(), queries)
    accepted.sort(key=lambda row: (row.position, row.id))
    expected = oracle.answers(queries, accepted, valued=case.valued)
    assert in_any_order(found) == in_any_order(expected)
    assert sum(counts.late for counts in stream.counts) == late
    assert sum(stream.batches.held.values()) == 0


@pytest.mark.parametrize("seed", range(30))
def test_frames_beside_other_windows(seed):
    random = Random(seed)
    case, queries, rows = streams.drawn(random, axis="time")
    queries = mixed(random, queries, "milliseconds")
    timed = sorted((row for row in rows if row.position is not None), key=lambda row: (row.position, row.id))
    expected = oracle.answers(queries, timed, valued=case.valued)
    table = streams.frame(random.sample(rows, len(rows)), case.key_kind)
    replayed = sb.aggregate.replay(queries, table, time="ts", id="game").to_arrow()
    assert in_any_order(streams.told(replayed, queries)) == in_any_order(expected)
    monitor, found = sb.aggregate.Monitor(queries, time="ts", id="game"), []
    for part in streams.pieces(random, sorted(rows, key=lambda row: -1 if row.position is None else row.position)):
        monitor.push(streams.frame(part, case.key_kind))
        if random.random() < 0.3:
            monitor = sb.aggregate.Monitor.resume(monitor.snapshot())
    monitor.finish()
    found = streams.told(monitor.answers().to_arrow(), queries)
    assert in_any_order(found) == in_any_order(expected)


@pytest.mark.parametrize("windows", [{"gap": "4 milliseconds"}, {"size": 7, "slide": 3}], ids=["gap", "count"])
@pytest.mark.parametrize("seed", range(20))
def test_rows_that_delete_their_key(windows, seed):
    random = Random(seed)
    _, _, rows = streams.drawn(random, axis="time")
    rows = [row._replace(delete=random.random() < 0.3, key=str(row.key), position=row.position or 0) for row in rows]
    rows = [row._replace(group="gone" if row.delete else None, value=row.value or 1.0) for row in rows]
    query = sb.AggregateTopK(
        name="q", k=2, key="player", value="points", aggregate="latest", delete="g = 'gone'", row=True, **windows
    )
    in_order = sorted(rows, key=lambda row: (row.position, row.id))
    if "size" in windows:
        in_order = [row._replace(position=None) for row in in_order]
    expected = oracle.answers([query], [row._replace(group=None) for row in in_order])
    stream, found = Stream([query], streams.frame([], pa.string()).schema, delay=9 * MS), []
    for part in streams.pieces(random, streams.arrived(random, rows, 9 * MS)):
        found += streams.told(stream.step(streams.frame(part, pa.string())), [query])
        stream.restart()
    found += streams.told(stream.end(), [query])
    assert in_any_order(found) == in_any_order(expected)


@pytest.mark.parametrize("seed", range(10))
def test_verify_compares_with_the_definition(seed):
    random = Random(seed)
    case, queries, rows = streams.drawn(random, axis="time")
    queries = [query for query in mixed(random, queries, "milliseconds") if query.aggregate != "approx_count_distinct"]
    timed = sorted((row for row in rows if row.position is not None), key=lambda row: (row.position, row.id))
    if not queries:
        pytest.skip("verify has no definition of an estimate")
    found = by_definition(streams.frame(rows, case.key_kind), sb.Workload(queries), time="ts", id_="game")
    at = found.column_names.index("window_end")
    found = found.set_column(at, "window_end", found["window_end"].cast(pa.int64()))
    with_rows = any(query.row for query in queries)
    expected = [
        (row[0], row[3], row[4], row[5], row[6 + with_rows])
        for row in oracle.answers(queries, timed, valued=case.valued)
    ]
    names = ["query", "window_end", "rank", "key", "score"]
    columns = [[oracle.comparable(value) for value in found[name].to_pylist()] for name in names]
    assert in_any_order(zip(*columns, strict=True)) == in_any_order(expected)


@pytest.mark.parametrize("seed", range(40))
def test_a_query_that_joins_answers_sessions_that_certainly_began_later(seed):
    """Earlier sessions may have had rows that were not kept for it."""
    random = Random(seed)
    case = cases.draw(random, axis="time", grouped=False, most=80, identified=False)
    early, late = case.queries[0], in_sessions(random, cases.draw_query(random, "late", False, False, case.valued))
    if early.row or late.row or early.share != late.share:
        pytest.skip("both must have the same columns")
    cut = random.randint(0, len(case.rows))
    monitor = Monitor(early)
    monitor.push(**case.columns(0, cut))
    newest = max((row.position for row in case.rows[:cut] if row.position is not None), default=None)
    monitor.add(late)
    if random.random() < 0.5:
        monitor = Monitor.resume(monitor.snapshot())
    monitor.push(**case.columns(cut, len(case.rows)))
    monitor.finish()
    found = [row for row in oracle.listed(monitor.answers()) if row[0] == "late"]
    known = case.rows if newest is None else case.rows[cut:]
    stream = [row for row in known if oracle.is_object(row, False, case.valued)]
    certain = -(2**60) if newest is None else newest + 1 + late.window.gap
    spans = oracle.sessions(late.window.gap, late.window.max_length, stream, certain)
    assert found == oracle.answers([late], known, valued=case.valued, listed_windows={"late": spans})


def plan_of(queries):
    schema = streams.frame([], pa.string()).schema
    return plan_for(schema, ProjectionRequest(sb.Workload(queries), "ts", "game", shards=2))


def rows_of(*times, first=0):
    return [oracle.Row(at * MS, "abc"[at % 3], 1.0, "xy"[at % 2], first + at) for at in times]


@pytest.mark.parametrize("replaced", [False, True])
def test_queries_change_at_a_restart(replaced):
    """A query that is added answers sessions that begin a gap after all rows seen, also if all others are removed."""
    other = sb.AggregateTopK(**{**QUERY.to_dict(), "name": "other", "aggregate": "count"})
    stream = Stream([QUERY], streams.frame([], pa.string()).schema)
    before, after = rows_of(1, 2, 4, 20, 21), rows_of(22, 24, 27, 28, 40, 41, 43)
    found = streams.told(stream.step(streams.frame(before, pa.string())), [QUERY])
    asked = [other] if replaced else [other, QUERY]
    stream.restart(plan_of(asked))
    stream.restart()
    found += streams.told(stream.step(streams.frame(after, pa.string())), asked)
    found += streams.told(stream.end(), asked)
    expected = oracle.answers([QUERY, other], [*before, *after])
    wanted = [row for row in expected if row[0] == "other" and row[2] > 26 * MS]
    wanted += [row for row in expected if row[0] == "top" and (not replaced or row[3] <= 21 * MS)]
    assert in_any_order(found) == in_any_order(wanted)
    changed = plan_of([sb.AggregateTopK(**{**QUERY.to_dict(), "gap": "6 milliseconds"})]).plan
    shard = stream.batches.shards[0]
    blob = shard.state()
    with pytest.raises(sb.SnapshotError, match="other keys, values, groups or windows"):
        type(shard).resume(changed, 0, blob)


def test_state_follows_open_sessions_not_their_rows():
    stream = Stream([QUERY], streams.frame([], pa.string()).schema)
    sizes = []
    for batch in range(40):
        rows = [oracle.Row(batch * MS + place, f"p{place % 9}", 1.0, "xy"[place % 2], place) for place in range(500)]
        stream.step(streams.frame([row for row in rows if row.position], pa.string()))
        sizes.append(sum(len(shard.state()) for shard in stream.batches.shards))
    assert max(sizes[20:]) < 1.2 * max(sizes[2:6])
    assert sum(stream.batches.held.values()) < 2000
    found = streams.told(stream.end(), [QUERY])
    ends = [39 * MS + last + 5 * MS for last in (498, 499)]
    assert [row[3:5] for row in found] == [(end, rank) for end in ends for rank in (1, 2)]


def test_open_sessions_are_answered_so_far():
    monitor = Monitor(sb.AggregateTopK(k=1, gap="10 microseconds"))
    monitor.push([1, 4, 30], ["a", "b", "c"], [1.0, 2.0, 4.0], groups=["x", "y", "x"])
    table = monitor.so_far()
    rows = zip(*(table[name].to_pylist() for name in ("group", "window_start", "window_end", "key")), strict=True)
    assert list(rows) == [("x", 30, 40, "c")]
    assert monitor.metrics()["keys"] == 1


REFUSED = [
    ({"method": "sketch"}, "method='sketch' and gap='5 minutes' cannot be combined"),
    ({"half_life": "1 minute"}, "half_life='1 minute' and gap='5 minutes' cannot be combined"),
    ({"full_only": True}, "full_only=True is not allowed with gap='5 minutes'"),
    ({"size": "1 hour"}, "size='1 hour' is not allowed with gap='5 minutes'"),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED)
def test_what_sessions_do_not_have_is_refused(fields, message):
    with pytest.raises(sb.InvalidQueryError, match=message):
        sb.AggregateTopK(k=1, gap="5 minutes", **fields)


def test_a_query_needs_a_size_or_a_gap():
    with pytest.raises(sb.InvalidQueryError, match="size is missing"):
        sb.AggregateTopK(k=1)
    with pytest.raises(sb.InvalidQueryError, match="gap is missing"):
        sb.AggregateTopK(k=1, max_length="1 hour")


def test_every_spelling():
    query = sb.AggregateTopK(
        name="v", k=3, gap="30 minutes", max_length="8 hours", key="page", aggregate="count", partition_by=["user"]
    )
    text = "v: TOPK count(*), 3 BY KEY page PARTITION BY user OVER SESSION 30 MINUTES UP TO 8 HOURS"
    assert (str(query), sb.sql(text)) == (text, query)
    assert sb.AggregateTopK(**query.to_dict()) == query
    cql = "SELECT page, count(*) FROM clicks [SESSION 30 MINUTES] GROUP BY page ORDER BY count(*) DESC LIMIT 3"
    assert sb.sql(cql) == sb.AggregateTopK(k=3, gap="30 minutes", key="page", aggregate="count")
    flink = (
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, user ORDER BY n DESC) AS r "
        "FROM (SELECT window_start, window_end, user, page, count(*) AS n FROM TABLE(SESSION(TABLE clicks PARTITION BY "
        "user, DESCRIPTOR(ts), INTERVAL '30' MINUTES)) GROUP BY window_start, window_end, user, page)) WHERE r <= 3"
    )
    grouped = sb.AggregateTopK(k=3, gap="30 minutes", key="page", aggregate="count", partition_by=["user"])
    assert sb.sql(flink) == grouped
    page = sb.Workload([query, sb.AggregateTopK(name="w", k=1, size="1 hour", key="page", aggregate="count")]).explain()
    assert "v             sessions with gaps below 30 minutes, up to 8 hours, answered when time passes its end" in page
    assert "one partial result per key in each open session" in page
    assert "1 set of partials; queries with the same" in page


def test_sessions_have_no_change_feed():
    with pytest.raises(sb.UnsupportedError, match="output='changes' is not supported for query 'top', which has sess"):
        Stream([QUERY], streams.frame([], pa.string()).schema, output="changes")
