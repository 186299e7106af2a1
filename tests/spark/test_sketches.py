"""Sketches on Spark: bounds hold for bounded inputs, and for streams with restarts."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import run
from skyband.jobs.local_verification import verify_local
from skyband.jobs.verification import verify
from tests.aggregate.test_sketch_files import FILE, clicks, workload

pytestmark = pytest.mark.long
__all__ = ["clicks"]  # a fixture


def test_brute_force_in_spark_sql_agrees(spark, tmp_path, clicks):
    found = verify(spark, workload(tmp_path, clicks), "clicks")
    assert found.agrees, found.difference
    assert found.difference.compared > 100


def test_a_stream_with_a_restart(spark, tmp_path, clicks):
    (tmp_path / "in").mkdir()
    (tmp_path / "work.yaml").write_text(FILE + "engine: {checkpoint: state, shards: 3}\n")
    file = sb.read_workload(tmp_path / "work.yaml")
    for place in range(3):
        pq.write_table(clicks.slice(1000 * place, 1000), tmp_path / "in" / f"{place}.parquet")
        assert run(file, "once", spark=spark).await_end(300)
    found = verify_local(file, "clicks", answers=tmp_path / "out", unfinished=True)
    assert found.agrees, found.difference
    assert found.difference.compared > 80
