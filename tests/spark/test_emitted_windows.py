"""Provisional and corrected answers of streams on Spark, against the definitions and local runs."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.errors import SkybandError
from skyband.local.micro_batches import MicroBatches
from skyband.local.pipeline import plan_for
from skyband.sharding.emission import Emission
from skyband.sharding.projection import ProjectionRequest
from skyband.spark import answers
from tests.oracle import Asked
from tests.sharding import cases
from tests.spark.frames import read_stream, table, write_files
from tests.spark.test_streams import Run, split

SECOND = 1_000_000
OPTIONS = {"emit": "provisional", "allowed_lateness": "20 seconds"}


@pytest.fixture
def run(spark, tmp_path):
    return Run(spark, tmp_path)


def drawn(seed):
    random = cases.rng("emitted", seed)
    rows = cases.draw_rows(random, 60, scale=SECOND // 10)
    rows = cases.disordered(random, rows, 15 * SECOND)
    batches = [rows[low : low + 20] for low in range(0, 60, 20)]
    asked = Asked(k=2, size=20 * SECOND, slide=5 * SECOND)
    posed = [
        cases.Posed("all", asked, {"by": "s"}),
        cases.Posed("each", asked, {"by": "s", "partition_by": ["g"]}),
    ]
    return posed, batches


def last_answers(rows, posed):
    """The final rows with the highest revision of each window, as the definitions write them."""
    newest = {}
    for row in rows:
        if row["final"]:
            window = row["query"], row["g"] if row["query"] == "each" else "-", row["window_end"]
            newest.setdefault(window, {}).setdefault(row["revision"], []).append(row)
    return cases.answered([row for by in newest.values() for row in by[max(by)]], posed)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_the_last_revision_is_that_of_the_definitions(run, seed):
    posed, batches = drawn(seed)
    queries = [one.query() for one in posed]
    run.add(*batches)
    found = run.finish(queries, shards=2, **OPTIONS)
    accepted, dropped = split(batches, 20 * SECOND)
    want = {}
    for one in posed:
        want |= cases.wanted(one, accepted)
    rows = run.found()
    assert last_answers(rows, posed) == want
    assert any(not row["final"] for row in rows)
    late = split(batches, 0)[1]
    ranked = {row[2] for row in late if row[1] is not None}
    lost = {row[2] for row in dropped if row[1] is not None}
    assert (found["late"], found["late_used"]) == (len(lost), len(ranked - lost))
    assert seed or any(row["revision"] for row in rows)


SO_FAR = {
    "aggregate": [
        sb.AggregateTopK(name="keys", k=2, size="20 seconds", slide="5 seconds", key="g", value="s"),
        sb.AggregateTopK(
            name="counts", k=2, size="1 minute", slide="10 seconds", cumulative=True, key="g", aggregate="count"
        ),
    ],
    "incomplete": [
        sb.IncompleteTopK(
            name="objects",
            k=2,
            size="20 seconds",
            every="5 seconds",
            object="id % 5",
            stream="case when odd then 'a' else 'b' end",
            streams=["a", "b"],
            value="case when s > 1 then 1 else 0.5 end",
            where="s is not null",
        )
    ],
    "uncertain": [
        sb.UncertainTopK(
            name="rows", k=2, size="20 seconds", every="5 seconds", by="s", probability="0.5", where="s is not null"
        )
    ],
}


@pytest.mark.parametrize(
    "family",
    [
        "aggregate",
        pytest.param("incomplete", marks=pytest.mark.long),
        pytest.param("uncertain", marks=pytest.mark.long),
    ],
)
def test_merged_answers_so_far_are_those_of_a_local_run(run, family):
    """With a restart between two micro-batches."""
    queries, (_, batches) = SO_FAR[family], drawn(5)
    request = ProjectionRequest(
        sb.Workload(queries),
        "ts",
        "id",
        algorithm="greedy" if family == "uncertain" else "auto",
        may_be_late=True,
        delay=15 * SECOND,
        emission=Emission(provisional=True),
    )
    engine = MicroBatches(plan_for(table([]).schema, request), "ts", 15 * SECOND)
    want = [engine.step([table(batch)]).answers for batch in batches]
    want.append(engine.step([table([])], [{"kind": "end"}]).answers)
    options = {"watermark": "15 seconds", "emit": "provisional"}
    options |= {"shards": 1 if family == "uncertain" else 2}
    run.add(*batches[:2])
    handle = run.start(queries, **options)
    handle.query.processAllAvailable()
    handle.stop()
    run.add(*batches[2:])
    handle = run.start(queries, **options)
    handle.query.processAllAvailable()  # so that the end of the stream is in a micro-batch of its own
    handle.finish()
    metrics = handle.metrics()
    found, (first, *later) = run.found(), [one.to_pylist() for one in want]
    later = [row for rows in later for row in rows]
    assert plain(found, final=True) == plain([*first, *later], final=True)
    # Spark's watermark is a micro-batch behind: a window can still be open, and without one nothing is answered.
    assert plain(later, final=False)
    assert {*plain(later, final=False)} <= {*plain(found, final=False)}
    assert any(not row["final"] for row in run.found())
    assert metrics["emit_lag"] is None or metrics["emit_lag"] >= 0


def plain(rows, *, final):
    mine = (row for row in rows if row["final"] == final)
    return sorted(repr(sorted((name, cases.micros(value)) for name, value in row.items())) for row in mine)


@pytest.mark.long
def test_a_restart_continues_to_correct(run):
    posed, batches = drawn(3)
    queries = [one.query() for one in posed]
    for batch in batches:
        run.add(batch)
        handle = run.start(queries, shards=2, **OPTIONS)
        handle.query.processAllAvailable()
        handle.stop()
    run.finish(queries, shards=2, **OPTIONS)
    accepted, _ = split(batches, 20 * SECOND)
    want = {}
    for one in posed:
        want |= cases.wanted(one, accepted)
    assert last_answers(run.found(), posed) == want


def test_unsupported_requests_are_rejected(spark, tmp_path):
    write_files(tmp_path, [cases.draw_rows(cases.rng(1), 3)])
    stream = read_stream(spark, tmp_path)
    top = sb.TopK(k=1, size="1 minute", by="s")
    for queries, options, said in (
        (top, {"emit": "early"}, "emit must be"),
        (top, {"provisional_every": "1 second"}, "requires emit='provisional'"),
        (top, {"allowed_lateness": 5}, "must be interval text"),
        (top, {"allowed_lateness": "1 minute", "late": "refuse"}, "cannot be combined"),
        (top, {"emit": "provisional", "output": "changes"}, "only changes are written"),
        (sb.TopK(k=1, size=10, by="s"), {"emit": "provisional"}, "count windows"),
        (sb.AggregateTopK(k=1, gap="1 minute", key="g", value="s"), OPTIONS, "session windows"),
        (sb.AggregateTopK(k=1, size=10, key="g", value="s"), {"emit": "provisional"}, "count windows"),
    ):
        with pytest.raises(SkybandError, match=said):
            answers(stream, queries, time="ts", watermark="1 second", **options)


MERGED = {
    "aggregate": [
        sb.AggregateTopK(name="sums", k=2, size="20 seconds", slide="5 seconds", key="id % 7", value="s"),
        sb.AggregateTopK(
            name="today", k=3, size="1 minute", slide="10 seconds", cumulative=True, key="id % 7", aggregate="count"
        ),
    ],
    "incomplete": [
        sb.IncompleteTopK(
            name="both", k=2, size="20 seconds", every="5 seconds", object="id % 7", stream="stream",
            streams=["a", "b"], value="least(abs(s), 9)", bounds=(0, 9), occurrences=99, where="s is not null",
        )
    ],
}  # fmt: skip


@pytest.mark.parametrize("family", ["aggregate", pytest.param("incomplete", marks=pytest.mark.long)])
def test_merged_answers_are_corrected(run, family):
    """The last revisions are the answers over all rows at once; all shards answer a window again together."""
    _, batches = drawn(0)
    rows = [row for batch in batches for row in batch if row[1] is not None]
    queries = [
        type(query)(**{**query.to_dict(), **({"stream": "if(id % 2 = 0, 'a', 'b')"} if family == "incomplete" else {})})
        for query in MERGED[family]
    ]
    counts = []
    for number, batch in enumerate(batches):
        run.add(batch)
        handle = run.start(queries, shards=3, allowed_lateness="1 hour")
        if number == len(batches) - 1:
            handle.finish()
        else:
            handle.query.processAllAvailable()
            handle.stop()
        counts.append(handle.metrics())
    moment = "window_end" if family == "aggregate" else "time"
    found, last = run.found(), {}
    for row in found:
        window = row["query"], row[moment]
        last[window] = max(row["revision"], last.get(window, 0))
    described = ["query", moment, "rank", "key" if family == "aggregate" else "object", "score"]
    newest = sorted(
        tuple(row[name] for name in described) for row in found if row["revision"] == last[row["query"], row[moment]]
    )
    module = {"aggregate": sb.aggregate, "incomplete": sb.incomplete}[family]
    whole = module.replay(queries, table([row for batch in batches for row in batch]), time="ts", id="id")
    want = sorted(tuple(row[name] for name in described) for row in whole.to_pylist())
    assert [(name, at.timestamp(), *rest) for name, at, *rest in newest] == [
        (name, at.timestamp(), *rest) for name, at, *rest in want
    ]
    assert any(row["revision"] for row in found)
    assert sum(one["late"] for one in counts) == 0
    assert 0 < sum(one["late_used"] for one in counts) <= len(rows)
