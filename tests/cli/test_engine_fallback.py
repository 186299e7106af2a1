"""A bounded run that finds text which only Spark reads continues on Spark, and says so."""

from __future__ import annotations

import json

import pytest

from tests.programs import skyband


@pytest.mark.long
def test_the_run_continues_on_spark(tmp_path):
    (tmp_path / "in.csv").write_text("at,v\n2024-01-01 10:00,1\n2024-01-01 10:01,2\n")
    (tmp_path / "work.yaml").write_text(
        "streams: {s: {path: in.csv, time: at, schema: {at: timestamp, v: int}}}\n"
        "queries: [{name: q, k: 1, size: 1 minute, by: v}]\n"
    )
    done = skyband("run", str(tmp_path / "work.yaml"), "--once", "--json")
    assert done.returncode == 0, done.stderr
    assert "runs in this process, without Spark: the input is small" in done.stderr
    assert "runs on Spark: stream 's': the text '2024-01-01 10:00' in column 'at'" in done.stderr
    assert [json.loads(line)["score"] for line in done.stdout.splitlines()] == [1.0, 2.0]
