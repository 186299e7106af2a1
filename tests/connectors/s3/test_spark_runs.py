"""A stream on Spark whose files, checkpoint and answers are in an object store, killed without warning."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSelector, S3FileSystem

from skyband.spark.ivy import NotFetchedError
from tests.connectors.s3 import s3a_run
from tests.connectors.s3.server import PASSWORD, USER
from tests.connectors.s3.test_file_sinks import options
from tests.jobs.test_job import QUERIES, rows_of, wanted, whole
from tests.spark.bounded_run import environment
from tests.spark.frames import table
from tests.waiting import wait_for

pytestmark = [pytest.mark.long, pytest.mark.slow]
FILE = """
streams: {{rows: {{path: 's3a://{bucket}/in', format: parquet, time: ts, id: id, watermark: 0 seconds}}}}
{queries}
sinks: [{{type: parquet, path: 's3a://{bucket}/out', options: {{{options}}}}}]
engine: {{checkpoint: 's3a://{bucket}/state', master: 'local[2]', memory: 768m, settings: {{{settings}}}}}
"""


def yaml_of(values):
    return ", ".join(f"{name}: '{value}'" for name, value in values.items())


def begin(path, how):
    """The program in a process group of its own, so that its Java dies with it."""
    with path.with_suffix(".log").open("a") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.connectors.s3.s3a_run", str(path), how],
            env={**environment(), "ACCESS_KEY": USER, "SECRET_KEY": PASSWORD},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def kill(process):
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_killed_and_resumed(s3, bucket, tmp_path, tally):
    try:
        settings = yaml_of(s3a_run.settings(s3.port))
    except NotFetchedError as error:
        pytest.skip(f"s3a is not tested: {error}")
    store = S3FileSystem(**options(s3.port))
    hidden = {"access_key": "${ACCESS_KEY}", "secret_key": "${SECRET_KEY}"}
    path, log = tmp_path / "work.yaml", tmp_path / "work.log"
    given = {"queries": QUERIES, "options": yaml_of(options(s3.port) | hidden), "settings": settings}
    path.write_text(FILE.format(bucket=bucket, **given))
    rows = sorted(rows_of(71, 160), key=lambda row: row[0])

    def objects():
        found = store.get_file_info(FileSelector(f"{bucket}/out", allow_not_found=True))
        return sorted(one.path for one in found if one.base_name.startswith("rows-"))  # not the check at the start

    process, parts = None, [rows[low : low + 40] for low in range(0, 160, 40)]
    try:
        for number, part in enumerate(parts[:3]):
            process, before = begin(path, "follow"), len(objects())
            pq.write_table(table(part), f"{bucket}/in/{number:03}.parquet", filesystem=store)
            wait_for(lambda before=before, process=process: len(objects()) > before or process.poll() is not None, 300)
            kill(process)
            assert process.returncode == -signal.SIGKILL, log.read_text()[-3000:]
            tally.fault("kill -9 of a run in an object store")
        pq.write_table(table(parts[3]), f"{bucket}/in/003.parquet", filesystem=store)
        process = begin(path, "finish")
        assert process.wait(300) == 0, log.read_text()[-3000:]
    finally:
        if process is not None:
            kill(process)
    answers = [
        row
        for name in objects()
        for row in pq.read_table(io.BytesIO(store.open_input_stream(name).readall())).to_pylist()
    ]
    tally.check_answers(whole(answers), wanted(rows))
