"""The rows of a stream, whatever its source: malformed ones counted and left out, columns computed, time understood."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.connectors.source import Reading, SourceModel
from skyband.errors import InvalidInputError, SkybandError, UnknownNameError
from skyband.queries.families import family_of
from skyband.queries.workload import Workload
from skyband.spark.expressions import HIDDEN, TIMES, quoted, reason, unlogged
from skyband.spark.spark_errors import first_line

__all__ = ["RECORD", "WRONG", "dead_letters_of", "open_batch", "open_stream"]

# The columns that mark malformed rows and records on their way through Spark.
WRONG = f"{HIDDEN}wrong"  # the column that says what is wrong with a record; null for nothing
RECORD = f"{HIDDEN}record"  # the record itself, for dead letters


_SINCE_1970 = {  # how many make a second, the type of the number, and what makes a time of it
    "seconds": (1, "double", sf.timestamp_seconds),
    "milliseconds": (1_000, "long", sf.timestamp_millis),
    "microseconds": (1_000_000, "long", sf.timestamp_micros),
}
# Times of the years 1 to 9999. A number in another unit than the file says lies far outside: it would move the
# watermark so far that every row after it were late.
_FIRST, _END = -62_135_596_800, 253_402_300_800  # seconds since 1970


def open_stream(
    spark: SparkSession, name: str, stream: SourceModel, *, asked: Workload[Any] | None = None, at_once: bool = False
) -> DataFrame:
    """The rows of a stream as they come, with its computed columns and its time as a timestamp.

    `asked` are the queries over it: columns that none of them can name need not be looked at.
    `at_once`: a micro-batch takes all there is, whatever the stream says about the size of one.
    """
    rows = read_rows(stream, Reading(spark, name, at_once=at_once, asked=_named_in(stream, asked)))
    if stream.marks_malformed:
        # Counted before they are left out; Spark evaluates the parser of records twice where nothing stands between.
        rows = rows.observe("skyband_source", sf.count(WRONG).alias("malformed"))
    return _sound(name, stream, rows)


def open_batch(
    spark: SparkSession,
    name: str,
    stream: SourceModel,
    counted: Observation | None = None,
    *,
    asked: Workload[Any] | None = None,
) -> DataFrame:
    """The rows that are there now, all at once; how many there are, and how many of them malformed, is `counted`."""
    if not stream.is_bounded:
        raise InvalidInputError(
            f"stream {name!r} is of source {stream.source!r}, which has no end; only files and topics can be read as a "
            "whole."
        )
    rows = read_rows(stream, Reading(spark, name, streaming=False, asked=_named_in(stream, asked)))
    if counted is not None:
        rows = rows.observe(counted, sf.count(sf.lit(1)).alias("rows"), sf.count(WRONG).alias("malformed"))
    return _sound(name, stream, rows)


def dead_letters_of(
    spark: SparkSession, name: str, stream: SourceModel, asked: Workload[Any], *, streaming: bool = True
) -> DataFrame:
    """The malformed records of a topic, or rows of files, as they come or all at once: what is wrong with which."""
    how = Reading(spark, name, streaming=streaming, with_record=True, asked=_named_in(stream, asked))
    malformed = read_rows(stream, how).where(sf.col(WRONG).isNotNull())
    return malformed.select(sf.col(WRONG).alias("reason"), f"{RECORD}.*")


def read_rows(stream: SourceModel, how: Reading) -> DataFrame:
    """A stream's rows with what is wrong with each; where it needs a time, one without is malformed, too."""
    with _told(how.name):
        rows = stream.read(how)
        if not stream.needs_time:
            return rows
        rows = _with_time(how.name, stream, _with_columns(how.name, stream, rows))
        time = next(column for column in rows.columns if column.lower() == str(stream.time).lower())
        no_time = sf.when(sf.col(quoted(time)).isNull(), f"column {time!r} has no time in it")
        return rows.withColumn(WRONG, sf.coalesce(WRONG, no_time))


def _sound(name: str, stream: SourceModel, rows: DataFrame) -> DataFrame:
    """The rows that nothing is wrong with, with computed columns and time."""
    if stream.marks_malformed:
        rows = rows.where(sf.col(WRONG).isNull()).drop(WRONG)
    return rows if stream.needs_time else _with_time(name, stream, _with_columns(name, stream, rows))


def _named_in(stream: SourceModel, asked: Workload[Any] | None) -> str | None:
    """All text in which a column may be named, in small letters; None where answers give whole rows back."""
    if asked is None or family_of(asked).supports("whole rows"):
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
    # What is a timestamp already Spark has read, whatever it looked like.
    is_time = isinstance(field.dataType, TIMES)
    rows = rows if is_time else rows.withColumn(field.name, _as_time(name, stream, field))
    time = sf.col(quoted(field.name))
    kind = rows.schema[field.name].dataType
    first, end = (sf.timestamp_seconds(sf.lit(bound)).cast(kind) for bound in (_FIRST, _END))
    return rows.withColumn(field.name, sf.when((time >= first) & (time < end), time))


def _as_time(name: str, stream: SourceModel, field: st.StructField) -> Column:
    """A time that cannot be read is null: such a row is left out, and counted."""
    value, told = sf.col(quoted(field.name)), stream.time_format
    kind = field.dataType
    if told in _SINCE_1970:
        if not isinstance(kind, st.NumericType | st.StringType):
            raise InvalidInputError(
                f"stream {name!r}: time column {field.name!r} is of type {kind.simpleString()} and time_format is "
                f"{told!r}; {told} since 1970 must be a number. Leave time_format out."
            )
        each, number, made = _SINCE_1970[told]
        value = value.try_cast(number)
        return made(sf.when((value >= _FIRST * each) & (value < _END * each), value))
    if isinstance(kind, st.DateType):
        return value.cast("timestamp")
    if not _is_text(kind):
        raise InvalidInputError(
            f"stream {name!r}: time column {field.name!r} is of type {kind.simpleString()}; windows are over event "
            "time. Say what the numbers are with time_format: seconds, milliseconds or microseconds."
            if told is None
            else f"stream {name!r}: time column {field.name!r} is of type {kind.simpleString()}; the pattern "
            f"time_format: {told!r} is for text. Leave time_format out, or say seconds, milliseconds or microseconds."
        )
    return sf.try_to_timestamp(value) if told is None else sf.try_to_timestamp(value, sf.lit(told))


def _is_text(kind: st.DataType) -> bool:
    return isinstance(kind, st.StringType)


@contextmanager
def _told(name: str) -> Iterator[None]:
    """What Spark finds wrong with a source is told in the stream's name, in a line."""
    try:
        with unlogged():
            yield
    except SkybandError:
        raise
    except Exception as error:  # Spark's own, and those of the bridge to Java
        raise InvalidInputError(f"stream {name!r} cannot be read: {first_line(error)}") from None
