"""Provisional and corrected answers of streams on Spark, against the definitions and local runs."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.errors import SkybandError
from skyband.spark import answers
from tests.oracle import Asked
from tests.sharding import cases
from tests.spark.frames import read_stream, write_files
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
        (sb.AggregateTopK(k=1, size="1 minute", key="g", value="s"), OPTIONS, "not supported for AggregateTopK"),
    ):
        with pytest.raises(SkybandError, match=said):
            answers(stream, queries, time="ts", watermark="1 second", **options)
