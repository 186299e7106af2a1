"""What users get wrong: one clear message each, before anything has run or been written."""

from __future__ import annotations

import datetime as dt
import logging
import re

import pandas as pd
import pytest
from pyspark.logger import PySparkLogger

import skyband as sb
from skyband.spark import answers, sessions, start
from tests.spark.frames import frame, read_stream, write_files

ROWS = [(1_000_000 * at, float(at), at, "a") for at in range(1, 90)]
WATERMARK = "1 second"


def query(**more):
    return sb.TopK(**{"name": "big", "k": 2, "size": "1 minute", "by": "s", **more})


@pytest.fixture
def source(tmp_path):
    write_files(tmp_path / "in", [ROWS])
    return tmp_path / "in"


@pytest.fixture
def stream(spark, source):
    return read_stream(spark, source)


@pytest.fixture
def attempt(tmp_path):
    """Start a stream that must not start: returns what is said, and looks that nothing was written."""

    def refused(df, asked, *, kind=sb.SkybandError, written=False, **more):
        given = {"time": "ts", "id": "id", "watermark": WATERMARK, "checkpoint": str(tmp_path / "state"), **more}
        given.setdefault("write", lambda out: out.writeStream.format("parquet").option("path", str(tmp_path / "out")))
        with pytest.raises(kind) as caught:
            start(df, asked, bounded=True, **given).await_end(300, progress=False)
        assert written or not (tmp_path / "state").exists()
        assert not (tmp_path / "out").exists() or written
        return plain(caught.value)

    return refused


def plain(error):
    """The message, if it is one line that names no Java."""
    assert isinstance(error, sb.SkybandError)
    said = str(error)
    assert "\n" not in said.partition(":\n    .config(")[0]
    assert not re.search(r"java\.|Traceback|\bat org\.", said), said
    return said


MISTAKES = {
    "time": (query(), {"time": "tz"}, "time= column 'tz' does not exist; did you mean 'ts'?"),
    "time of another type": (query(), {"time": "id"}, "time='id' must be a timestamp column, got type bigint."),
    "time that is no name": (query(), {"time": 3}, "time must be the name of a column, got 3"),
    "id": (query(), {"id": "ids"}, "id= column 'ids' does not exist; did you mean 'id'"),
    "by": (query(by="ss + 1"), {}, "query 'big': by='ss + 1' cannot be computed: column 'ss' does not exist; did"),
    "where": (query(where="od"), {}, "query 'big': where='od' cannot be computed: column 'od' does not exist; did you"),
    "group": (query(partition_by=["gg"]), {}, "query 'big': partition_by='gg' cannot be computed: column 'gg' does"),
    "score of another type": (
        query(by="g", half_life="1 hour"),
        {},
        "by must be numeric",
    ),
    "filter of another type": (query(where="id"), {}, "query 'big': where='id' must be Boolean, got type bigint."),
    "ties": (query(ties="rank"), {"algorithm": "mintopk"}, "'big' has ties='rank', which mintopk does not support:"),
    "output": (
        query(),
        {"output": "diffs"},
        "output must be 'answers' (the whole answer of every window) or 'changes'",
    ),
    "syntax": (query(by="s +"), {}, "query 'big': by='s +' is not an SQL expression: syntax error at or near"),
    "no score": (query(by=None), {}, "query 'big' has no by=. The score is computed from the row's columns"),
    "aggregate": (query(by="sum(s)"), {}, "query 'big': by='sum(s)'"),
    "window function": (query(by="row_number() over (order by s)"), {}, "query 'big': by='row_number()"),
    "rows from one row": (query(by="explode(array(s))"), {}, "query 'big': by='explode(array(s))'"),
    "unknown function": (query(by="squrt(s)"), {}, "query 'big': by='squrt(s)' cannot be computed"),
    "shards": (query(), {"shards": 0}, "shards must be an integer between 1 and 1024, got 0."),
    "no watermark": (query(), {"watermark": None}, "a stream needs a watermark, got None"),
    "watermark": (query(), {"watermark": "1 fortnight"}, "watermark='1 fortnight'"),
    "negative watermark": (query(), {"watermark": dt.timedelta(seconds=-1)}, "must not be negative"),
    "algorithm": (query(), {"algorithm": "mintop"}, "algorithm 'mintop' does not exist; did you mean 'mintopk'"),
    "checkpoint": (query(), {"checkpoint": " "}, "checkpoint must be the path of a folder, got ' '."),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_arguments(stream, attempt, name):
    asked, given, said = MISTAKES[name]
    assert said in attempt(stream, asked, **given)


class Written(logging.Handler):
    """What a logger lets through to a terminal."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


def test_a_mistake_leaves_no_java_stack_on_the_terminal(stream, attempt):
    logger, written = PySparkLogger.getLogger("SQLQueryContextLogger"), Written()
    logger.addHandler(written)
    try:
        attempt(stream, query(by="ss"))
    finally:
        logger.removeHandler(written)
    assert written.records == []


def test_mistakes_in_a_batch_are_the_same(spark):
    df = frame(spark, ROWS[:1])
    for given, said in (
        ({"time": "tz"}, "did you mean 'ts'?"),
        ({"late": "drop"}, "late must be 'count', 'return' or 'refuse', got 'drop'."),
        ({"shards": True}, "shards must be an integer between 1 and 1024, got True"),
        ({"watermark": "a while"}, "watermark='a while'"),
        ({"watermark": 5}, "watermark must be interval text such as '10 seconds' or a timedelta, got 5 of type int"),
        ({"watermark": "-5 seconds"}, "watermark must not be negative, got '-5 seconds'"),
    ):
        with pytest.raises(sb.SkybandError) as caught:
            answers(df, query(), **{"time": "ts", **given})
        assert said in plain(caught.value)
    with pytest.raises(sb.InvalidInputError, match="must be a Spark DataFrame, got list"):
        answers([1], query(), time="ts")
    rows = pd.DataFrame({"ts": range(1000), "secret": "of a row"})
    for given in ({"df": rows}, {"time": rows["secret"]}, {"workload": [rows]}):
        with pytest.raises(sb.SkybandError, match=r"pandas\.\S*(DataFrame|Series)") as caught:
            answers(**{"df": df, "workload": query(), "time": "ts", **given})
        assert "of a row" not in str(caught.value)


BY_CHANCE = [
    query(by="s + rand()"),
    query(by="s", where="uuid() > 'a'"),
    query(by="s", partition_by=["monotonically_increasing_id() % 2"]),
    sb.AggregateTopK(name="big", k=1, size="1 minute", key="uuid()", value="s"),
    sb.AggregateTopK(name="big", k=1, size="1 minute", key="g", value="randn()"),
    sb.IncompleteTopK(
        name="big", k=1, size="1 minute", object="g", stream="g", value="rand()", streams=["a"], occurrences=90
    ),
    sb.UncertainTopK(name="big", k=1, size="1 minute", by="s", probability="rand()"),
    sb.UncertainTopK(name="big", k=1, size="1 minute", by="s", probability="1", rule="shuffle(array(g))[0]"),
]


@pytest.mark.parametrize("asked", BY_CHANCE, ids=str)
def test_what_is_left_to_chance_is_refused(spark, asked):
    with pytest.raises(sb.InvalidQueryError, match="must be deterministic") as caught:
        answers(frame(spark, ROWS[:1]), asked, time="ts", id="id")
    assert plain(caught.value).startswith("query 'big': ")


def test_the_time_of_a_batch_is_no_chance(spark):
    assert answers(frame(spark, ROWS[:1]), query(where="ts < current_timestamp()"), time="ts", id="id").columns


def test_a_batch_frame_is_not_started(spark, attempt):
    said = attempt(frame(spark, ROWS[:1]), query())
    assert "df must be a streaming DataFrame; for a batch DataFrame use answers(df, …)" in said


def test_a_second_watermark(stream, attempt):
    said = attempt(stream.withWatermark("ts", "1 minute"), query())
    assert "watermark='1 second' is not allowed, because 'ts' already has a watermark." in said


def test_columns_that_cannot_be_told_apart(spark):
    twice = spark.sql("select timestamp'2024-01-01' ts, 1.0 s, 2 as a, 3 as A")
    hidden = spark.sql("select timestamp'2024-01-01' ts, 1.0 s, 2 as __skyband_a")
    both = spark.sql("select timestamp'2024-01-01' ts, 1.0 s, 2 as rank, 3 as row_rank")
    months = spark.sql("select timestamp'2024-01-01' ts, 1.0 s, make_interval(1) as span")
    for df, said in (
        (twice, "more than one column named"),
        (hidden, "column '__skyband_a' begins with '__skyband_'"),
        (both, "column 'rank' has the name of a column of every answer and would be renamed to 'row_rank'"),
        (months, "column 'span' has type interval, which Spark cannot pass to Python"),
    ):
        with pytest.raises(sb.InvalidInputError) as caught:
            answers(df, query(), time="ts")
        assert said in plain(caught.value)


def test_what_has_no_order_is_no_id_and_no_group(spark):
    df = spark.sql("select timestamp'2024-01-01' ts, 1.0 s, array(1) as list, map('a', 1) as named")
    for asked, given in ((query(), {"id": "list"}), (query(partition_by=["named"]), {})):
        with pytest.raises(sb.InvalidInputError, match="which has no order, but"):
            answers(df, asked, time="ts", **given)
    with pytest.raises(sb.InvalidQueryError, match="partition_by='rank' has the name of a column of every answer"):
        answers(spark.sql("select timestamp'2024-01-01' ts, 1.0 s, 1 as rank"), query(partition_by=["rank"]), time="ts")


def test_a_writer_that_is_none(stream, attempt):
    said = attempt(stream, query(), write=lambda out: None, written=True)
    assert "write must return a writer, such as lambda out: out.writeStream.…, but returned None." in said


def test_a_session_without_the_state_store(spark, stream, attempt):
    name, value, _ = sessions.REQUIRED[0]
    spark.conf.unset(name)
    try:
        said = attempt(stream, query(), kind=sb.UnsupportedError)
    finally:
        spark.conf.set(name, value)
    assert f'.config("{name}", "{value}")' in said


def test_a_checkpoint_of_another_stream(spark, stream, tmp_path, attempt):
    state = tmp_path / "state"
    other = stream.writeStream.format("noop").option("checkpointLocation", str(state)).trigger(availableNow=True)
    other.start().awaitTermination()
    before = sorted(map(str, state.rglob("*")))
    said = attempt(stream, query(), kind=sb.SnapshotError, written=True)
    assert "was written by another stream, not by Skyband" in said
    assert sorted(map(str, state.rglob("*"))) == before


def test_a_checkpoint_that_cannot_be_written(stream, tmp_path, attempt):
    (tmp_path / "file").write_text("no folder")
    said = attempt(stream, query(), checkpoint=str(tmp_path / "file" / "state"))
    assert "checkpoint=" in said


def test_checkpoints_that_were_made_for_something_else_or_are_damaged(spark, stream, tmp_path, attempt):
    def begin(asked):
        handle = start(
            stream,
            asked,
            time="ts",
            id="id",
            watermark=WATERMARK,
            write=lambda out: out.writeStream.format("noop").trigger(availableNow=True),
            checkpoint=str(tmp_path / "state"),
        )
        assert handle.await_end(300, progress=False)

    begin(query())
    for given, said in (
        ({"shards": 5}, "was written with shards=1 and cannot be resumed with shards=5"),
        ({"id": None}, "was written with id="),
        ({"time": "at"}, "time= column 'at' does not exist"),
    ):
        assert said in attempt(stream, query(), written=True, **given)
    assert "axis='time' and cannot be resumed with axis='count'" in attempt(stream, query(size=5), written=True)
    fewer = stream.drop("odd")
    assert "was written with columns=" in attempt(fewer, query(), written=True)

    snapshots = [*(tmp_path / "state" / "state").rglob("*.changelog"), *(tmp_path / "state" / "state").rglob("*.zip")]
    for path in snapshots:
        path.write_bytes(b"not what it was")
    write_files(tmp_path / "in", [[(200_000_000, 1.0, 200, "a")]], begin=1)
    assert snapshots
    said = attempt(stream, query(), written=True)
    assert f"'{tmp_path / 'state' / 'state'}" in said
    assert "of the checkpoint is damaged or missing" in said
    assert "Restore the whole checkpoint from a backup" in said

    (about,) = (tmp_path / "state" / "skyband" / "about").glob("part-*")
    about.write_text("[]")
    for crc in about.parent.glob(".*.crc"):
        crc.unlink()
    said = attempt(stream, query(), written=True)
    assert f"is damaged: its description in '{about.parent}' cannot be read. Restore it" in said


@pytest.mark.long
def test_a_damaged_offset(stream, tmp_path, attempt):
    handle = start(
        stream,
        query(),
        time="ts",
        watermark=WATERMARK,
        write=lambda out: out.writeStream.format("noop").trigger(availableNow=True),
        checkpoint=str(tmp_path / "state"),
    )
    assert handle.await_end(300, progress=False)
    for path in (tmp_path / "state" / "offsets").glob("[0-9]*"):
        path.write_text("not what it was")
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    said = attempt(stream, query(), id=None, written=True)
    assert re.search(
        rf"the stream stopped: '(file:)?{tmp_path}/state/offsets/\d+' of the checkpoint is damaged", said
    ), said


def test_a_whole_number_that_a_double_cannot_hold(spark):
    df = spark.sql("select timestamp'2024-01-01' ts, 9007199254740993 as n")
    with pytest.raises(Exception, match=r"query 'big': a value of by='n' is beyond 2\*\*53"):
        answers(df, query(by="n", half_life="1 hour"), time="ts").collect()
