"""The workload files of the pages and of the demo: equal answers on Spark and in this process, bounded and followed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
import yaml

import skyband as sb
from skyband.cli.stream_demo import WORKLOAD
from skyband.jobs import run, run_local
from tests.jobs.test_local_job import assert_same

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"```yaml\n(.*?)```", re.S)


def documented():
    """By page and number: the workload files over local files, complete with queries."""
    found = {"demo": WORKLOAD}
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        for number, text in enumerate(BLOCK.findall(page.read_text())):
            if "streams:" in text and "queries:" in text:
                parsed = yaml.safe_load(text)
                if isinstance(parsed, dict) and all(map(_is_of_files, parsed["streams"].values())):
                    found[f"{page.stem} {number}"] = text
    return found


def _is_of_files(stream):
    return "path" in stream and stream.get("source", "files") == "files"


FILES = documented()


def rows(name):
    rng, n = np.random.default_rng(len(name)), 300
    at = pa.array(1_704_067_200_000_000 + np.sort(rng.integers(0, 7200, n)) * 1_000_000).cast(pa.timestamp("us", "UTC"))
    if name == "sightings":
        return pa.table(
            {
                "at": at,
                "sighting": np.arange(n),
                "length": rng.integers(20, 90, n),
                "confidence": rng.choice([0.3, 0.6, 0.9], n),
                "berg": pa.array([f"b{row}" for row in range(n)]),
                "ship": pa.array(rng.choice(["Ann", "Bea"], n)),
            }
        )
    columns = {"ts": at, "trade_id": np.arange(n), "symbol": pa.array(rng.choice(["A", "B", "C"], n))}
    columns |= {"price": rng.integers(1, 50, n) / 4, "shares": rng.integers(1, 9, n), "size": rng.integers(1, 9, n)}
    return pa.table(columns)


def prepared(folder, text):
    """The workload file with its data beside it, and with its answers in memory."""
    parsed = yaml.safe_load(text)
    for name, stream in parsed["streams"].items():
        data, path = rows(name), folder / stream["path"]
        if stream.get("format", path.suffix) == "parquet":
            path.mkdir()
            for number in range(3):
                pq.write_table(data.slice(100 * number, 100), path / f"{number}.parquet")
        else:
            time = data.column_names[0]
            written = pa.compute.strftime(data[time], "%Y-%m-%d %H:%M:%SZ")
            pcsv.write_csv(data.set_column(0, time, written), path)
    (folder / "work.yaml").write_text(yaml.safe_dump({**parsed, "sinks": [{"type": "memory"}]}))
    return sb.read_workload(folder / "work.yaml")


def final_rows(table):
    """The rows of final answers; what is emitted before depends on the micro-batches."""
    return sorted(repr(row) for row in table.to_pylist() if row.get("final") is not False)


def ended(job):
    """The job after its end, when another run of the same file can start."""
    assert job.await_end(300)
    job.finish()
    return job


def test_pages_have_workloads():
    assert len(FILES) >= 4


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=() if page == "demo" else pytest.mark.long) for page in FILES]
)
def test_bounded(spark, tmp_path, page):
    assert_same(prepared(tmp_path, FILES[page]), spark)


@pytest.mark.parametrize("page", FILES)
def test_followed(tmp_path, page):
    file = prepared(tmp_path, FILES[page])
    whole = ended(run_local(file))
    followed = run_local(file, "stream")
    followed.finish()
    for stream in file.workloads:
        found = [final_rows(one.memory(stream)) for one in (whole, followed)]
        assert found[0] == found[1]
        assert found[0]


@pytest.mark.long
@pytest.mark.parametrize("page", FILES)
def test_followed_on_spark(spark, tmp_path, page):
    file = prepared(tmp_path, FILES[page])
    whole = ended(run_local(file))
    followed = run(file, "stream", spark=spark)
    followed.finish()
    for stream in file.workloads:
        found = [final_rows(one.memory(stream)) for one in (whole, followed)]
        assert found[0] == found[1]
