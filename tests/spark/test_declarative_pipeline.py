"""`answers` as flows of Spark's Declarative Pipelines, run twice by their own command line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException

import skyband as sb
from skyband.spark import answers
from tests.programs import LONGEST
from tests.spark.frames import frame

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline"
QUERY = sb.TopK(name="largest", k=3, size="1 minute", slide="20 seconds", by="price * shares")


def test_answers_inside_a_flow_is_an_error_of_one_line(spark, monkeypatch):
    df = frame(spark, [(1_000_000, 1.0, 1, "a")])

    def in_flow(_):
        raise AnalysisException("[ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION] Operations that … are not allowed")

    monkeypatch.setattr(type(df), "isStreaming", property(in_flow))
    with pytest.raises(sb.UnsupportedError, match="Call answers at the top level of the file, and return its result"):
        answers(df, sb.TopK(k=1, size="1 minute", by="s"), time="ts")


@pytest.fixture
def project(tmp_path):
    """A copy of the example that writes into this folder."""
    shutil.copytree(EXAMPLE, tmp_path / "project", ignore=shutil.ignore_patterns("trades", "__pycache__"))
    spec = tmp_path / "project" / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/tmp/largest_trades", str(tmp_path)))
    return tmp_path / "project"


def run(project, first, last):
    """Write these parts of the trades and run the pipeline; its output."""
    subprocess.run([sys.executable, "make_trades.py", str(first), str(last)], cwd=project, check=True)
    # Another catalog than Spark's default, which forgets its tables when the command ends.
    settings = ["spark.sql.catalogImplementation=hive", f"spark.sql.warehouse.dir={project / 'warehouse'}"]
    known = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    known["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), known["PATH"]])
    command = ["spark-pipelines", "run", *(word for one in settings for word in ("--conf", one))]
    for _ in range(3):
        done = subprocess.run(
            command, cwd=project, env=known, capture_output=True, text=True, timeout=LONGEST, check=False
        )
        # On a busy machine a worker may miss Spark's ten seconds to connect. The next run continues.
        if "Python worker failed to connect back" not in done.stdout + done.stderr:
            break
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def table(project, name):
    found = pq.read_table(project / "warehouse" / name)
    place = found.column_names.index("window_end")  # Hive's tables have nanoseconds without a zone
    found = found.set_column(place, "window_end", found["window_end"].cast(pa.timestamp("us", "UTC")))
    return found.sort_by([("window_end", "ascending"), ("rank", "ascending")])


def wanted(project, delay=None):
    """The answers over all trades so far; with a delay, of the windows that the watermark has passed."""
    trades = pq.read_table(project / "trades")
    found = sb.replay(QUERY, trades, time="ts", id="trade_id").to_arrow()
    if delay is None:
        return found
    passed = pc.less_equal(found["window_end"], pc.subtract(pc.max(trades["ts"]), pa.scalar(delay, pa.duration("s"))))
    return found.filter(passed)


def assert_same(found, expected):
    assert expected.num_rows >= QUERY.k
    for column in ("window_end", "rank", "trade_id", "score"):
        assert found[column].to_pylist() == expected[column].to_pylist(), column


@pytest.mark.release
@pytest.mark.skipif(find_spec("pyspark.pipelines") is None, reason="Spark has Declarative Pipelines since 4.1")
def test_flows_answer_exactly_and_the_next_run_resumes(project):
    for first, last in ((0, 1), (2, 3)):
        said = run(project, first, last)
        assert re.search(r"Flow \S*largest_trades has COMPLETED", said)
        assert_same(table(project, "largest_trades"), wanted(project, delay=5))
        assert_same(table(project, "largest_trades_so_far"), wanted(project))
