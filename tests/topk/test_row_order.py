"""Orders by several columns, distinct entities and decay, against their definitions."""

import math
import random
from decimal import Decimal, localcontext
from functools import cmp_to_key

import pyarrow as pa
import pytest

import skyband as sb
from skyband.errors import InvalidQueryError, UnsupportedError
from tests.calendar_queries import draw_place, draw_query, draw_rows

S = 10**6
TYPES = {
    "id": pa.int64(),
    "x": pa.float64(),
    "big": pa.int64(),
    "dec": pa.decimal128(20, 2),
    "s": pa.string(),
    "e": pa.string(),
    "g": pa.string(),
}


def value(row, column):
    found = row[column]
    return None if isinstance(found, float) and math.isnan(found) else found


def decayed(score, at, half_life):
    """Comparable for any two rows: equal values are equal numbers, because only the rest is irrational."""
    whole, rest = divmod(at, half_life)
    with localcontext() as context:
        context.prec = 60
        exact = Decimal(score) * Decimal(2) ** whole * (Decimal(2) ** (Decimal(rest) / half_life))
        return round(exact, 40)


def compare(a, b, columns, half_life):
    """Positive if row a is better."""
    for place, (column, order, nulls_first) in enumerate(columns):
        x, y = value(a, column), value(b, column)
        if place == 0 and half_life:
            x, y = decayed(x, a["t"], half_life), decayed(y, b["t"], half_life)
        if x is None or y is None:
            if (x is None) != (y is None):
                return 1 if (x is None) == nulls_first else -1
            continue
        if isinstance(x, str):
            x, y = x.encode(), y.encode()
        if x != y:
            return 1 if (x > y) == (order == "desc") else -1
    return 1 if (a["t"], a["id"]) > (b["t"], b["id"]) else -1


def by_definition(rows, query, columns, half_life):
    rows = [row for row in rows if value(row, columns[0][0]) is not None]
    size, slide, found = query.sliding.size, query.sliding.slide, []
    for end in range(0, 61 * S + size, slide):
        for group in ("A", "B") if query.partition_by else (None,):
            window = [row for row in rows if end - size <= row["t"] < end and group in (None, row["g"])]
            window.sort(key=cmp_to_key(lambda a, b: -compare(a, b, columns, half_life)))
            if query.distinct:
                firsts = {}
                for row in window:
                    firsts.setdefault(row["e"], row)
                window = list(firsts.values())
            found += [(end, rank, row["id"]) for rank, row in enumerate(window[: query.k], 1)]
    return sorted(found)


def some_rows(draw):
    count = draw.choice([5, 40, 150])
    times = sorted(draw.randrange(60) * S for _ in range(count))
    return [
        {
            "t": at,
            "id": number,
            "x": draw.choice([1.0, 2.0, -0.0, 0.0, 4.0, -3.0, math.nan, None, 8.0]),
            "big": draw.choice([2**53, 2**53 + 1, 2**53 + 2, 2**62, 2**62 + 1, -(2**62) - 1, 5, None]),
            "dec": draw.choice([None, *map(Decimal, ("12345678901234567.89", "12345678901234567.88", "-1.50"))]),
            "s": draw.choice(["a", "b", "äb", "zebra1", "zebra12", "zebra11", "", "日本", "😀", None]),
            "e": draw.choice(["p", "q", "r", "u", None]),
            "g": draw.choice(["A", "B"]),
        }
        for number, at in enumerate(times)
    ]


def answers(table):
    ends = table["window_end"].cast(pa.int64()).to_pylist()
    return list(zip(ends, table["rank"].to_pylist(), table["id"].to_pylist(), strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_rows_are_ranked_by_the_definition(seed):
    draw = random.Random(seed)
    rows, first = some_rows(draw), draw.choice(["x", "big", "dec", "s"])
    half_life = draw.choice([None, 5 * S]) if first == "x" else None
    later = [column for column in draw.sample(["x", "big", "dec", "s"], draw.randrange(3)) if column != first]
    columns = [(first, draw.choice(["desc", "asc"]), False)]
    columns += [(column, draw.choice(["desc", "asc"]), draw.random() < 0.5) for column in later]
    size, slide = draw.choice([(10, 10), (20, 5), (12, 5), (30, 10), (7, 1)])
    query = sb.TopK(
        k=draw.choice([1, 2, 3, 5]),
        size=f"{size} seconds",
        slide=f"{slide} seconds",
        by=[f"{name} {order}{' nulls first' if nulls else ''}" for name, order, nulls in columns],
        distinct=draw.choice([None, "e"]),
        half_life="5 seconds" if half_life else None,
        partition_by=["g"] if draw.random() < 0.4 else [],
    )
    times = pa.array([row["t"] for row in rows], pa.timestamp("us", "UTC"))
    table = pa.table(
        {"at": times} | {name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()}
    )
    expected = by_definition(rows, query, columns, half_life)
    found = sb.replay(query, table, time="at", id="id")
    assert sorted(answers(found)) == expected
    for end, number, score in zip(
        found["window_end"].cast(pa.int64()).to_pylist(),
        found["id"].to_pylist(),
        found["score"].to_pylist(),
        strict=True,
    ):
        if half_life:
            row = rows[number]
            assert math.isclose(score, row["x"] * 2.0 ** (-(end - row["t"]) / half_life), rel_tol=1e-12)
    monitor, pushed, at = sb.Monitor(query, time="at", id="id"), [], 0
    while at < len(rows):
        step = draw.choice([1, 7, 40])
        monitor.push(table.slice(at, step))
        at += step
        pushed += answers(monitor.answers())
        if draw.random() < 0.3:
            monitor = sb.Monitor.resume(monitor.snapshot())
    monitor.finish()
    assert sorted(pushed + answers(monitor.answers())) == expected


@pytest.mark.parametrize("seed", range(40))
def test_distinct_entities_in_windows_of_calendars(seed):
    """Also cumulative and landmark windows, whole and in batches, with a monitor that is resumed between them."""
    draw = random.Random(repr(("distinct", seed)))
    zone, near = draw_place(draw)
    rows = [(*row, draw.choice("pqr"), draw.choice("AB")) for row in draw_rows(draw, near, draw.choice([1, 20, 70]))]
    fields, asked = draw_query(draw, zone, near)
    fields |= {"ties": "row_number", "partition_by": draw.choice([[], ["g"]])}
    query = sb.TopK(**fields, by="x", distinct="e")
    windows, expected = asked(rows[0][0], rows[-1][0]), []
    for start, end in windows.listed:
        for group in "AB" if query.partition_by else (None,):
            mine = [row for row in rows if start <= row[0] < end and group in (None, row[4])]
            mine.sort(key=lambda row: (-row[1] if query.order == "desc" else row[1], -row[0], -row[2]))
            firsts = {}
            for row in mine:
                firsts.setdefault(row[3], row)
            if not query.full_only or start >= rows[0][0]:
                found = list(firsts.values())[: query.k]
                expected += [(end, rank, row[2]) for rank, row in enumerate(found, 1)]
    table = pa.table(
        {
            "at": pa.array([row[0] for row in rows], pa.timestamp("us", "UTC")),
            **{name: [row[place] for row in rows] for place, name in enumerate(["x", "id", "e", "g"], 1)},
        }
    )
    assert sorted(answers(sb.replay(query, table, time="at", id="id"))) == sorted(expected)
    monitor, pushed, at = sb.Monitor(query, time="at", id="id"), [], 0
    while at < len(rows):
        step = draw.choice([1, 7, 40])
        monitor.push(table.slice(at, step))
        at += step
        pushed += answers(monitor.answers())
        if draw.random() < 0.3:
            monitor = sb.Monitor.resume(monitor.snapshot())
    monitor.finish()
    assert sorted(pushed + answers(monitor.answers())) == sorted(expected)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"by": ["a asc", "b + c asc", "d asc nulls first"]}, "TOPK a ASC, b + c ASC, d ASC NULLS FIRST, 3"),
        ({"by": ["a", "f(b, c)", "end"]}, "TOPK a, f(b, c), end, 3"),
        ({"by": "a", "then_by": ["b is distinct from c"]}, "TOPK a, b is distinct from c, 3"),
        ({"by": "a", "distinct": "player", "where": "b > 1"}, "TOPK a, 3 WHERE b > 1 DISTINCT player"),
        ({"by": "half_life", "half_life": "5 minutes"}, "TOPK half_life, 3 HALF_LIFE 5 MINUTES"),
    ],
)
def test_the_short_dialect_has_all_rules(fields, text):
    query = sb.TopK(k=3, size="1 hour", **fields)
    assert str(query) == f"{text} OVER 1 HOUR"
    assert sb.sql(str(query)) == query


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TOPK sum(a), b, 3 BY KEY c OVER 1 HOUR", "ranked by one aggregate"),
        ("TOPK a, b OVER 1 HOUR", "expected k, got 'b'"),
        ("TOPK a, b ASC c, 3 OVER 1 HOUR", "expected ','"),
        ("TOPK a, 3 DISTINCT e DISTINCT f OVER 1 HOUR", "DISTINCT is given twice"),
        ("TOPK a, 3 PROBABILITY p OVER 1 HOUR FREQUENCY 1 HOUR HALF_LIFE 1 HOUR", "HALF_LIFE is not supported for"),
    ],
)
def test_statements_that_contradict_are_rejected(text, message):
    with pytest.raises(sb.SkybandError, match=message):
        sb.sql(text)


def test_a_list_of_columns_and_its_canonical_form_are_one_query():
    query = sb.TopK(k=1, size="1 minute", by=["price DESC", "size", "symbol asc NULLS FIRST"])
    assert (query.by, query.order, query.then_by) == ("price", "desc", ("size desc", "symbol asc nulls first"))
    assert sb.TopK(**query.to_dict()) == query
    assert "then_by" not in sb.TopK(k=1, size="1 minute", by=["price"]).to_dict()
    read = sb.sql("SELECT TOP 3 * FROM s [RANGE 1 MINUTE] ORDER BY price DESC, size DESC, symbol NULLS FIRST")
    assert (read.order, read.then_by) == ("desc", ("size desc", "symbol asc nulls first"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"by": []}, "by must be an SQL expression"),
        ({"by": ["a desc"], "order": "asc"}, "contradicts"),
        ({"by": ["a nulls first"]}, "rows without the first value are not ranked"),
        ({"by": "a", "distinct": "e", "ties": "rank"}, "cannot be combined"),
        ({"by": "a", "half_life": "0 seconds"}, "half_life must be at least"),
        ({"by": "a", "half_life": "1 second", "size": 10}, "count window"),
    ],
)
def test_rules_that_contradict_are_rejected(fields, message):
    with pytest.raises(InvalidQueryError, match=message):
        sb.TopK(**{"k": 1, "size": "1 minute", **fields})


def test_arrays_and_the_published_algorithms_reject_what_they_cannot_rank():
    query = sb.TopK(k=1, size="1 minute", by="x", distinct="e")
    with pytest.raises(UnsupportedError, match="Pass a data frame"):
        sb.replay(query, [1], [1.0])
    frame = {"at": pa.array([1], pa.timestamp("us")), "x": [1.0], "e": ["p"]}
    with pytest.raises(UnsupportedError, match="k better rows may belong to one entity"):
        sb.replay(query, frame, time="at", algorithm="mintopk")
