"""Decayed totals: monitors, shards, frames and the brute force of verify against exact fractions."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from random import Random

import pyarrow as pa
import pytest

import skyband as sb
from skyband.aggregate import Monitor, open_panes, replay, state_store
from skyband.aggregate.brute_force import by_definition
from skyband.errors import InvalidQueryError
from tests.aggregate import cases, oracle
from tests.aggregate.oracle import Row
from tests.aggregate.test_shard import Shards, plan_of

KEYS = ["a", "b", "c", "d", ""]


def weight(rest, half_life):
    """2 ** (rest / half_life) by the documented steps: a table of 32 powers, and seven terms of a series."""
    x = rest / half_life
    step = min(math.floor(x * 32), 31)
    with localcontext() as context:
        context.prec = 40
        power = float(Decimal(2) ** (Decimal(step) / 32))
    y, found = (x - step / 32) * 0.6931471805599453, 1 / 5040
    for term in (1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0):
        found = found * y + term
    return power * found


def total(rows, end, half_life):
    """A number that orders keys, and the score: exact sums of weighted values, relative to the end of an epoch."""
    epoch = (end - 1) // (32 * half_life)
    infinite, exact = set(), Fraction(0)
    for at, value in rows:
        lives, rest = divmod(at, half_life)
        weighed = math.ldexp(value * weight(rest, half_life), lives % 32 - 32)
        if math.isinf(weighed):
            infinite.add(weighed)
        else:
            exact += Fraction(weighed) * Fraction(2) ** (32 * (lives // 32 - epoch))
    if infinite:
        found = infinite.pop() if len(infinite) == 1 else math.nan
    else:
        try:
            found = float(exact)
        except OverflowError:
            found = math.inf if exact > 0 else -math.inf
    lives, rest = divmod((epoch + 1) * 32 * half_life - end, half_life)
    with_weight = found * weight(rest, half_life)
    try:
        return found, math.ldexp(with_weight, lives) + 0.0
    except OverflowError:
        return found, math.copysign(math.inf, with_weight)


def to_53_bits(number):
    """Half to even, without limits for the exponent."""
    unit = Fraction(2) ** (number.numerator.bit_length() - number.denominator.bit_length() - 54)
    digits = abs(number) / unit
    excess = max(0, math.floor(digits).bit_length() - 53)
    return (1 if number > 0 else -1) * round(digits / 2**excess) * 2**excess * unit


def mean(rows, half_life):
    """The exact sum of weighted values by that of weights, both rounded to 53 bits; not relative to any moment."""
    infinite, exact, weights, epoch = set(), Fraction(0), Fraction(0), rows[0][0] // (32 * half_life)
    for at, value in rows:
        lives, rest = divmod(at, half_life)
        power = weight(rest, half_life)
        unit = Fraction(2) ** (32 * (lives // 32 - epoch))
        weighed = math.ldexp(value * power, lives % 32 - 32)
        weights += Fraction(math.ldexp(power, lives % 32 - 32)) * unit
        if math.isinf(weighed):
            infinite.add(weighed)
        else:
            exact += Fraction(weighed) * unit
    if infinite:
        return infinite.pop() if len(infinite) == 1 else math.nan
    quotient = to_53_bits(to_53_bits(exact) / to_53_bits(weights))
    try:
        return float(quotient)
    except OverflowError:
        return math.copysign(math.inf, quotient)


def counted(query, row):
    """Whether a row counts for a query."""
    has_value = query.aggregate == "count" or (row.value is not None and not math.isnan(row.value))
    return has_value and row.key is not None and row.position is not None


def scored(query, rows, end):
    """A number that orders keys, and the score of a key."""
    values = [(row.position, 1.0 if query.aggregate == "count" else row.value) for row in rows]
    if query.aggregate == "avg":
        return (mean(values, query.decay[0]),) * 2
    return total(values, end, query.decay[0])


def answers(query, rows):
    """The answers of a query by definition, as tuples of the oracle."""
    objects = [row for row in rows if counted(query, row)]
    if not objects:
        return []
    found = []
    for group in sorted({row.group for row in objects}, key=str) if query.partition_by else [None]:
        mine = [row for row in objects if not query.partition_by or row.group == group]
        for start, end in oracle.sliding(query.window, mine):
            by_key = {}
            for row in mine:
                if start <= row.position < end:
                    by_key.setdefault(row.key, []).append(row)
            if query.full_only and start < objects[0].position:
                continue
            ranked = []
            for key, inside in by_key.items():
                order, score = scored(query, inside, end)
                if not math.isnan(order):
                    sign = 1 if query.order == "desc" else -1
                    ranked.append((sign * order, inside[-1].position, key.encode(), score))
            for rank, (_, _, key, score) in enumerate(sorted(ranked, reverse=True)[: query.k], 1):
                found.append((query.name, group, start, end, rank, key.decode(), score))
    return sorted(found, key=repr)


def draw_rows(random, most=60):
    values = cases.PLAIN + (cases.HARD if random.random() < 0.4 else []) + cases.INFINITE[: random.choice([0, 0, 3])]
    at, rows = random.choice([-500, 0, 10**6, 1_700_000_000_000_000]) + random.randint(-50, 50), []
    for _ in range(random.randint(0, most)):
        at += random.choice([0, 0, 1, 2, 7, 40, 500 if random.random() < 0.2 else 3])
        key = None if random.random() < 0.05 else random.choice(KEYS)
        value = None if random.random() < 0.05 else random.choice(values)
        rows.append(Row(at, key, value, random.choice(["x", "y"])))
    return rows


def draw_query(random, name, **more):
    size = random.choice([1, 5, 30, 200, 2_000])
    return sb.AggregateTopK(
        name=name,
        k=random.choice([1, 2, 9]),
        size=f"{size} microseconds",
        slide=f"{random.randint(max(1, size // 9), size)} microseconds",
        aggregate=random.choice(["sum", "count", "avg", "avg"]),
        half_life=f"{random.choice([1, 2, 3, 10, 100, 5_000])} microseconds",
        order=random.choice(["desc", "asc"]),
        origin=random.choice([None, 3]),
        full_only=random.random() < 0.2,
        partition_by=["g"] if random.random() < 0.3 else (),
        **more,
    )


def pushed(monitor, rows, *, valued, grouped):
    monitor.push(
        pa.array([row.position for row in rows], pa.int64()),
        pa.array([row.key for row in rows], pa.string()),
        pa.array([row.value for row in rows], pa.float64()) if valued else None,
        groups=[row.group for row in rows] if grouped else None,
    )


def listed(table):
    found = []
    for row in table.to_pylist():
        bounds = (row["window_start"], row["window_end"], row["rank"])
        found.append((row["query"], row.get("group"), *bounds, row["key"], row["score"] + 0.0))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_monitors_answer_the_exact_totals(seed):
    """In any batches, resumed between them, beside a query without decay; open windows, too."""
    random = Random(seed)
    rows = draw_rows(random)
    queries = [draw_query(random, f"q{place}") for place in range(random.randint(1, 3))]
    plain = sb.AggregateTopK(name="plain", k=3, size="30 microseconds", slide="7 microseconds")
    every = [*queries, plain] if random.random() < 0.5 else queries
    valued = any(query.aggregate != "count" for query in every)
    grouped = any(query.partition_by for query in every)
    used = [row for row in rows if not valued or (row.value is not None and row.value == row.value)]
    expected = {query.name: answers(query, used) for query in queries}
    monitor, found, at = Monitor(every), [], 0
    while at < len(rows):
        step = random.choice([1, 3, 20])
        pushed(monitor, rows[at : at + step], valued=valued, grouped=grouped)
        at += step
        if random.random() < 0.3:
            monitor = Monitor.resume(monitor.snapshot())
        if random.random() < 0.3:
            found += listed(monitor.answers())
        if random.random() < 0.2:
            monitor.so_far()
    monitor.finish()
    found += listed(monitor.answers())
    for query in queries:
        assert sorted((row for row in found if row[0] == query.name), key=repr) == expected[query.name]
    if plain in every and not any(query.full_only for query in queries):
        alone = Monitor(plain)
        pushed(alone, rows, valued=True, grouped=False)
        alone.finish()
        assert [row for row in found if row[0] == "plain"] == listed(alone.answers())


@pytest.mark.parametrize("seed", range(60))
def test_shards_answer_the_same(seed, monkeypatch):
    """Partials of several tasks; shards that are stored in every step; panes that contain several epochs."""
    random = Random(repr(("shards", seed)))
    monkeypatch.setattr(state_store, "_SEGMENT", 1 if seed % 3 else 1 << 15)
    monkeypatch.setattr(open_panes, "_SEGMENT", 1 if seed % 3 else 1 << 15)
    rows, query = draw_rows(random, 120), draw_query(random, "q", key="key", value="value")
    query = sb.AggregateTopK(**{**query.to_dict(), "partition_by": ()})
    shards, found = Shards(plan_of([query], identified=False), pa.string()), []
    delay, newest, watermark = random.choice([0, 20, 300]), None, None
    waiting = sorted(rows, key=lambda row: row.position + random.randint(0, delay))
    while waiting:
        cut = random.randint(1, 25)
        batch, waiting = waiting[:cut], waiting[cut:]
        half, before = random.randint(0, len(batch)), watermark
        newest = max([row.position for row in batch] + ([] if newest is None else [newest]))
        watermark = newest - delay
        found += shards.step([batch[:half], batch[half:]], before, next_watermark=watermark if seed % 2 else None)
    found += shards.step([], None, end=True)
    assert shards.late == 0
    used = [row for row in rows if row.value is not None and row.value == row.value]
    assert sorted(((*row[:-1], row[-1] + 0.0) for row in found), key=repr) == answers(query, used)


@pytest.mark.parametrize("aggregate", ["sum", "avg"])
@pytest.mark.parametrize("kind", ["sliding", "cumulative", "calendar"])
def test_limbs_of_past_windows_are_dropped(kind, aggregate):
    """The state of a stream over ten thousand half-lives is as wide as that of a window."""
    second = 1_000_000
    fields = {
        "sliding": {"size": "10 minutes", "slide": "1 minute"},
        "cumulative": {"size": "10 minutes", "slide": "1 minute", "cumulative": True},
        "calendar": {"size": "1 day", "slide": "10 minutes", "cumulative": True, "zone": "Asia/Tokyo"},
    }[kind]
    half_life = "2 minutes" if kind == "calendar" else "1 minute"
    query = sb.AggregateTopK(k=2, half_life=half_life, aggregate=aggregate, **fields)
    monitor, widths, rows = Monitor(query), [], []
    for hour in range(8 if kind == "sliding" else 30):
        times = [((450_000 + hour) * 3600 + number * 100) * second for number in range(36)]
        batch = [Row(at, KEYS[number % 3], 1.0 + number) for number, at in enumerate(times)]
        rows += batch
        pushed(monitor, batch, valued=True, grouped=False)
        (cohort,) = monitor._cohorts
        (lane,) = cohort.lanes.values()
        widths.append(lane.engine.addends.limbs)
        monitor = Monitor.resume(monitor.snapshot())
    most = {"sliding": 6, "cumulative": 6, "calendar": 30}[kind]  # a window has 10 or 720 half-lives, 32 to a limb
    assert max(widths[2:]) <= most
    if kind == "sliding":
        monitor.finish()
        assert sorted(listed(monitor.answers()), key=repr) == answers(query, rows)


@pytest.mark.parametrize("seed", range(20))
def test_frames_and_the_brute_force_of_verify(seed):
    random = Random(repr(("frames", seed)))
    rows = [row for row in draw_rows(random) if row.value is None or math.isfinite(row.value)]
    queries = [draw_query(random, f"q{place}", key="key", value="value") for place in range(2)]
    frame = pa.table(
        {
            "ts": pa.array([row.position for row in rows], pa.timestamp("us")),
            "key": pa.array([row.key for row in rows], pa.string()),
            "value": pa.array([row.value for row in rows], pa.float64()),
            "g": pa.array([row.group for row in rows], pa.string()),
        }
    )
    used = [row for row in rows if row.value is not None]
    found = sb.replay(queries, frame, time="ts")
    bounds = {name: found[name].cast(pa.int64()) for name in ("window_start", "window_end")}
    columns = {name: found[name] for name in ("query", "rank", "key", "score")}
    groups = found["g"] if "g" in found.column_names else pa.nulls(len(found))
    mine = listed(pa.table({**columns, **bounds, "group": groups}))
    for query in queries:
        expected = answers(query, used)
        assert sorted((row for row in mine if row[0] == query.name), key=repr) == expected
    defined = by_definition(frame, sb.Workload(queries), time="ts")
    names = ["query", "window_end", "rank", "key"]
    assert sorted(map(repr, defined.select(names).to_pylist())) == sorted(map(repr, found.select(names).to_pylist()))


def test_a_decayed_total_in_words():
    """100 half-lives ago counts nothing, an hour ago half, and a fresh one fully; all keys at the same time."""
    hour = 3600 * 1_000_000
    query = sb.AggregateTopK(k=9, size="200 hours", slide="1 hour", half_life="1 hour")
    begin = 450_000 * hour
    times = [begin, begin + 99 * hour, begin + 100 * hour - 1]
    table = replay(query, times, ["old", "hour", "now"], [1e6, 2.0, 3.0])
    last = [row for row in table.to_pylist() if row["window_end"] == begin + 100 * hour]
    assert [row["key"] for row in last] == ["now", "hour", "old"]
    assert [row["score"] for row in last] == pytest.approx([3.0, 1.0, 1e6 * 2.0**-100])
    counted = sb.AggregateTopK(k=9, size="1 hour", half_life="1 minute", aggregate="count")
    (row,) = replay(counted, [begin - 120_000_000], ["k"]).to_pylist()
    assert row["score"] == 0.25


def test_a_decayed_mean_in_words(tmp_path):
    """A mean is that of its rows, however old they are: weights far below the smallest double cancel."""
    hour = 3600 * 1_000_000
    begin = 450_000 * hour
    query = sb.AggregateTopK(k=9, size="1900 hours", slide="100 hours", half_life="1 hour", aggregate="avg")
    rows = [
        (begin, "old", 2.0),
        (begin + hour, "old", 5.0),
        (begin + 1, "low", -3.0),
        (begin + 1850 * hour, "new", 1.0),
    ]
    times, keys, values = zip(*sorted(rows), strict=True)
    table = replay(query, list(times), list(keys), list(values))
    found = {}
    for row in table.to_pylist():
        found.setdefault(row["key"], []).append(row["score"])
    assert len(found["old"]) >= 18
    assert set(found["old"]) == {4.0}  # (2 * 0.5 + 5) / 1.5
    assert found["low"] == pytest.approx([-3.0] * len(found["low"]), rel=1e-15)
    assert len(set(found["low"])) == 1
    text = "TOPK avg(x), 3 BY KEY page HALF_LIFE 10 MINUTES OVER 1 DAY EVERY 1 HOUR"
    read = sb.sql(text)
    assert (read.aggregate, read.decay) == ("avg", (600_000_000, "avg"))
    assert sb.sql(str(read)) == read
    fields = "name: mean, k: 3, size: 1 day, slide: 1 hour, key: page, value: x, aggregate: avg, half_life: 10 minutes"
    stream = "streams: {rows: {path: in, format: parquet, time: ts, id: id, watermark: 0 seconds}}"
    (tmp_path / "work.yaml").write_text(f"{stream}\nqueries: [{{type: aggregate, {fields}}}]\n")
    (written,) = sb.read_workload(tmp_path / "work.yaml").workloads["rows"]
    assert {**written.to_dict(), "name": read.name} == read.to_dict()
    assert "exact totals of 144 half-lives, about 208 bytes each" in sb.Workload([read]).explain()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"aggregate": "stddev"}, "aggregate='stddev' is not a total or mean"),
        ({"aggregate": "max"}, "aggregate='max' is not a total or mean"),
        ({"having": "count(*) > 1"}, "having='count\\(\\*\\) > 1' cannot be combined"),
        ({"share": True}, "share=True cannot be combined"),
        ({"size": None, "slide": "1 hour"}, "size=None cannot be combined"),
        ({"size": 10}, "needs windows over event time"),
        ({"half_life": "0 seconds"}, "at least 1 microsecond"),
        ({"half_life": "10 seconds"}, "half_life='10 seconds' is too short for size='1 day'"),
    ],
)
def test_what_does_not_decay(fields, message):
    with pytest.raises(InvalidQueryError, match=message):
        sb.AggregateTopK(**{"k": 1, "size": "1 day", "half_life": "1 hour", **fields})


def test_sql_and_explain():
    query = sb.AggregateTopK(
        name="hot", k=5, size="1 day", slide="1 hour", key="page", value="x", half_life="10 minutes"
    )
    assert query.to_sql() == "hot: TOPK sum(x), 5 BY KEY page HALF_LIFE 10 MINUTES OVER 1 DAY EVERY 1 HOUR"
    assert sb.sql(str(query)) == query
    cql = "hot: SELECT TOP 5 page, sum(x) AS s FROM t [RANGE 1 DAY SLIDE 1 HOUR] GROUP BY page ORDER BY s DESC"
    assert sb.sql(f"{cql} HALF_LIFE 10 MINUTES") == query
    assert sb.AggregateTopK(**query.to_dict()) == query
    page = sb.Workload([query]).explain()
    assert "partials 1: of x by page, halved every 10 minutes, exact totals of 144 half-lives, about 80 bytes" in page
    assert "half_life" not in sb.AggregateTopK(k=1, size="1 day").to_dict()
