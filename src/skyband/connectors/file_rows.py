"""The rows of files, and what is wrong with some of them."""

from __future__ import annotations

from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.connectors.csv_headers import FileShape, shape_of
from skyband.connectors.files import FilesSource
from skyband.connectors.source import Reading
from skyband.connectors.sources import RECORD, WRONG
from skyband.errors import InvalidInputError
from skyband.paths import has_scheme, local_files
from skyband.spark.expressions import HIDDEN, quoted

__all__ = ["files_of", "read_files", "rows_of_files"]

_LINE = f"{HIDDEN}line"  # the text of a line that could not be read; null for one that could
# Spark passes over files that are a week older than the newest, without a word: after a clock was wrong for a while, or
# when old files are copied in with their times, rows would be lost.
_FOR_EVER = "36500d"
_LIMITS = ("maxfilespertrigger", "maxbytespertrigger")
_CALLED = {"csv": "line of CSV", "json": "JSON object"}


def rows_of_files(stream: FilesSource, how: Reading) -> DataFrame:
    """The rows of a stream's files with what is wrong with each."""
    path, options = stream.path, _options(stream)
    if stream.schema is None and not has_scheme(path) and not files_of(stream):
        raise InvalidInputError(
            f"stream {how.name!r}: path {path!r} has no files yet, so that nothing tells the columns. Put a file "
            "there, correct the path, or name the columns under schema:."
        )
    shape = shape_of(how.spark, how.name, stream, options)
    reader: Any = how.spark.readStream if how.streaming else how.spark.read
    if how.streaming:
        path = _as_glob(path)
        if stream.files_per_batch is not None:
            options["maxFilesPerTrigger"] = stream.files_per_batch
        if "maxfileage" not in map(str.lower, options):
            options["maxFileAge"] = _FOR_EVER
        if how.at_once:
            options = {option: value for option, value in options.items() if option.lower() not in _LIMITS}
    return read_files(reader, stream, shape, options, path, asked=how.asked, with_record=how.with_record)


def files_of(stream: FilesSource) -> list[Path]:
    """The files of a stream, as far as this machine can tell."""
    return local_files(stream.path) or []


def read_files(
    reader: Any,
    stream: FilesSource,
    shape: FileShape,
    options: dict[str, Any],
    path: str,
    *,
    asked: str | None = None,
    with_record: bool = False,
) -> DataFrame:
    """The rows of files with what is wrong with each; `with_record`, also where it stands, for dead letters.

    `asked` is all text in which queries may name columns; None: every column is wanted.
    """
    kind, fields = str(stream.format), list(shape.fields)
    if marks := _marks_lines(stream, options):
        fields.append(st.StructField(_LINE, st.StringType()))
        options = {**options, "columnNameOfCorruptRecord": _LINE}
    if shape.by_name:
        options = {**options, "enforceSchema": False}
    rows: DataFrame = reader.format(kind).schema(st.StructType(fields)).options(**options).load(path)
    others = [_record(kind, has_line=marks).alias(RECORD)] if with_record else []
    rows = rows.select("*", *others)
    for old, new in shape.names.items():
        if old != new:
            rows = rows.withColumnRenamed(old, new)
    wrong = _unreadable(rows, kind) if marks else _not_utf8(rows, asked) if kind == "parquet" else None
    known = {new.lower() for new in shape.names.values()}
    found = {field.name.lower() for field in shape.fields if field.name not in shape.names}
    # Folders such as day=2024-01-01 bring columns that no schema needs to name.
    told = [column for column in rows.columns if column.lower() not in known | found and column not in (_LINE, RECORD)]
    kept = [sf.col(quoted(name)) for name in (*shape.names.values(), *told, *([RECORD] if others else []))]
    return rows.select(*kept, (sf.lit(None).cast("string") if wrong is None else wrong).alias(WRONG))


def _options(stream: FilesSource) -> dict[str, Any]:
    given: dict[str, Any] = dict(stream.options)
    known = {key.lower() for key in given}
    defaults = {"header": True, "inferSchema": stream.schema is None} if stream.format == "csv" else {}
    return given | {key: value for key, value in defaults.items() if key.lower() not in known}


def _as_glob(path: str) -> str:
    """Spark streams folders and globs, not a file: one that is named becomes a glob that only it answers to."""
    if has_scheme(path) or not Path(path).is_file():
        return path
    return f"{path[:-1]}[{path[-1]}]"


def _marks_lines(stream: FilesSource, options: dict[str, Any]) -> bool:
    """Whether lines that cannot be read are marked; who has told Spark what to do with them is not contradicted."""
    told = {option.lower() for option in options}
    return stream.format in _CALLED and not told & {"mode", "columnnameofcorruptrecord"}


def _unreadable(rows: DataFrame, kind: str) -> Column:
    """What is wrong with a line: it has too few or too many cells, or one of another type than the schema says."""
    columns = [sf.col(quoted(name)) for name in rows.columns if name not in (_LINE, RECORD)]
    # Spark reads only the columns that somebody wants, and finds nothing wrong with the others: what is malformed would
    # depend on the queries. This wants all of them, and is computed for malformed lines only.
    is_read = sf.length(sf.to_json(sf.struct(*columns))) >= 0
    return sf.when(sf.col(_LINE).isNotNull() & is_read, f"the line is no {_CALLED[kind]} that fits the schema")


def _not_utf8(rows: DataFrame, asked: str | None) -> Column | None:
    """What is wrong with text that is no UTF-8: Spark takes Parquet's bytes as they are, and tasks cannot read them.

    Columns that no query can name are not looked at: Spark would have to read them for that alone.
    """
    found: Column | None = None
    for field in rows.schema.fields:
        if asked is not None and field.name.lower() not in asked:
            continue
        if (valid := _is_valid(sf.col(quoted(field.name)), field.dataType)) is not None and field.name != RECORD:
            said = f"column {field.name!r} has text that is no UTF-8"
            found = sf.when(~valid, said) if found is None else found.when(~valid, said)
    return found


def _is_valid(value: Column, kind: st.DataType) -> Column | None:
    """Whether all text in a value is UTF-8, null counting as valid; None if there can be none in it."""
    if isinstance(kind, st.StringType):
        return sf.coalesce(sf.is_valid_utf8(value), sf.lit(True))
    if isinstance(kind, st.StructType):
        parts = [_is_valid(value.getField(field.name), field.dataType) for field in kind.fields]
        return _all([part for part in parts if part is not None])
    if isinstance(kind, st.ArrayType):
        inner = kind.elementType
        if _is_valid(sf.lit(None), inner) is None:
            return None
        return sf.coalesce(sf.forall(value, lambda item: _valid(item, inner)), sf.lit(True))
    if isinstance(kind, st.MapType):
        halves = ((sf.map_keys(value), kind.keyType), (sf.map_values(value), kind.valueType))
        return _all([part for half, inner in halves if (part := _is_valid(half, st.ArrayType(inner))) is not None])
    return None


def _all(conditions: list[Column]) -> Column | None:
    return reduce(and_, conditions) if conditions else None


def _valid(value: Column, kind: st.DataType) -> Column:
    found = _is_valid(value, kind)
    return sf.lit(True) if found is None else found


def _record(kind: str, *, has_line: bool) -> Column:
    """Where a row stands, and its text where there is one."""
    line = sf.col(_LINE) if has_line else sf.lit(None).cast("string")
    row = sf.col("_metadata.row_index") if kind == "parquet" else sf.lit(None).cast("long")
    return sf.struct(sf.col("_metadata.file_path").alias("file"), row.alias("row"), line.alias("value"))
