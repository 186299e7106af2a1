"""Streams: files read one a micro-batch, with disorder, late rows, restarts and silence."""

from __future__ import annotations

import datetime as dt
import sys

import pytest

import skyband as sb
from skyband.errors import PipelineError
from skyband.spark import Control, Metrics, answers, start
from skyband.spark.metrics import StreamProgress
from tests.oracle import Asked
from tests.sharding import cases
from tests.spark.frames import collected, read_stream, table, write_files
from tests.waiting import process_all, wait_for

GROUPED = {"by": "s", "partition_by": ["g"]}
SECOND = 1_000_000


class Run:
    """A source folder, a sink and a checkpoint; may be started again and again."""

    def __init__(self, spark, folder):
        self.spark = spark
        self.source, self.sink, self.state = folder / "in", folder / "out", folder / "state"
        self.behind = folder / "behind"
        self.files = 0

    def add(self, *batches):
        write_files(self.source, batches, self.files)
        self.files += len(batches)

    def start(self, queries, *, watermark="0 seconds", **more):
        return start(
            read_stream(self.spark, self.source),
            queries,
            time="ts",
            id="id",
            watermark=watermark,
            write=lambda out: out.writeStream.format("parquet").option("path", str(self.sink)),
            checkpoint=str(self.state),
            **more,
        )

    def finish(self, queries, **more):
        """Read what is there as a stream, with a watermark that moves, and end it."""
        handle = self.start(queries, **more)
        handle.finish()
        return handle.metrics()

    def write_late(self, rows):
        return rows.writeStream.format("parquet").option("path", str(self.behind))

    def found(self, folder=None):
        folder = folder or self.sink
        return collected(self.spark.read.parquet(str(folder))) if folder.exists() else []


@pytest.fixture
def run(spark, tmp_path):
    return Run(spark, tmp_path)


def split(batches, delay):
    """What is accepted, and what is late: further than the delay behind the newest of earlier batches."""
    accepted, late, newest = [], [], None
    for batch in batches:
        watermark = None if newest is None else newest // 1000 * 1000 - delay
        for row in batch:
            (late if watermark is not None and row[0] < watermark else accepted).append(row)
        newest = max([row[0] for row in batch] + ([] if newest is None else [newest]), default=None)
    return accepted, late


def drawn(seed, axis="time"):
    """Queries of all kinds, and rows in batches, some of them late for a delay of ten seconds."""
    random = cases.rng("stream", seed)
    scale = SECOND
    posed = [cases.draw_posed(random, f"q{i}", axis=axis, scale=scale, kinds=cases.KINDS[i : i + 1]) for i in range(5)]
    rows = cases.disordered(random, cases.draw_rows(random, 150, scale=scale), 80 * scale)
    cuts = sorted(random.sample(range(1, 150), 2))
    return posed, [rows[low:high] for low, high in zip([0, *cuts], [*cuts, 150], strict=True)]


@pytest.mark.parametrize(("axis", "seed"), [("time", 1), pytest.param("count", 3, marks=pytest.mark.long)])
def test_a_stream_that_is_finished_gives_every_answer_once(run, axis, seed):
    posed, batches = drawn(seed, axis)
    accepted, late = split(batches, 10 * SECOND)
    ranked = [row for row in late if row[1] is not None]
    assert ranked, "else this test tests less than it could"
    run.add(*batches)
    more = {"late": run.write_late} if axis == "time" else {}
    metrics = run.finish([one.query(axis) for one in posed], watermark="10 seconds", **more)
    want = {}
    for one in posed:
        want |= cases.wanted(one, accepted, axis)
    found = run.found()
    assert cases.answered(found, posed) == want
    assert metrics["rows"] == 150
    assert metrics["late"] == len(ranked)
    assert metrics["dropped_null"] == sum(row[1] is None for batch in batches for row in batch)
    assert metrics["answers"] == len(found) == sum(map(len, want.values()))
    assert metrics["windows"] == sum(row["rank"] == 1 for row in found)
    assert metrics["algorithm"] == "panes"
    assert metrics["batches"] >= 4
    assert min(metrics["seconds"], metrics["state_bytes"]) > 0
    if axis == "time":
        assert metrics["candidates"] == 0
        assert sorted(row["id"] for row in run.found(run.behind)) == sorted(row[2] for row in late)
        assert set(run.found(run.behind)[0]) == {"ts", "id", "g", "s", "odd"}
        again = run.finish([one.query(axis) for one in posed], watermark="10 seconds")
        assert (again["rows"], again["answers"]) == (0, 0)
        assert len(run.found()) == len(found)


def rows_at(*seconds, score=1.0):
    return [(at * SECOND, None if score is None else score + at, at, "a") for at in seconds]


MINUTE = cases.Posed("q", Asked(k=2, size=60 * SECOND, slide=60 * SECOND), {"by": "s"})


def ends(run):
    return sorted({cases.micros(row["window_end"]) // SECOND for row in run.found()})


def test_time_moves_with_rows_that_have_no_score_and_with_messages(run):
    run.add(rows_at(10, 20))
    handle = run.start(MINUTE.query())
    try:
        process_all(handle.query)
        assert ends(run) == []
        run.add(rows_at(70, score=None))
        process_all(handle.query)
        assert ends(run) == [60]
        run.add(rows_at(130, 200))
        process_all(handle.query)
        assert ends(run) == [60, 180]
        handle.advance(dt.datetime(1970, 1, 1, 0, 4, tzinfo=dt.UTC))
        assert ends(run) == [60, 180, 240]
        run.add(rows_at(239, 250))
        process_all(handle.query)
        metrics = handle.metrics()
        assert (metrics["late"], metrics["dropped_null"], metrics["candidates"]) == (1, 1, 1)
        assert metrics["bound"] == 2
        assert metrics["emit_lag"] == 10.0
        handle.flush()
        assert ends(run) == [60, 180, 240, 300]
        run.add(rows_at(260, 310))
        process_all(handle.query)
        assert handle.metrics()["late"] == 2
    finally:
        handle.stop()
    assert handle.await_end(300, progress=False)
    accepted = rows_at(10, 20, 130, 200, 250)
    assert cases.answered(run.found(), [MINUTE]) == cases.wanted(MINUTE, accepted)


@pytest.mark.long
def test_a_workload_that_changes_between_runs(run):
    kept = cases.Posed("kept", Asked(k=2, size=40 * SECOND, slide=10 * SECOND), GROUPED)
    gone = cases.Posed("gone", Asked(k=1, size=20 * SECOND, slide=10 * SECOND), {**GROUPED, "by": "-s"})
    new = cases.Posed("new", Asked(k=3, size=30 * SECOND, slide=10 * SECOND), {**GROUPED, "by": "-s"})
    random = cases.rng("changes")
    rows = [(at * SECOND, float(random.randint(0, 9)), at, random.choice("ab")) for at in range(200)]
    run.add(rows[:50], rows[50:100])
    handle = run.start([kept.query(), gone.query()])
    process_all(handle.query)
    handle.stop()
    before = cases.answered(run.found(), [kept, gone])
    assert any(name == "gone" for name, _ in before)
    run.add(rows[100:])
    run.finish([kept.query(), new.query()])
    after = cases.answered(run.found(), [kept, gone, new])
    assert {key: found for key, found in after.items() if key[0] == "kept"} == cases.wanted(kept, rows)
    assert {key: found for key, found in after.items() if key[0] == "gone"} == {
        key: found for key, found in before.items() if key[0] == "gone"
    }
    whole = cases.wanted(new, rows)
    assert {key: found for key, found in after.items() if key[0] == "new"} == {
        key: [row for row in found if row[0] > rows[99][0]] for key, found in whole.items()
    }


@pytest.mark.long
def test_a_query_added_to_filtered_ones_begins_after_the_rows_they_never_saw(run):
    odd = cases.Posed("odd", MINUTE.asked, {"by": "s", "where": "odd"})
    new = cases.Posed("new", Asked(k=2, size=60 * SECOND, slide=10 * SECOND), {"by": "s"})
    run.add(rows_at(11, 13), rows_at(90))
    handle = run.start(odd.query())
    process_all(handle.query)
    handle.stop()
    run.add(rows_at(101, 200))
    run.finish([odd.query(), new.query()])
    found = cases.answered(run.found(), [odd, new])
    whole = cases.wanted(new, rows_at(11, 13, 90, 101, 200))["new", "-"]
    assert found["new", "-"] == [row for row in whole if row[0] > 90 * SECOND]


@pytest.mark.long
def test_answers_alone_with_messages_and_a_listener(spark, run, tmp_path):
    listener = Metrics()
    spark.streams.addListener(listener)
    control = Control(spark, str(tmp_path / "control"))
    control.open()
    run.add(rows_at(10, 20), rows_at(70, 80))
    posed = [MINUTE, cases.Posed("odd", MINUTE.asked, {"by": "s", "where": "odd"})]
    frame = read_stream(spark, run.source).withWatermark("ts", "5 seconds")  # a watermark of the user's own
    out = answers(frame, [one.query() for one in posed], time="ts", control=control.folder)
    query = out.writeStream.format("memory").queryName("minute").start()
    try:
        process_all(query)
        rows = [row.asDict() for row in spark.table("minute").collect()]
        assert sorted(row["id"] for row in rows) == [10, 20]
        control.end()
        process_all(query)
        assert spark.table("minute").count() == 4
        wait_for(lambda: listener.metrics().get("minute", {}).get("answers") == 4)
    finally:
        query.stop()
        spark.streams.removeListener(listener)
    found = listener.metrics()["minute"]
    assert (found["answers"], found["windows"], found["late"]) == (4, 2, 0)
    assert (found["candidates"], found["bound"], found["emit_lag"], found["algorithm"]) == (0, None, None, None)


def test_messages_are_no_rows():
    progress = StreamProgress()
    progress.add(
        {
            "runId": "a",
            "batchId": 0,
            "durationMs": {},
            "observedMetrics": {"skyband_in": {"taken": 2}, "skyband_out": {"late": 0}},
            "sources": [
                {"description": "FileStreamSource[file:/trades]", "numInputRows": 2},
                {"description": "FileStreamSource[file:/messages]", "numInputRows": 1},
            ],
        }
    )
    assert progress.metrics()["rows"] == 2


def test_rows_that_every_filter_removes_move_time_too(run):
    odd = cases.Posed("odd", MINUTE.asked, {"by": "s", "where": "odd"})
    run.add(rows_at(11, 13), rows_at(90), rows_at(15))
    metrics = run.finish(odd.query())
    accepted = rows_at(11, 13, 90)
    assert cases.answered(run.found(), [odd]) == cases.wanted(odd, accepted)
    assert metrics["late"] == 1


OTHERS = {
    "aggregate": sb.AggregateTopK(k=2, size="10 seconds", slide="5 seconds", key="g", value="s"),
    "incomplete": sb.IncompleteTopK(
        k=2, size="10 seconds", every="5 seconds", object="id", stream="g", value="s", streams=["a"], bounds=(0, 9)
    ),
    "uncertain": sb.UncertainTopK(k=2, size="10 seconds", every="5 seconds", by="s", probability="0.5"),
    "sessions": sb.AggregateTopK(k=2, gap="5 seconds", key="g", value="s", partition_by=["odd"]),
    "count windows": sb.AggregateTopK(k=2, size=2, slide=1, key="g", value="s"),
    "count windows of groups": sb.AggregateTopK(k=2, size=1, key="g", value="s", partition_by=["odd"]),
    "groups": sb.UncertainTopK(
        k=2, size="10 seconds", every="5 seconds", by="s", probability="0.5", partition_by=["g"], order="asc"
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("family", OTHERS)
def test_late_rows_of_other_families_come_back(run, family):
    """The row at 26 is behind the watermark of 28, but its pane is open: only for keys it is not late."""
    rows = [[(second * SECOND, 1.0, second, "a") for second in (1, 28)]]
    rows.append([(3 * SECOND, 5.0, 3, "a"), (26 * SECOND, 5.0, 26, "a"), (31 * SECOND, 1.0, 31, "a")])
    run.add(*rows)
    handle = run.start(OTHERS[family], late=run.write_late)
    handle.finish()
    late = {3} if family == "aggregate" else {3, 26}
    assert {row["id"] for row in run.found(run.behind)} == late
    assert handle.metrics()["late"] == len(late)


@pytest.mark.long
@pytest.mark.parametrize("output", ["answers", "changes"])
def test_a_window_with_several_best_objects_is_counted_once(run, output):
    """As many windows as one process answers; all objects of a window have one score."""
    query = sb.IncompleteTopK(
        k=1, size="10 seconds", every="5 seconds", object="id", stream="'x'", value="s", streams=["x"], bounds=(0, 9),
        ties="rank", partition_by=["g"],
    )  # fmt: skip
    rows = [(second * SECOND, 1.0, second, "ab"[second % 2]) for second in range(1, 40)]
    run.add(rows[:20], rows[20:])
    handle = run.start(query, output=output)
    handle.finish()
    found = sb.replay(query, table(rows), time="ts", id="id").to_pylist()
    windows = {(row["time"], row["g"]) for row in found}
    assert len(found) > 2 * len(windows)
    assert handle.metrics()["windows"] == len(windows)
    columns = set(run.spark.read.parquet(str(run.sink)).columns) if output == "answers" else set()
    assert not any(name.startswith("__") for name in columns)


def test_a_late_row_stops_a_stream_that_refuses_them(spark, run):
    run.add(rows_at(10, 100), rows_at(20))
    out = answers(read_stream(spark, run.source), MINUTE.query(), time="ts", watermark="0 seconds", late="refuse")
    query = out.writeStream.format("memory").queryName("refusing").start()
    with pytest.raises(Exception, match="late='refuse'"):
        process_all(query)
    query.stop()


@pytest.fixture
def slow_python(spark, tmp_path, monkeypatch):
    """Spark's Python for new processes on the driver: it starts too late, as often as the fixture is told."""
    left = tmp_path / "left"
    program = tmp_path / "python"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *transform_with_state_driver_worker*)\n'
        f'  if [ -s {left} ]; then sed -i 1d {left}; sleep 12; fi;;\nesac\nexec {sys.executable} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(program))
    monkeypatch.setattr("skyband.spark.stream_handle.START_PAUSE", 0.1)
    return lambda times: left.write_text("late\n" * times)


@pytest.mark.long
def test_a_python_process_that_starts_too_late_does_not_end_the_stream(run, slow_python, caplog):
    """Spark waits ten seconds for the process with which a stream begins."""
    rows = cases.draw_rows(cases.rng("slow"), 60, scale=SECOND)
    posed = cases.Posed("q", Asked(k=2, size=20 * SECOND, slide=10 * SECOND), {"by": "s"})
    run.add(rows[:30], rows[30:])
    slow_python(1)
    run.finish(posed.query())
    assert cases.answered(run.found(), [posed]) == cases.wanted(posed, rows)
    assert "within the ten seconds that Spark waits; restarting" in caplog.text


@pytest.mark.long
def test_a_python_process_that_never_starts_ends_it(run, slow_python, monkeypatch):
    monkeypatch.setattr("skyband.spark.stream_handle.START_ATTEMPTS", 2)
    run.add(cases.draw_rows(cases.rng("slow"), 30, scale=SECOND))
    slow_python(100)
    handle = run.start(cases.Posed("q", Asked(k=2, size=20 * SECOND, slide=10 * SECOND), {"by": "s"}).query())
    with pytest.raises(PipelineError, match="did not start a Python process within the ten seconds that Spark waits"):
        handle.finish()
