"""Checkpoints that an earlier version left: resumed by this one, they give the answers that were still to come."""

from __future__ import annotations

import pytest
from packaging.version import Version

from skyband.spark import answers
from tests import golden_checkpoints
from tests.spark.frames import collected, frame, read_sink, write_files


def rounded(row):
    return tuple(round(value, 12) if isinstance(value, float) else value for value in row.values())


STORED = [
    pytest.param(
        family,
        version,
        archive,
        id=f"{family}-spark-{version}",
        # Those of 4.1 and 4.2 are as those of 4.3. Those of 4.0 have other files, the same for every family.
        marks=[pytest.mark.long] if version in ("4.1", "4.2") or (version == "4.0" and family != "topk") else [],
    )
    for family in golden_checkpoints.WORKLOADS
    for version, archive in golden_checkpoints.archives(family).items()
]


@pytest.mark.parametrize(("family", "version", "archive"), STORED)
def test_a_stream_goes_on_from_an_earlier_versions_checkpoint(spark, tmp_path, family, version, archive):
    if Version(version) > Version(spark.version):
        pytest.skip(f"Spark {spark.version} does not read checkpoints of Spark {version}")
    first, rest = golden_checkpoints.batches()[: golden_checkpoints.FIRST], golden_checkpoints.rest()
    batches = [*first, *rest]
    golden_checkpoints.unpack(archive, tmp_path)
    write_files(tmp_path / "in", batches)
    sink = tmp_path / "out"
    handle = golden_checkpoints.start(
        spark, family, tmp_path, lambda out: out.writeStream.format("parquet").option("path", str(sink))
    )
    handle.finish()
    assert handle.metrics()["rows"] == sum(map(len, rest)), "files are not read again"
    found = read_sink(sink)
    rows = frame(spark, [row for batch in batches for row in batch])
    whole = collected(answers(rows, golden_checkpoints.WORKLOADS[family], time="ts", id="id"))
    end = "window_end" if "window_end" in whole[0] else "time"
    begin = min(row[end] for row in found)
    assert sorted(map(rounded, found), key=repr) == sorted(
        (rounded(row) for row in whole if row[end] >= begin), key=repr
    )
    assert begin > min(row[end] for row in whole), "what was answered before is not answered again"
