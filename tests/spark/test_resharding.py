"""A checkpoint continues with another number of shards and partitions, and every answer is the oracle's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import skyband as sb
from skyband.errors import SnapshotError, UnsupportedError
from skyband.spark import resharding, start
from skyband.spark.query_settings import PARTITIONS, while_starting
from skyband.spark.versions import checkpoint_manager
from tests import golden_checkpoints
from tests.oracle import Asked
from tests.sharding import cases
from tests.spark import bounded_run
from tests.spark.frames import read_sink, read_stream, write_files
from tests.waiting import process_all, wait_for

SECOND = bounded_run.SECOND
COUNTED = [
    cases.Posed("last", Asked(k=3, size=9, slide=4), {"by": "s"}),
    cases.Posed("each", Asked(k=2, size=6, slide=2), {"by": "s", "partition_by": ["g"]}),
]


def batches():
    rows = cases.draw_rows(cases.rng("resharding"), 160, scale=SECOND)
    return [rows[40 * number : 40 * (number + 1)] for number in range(4)]


def wanted(posed, axis="time"):
    found = {}
    for one in posed:
        found |= cases.wanted(one, [row for batch in batches() for row in batch], axis)
    return found


def begun(spark, folder, shards, *, posed=bounded_run.POSED, axis="time", **more):
    return start(
        read_stream(spark, folder / "in"),
        [one.query(axis) for one in posed],
        time="ts",
        id="id",
        watermark="0 seconds",
        shards=shards,
        write=lambda out: out.writeStream.format("parquet").option("path", str(folder / "out")),
        checkpoint=str(folder / "state"),
        **more,
    )


def stopped_half_way(spark, folder, shards, **more):
    write_files(folder / "in", batches()[:2])
    handle = begun(spark, folder, shards, **more)
    process_all(handle.query)
    handle.stop()
    write_files(folder / "in", batches()[2:], begin=2)


def stored_partitions(folder):
    return sorted(int(path.name) for path in (folder / "state" / "state" / "0").glob("[0-9]*"))


def assert_complete(folder, posed=bounded_run.POSED, axis="time"):
    assert cases.answered(read_sink(folder / "out"), posed) == wanted(posed, axis)


@pytest.mark.parametrize(("before", "after", "posed", "axis"), [
    (2, 5, bounded_run.POSED, "time"),
    (3, 1, COUNTED, "count"),
])  # fmt: skip
def test_another_number_of_shards_gives_the_same_answers(spark, tmp_path, before, after, posed, axis):
    stopped_half_way(spark, tmp_path, before, posed=posed, axis=axis)
    with pytest.raises(SnapshotError, match=rf"shards={before} .* shards={after}\. .*reshard=True \(skyband run --resh"):
        begun(spark, tmp_path, after, posed=posed, axis=axis)
    handle = begun(spark, tmp_path, after, posed=posed, axis=axis, reshard=True)
    handle.finish()
    assert_complete(tmp_path, posed, axis)
    begun(spark, tmp_path, after, posed=posed, axis=axis).stop()  # the new number is stored
    with pytest.raises(SnapshotError, match="reshard=True"):
        begun(spark, tmp_path, before, posed=posed, axis=axis)
