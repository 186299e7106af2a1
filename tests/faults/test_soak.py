"""A run of all families that goes on for a long time: its memory stays as it is, and every answer is there once.

On demand only: SKYBAND_FAULTS_MINUTES says how long. What was measured goes to the folder SKYBAND_FAULTS_FOLDER.
"""

from __future__ import annotations

import csv
import os
import re
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from tests.faults import work
from tests.faults.length import MINUTES
from tests.faults.process import Driver
from tests.servers import free_port

SECOND = work.SECOND
MANY, FEW = 10_000, 100  # rows a second, of two folders
KEPT = 300  # files: older ones were read long ago
SAMPLE = 2  # seconds
COLUMNS = ("seconds", "driver", "java", "workers", "state", "rows", "lag")
FILE = """
streams:
  rows: &many
    path: many
    format: parquet
    schema: &columns {ts: timestamp, id: bigint, s: double, g: string, client: string, router: string, p: double}
    time: ts
    id: id
    watermark: 2 seconds
  requests: *many
  flows: &few
    path: few
    format: parquet
    schema: *columns
    time: ts
    id: id
    watermark: 2 seconds
  readings: *few
queries:
  - {name: all, stream: rows, k: 10, size: 1 minute, slide: 10 seconds, by: s}
  - {name: each, stream: rows, k: 3, size: 30 seconds, slide: 5 seconds, by: s, partition_by: [g]}
  - {name: busy, stream: requests, type: aggregate, k: 5, size: 1 minute, slide: 10 seconds, key: client, value: s}
  - {name: heavy, stream: flows, type: incomplete, k: 3, size: 1 minute, every: 10 seconds, object: client,
     stream_by: router, value: s, streams: [a, b], bounds: [0, 1000], occurrences: 10000}
  - {name: likely, stream: readings, type: uncertain, k: 3, size: 1 minute, every: 10 seconds, by: s, probability: p}
sinks: [{type: parquet, path: out}]
engine: {master: "local[2]", memory: 1g, checkpoint: state, trigger: 10 seconds}
"""
pytestmark = pytest.mark.skipif(MINUTES is None, reason="a long run is made when SKYBAND_FAULTS_MINUTES says how long")


def rows_of(second, count):
    """A second's rows, the same whenever they are asked for."""
    rng = np.random.default_rng([second, count])
    return pa.table(
        {
            "ts": pa.array(second * SECOND + np.sort(rng.integers(0, SECOND, count))).cast(pa.timestamp("us", "UTC")),
            "id": np.arange(second * count, (second + 1) * count),
            "s": rng.integers(0, 1000, count).astype(float),
            "g": rng.choice(["a", "b", "c"], count),
            "client": rng.choice([f"c{number}" for number in range(500)], count),
            "router": rng.choice(["a", "b"], count),
            "p": rng.choice([0.25, 0.5], count),
        }
    )


class Feed:
    """A file a second for each folder; those of long ago are removed."""

    def __init__(self, folder):
        self._folders = {folder / "many": MANY, folder / "few": FEW}
        for one in self._folders:
            one.mkdir()
        self.seconds = 0
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def __enter__(self):
        self._write()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._enough.set()
        self._thread.join()

    def finish(self):
        """A row so late that all windows before it are final."""
        self.__exit__()
        for folder, count in self._folders.items():
            last = rows_of(self.seconds + 1000, count)[:1]
            _put(folder, self.seconds, last)

    def _feed(self):
        due = time.monotonic()
        while not self._enough.wait(max(0, due - time.monotonic())):
            self._write()
            due += 1

    def _write(self):
        for folder, count in self._folders.items():
            _put(folder, self.seconds, rows_of(self.seconds, count))
            (folder / f"{self.seconds - KEPT:06}.parquet").unlink(missing_ok=True)
        self.seconds += 1


def _put(folder, number, rows):
    unfinished = folder / f".{number:06}"
    pq.write_table(rows, unfinished)
    unfinished.rename(folder / f"{number:06}.parquet")


def test_memory_is_flat(tmp_path, tally):
    (tmp_path / "work.yaml").write_text(FILE)
    port = free_port()
    driver = Driver(tmp_path / "work.yaml", "--metrics", str(port))
    samples = []
    with Feed(tmp_path) as feed:
        driver.start()
        began = time.monotonic()
        try:
            while time.monotonic() < began + 60 * MINUTES:
                time.sleep(SAMPLE)
                assert driver.is_alive(), driver.told()
                if (numbers := page(port)) is not None:
                    samples.append((time.monotonic() - began, *resident(driver), *numbers))
            feed.finish()
            wanted = answers_of(sb.read_workload(tmp_path / "work.yaml"), feed.seconds)
            driver.await_answers(tmp_path, wanted)
            assert driver.stop() == 130, driver.told()
        finally:
            driver.end()
            keep(samples)
    tally.check(work.found_in(tmp_path)["parquet"], wanted)
    tally.note(f"{MINUTES} minutes at {MANY:,} rows a second: {told(samples)}")
    for name, slack in {"driver": 16e6, "java": 48e6, "workers": 48e6, "state": 2e5}.items():
        before, after = thirds(samples, name)
        assert after < 1.2 * before + slack, f"{name}: {before:,.0f} bytes, later {after:,.0f}"
    assert thirds(samples, "lag")[1] < 60


def page(port):
    """State bytes, rows and lag that the run shows to Prometheus; None before it does."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    except OSError:
        return None
    found = {}
    for name in ("state_bytes", "rows_total", "emit_lag_seconds"):
        found[name] = [float(value) for value in re.findall(rf'skyband_{name}{{stream="\w+"}} (\S+)', text)]
    if not all(found.values()):
        return None
    return sum(found["state_bytes"]), sum(found["rows_total"]), max(found["emit_lag_seconds"])


def resident(driver):
    """Resident bytes of the driver in Python, of Java, and of all workers together."""
    java, sums = driver.java(), {"driver": 0, "java": 0, "workers": 0}
    for pid in driver.members():
        with suppress(psutil.Error):
            kind = "driver" if pid == driver.process.pid else "java" if pid == java else "workers"
            sums[kind] += psutil.Process(pid).memory_info().rss
    return sums.values()


def thirds(samples, name):
    """The mean of the second third and of the last."""
    values = [sample[COLUMNS.index(name)] for sample in samples]
    third = len(values) // 3
    return np.mean(values[third : 2 * third]), np.mean(values[2 * third :])


def told(samples):
    spoken = []
    for name in ("driver", "java", "workers", "state"):
        before, after = (value / 1e6 for value in thirds(samples, name))
        spoken.append(f"{name} {before:,.1f} then {after:,.1f} MB")
    return ", ".join(spoken)


def keep(samples):
    folder = Path(os.environ.get("SKYBAND_FAULTS_FOLDER", "build/faults"))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "soak.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *samples])


def answers_of(file, seconds):
    """What is wanted, from the same rows pushed in one process, which other tests compare with the definitions."""
    (each,) = (query for query in file.workloads["rows"] if query.partition_by)
    (whole,) = (query for query in file.workloads["rows"] if not query.partition_by)
    monitors = sb.Monitor(whole), sb.Monitor(each), sb.aggregate.Monitor(file.workloads["requests"])
    for second in range(seconds):
        rows = rows_of(second, MANY)
        monitors[0].push(rows["ts"], rows["s"], rows["id"])
        monitors[1].push(rows["ts"], rows["s"], rows["id"], groups=rows["g"])
        monitors[2].push(rows["ts"], rows["client"], rows["s"])
    for monitor in monitors:
        monitor.finish()
    rows = pa.concat_tables([rows_of(second, FEW) for second in range(seconds)])
    tables = [
        *(monitor.answers() for monitor in monitors),
        sb.incomplete.replay(file.workloads["flows"], rows["ts"], rows["client"], rows["router"], rows["s"]),
        sb.uncertain.replay(file.workloads["readings"], rows["ts"], rows["s"], rows["p"], None, rows["id"]),
    ]
    return [work.plain_row({**row, "g": row.get("group")}) for table in tables for row in table.to_pylist()]
