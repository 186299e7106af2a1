"""Combiners on Spark: switched on and off by a setting, with the same answers, for streams, batches and restarts."""

from __future__ import annotations

import pytest

from skyband.errors import InvalidInputError
from skyband.spark import answers, start
from skyband.spark.combiners import COMBINERS, combiners_for, combiners_of
from tests import golden_checkpoints
from tests.golden_checkpoints import WORKLOADS
from tests.spark.frames import SCHEMA, collected, frame, read_sink, write_files

SECOND = 1_000_000
TASKS = 6


@pytest.fixture
def combiners(spark):
    """A function that sets the number of combiners, until the test ends."""
    yield lambda count: spark.conf.set(COMBINERS, str(count))
    spark.conf.unset(COMBINERS)


def rounded(rows):
    return sorted(
        (tuple(round(value, 12) if isinstance(value, float) else value for value in row.values()) for row in rows),
        key=repr,
    )


@pytest.fixture
def files(tmp_path):
    """Twelve files, six a micro-batch; Spark makes a task for each. Scores are in the incomplete query's bounds."""
    rows = [((100 + n / 20) * SECOND, (n * 7 % 97) / 16, n, "abc"[n * 5 % 3]) for n in range(720)]
    rows = [(int(position), *rest) for position, *rest in rows]
    halves = rows[:360], rows[360:]
    write_files(tmp_path / "in", [half[task::TASKS] for half in halves for task in range(TASKS)])
    return tmp_path / "in", rows


def run(spark, files, family, folder, checkpoint, **more):
    folder_in, _ = files
    spark.conf.set("spark.sql.files.openCostInBytes", str(128 << 20))
    try:
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", TASKS).parquet(str(folder_in))
        handle = start(
            stream, WORKLOADS[family], time="ts", id="id", watermark="3 seconds", checkpoint=str(checkpoint),
            write=lambda out: out.writeStream.format("parquet").option("path", str(folder)),
            shards=None if family == "uncertain" else 2, **more,
        )  # fmt: skip
        handle.finish()
    finally:
        spark.conf.unset("spark.sql.files.openCostInBytes")
    return handle.metrics()


@pytest.mark.long
@pytest.mark.parametrize("family", [family if family == "topk" else pytest.param(family, marks=pytest.mark.long)
                                    for family in WORKLOADS])  # fmt: skip
def test_a_stream_and_a_batch_give_the_same_answers(spark, files, tmp_path, combiners, family):
    batch = frame(spark, files[1], partitions=TASKS)
    found, counted = {}, {}
    for count in (0, 2):
        combiners(count)
        counted[count] = run(spark, files, family, tmp_path / f"out{count}", tmp_path / f"state{count}")
        whole = collected(answers(batch, WORKLOADS[family], time="ts", id="id"))
        found[count] = rounded(read_sink(tmp_path / f"out{count}")), rounded(whole)
    assert found[0] == found[2]
    assert found[0][0] == found[0][1]
    for name in ("rows", "late", "windows", "answers", "pruned"):
        assert counted[0][name] == counted[2][name]
    units = 1 if family == "uncertain" else 4 if family == "aggregate" else 2
    assert counted[0]["envelopes"] >= 2 * TASKS * units // (2 if family == "aggregate" else 1)
    assert counted[2]["envelopes"] <= 2 * 2 * units
    assert counted[2]["envelope_bytes"] < counted[0]["envelope_bytes"]


@pytest.mark.long
@pytest.mark.parametrize("family", [family if family == "topk" else pytest.param(family, marks=pytest.mark.long)
                                    for family in WORKLOADS])  # fmt: skip
def test_a_stored_checkpoint_goes_on_with_combiners(spark, tmp_path, combiners, family):
    """A checkpoint of an earlier version, from before there were combiners."""
    batches = golden_checkpoints.batches()
    golden_checkpoints.unpack(golden_checkpoints.FOLDER / f"{family}.tar.gz", tmp_path)
    write_files(tmp_path / "in", batches)
    combiners(2)
    golden_checkpoints.start(
        spark, family, tmp_path, lambda out: out.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    ).finish()
    found = read_sink(tmp_path / "out")
    rows = frame(spark, [row for batch in batches for row in batch])
    whole = collected(answers(rows, WORKLOADS[family], time="ts", id="id"))
    end = "window_end" if "window_end" in whole[0] else "time"
    begin = min(row[end] for row in found)
    assert rounded(found) == rounded(row for row in whole if row[end] >= begin)


@pytest.mark.long
def test_a_stream_restarts_with_other_combiners(spark, tmp_path, combiners):
    def write(out):
        writer = out.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        return writer if high == len(batches) else writer.trigger(availableNow=True)

    batches = golden_checkpoints.batches()
    for count, low, high in ((3, 0, 3), (0, 3, 5), (1, 5, 6)):
        write_files(tmp_path / "in", batches[low:high], begin=low)
        combiners(count)
        handle = golden_checkpoints.start(spark, "topk", tmp_path, write)
        if high == len(batches):
            handle.finish()
        else:
            handle.await_end(progress=False)
    rows = frame(spark, [row for batch in batches for row in batch])
    assert rounded(read_sink(tmp_path / "out")) == rounded(
        collected(answers(rows, WORKLOADS["topk"], time="ts", id="id"))
    )


@pytest.mark.parametrize("value", ["-1", "1025", "many", "1.5", "²"])
def test_a_wrong_setting_is_rejected(spark, combiners, value):
    combiners(value)
    with pytest.raises(InvalidInputError, match=rf"{COMBINERS} must be 'auto' or an integer between 0 and 1024"):
        answers(frame(spark, [(0, 1.0, 1, "a")]), WORKLOADS["topk"], time="ts", id="id")


def test_small_clusters_have_no_combiners(spark, combiners):
    assert combiners_for(spark) == 0
    combiners("auto")
    assert combiners_for(spark) == 0
    assert [combiners_of(tasks) for tasks in (None, 1, 511, 512, 10_000)] == [0, 0, 0, 22, 100]
