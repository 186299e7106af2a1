"""Every family as a stream and as a batch on the installed version of Spark, compared with a run without Spark.

``make test-spark VERSION=4.0.5`` runs it with another version.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from skyband.errors import UnsupportedError
from skyband.queries.families import FAMILIES
from skyband.spark import answers
from tests import golden_checkpoints
from tests.spark.frames import collected, frame, read_sink, table, write_files

ROWS = [row for batch in golden_checkpoints.batches() for row in batch]


def rounded(rows):
    """Sums of probabilities may differ in the last digits from one plan to another."""
    plain = (tuple(round(value, 12) if isinstance(value, float) else value for value in row.values()) for row in rows)
    return sorted(plain, key=repr)


def replayed(family):
    """The answers in process; keys need no id to break ties."""
    named = {"time": "ts"} if family == "aggregate" else {"time": "ts", "id": "id"}
    found = FAMILIES[family].part("monitor").replay(golden_checkpoints.WORKLOADS[family], table(ROWS), **named)
    return pa.table(found)


@pytest.mark.long
@pytest.mark.parametrize("family", golden_checkpoints.WORKLOADS)
def test_streams_and_batches_give_the_answers_of_a_run_without_spark(spark, tmp_path, family):
    found = collected(answers(frame(spark, ROWS), golden_checkpoints.WORKLOADS[family], time="ts", id="id"))
    wanted = replayed(family).select(list(found[0])).to_pylist()
    assert rounded(found) == rounded(wanted)

    write_files(tmp_path / "in", [ROWS[low : low + 20] for low in range(0, len(ROWS), 20)])
    sink = tmp_path / "out"
    handle = golden_checkpoints.start(
        spark, family, tmp_path, lambda out: out.writeStream.format("parquet").option("path", str(sink))
    )
    handle.finish()
    assert handle.metrics()["rows"] == len(ROWS)
    assert rounded(read_sink(sink)) == rounded(wanted)


@pytest.mark.long
def test_a_session_without_the_needed_setting_gets_the_line_to_add(spark, tmp_path):
    """The state store is Spark's default. With the line of the message, the same session answers."""
    own = spark.newSession()
    own.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    )
    write_files(tmp_path / "in", [ROWS])
    sink = tmp_path / "out"

    def begin():
        return golden_checkpoints.start(
            own, "topk", tmp_path, lambda out: out.writeStream.format("parquet").option("path", str(sink))
        )

    with pytest.raises(UnsupportedError) as caught:
        begin()
    ((name, value),) = re.findall(r'\n    \.config\("(\S+)", "(\S+)"\)  # ', str(caught.value))
    own.conf.set(name, value)
    begin().finish()
    assert rounded(read_sink(sink)) == rounded(replayed("topk").select(list(read_sink(sink)[0])).to_pylist())
