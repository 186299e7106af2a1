"""Session windows of top-k queries: every batching, restart and door, against the definition."""

from __future__ import annotations

import math
import random
from functools import cmp_to_key

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from skyband.errors import InvalidQueryError, UnsupportedError
from skyband.local.pipeline import Counts, plan_for
from skyband.sharding.projection import ProjectionRequest
from skyband.topk.brute_force import by_definition, compare_tables, rounded
from tests import oracle
from tests.topk.test_row_order import compare

NAN = float("nan")


def draw(seed, size=80):
    """Rows (position, score, id, group) in stream order, with equal times, ties, infinities and missing scores."""
    random_ = random.Random(repr(seed))
    at, rows = random_.randint(1, 50), []
    for number in range(random_.choice([1, 5, size, size])):
        at += random_.choice([0, 0, 1, 1, 2, 3, 5, 9, 10, 11, 40])
        score = random_.choice([1.0, 2.0, 2.0, 3.0, -0.0, 0.0, float("inf"), float("-inf"), NAN])
        rows.append((at, score, number * 7 % 1000, random_.choice("abc")))
    return random_, sorted(rows, key=lambda row: (row[0], row[2]))


def draw_queries(random_, **more):
    found = []
    for number in range(random_.randint(1, 3)):
        gap, most = random_.choice([1, 5, 10, 11]), random_.choice([None, None, 1, 12, 30])
        fields = {"k": random_.randint(1, 3), "order": random_.choice(["desc", "asc"])}
        fields["ties"] = random_.choice(["row_number", "rank"])
        if random_.random() < 0.3:
            fields |= {"partition_by": "g"}
        made = sb.TopK(
            name=f"q{number}",
            gap=f"{gap} microseconds",
            max_length=None if most is None else f"{most} microseconds",
            **fields,
            **more,
        )
        found.append((made, gap, most))
    return found


def wanted(rows, query, gap, most, watermark=None):
    groups = sorted({row[3] for row in rows}) if query.partition_by else [None]
    found = []
    for group in groups:
        mine = [row[:3] for row in rows if group is None or row[3] == group]
        answers = oracle.session_answers(
            mine, query.k, gap, most, ascending=query.order == "asc", tied=query.ties == "rank", watermark=watermark
        )
        found += [(group, *answer[:-1], answer[-1] + 0.0) for answer in answers]
    return sorted(found, key=repr)


def got(tables, query, group, id_="id"):
    found = []
    for table in tables:
        for row in table.to_pylist():
            if row["query"] == query.name:
                bounds = [row["window_start"], row["window_end"]]
                if not isinstance(bounds[0], int):
                    bounds = [int(one.timestamp() * 1e6 + 0.5) for one in bounds]
                mine = row.get(group) if query.partition_by else None
                found.append((mine, *bounds, row["rank"], row[id_], row["score"] + 0.0))
    return sorted(found, key=repr)


@pytest.mark.parametrize("seed", range(60))
def test_a_monitor_answers_the_sessions_of_the_definition(seed):
    """In any batches, resumed from bytes between them, with sliding queries beside."""
    random_, rows = draw(seed)
    asked = draw_queries(random_)
    beside = [sb.TopK(name="beside", k=2, size="20 microseconds", slide="7 microseconds")]
    queries = [query for query, _, _ in asked] + (beside if random_.random() < 0.5 else [])
    monitor, tables, at = sb.Monitor(queries), [], 0
    while at < len(rows):
        batch = rows[at : at + random_.choice([1, 2, 7, 40])]
        at += len(batch)
        positions, scores, ids, groups = map(list, zip(*batch, strict=True))
        # Groups apply to every query if none has partition_by.
        grouped = any(query.partition_by for query in queries)
        monitor.push(positions, scores, ids, groups=groups if grouped else None)
        if random_.random() < 0.3:
            tables.append(monitor.answers())
            for query, gap, most in asked:
                want = wanted(rows[:at], query, gap, most, watermark=positions[-1])
                assert got(tables, query, "group") == want
        if random_.random() < 0.3:
            monitor = sb.Monitor.resume(monitor.snapshot(), queries)
    monitor.finish()
    tables.append(monitor.answers())
    for query, gap, most in asked:
        assert got(tables, query, "group") == wanted(rows, query, gap, most)
    for query in queries[len(asked) :]:
        alone = sb.replay([query, *()], *map(list, zip(*[row[:3] for row in rows], strict=True)))
        assert got(tables, query, "group") == got([alone], query, "group")


def frame(rows):
    at, scores, ids, groups = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [])
    return pa.table(
        {
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "s": pa.array(scores, pa.float64()),
            "id": pa.array(ids, pa.int64()),
            "g": pa.array(groups, pa.string()),
        }
    )


@pytest.mark.parametrize("seed", range(60))
def test_a_shard_answers_the_sessions_of_rows_that_arrive_in_any_order(seed):
    """Rows behind the watermark are late; a shard may be stored and resumed after every step."""
    random_, rows = draw(("shard", seed))
    asked = draw_queries(random_, by="s")
    queries = [query for query, _, _ in asked]
    if random_.random() < 0.5:
        queries.append(sb.TopK(name="beside", k=2, size="20 microseconds", slide="7 microseconds", by="s"))
    request = ProjectionRequest(sb.Workload(queries), "at", "id")._replace(may_be_late=True)
    plan = plan_for(frame(rows).schema, request)
    shards = [plan.shard(number) for number in range(plan.plan.units)]
    arrival = sorted(rows, key=lambda row: row[0] + random_.choice([0, 3, 12, 25]))
    tables, kept, at, clock, newest = [], [], 0, None, -1
    while at < len(arrival):
        batch = arrival[at : at + random_.choice([1, 3, 10, 30])]
        at += len(batch)
        kept += [row for row in batch if clock is None or row[0] >= clock]
        by_shard = {}
        for envelope in plan.envelopes([plan.project(frame(batch))], Counts()):
            by_shard.setdefault(envelope.shard, []).append(envelope)
        newest = max(newest, *(row[0] for row in batch))
        for number, shard in enumerate(shards):
            mine = by_shard.get(number, [])
            shard.newest = max(shard.newest, newest)
            found, _ = shard.step([one.rows for one in mine], [one.note for one in mine], clock)
            tables += list(plan.merged([(number, 0, table) for table in found]))
            if random_.random() < 0.5:
                end = shard.next_end
                shards[number] = type(shard).resume(plan.plan, number, shard.state(), shard.segments)
                assert shards[number].next_end == end
        if random_.random() < 0.6:
            clock = max(newest - random_.choice([5, 10, 20]), clock or 0)
    for number, shard in enumerate(shards):
        found, _ = shard.step([], [], clock, end=True)
        tables += list(plan.merged([(number, 0, table) for table in found]))
    for query, gap, most in asked:
        assert got(tables, query, "g") == wanted(kept, query, gap, most)


def draw_ruled(random_):
    """Queries that rank by several columns, with one row of an entity, or with decay."""
    found = []
    for number in range(random_.randint(1, 3)):
        gap, most = random_.choice([1, 5, 10, 40]), random_.choice([None, None, 12, 30, 100])
        columns = [("s", random_.choice(["desc", "asc"]), False)]
        later = random_.sample(["n", "e"], random_.randrange(3))
        columns += [(name, random_.choice(["desc", "asc"]), random_.random() < 0.5) for name in later]
        half_life = random_.choice([None, 29]) if len(columns) < 2 else None
        made = sb.TopK(
            name=f"q{number}",
            k=random_.randint(1, 3),
            gap=f"{gap} microseconds",
            max_length=None if most is None else f"{most} microseconds",
            by=[f"{name} {order}{' nulls first' if nulls else ''}" for name, order, nulls in columns],
            distinct=random_.choice([None, "e"]),
            half_life=None if half_life is None else f"{half_life} microseconds",
            partition_by=random_.choice([(), "g"]),
        )
        found.append((made, gap, most, columns, half_life))
    return found


def draw_columns(random_, rows):
    """The rows as dicts, with a whole number beyond 2**53 and an entity; decay is not tested with infinite scores."""
    more = [(random_.choice([2**53, 2**53 + 1, None]), random_.choice(["p", "q", "r", None])) for _ in rows]
    scored = [s if s in (1.0, 2.0, 3.0, 0.0) or math.isnan(s) else -3.0 for _, s, _, _ in rows]
    return [
        {"at": at, "s": s + 0.0, "id": id_, "g": g, "n": n, "e": e}
        for (at, _, id_, g), s, (n, e) in zip(rows, scored, more, strict=True)
    ]


def frame_of(rows):
    kinds = {"s": pa.float64(), "id": pa.int64(), "g": pa.string(), "n": pa.int64(), "e": pa.string()}
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()}
    return pa.table({"at": pa.array([row["at"] for row in rows], pa.timestamp("us", "UTC")), **columns})


def wanted_by_rule(rows, query, gap, most, columns, half_life):
    found = []
    for group in "abc" if query.partition_by else (None,):
        mine = {row["id"]: row for row in rows if group is None or row["g"] == group}
        objects = [(row["at"], row["s"], row["id"]) for row in mine.values()]
        for start, end, inside in oracle.sessions(objects, gap, most):
            window = [{**mine[id_], "t": mine[id_]["at"] - start} for _, _, id_ in inside]
            window.sort(key=cmp_to_key(lambda a, b: -compare(a, b, columns, half_life)))
            firsts = {}
            for row in window:
                firsts.setdefault(row["e"] if query.distinct else row["id"], row)
            for rank, row in enumerate(list(firsts.values())[: query.k], 1):
                score = row["s"] * 2.0 ** (-(end - row["at"]) / half_life) if half_life else row["s"]
                found.append((group, start, end, rank, row["id"], pytest.approx(score, rel=1e-12)))
    return sorted(found, key=lambda row: repr(row[:-1]))


def as_groups(answers, queries):
    """The column `g` only of queries that group by it: in other answers it is a column of the row."""
    if "g" not in answers.column_names:
        return answers
    grouped = [query.name for query in queries if query.groups]
    is_group = pc.is_in(answers["query"], pa.array(grouped, pa.string()))
    place = answers.column_names.index("g")
    return answers.set_column(place, "g", pc.if_else(is_group, answers["g"], None))


@pytest.mark.parametrize("seed", range(60))
def test_sessions_ranked_by_several_columns_by_decay_and_with_distinct_entities(seed):
    """In shards, with rows in any order that are stored and resumed; whole; and by the brute force of `verify`."""
    random_, drawn = draw(("rules", seed))
    rows, asked = draw_columns(random_, drawn), draw_ruled(random_)
    workload = sb.Workload([query for query, *_ in asked])
    table = frame_of(rows)
    plan = plan_for(table.schema, ProjectionRequest(workload, "at", "id")._replace(may_be_late=True))
    shards = [plan.shard(number) for number in range(plan.plan.units)]
    arrival = sorted(rows, key=lambda row: row["at"] + random_.choice([0, 3, 12, 25]))
    tables, at, clock, newest = [], 0, None, -1
    while at < len(arrival):
        batch = arrival[at : at + random_.choice([1, 3, 10, 30])]
        at += len(batch)
        by_shard = {}
        for envelope in plan.envelopes([plan.project(frame_of(batch))], Counts()):
            by_shard.setdefault(envelope.shard, []).append(envelope)
        newest = max(newest, *(row["at"] for row in batch))
        if random_.random() < 0.6 and at < len(arrival):
            clock = max(clock or 0, min(newest, *(row["at"] for row in arrival[at:])))
        for number, shard in enumerate(shards):
            mine = by_shard.get(number, [])
            shard.newest = max(shard.newest, newest)
            found, _ = shard.step([one.rows for one in mine], [one.note for one in mine], None, next_watermark=clock)
            tables += list(plan.merged([(number, 0, table) for table in found]))
            if random_.random() < 0.5:
                shards[number] = type(shard).resume(plan.plan, number, shard.state(), shard.segments)
    for number, shard in enumerate(shards):
        found, _ = shard.step([], [], clock, end=True)
        tables += list(plan.merged([(number, 0, table) for table in found]))
    whole = sb.replay(workload, table, time="at", id="id")
    for query, *definition in asked:
        want = wanted_by_rule(rows, query, *definition)
        for answers in (tables, [whole]):
            assert sorted(got(answers, query, "g"), key=lambda row: repr(row[:-1])) == want
    renamed = pa.table(
        {**{name: whole[name] for name in whole.column_names}, "__time": whole["at"], "__id": whole["id"]}
    )
    expected = by_definition(table, workload, time="at", id_="id")
    scores = pa.array(rounded(renamed["score"].to_numpy()))
    decays = pa.array([asked[int(name[1:])][4] is not None for name in renamed["query"].to_pylist()], pa.bool_())
    renamed = renamed.set_column(
        renamed.column_names.index("score"), "score", pc.if_else(decays, scores, renamed["score"])
    )
    difference = compare_tables(expected, as_groups(renamed, workload))
    assert (difference.missing, difference.unexpected) == (0, 0)


@pytest.mark.parametrize("seed", range(20))
def test_frames_and_the_brute_force_of_verify_agree_with_the_definition(seed):
    random_, rows = draw(("frames", seed))
    asked = draw_queries(random_, by="s")
    workload = sb.Workload([query for query, _, _ in asked])
    table = frame(rows)
    found = sb.replay(workload, table, time="at", id="id")
    for query, gap, most in asked:
        assert got([found], query, "g") == wanted(rows, query, gap, most)
    renamed = pa.table(
        {**{name: found[name] for name in found.column_names}, "__time": found["at"], "__id": found["id"]}
    )
    difference = compare_tables(by_definition(table, workload, time="at", id_="id"), as_groups(renamed, workload))
    assert (difference.missing, difference.unexpected) == (0, 0)


@pytest.mark.parametrize("seed", range(20))
def test_a_query_that_joins_answers_sessions_that_certainly_began_later(seed):
    random_, rows = draw(("join", seed))
    gap, most = 10, random_.choice([None, 12])
    limit = {} if most is None else {"max_length": f"{most} microseconds"}
    late = sb.TopK(name="late", k=2, gap="10 microseconds", **limit)
    monitor = sb.Monitor(sb.TopK(name="early", k=1, size="20 microseconds"))
    cut = random_.randint(0, len(rows) - 1)
    columns = [list(column) for column in zip(*[row[:3] for row in rows], strict=True)]
    monitor.push(*(column[:cut] for column in columns))
    monitor.add(late)
    monitor.push(*(column[cut:] for column in columns))
    monitor.finish()
    seen = rows[cut - 1][0] if cut else -(10**9)
    objects = sorted(row[:3] for row in rows if row[1] == row[1])
    before = [row for row in objects if row[0] < seen + 1 + gap]
    chain = before[-1][0] if before and cut else None
    for row in objects:
        if chain is not None and chain <= row[0] < chain + gap:
            chain = row[0]
    later = [row for row in objects if not cut or chain is None or row[0] > chain]
    want = sorted(
        ((None, *answer[:-1], answer[-1] + 0.0) for answer in oracle.session_answers(later, 2, gap, most)), key=repr
    )
    assert got([monitor.answers()], late, "group") == want


def test_sql_and_rules():
    text = "visits: TOPK amount, 3 BY user OVER SESSION 30 MINUTES UP TO 8 HOURS"
    query = sb.TopK(name="visits", k=3, by="amount", partition_by="user", gap="30 minutes", max_length="8 hours")
    assert sb.sql(text) == query
    assert str(query) == text
    assert sb.TopK(**query.to_dict()) == query
    assert query.window_kind == "session"
    ruled = "TOPK amount, size ASC, 3 BY user DISTINCT item HALF_LIFE 10 MINUTES OVER SESSION 30 MINUTES"
    assert str(sb.sql(ruled)) == ruled
    assert sb.sql(ruled).ranking_rule.described() in sb.Workload([sb.sql(ruled)]).explain()
    flink = (
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, user ORDER BY amount DESC) "
        "AS rownum FROM TABLE(SESSION(TABLE sales PARTITION BY user, DESCRIPTOR(ts), INTERVAL '30' MINUTES))) "
        "WHERE rownum <= 3"
    )
    assert sb.sql(flink) == sb.TopK(k=3, by="amount", partition_by="user", gap="30 minutes")
    with pytest.raises(sb.SkybandError, match="sessions are those of the ranked groups"):
        sb.sql(flink.replace(" PARTITION BY user,", ","))
    with pytest.raises(sb.SkybandError, match="is not supported for IncompleteTopK queries"):
        sb.sql("TOPK sum(x), 3 OBJECT o OVER SESSION 30 MINUTES")
    for fields, message in (
        ({}, "size is missing"),
        ({"max_length": "1 hour"}, "gap is missing"),
        ({"gap": "1 hour", "size": "1 day"}, "size='1 day' is not allowed with gap"),
        ({"gap": "1 hour", "zone": "UTC"}, "zone='UTC' is not allowed with gap"),
        ({"gap": 5}, "gap must be a duration"),
        ({"gap": "0 seconds"}, "gap"),
    ):
        with pytest.raises(InvalidQueryError, match=message):
            sb.TopK(k=1, **fields)
    with pytest.raises(UnsupportedError, match="session windows"):
        sb.TopK(k=1, gap="1 hour").sliding  # noqa: B018
    assert "sessions with gaps below 30 minutes" in sb.Workload([query]).explain()
    mixed = sb.Workload([query, sb.TopK(name="day", k=1, size="1 day", by="amount")])
    assert "sharing class" in mixed.explain()


@pytest.mark.slow
def test_on_spark_sessions_are_those_of_the_definition(spark):
    """And the brute force of `verify` in Spark SQL finds the same."""
    from pyspark.sql import functions as sf

    from skyband.spark import answers
    from skyband.topk.verification import by_brute_force, compare

    _, rows = draw("spark", 200)
    query = sb.TopK(k=2, by="s", partition_by="g", gap="10 microseconds", max_length="30 microseconds")
    df = spark.createDataFrame(frame(rows).to_pandas()).repartition(3)
    found = answers(df, sb.Workload([query]), time="at", id="id")
    got_ends = sorted((r["g"], r["window_end"].timestamp(), r["rank"], r["id"]) for r in found.collect())
    want = [(g, end / 1e6, rank, id_) for g, _, end, rank, id_, _ in wanted(rows, query, 10, 30)]
    assert got_ends == sorted(want)
    expected = by_brute_force(df, sb.Workload([query]), time="at", id_="id")
    difference = compare(expected, found.withColumn("__time", sf.col("at")).withColumn("__id", sf.col("id")))
    assert (difference.missing, difference.unexpected) == (0, 0)
