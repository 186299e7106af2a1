"""The change feed of families whose answers are merged, against answers compared one by one."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import skyband as sb
from skyband.local.micro_batches import MicroBatches
from skyband.local.pipeline import Counts, plan_for
from skyband.queries.answer_schema import CHANGE_COLUMNS
from skyband.sharding.projection import ProjectionRequest

SECOND = 1_000_000
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("who", pa.string()), ("g", pa.string()),
     ("v", pa.float64()), ("p", pa.float64())]
)  # fmt: skip
IDENTITY = {"aggregate": "key", "incomplete": "object", "uncertain": "id"}
FRAMING = {"query", "g", "window_start", "window_end", "time", "rank", "change", "old_rank"}


def draw_queries(random, family):
    def size(slide):
        return f"{random.choice([1, 2, 3, 5]) * slide} seconds"

    found = []
    for number in range(random.randint(1, 3)):
        slide, k = random.choice([2, 5, 7]), random.randint(1, 3)
        if family == "aggregate":
            more = {"partition_by": random.choice([(), ("g",)]), "order": random.choice(["asc", "desc"])}
            aggregate = random.choice(["sum", "count", "max", "latest"])
            value = None if aggregate == "count" else "v"
            found.append(
                sb.AggregateTopK(name=f"q{number}", k=k, size=size(slide), slide=f"{slide} seconds", key="who",
                                 aggregate=aggregate, value=value, **more)
            )  # fmt: skip
        elif family == "incomplete":
            found.append(
                sb.IncompleteTopK(name=f"q{number}", k=k, size=size(slide), every=f"{slide} seconds", object="who",
                                  stream="g", streams=["a", "b"], value="v", bounds=(0, 9), occurrences=99)
            )  # fmt: skip
        else:
            meaning = random.choice(["pk-topk", "u-kranks", "u-topk", "expected-rank", "global-topk"])
            found.append(
                sb.UncertainTopK(name=f"q{number}", k=k, size="14 seconds", every=f"{slide} seconds", by="v",
                                 probability="p", semantics=meaning)
            )  # fmt: skip
    return found


def draw_rows(random, count):
    """Rows with equal times and values, and pauses that are longer than a window."""
    at, rows = 0, []
    for number in range(count):
        at += random.choice([0, 0, 1, 1, 2, 3, random.choice([1, 40])]) * SECOND // random.choice([1, 3])
        rows.append((at, number, random.choice("abcd"), random.choice("ab"), float(random.randint(0, 4)),
                     random.choice([0.25, 0.5, 1.0])))  # fmt: skip
    return rows


def table_of(rows):
    columns = list(zip(*rows, strict=True)) if rows else [[] for _ in SCHEMA]
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def plan_of(queries, output, shards):
    workload = sb.Workload(queries)
    shards = 1 if workload.family == "uncertain" else shards
    return plan_for(SCHEMA, ProjectionRequest(workload, "ts", "id", output=output, shards=shards))


def streamed(random, plan, cuts, delay, *, flush):
    """The output of micro-batches, with the shards stored and resumed between some of them."""
    engine, found, windows = MicroBatches(plan, "ts", delay), [], 0
    for number, batch in enumerate([*cuts, None]):
        messages = [{"kind": "end"}] if batch is None or number == flush else []
        result = engine.step([table_of(batch or [])], messages)
        found.append(result.answers)
        windows += result.counts.windows
        if random.random() < 0.5:
            names = plan.unit_names
            stored = {names[shard.number]: (shard.state(), shard.segments) for shard in engine.shards}
            engine = MicroBatches(plan, "ts", delay, watermark=engine.watermark, newest=engine.newest, stored=stored)
    return pa.concat_tables(found), windows


def end_of(row):
    return row["window_end"] if "window_end" in row else row["time"]


def boards(answers, family):
    """The answers by query, group and end: {(identity, place among equals): (rank, other values)}."""
    found = {}
    for row in answers:
        window = found.setdefault((row["query"], row.get("g")), {}).setdefault(end_of(row), {})
        place = 0
        while (row[IDENTITY[family]], place) in window:
            place += 1
        values = {name: value for name, value in row.items() if name not in FRAMING}
        window[row[IDENTITY[family]], place] = (row["rank"], values)
    return found


def differences(by_end):
    """The changes from each window to the next: (end, change, rank, old rank, values)."""
    before = {}
    for end in sorted(by_end):
        now = by_end[end]
        for item, (rank, values) in before.items():
            if item not in now:
                yield end, "left", None, rank, values
        for item, (rank, values) in now.items():
            old = before.get(item)
            if old is None:
                yield end, "entered", rank, None, values
            elif old[0] != rank:
                yield end, "moved", rank, old[0], values
            elif old[1] != values:
                yield end, "updated", rank, rank, values
        before = now


def wanted(queries, answers, family, reached):
    """The changes by the definitions: each window against the one before it, an empty one included."""
    found = []
    slides = {query.name: query.window.slide for query in queries}
    for (name, group), windows in boards(answers, family).items():
        step = slides[name]
        ends = sorted(micros(end) for end in windows)
        by_end = {micros(end): window for end, window in windows.items()}
        for end, after in zip(ends, [*ends[1:], None], strict=True):
            if (after is None and end + step <= reached) or (after is not None and after > end + step):
                by_end[end + step] = {}
        found += [(name, group, *change) for change in differences(by_end)]
    return sorted(found, key=repr)


def micros(moment):
    return round(moment.timestamp() * SECOND)


def reported(rows):
    return sorted(
        (
            (
                row["query"], row.get("g"), micros(end_of(row)), row["change"], row["rank"], row["old_rank"],
                {name: value for name, value in row.items() if name not in FRAMING},
            )
            for row in rows
        ),
        key=repr,
    )  # fmt: skip


@pytest.mark.parametrize("family", ["aggregate", "incomplete", "uncertain"])
@pytest.mark.parametrize("seed", range(16))
def test_changes_are_the_differences_of_the_answers(seed, family):
    random = Random(f"{seed} {family}")
    queries, rows = draw_queries(random, family), draw_rows(random, random.choice([4, 25, 60]))
    if family == "aggregate" and seed % 2:
        queries = queries[:1]
    shards, delay = random.choice([1, 2, 3]), random.choice([0, 3]) * SECOND
    cuts = []
    while rows:
        cut = random.randint(1, 9)
        cuts, rows = [*cuts, rows[:cut]], rows[cut:]
    flush = random.randrange(len(cuts)) if seed % 4 == 0 else None  # answers are flushed, and the stream goes on
    plain, windows = streamed(random, plan_of(queries, "answers", shards), cuts, delay, flush=flush)
    both, same = streamed(random, plan_of(queries, "both", shards), cuts, delay, flush=flush)
    changes, again = streamed(random, plan_of(queries, "changes", shards), cuts, delay, flush=flush)
    assert windows == same == again
    answers = [row for row in both.to_pylist() if row["change"] is None]
    names = [column.name for column in CHANGE_COLUMNS]
    assert sorted(map(repr, plain.to_pylist())) == sorted(
        repr({name: value for name, value in row.items() if name not in names}) for row in answers
    )
    newest = max(row[0] for batch in cuts for row in batch)
    want = wanted(queries, answers, family, newest)
    assert reported(row for row in both.to_pylist() if row["change"] is not None) == want
    assert reported(changes.to_pylist()) == want
    if flush is None and not delay:  # no row is late: a bounded input has the same answers
        bounded = list(plan_of(queries, "changes", shards).bounded([
            plan_of(queries, "changes", shards).project(table_of(batch)) for batch in cuts
        ], Counts()))  # fmt: skip
        assert reported(row for table in bounded for row in table.to_pylist()) == want


def test_a_changed_query_begins_again_and_a_kept_one_continues():
    kept = sb.AggregateTopK(name="kept", k=2, size="5 seconds", key="who", aggregate="count")
    first, then = (sb.AggregateTopK(name="other", k=k, size="5 seconds", key="who", aggregate="count") for k in (1, 2))
    rows = [(number * SECOND, number, "a", "a", 1.0, 1.0) for number in range(24)]
    plan = plan_of([first, kept], "changes", 2)
    engine = MicroBatches(plan, "ts", 0)
    before = engine.step([table_of(rows[:12])]).answers.to_pylist()
    assert [(row["query"], row["change"]) for row in before] == [("other", "entered"), ("kept", "entered")]
    stored = dict(zip(plan.unit_names, ((one.state(), one.segments) for one in engine.shards), strict=True))
    plan = plan_of([kept, then], "changes", 2)
    engine = MicroBatches(plan, "ts", 0, watermark=engine.watermark, newest=engine.newest, stored=stored)
    after = engine.step([table_of(rows[12:])], [{"kind": "end"}]).answers.to_pylist()
    assert [(row["query"], row["change"], row["score"]) for row in after] == [
        ("other", "entered", 5.0), ("kept", "updated", 4.0), ("other", "updated", 4.0),
    ]  # fmt: skip


def test_keys_of_several_columns_with_shares_and_the_other_keys():
    query = sb.AggregateTopK(
        name="q", k=1, size="4 seconds", slide="2 seconds", key=["who", "g"], value="v", share=True, others=True
    )
    rows = [(0, 0, "a", "x", 5.0, 1.0), (SECOND, 1, "a", "y", 3.0, 1.0), (2 * SECOND, 2, "a", "y", 4.0, 1.0)]
    engine = MicroBatches(plan_of([query], "changes", 3), "ts", 0)
    found = [engine.step([table_of([row])]).answers for row in rows] + [engine.step([], [{"kind": "end"}]).answers]
    told = [
        (
            micros(row["window_end"]) // SECOND,
            row["change"],
            row["who"],
            row["g"],
            row["rank"],
            row["old_rank"],
            row["score"],
        )
        for row in pa.concat_tables(found).to_pylist()
    ]
    assert told == [
        (2, "entered", "a", "x", 1, None, 5.0), (2, "entered", None, None, 2, None, 3.0),
        (4, "left", "a", "x", None, 1, 5.0), (4, "entered", "a", "y", 1, None, 7.0),
        (4, "updated", None, None, 2, 2, 5.0),
        (6, "left", None, None, None, 2, 5.0), (6, "updated", "a", "y", 1, 1, 4.0),
    ]  # fmt: skip
