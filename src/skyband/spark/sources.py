"""The streams of a workload file as Spark reads them: files, made-up rows, lines of a socket, records of a topic."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.errors import InvalidInputError, SkybandError, UnknownNameError
from skyband.spark.kafka import RECORD, WRONG, read_records, rows_of
from skyband.spark.reasons import first_line
from skyband.spark.scoring import TIMES, quoted, reason, unlogged
from skyband.workfile import Stream
from skyband.workfile.paths import has_scheme

__all__ = ["dead_letters_of", "files_of", "open_batch", "open_stream"]

_SINCE_1970 = {
    "seconds": lambda value: sf.timestamp_seconds(value.try_cast("double")),
    "milliseconds": lambda value: sf.timestamp_millis(value.try_cast("long")),
    "microseconds": lambda value: sf.timestamp_micros(value.try_cast("long")),
}


def open_stream(spark: SparkSession, name: str, stream: Stream, *, files_per_batch: int | None = None) -> DataFrame:
    """The rows of a stream as they come, with its computed columns and its time as a timestamp."""
    reader = spark.readStream
    if stream.source == "rate":
        rows = reader.format("rate").options(**_options(stream, rowsPerSecond=stream.rows_per_second or 1)).load()
    elif stream.source == "socket":
        rows = _from_socket(spark, name, stream)
    elif stream.source == "kafka":
        # Counted before they are left out; Spark evaluates the parser twice where nothing stands between.
        sifted = _sifted(spark, name, stream)
        sifted = sifted.observe("skyband_source", sf.count(WRONG).alias("malformed"))
        return sifted.where(sf.col(WRONG).isNull()).drop(WRONG)
    else:
        most = stream.files_per_batch or files_per_batch
        limit = {} if most is None else {"maxFilesPerTrigger": most}
        with _told(name):
            reader = reader.format(_format(stream)).schema(_schema(spark, name, stream))
            rows = reader.options(**_options(stream, **limit)).load(_as_glob(_path(stream)))
    return _with_time(name, stream, _with_columns(name, stream, rows))


def open_batch(spark: SparkSession, name: str, stream: Stream) -> DataFrame:
    """The rows that are there now, all at once."""
    if stream.source == "kafka":
        return _sifted(spark, name, stream, streaming=False).where(sf.col(WRONG).isNull()).drop(WRONG)
    if stream.source != "files":
        raise InvalidInputError(
            f"stream {name!r} is of source {stream.source!r}, which has no end; only files and topics can be read as a "
            "whole."
        )
    with _told(name):
        reader = spark.read.format(_format(stream)).schema(_schema(spark, name, stream))
        rows = reader.options(**_options(stream)).load(_path(stream))
    return _with_time(name, stream, _with_columns(name, stream, rows))


def dead_letters_of(spark: SparkSession, name: str, stream: Stream) -> DataFrame:
    """The malformed records of a topic as they come: what is wrong, and the record."""
    sifted = _sifted(spark, name, stream, with_record=True).where(sf.col(WRONG).isNotNull())
    return sifted.select(sf.col(WRONG).alias("reason"), f"{RECORD}.*")


def _sifted(
    spark: SparkSession, name: str, stream: Stream, *, streaming: bool = True, with_record: bool = False
) -> DataFrame:
    """A topic's rows with what is wrong with each; one without a time is malformed, too."""
    with _told(name):
        records = read_records(spark, stream, streaming=streaming)
        rows = rows_of(records, stream, with_record=with_record)
        rows = _with_time(name, stream, _with_columns(name, stream, rows))
        time = next(column for column in rows.columns if column.lower() == str(stream.time).lower())
        no_time = sf.when(sf.col(quoted(time)).isNull(), f"column {time!r} has no time in it")
        return rows.withColumn(WRONG, sf.coalesce(WRONG, no_time))


def files_of(stream: Stream) -> list[Path]:
    """The files of a stream, as far as this machine can tell; Spark leaves out what begins with a dot or a line."""
    if stream.path is None or has_scheme(stream.path):
        return []
    found: list[Path] = []
    for name in sorted(glob.glob(stream.path)):
        path = Path(name)
        found += [file for file in sorted(path.rglob("*")) if file.is_file()] if path.is_dir() else [path]
    return [file for file in found if not file.name.startswith((".", "_"))]


def _from_socket(spark: SparkSession, name: str, stream: Stream) -> DataFrame:
    lines = spark.readStream.format("socket").option("host", str(stream.host)).option("port", int(stream.port or 0))
    shape, options = _ddl(stream), {key: str(value) for key, value in _options(stream).items() if key != "header"}
    parse = sf.from_csv if stream.format == "csv" else sf.from_json
    with _told(name):
        return lines.load().select(parse(sf.col("value"), shape, options).alias("row")).select("row.*")


def _schema(spark: SparkSession, name: str, stream: Stream) -> st.StructType | str:
    if stream.schema is not None:
        return _ddl(stream)
    if not has_scheme(_path(stream)) and not files_of(stream):
        raise InvalidInputError(
            f"stream {name!r}: path {stream.path!r} has no files yet, so that nothing tells the columns. Put a file "
            "there, correct the path, or name the columns under schema:."
        )
    return spark.read.format(_format(stream)).options(**_options(stream)).load(_path(stream)).schema


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
    if isinstance(field.dataType, TIMES) and stream.time_format not in _SINCE_1970:
        return rows  # Spark has read it already, whatever it looked like
    return rows.withColumn(field.name, _as_time(name, stream, field))


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
        return _SINCE_1970[told](value)
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


def _format(stream: Stream) -> str:
    return str(stream.format)


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
