"""Open a stream of any source: count and drop malformed rows, add computed columns, parse the event time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.connectors.source import InTasks, Reading, SourceModel
from skyband.errors import InvalidInputError, SkybandError, UnknownNameError
from skyband.queries.workload import Workload
from skyband.sharding.row_source import HIDDEN
from skyband.spark.expressions import TIMES, quoted, reason, unlogged
from skyband.spark.spark_errors import first_line

__all__ = [
    "RECORD",
    "WRONG",
    "dead_letters_of",
    "named_in",
    "open_batch",
    "open_stream",
    "reported_as_stream",
    "valid_rows",
]

# The columns that mark malformed rows and records on their way through Spark.
WRONG = f"{HIDDEN}wrong"  # the column with the problem of a record; null: no problem
RECORD = f"{HIDDEN}record"  # the record itself, for dead letters


_SINCE_1970 = {  # units in a second, type of the number, function that converts it to a timestamp
    "seconds": (1, "double", sf.timestamp_seconds),
    "milliseconds": (1_000, "long", sf.timestamp_millis),
    "microseconds": (1_000_000, "long", sf.timestamp_micros),
}
# Times of the years 1 to 9999. A number in a unit other than the declared one is usually far outside this range. It
# would advance the watermark so far that every following row is late.
_FIRST, _END = -62_135_596_800, 253_402_300_800  # seconds since 1970


def open_stream(
    spark: SparkSession,
    name: str,
    stream: SourceModel,
    *,
    asked: Workload[Any] | None = None,
    at_once: bool = False,
    shape: Any = None,
    number: int = 0,
    in_tasks: InTasks = None,
) -> DataFrame:
    """Return the rows of a stream as a streaming data frame, with computed columns and the time as a timestamp.

    `asked` are the queries over the stream; columns that no query can name are not checked.
    `at_once`: one micro-batch takes all available input and ignores the stream's batch size. `shape` are the columns of
    files, if they are known. `number` is the place of the stream among those of one Spark query. `in_tasks`: whether
    tasks can read the values of a topic.
    """
    named = named_in(stream, asked)
    how = Reading(spark, name, at_once=at_once, query_text=named, shape=shape, in_tasks=in_tasks)
    rows = read_rows(stream, how)
    if stream.marks_malformed:
        # Count before dropping. The observation also keeps Spark from evaluating the record parser twice.
        name_of_counts = f"skyband_source_{number}" if number else "skyband_source"
        rows = rows.observe(name_of_counts, sf.count(WRONG).alias("malformed"))
    return valid_rows(name, stream, rows)


def open_batch(
    spark: SparkSession,
    name: str,
    stream: SourceModel,
    counted: Observation | None = None,
    *,
    asked: Workload[Any] | None = None,
    shape: Any = None,
    between: Any = None,
) -> DataFrame:
    """Return the current rows as a batch. `counted` observes the number of rows and of malformed rows.

    `between` are the offsets of a topic at which the batch begins and ends.
    """
    if not stream.is_bounded:
        raise InvalidInputError(
            f"stream {name!r} has source {stream.source!r}, which is unbounded; only files, tables and Kafka topics "
            "can be read as a batch."
        )
    how = Reading(spark, name, streaming=False, query_text=named_in(stream, asked), shape=shape, between=between)
    rows = read_rows(stream, how)
    if counted is not None:
        rows = rows.observe(counted, sf.count(sf.lit(1)).alias("rows"), sf.count(WRONG).alias("malformed"))
    return valid_rows(name, stream, rows)


def dead_letters_of(
    spark: SparkSession, name: str, stream: SourceModel, asked: Workload[Any], *, streaming: bool = True
) -> DataFrame:
    """Return the malformed records of a topic, or rows of files, with the reason for each; streaming or as a batch."""
    how = Reading(spark, name, streaming=streaming, with_record=True, query_text=named_in(stream, asked))
    malformed = read_rows(stream, how).where(sf.col(WRONG).isNotNull())
    return malformed.select(sf.col(WRONG).alias("reason"), f"{RECORD}.*")


def read_rows(stream: SourceModel, how: Reading) -> DataFrame:
    """Return the rows of a stream and the problem of each. If the source needs a time, rows without are malformed."""
    with reported_as_stream(how.name):
        rows = stream.read(how)
        if not stream.needs_time:
            return rows
        rows = _with_time(how.name, stream, _with_columns(how.name, stream, rows))
        time = next(column for column in rows.columns if column.lower() == str(stream.time).lower())
        no_time = sf.when(sf.col(quoted(time)).isNull(), f"column {time!r} contains no valid time")
        return rows.withColumn(WRONG, sf.coalesce(WRONG, no_time))


def valid_rows(name: str, stream: SourceModel, rows: DataFrame) -> DataFrame:
    """Return the well-formed rows, with computed columns and time."""
    if stream.marks_malformed:
        rows = rows.where(sf.col(WRONG).isNull()).drop(WRONG)
    return rows if stream.needs_time else _with_time(name, stream, _with_columns(name, stream, rows))


def named_in(stream: SourceModel, asked: Workload[Any] | None) -> str | None:
    """Return all text in which a column can be named, in lower case; None if answers return whole rows."""
    if asked is None or any(query.whole_rows for query in asked):
        return None
    texts = [*stream.columns.values(), stream.time, stream.id]
    for query in asked:
        for value in query.to_dict().values():
            texts += value if isinstance(value, list) else [value]
    return "\n".join(map(str, texts)).lower()


def _with_columns(name: str, stream: SourceModel, rows: DataFrame) -> DataFrame:
    for column, text in stream.columns.items():
        try:
            with unlogged():
                rows = rows.withColumn(column, sf.expr(text))
        except (AnalysisException, ParseException) as error:
            raise InvalidInputError(
                f"stream {name!r}: columns.{column}: {text!r} {reason(error, rows.schema)}"
            ) from None
    return rows


def _with_time(name: str, stream: SourceModel, rows: DataFrame) -> DataFrame:
    wanted = stream.time or "timestamp"
    field = next((field for field in rows.schema.fields if field.name.lower() == wanted.lower()), None)
    if field is None:
        raise UnknownNameError.among(f"stream {name!r}: time column", wanted, rows.columns)
    if stream.time_format in _SINCE_1970:
        return rows.withColumn(field.name, _as_time(name, stream, field))
    # Spark has already parsed a timestamp column; time_format does not apply.
    is_time = isinstance(field.dataType, TIMES)
    rows = rows if is_time else rows.withColumn(field.name, _as_time(name, stream, field))
    time = sf.col(quoted(field.name))
    kind = rows.schema[field.name].dataType
    first, end = (sf.timestamp_seconds(sf.lit(bound)).cast(kind) for bound in (_FIRST, _END))
    return rows.withColumn(field.name, sf.when((time >= first) & (time < end), time))


def _as_time(name: str, stream: SourceModel, field: st.StructField) -> Column:
    """Return the time as a timestamp; null if it cannot be parsed. Such rows are dropped and counted."""
    value, pattern = sf.col(quoted(field.name)), stream.time_format
    kind = field.dataType
    if pattern in _SINCE_1970:
        if not isinstance(kind, st.NumericType | st.StringType):
            raise InvalidInputError(
                f"stream {name!r}: time_format {pattern!r} requires a number, but time column {field.name!r} has type "
                f"{kind.simpleString()}. Remove time_format."
            )
        each, number, made = _SINCE_1970[pattern]
        value = value.try_cast(number)
        return made(sf.when((value >= _FIRST * each) & (value < _END * each), value))
    if isinstance(kind, st.DateType):
        return value.cast("timestamp")
    if not _is_text(kind):
        raise InvalidInputError(
            f"stream {name!r}: time column {field.name!r} must be a timestamp, got {kind.simpleString()}. Set "
            "time_format to the unit of the numbers: seconds, milliseconds or microseconds."
            if pattern is None
            else f"stream {name!r}: the pattern time_format {pattern!r} requires text, but time column {field.name!r} "
            f"has type {kind.simpleString()}. Remove time_format, or set it to seconds, milliseconds or microseconds."
        )
    return sf.try_to_timestamp(value) if pattern is None else sf.try_to_timestamp(value, sf.lit(pattern))


def _is_text(kind: st.DataType) -> bool:
    return isinstance(kind, st.StringType)


@contextmanager
def reported_as_stream(name: str) -> Iterator[None]:
    """Convert errors of Spark to one line with the name of the stream."""
    try:
        with unlogged():
            yield
    except SkybandError:
        raise
    except Exception as error:  # from Spark or from Py4J
        raise InvalidInputError(f"stream {name!r} cannot be read: {first_line(error)}") from None
