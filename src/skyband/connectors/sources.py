"""The streams of a workload file as Spark reads them: files, made-up rows, lines of a socket, records of a topic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.connectors.csv_headers import shape_of
from skyband.connectors.file_rows import read_files
from skyband.connectors.kafka import RECORD, WRONG, read_records, rows_of
from skyband.errors import InvalidInputError, SkybandError, UnknownNameError
from skyband.queries.families import family_of
from skyband.queries.workload import Workload
from skyband.spark.expressions import TIMES, quoted, reason, unlogged
from skyband.spark.spark_errors import first_line
from skyband.workload_file import Stream
from skyband.workload_file.paths import has_scheme, local_files

__all__ = ["dead_letters_of", "files_of", "open_batch", "open_stream"]

# Spark passes over files that are a week older than the newest, without a word: after a clock was wrong for a while, or
# when old files are copied in with their times, rows would be lost.
_FOR_EVER = "36500d"
_LIMITS = ("maxfilespertrigger", "maxbytespertrigger")
_SINCE_1970 = {  # how many make a second, the type of the number, and what makes a time of it
    "seconds": (1, "double", sf.timestamp_seconds),
    "milliseconds": (1_000, "long", sf.timestamp_millis),
    "microseconds": (1_000_000, "long", sf.timestamp_micros),
}
# Times of the years 1 to 9999. A number in another unit than the file says lies far outside: it would move the
# watermark so far that every row after it were late.
_FIRST, _END = -62_135_596_800, 253_402_300_800  # seconds since 1970


def open_stream(
    spark: SparkSession, name: str, stream: Stream, *, asked: Workload[Any] | None = None, at_once: bool = False
) -> DataFrame:
    """The rows of a stream as they come, with its computed columns and its time as a timestamp.

    `asked` are the queries over it: columns that none of them can name need not be looked at.
    `at_once`: a micro-batch takes all there is, whatever the stream says about the size of one.
    """
    reader = spark.readStream
    if stream.source == "rate":
        rows = reader.format("rate").options(**_options(stream, rowsPerSecond=stream.rows_per_second or 1)).load()
    elif stream.source == "socket":
        rows = _from_socket(spark, name, stream)
    elif stream.source == "kafka":
        # Counted before they are left out; Spark evaluates the parser twice where nothing stands between.
        sifted = _sifted(spark, name, stream, at_once=at_once)
        sifted = sifted.observe("skyband_source", sf.count(WRONG).alias("malformed"))
        return sifted.where(sf.col(WRONG).isNull()).drop(WRONG)
    else:
        sifted = _from_files(spark, name, stream, asked, streaming=True, at_once=at_once)
        sifted = sifted.observe("skyband_source", sf.count(WRONG).alias("malformed"))
        rows = sifted.where(sf.col(WRONG).isNull()).drop(WRONG)
    return _with_time(name, stream, _with_columns(name, stream, rows))


def open_batch(
    spark: SparkSession,
    name: str,
    stream: Stream,
    counted: Observation | None = None,
    *,
    asked: Workload[Any] | None = None,
) -> DataFrame:
    """The rows that are there now, all at once; how many there are, and how many of them malformed, is `counted`."""
    if stream.source == "kafka":
        sifted = _counted(_sifted(spark, name, stream, streaming=False), counted)
        return sifted.where(sf.col(WRONG).isNull()).drop(WRONG)
    if stream.source != "files":
        raise InvalidInputError(
            f"stream {name!r} is of source {stream.source!r}, which has no end; only files and topics can be read as a "
            "whole."
        )
    sifted = _counted(_from_files(spark, name, stream, asked, streaming=False), counted)
    rows = sifted.where(sf.col(WRONG).isNull()).drop(WRONG)
    return _with_time(name, stream, _with_columns(name, stream, rows))


def _counted(sifted: DataFrame, counted: Observation | None) -> DataFrame:
    if counted is None:
        return sifted
    return sifted.observe(counted, sf.count(sf.lit(1)).alias("rows"), sf.count(WRONG).alias("malformed"))


def dead_letters_of(
    spark: SparkSession, name: str, stream: Stream, asked: Workload[Any], *, streaming: bool = True
) -> DataFrame:
    """The malformed records of a topic, or rows of files, as they come or all at once: what is wrong with which."""
    if stream.source == "files":
        sifted = _from_files(spark, name, stream, asked, streaming=streaming, with_record=True)
    else:
        sifted = _sifted(spark, name, stream, streaming=streaming, with_record=True)
    return sifted.where(sf.col(WRONG).isNotNull()).select(sf.col(WRONG).alias("reason"), f"{RECORD}.*")


def _from_files(
    spark: SparkSession,
    name: str,
    stream: Stream,
    asked: Workload[Any] | None,
    *,
    streaming: bool,
    at_once: bool = False,
    with_record: bool = False,
) -> DataFrame:
    """The rows of files with what is wrong with each."""
    options, read = _options(stream), partial(read_files, asked=_named_in(stream, asked), with_record=with_record)
    with _told(name):
        if stream.schema is None and not has_scheme(_path(stream)) and not files_of(stream):
            raise InvalidInputError(
                f"stream {name!r}: path {stream.path!r} has no files yet, so that nothing tells the columns. Put a "
                "file there, correct the path, or name the columns under schema:."
            )
        shape = shape_of(spark, name, stream, options)
        if not streaming:
            return read(spark.read, stream, shape, options, _path(stream))
        if stream.files_per_batch is not None:
            options["maxFilesPerTrigger"] = stream.files_per_batch
        if "maxfileage" not in map(str.lower, options):
            options["maxFileAge"] = _FOR_EVER
        if at_once:
            options = {option: value for option, value in options.items() if option.lower() not in _LIMITS}
        return read(spark.readStream, stream, shape, options, _as_glob(_path(stream)))


def _named_in(stream: Stream, asked: Workload[Any] | None) -> str | None:
    """All text in which a column may be named, in small letters; None where answers give whole rows back."""
    if asked is None or family_of(asked).supports("whole rows"):
        return None
    texts = [*stream.columns.values(), stream.time, stream.id]
    for query in asked:
        for value in query.to_dict().values():
            texts += value if isinstance(value, list) else [value]
    return "\n".join(map(str, texts)).lower()


def _sifted(
    spark: SparkSession,
    name: str,
    stream: Stream,
    *,
    streaming: bool = True,
    at_once: bool = False,
    with_record: bool = False,
) -> DataFrame:
    """A topic's rows with what is wrong with each; one without a time is malformed, too."""
    with _told(name):
        records = read_records(spark, stream, streaming=streaming, at_once=at_once)
        rows = rows_of(records, stream, with_record=with_record)
        rows = _with_time(name, stream, _with_columns(name, stream, rows))
        time = next(column for column in rows.columns if column.lower() == str(stream.time).lower())
        no_time = sf.when(sf.col(quoted(time)).isNull(), f"column {time!r} has no time in it")
        return rows.withColumn(WRONG, sf.coalesce(WRONG, no_time))


def files_of(stream: Stream) -> list[Path]:
    """The files of a stream, as far as this machine can tell."""
    return (None if stream.path is None else local_files(stream.path)) or []


def _from_socket(spark: SparkSession, name: str, stream: Stream) -> DataFrame:
    lines = spark.readStream.format("socket").option("host", str(stream.host)).option("port", int(stream.port or 0))
    shape, options = _ddl(stream), {key: str(value) for key, value in _options(stream).items() if key != "header"}
    parse = sf.from_csv if stream.format == "csv" else sf.from_json
    with _told(name):
        return lines.load().select(parse(sf.col("value"), shape, options).alias("row")).select("row.*")


def _with_columns(name: str, stream: Stream, rows: DataFrame) -> DataFrame:
    for column, text in stream.columns.items():
        try:
            with unlogged():
                rows = rows.withColumn(column, sf.expr(text))
        except (AnalysisException, ParseException) as error:
            raise InvalidInputError(
                f"stream {name!r}: columns.{column}: {text!r} {reason(error, rows.schema)}"
            ) from None
    return rows


def _with_time(name: str, stream: Stream, rows: DataFrame) -> DataFrame:
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


def _as_time(name: str, stream: Stream, field: st.StructField) -> Column:
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


def _options(stream: Stream, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {**stream.options, **more}
    known = {key.lower() for key in given}
    if stream.source == "files" and stream.format == "csv":
        defaults = {"header": True, "inferSchema": stream.schema is None}
        given |= {key: value for key, value in defaults.items() if key.lower() not in known}
    return given


def _ddl(stream: Stream) -> str:
    return ", ".join(f"{quoted(column)} {kind}" for column, kind in (stream.schema or {}).items())


def _path(stream: Stream) -> str:
    return str(stream.path)


def _as_glob(path: str) -> str:
    """Spark streams folders and globs, not a file: one that is named becomes a glob that only it answers to."""
    if has_scheme(path) or not Path(path).is_file():
        return path
    return f"{path[:-1]}[{path[-1]}]"


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
