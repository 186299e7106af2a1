"""Read the rows of files, and mark malformed rows."""

from __future__ import annotations

from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from skyband.connectors.csv_headers import FileShape, shape_of
from skyband.connectors.envelope_rows import CORRUPT, envelope_type, unwrapped
from skyband.connectors.files import FilesSource
from skyband.connectors.source import Reading
from skyband.connectors.sources import RECORD, WRONG
from skyband.errors import InvalidInputError
from skyband.paths import has_scheme, local_files
from skyband.sharding.row_source import HIDDEN
from skyband.spark.expressions import quoted

__all__ = ["files_of", "not_utf8", "read_files", "rows_of_files", "shape_of_files"]

_LINE = f"{HIDDEN}line"  # the text of a malformed line; null for a well-formed line
# By default Spark silently skips files that are a week older than the newest. Rows would be lost if a clock was wrong,
# or if old files are copied with their modification times.
_NO_AGE_LIMIT = "36500d"
_LIMITS = ("maxfilespertrigger", "maxbytespertrigger")
_LINE_NOUNS = {"csv": "CSV line", "json": "JSON object"}


def rows_of_files(stream: FilesSource, how: Reading) -> DataFrame:
    """Return the rows of a stream's files and the problem of each."""
    path, options = stream.path, _options(stream)
    shape = how.shape or shape_of_files(how.spark, how.name, stream)
    reader: Any = how.spark.readStream if how.streaming else how.spark.read
    if how.streaming:
        path = _as_glob(path)
        if stream.files_per_batch is not None:
            options["maxFilesPerTrigger"] = stream.files_per_batch
        if "maxfileage" not in map(str.lower, options):
            options["maxFileAge"] = _NO_AGE_LIMIT
        if how.at_once:
            options = {option: value for option, value in options.items() if option.lower() not in _LIMITS}
    return read_files(reader, stream, shape, options, path, query_text=how.query_text, with_record=how.with_record)


def shape_of_files(spark: SparkSession, name: str, stream: FilesSource) -> FileShape:
    """Return the columns of a stream's files; reject a path without files if they must be inferred."""
    path = stream.path
    if stream.schema is None and not has_scheme(path) and not files_of(stream):
        raise InvalidInputError(
            f"stream {name!r}: no files found in {path!r}, so the columns cannot be inferred. Add a file, correct the "
            "path, or declare the columns with schema:."
        )
    return shape_of(spark, name, stream, _options(stream))


def files_of(stream: FilesSource) -> list[Path]:
    """Return the local files of a stream; empty if the path is remote."""
    return local_files(stream.path) or []


def read_files(
    reader: Any,
    stream: FilesSource,
    shape: FileShape,
    options: dict[str, Any],
    path: str,
    *,
    query_text: str | None = None,
    with_record: bool = False,
) -> DataFrame:
    """Return the rows of files and the problem of each; `with_record` adds the location of each row, for dead letters.

    `query_text` is all text in which queries can name columns; None: read every column.
    """
    if stream.envelope is not None:
        return _unwrapped_lines(reader.format("text").load(path), stream, with_record=with_record)
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
    wrong = _unreadable(rows, kind) if marks else not_utf8(rows, query_text) if kind == "parquet" else None
    known = {new.lower() for new in shape.names.values()}
    found = {field.name.lower() for field in shape.fields if field.name not in shape.names}
    # Partition folders such as day=2024-01-01 add columns that the schema need not declare.
    partitions = [
        column for column in rows.columns if column.lower() not in known | found and column not in (_LINE, RECORD)
    ]
    kept = [sf.col(quoted(name)) for name in (*shape.names.values(), *partitions, *([RECORD] if others else []))]
    return rows.select(*kept, (sf.lit(None).cast("string") if wrong is None else wrong).alias(WRONG))


def _unwrapped_lines(lines: DataFrame, stream: FilesSource, *, with_record: bool) -> DataFrame:
    """Return the rows in lines that are envelopes, and the problem of each; empty lines are skipped."""
    row = stream.schema or {}
    partitions = [column for column in lines.columns if column != "value"]
    text = sf.try_validate_utf8(sf.col("value"))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    record = sf.struct(
        sf.col("_metadata.file_path").alias("file"),
        sf.lit(None).cast("long").alias("row"),
        sf.col("value"),
    )
    parsed = lines.where(sf.trim("value") != "").select(
        sf.from_json(text, envelope_type(row), options).alias(_LINE),
        *(sf.col(quoted(name)) for name in partitions),
        *([record.alias(RECORD)] if with_record else []),
    )
    columns, is_wrong = unwrapped(sf.col(_LINE), row)
    problem = "the line is not a Debezium envelope of a row that matches the schema"
    return parsed.select(
        *(column.alias(name) for name, column in columns.items()),
        *(sf.col(quoted(name)) for name in parsed.columns if name != _LINE),
        sf.when(is_wrong, problem).alias(WRONG),
    )


def _options(stream: FilesSource) -> dict[str, Any]:
    """Return the options of Spark's reader for a stream's files."""
    given: dict[str, Any] = dict(stream.options)
    known = {key.lower() for key in given}
    defaults = {"header": True, "inferSchema": stream.schema is None} if stream.format == "csv" else {}
    return given | {key: value for key, value in defaults.items() if key.lower() not in known}


def _as_glob(path: str) -> str:
    """Return a glob that matches only the file: Spark streams folders and globs, not single files."""
    if has_scheme(path) or not Path(path).is_file():
        return path
    return f"{path[:-1]}[{path[-1]}]"


def _marks_lines(stream: FilesSource, options: dict[str, Any]) -> bool:
    """Whether malformed lines are marked. Options that configure their handling in Spark take precedence."""
    given = {option.lower() for option in options}
    return stream.format in _LINE_NOUNS and not given & {"mode", "columnnameofcorruptrecord"}


def _unreadable(rows: DataFrame, kind: str) -> Column:
    """Return the problem of a line: too few or too many cells, or a cell that does not have the type of the schema."""
    columns = [sf.col(quoted(name)) for name in rows.columns if name not in (_LINE, RECORD)]
    # Spark parses only the selected columns, so malformed lines would depend on the queries. This expression selects
    # all columns, and is evaluated for malformed lines only.
    is_read = sf.length(sf.to_json(sf.struct(*columns))) >= 0
    return sf.when(
        sf.col(_LINE).isNotNull() & is_read, f"the line is not a {_LINE_NOUNS[kind]} that matches the schema"
    )


def not_utf8(rows: DataFrame, query_text: str | None) -> Column | None:
    """Return the problem of rows with invalid UTF-8, which Spark accepts in Parquet files but tasks cannot decode.

    Columns that no query can name are not checked, because Spark would read them only for this check.
    """
    found: Column | None = None
    for field in rows.schema.fields:
        if query_text is not None and field.name.lower() not in query_text:
            continue
        if (valid := _is_valid(sf.col(quoted(field.name)), field.dataType)) is not None and field.name != RECORD:
            problem = f"column {field.name!r} contains invalid UTF-8"
            found = sf.when(~valid, problem) if found is None else found.when(~valid, problem)
    return found


def _is_valid(value: Column, kind: st.DataType) -> Column | None:
    """Return whether all text in a value is valid UTF-8 (null is valid); None if the type contains no text."""
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
    """Return the location of a row, and its text if available."""
    line = sf.col(_LINE) if has_line else sf.lit(None).cast("string")
    row = sf.col("_metadata.row_index") if kind == "parquet" else sf.lit(None).cast("long")
    return sf.struct(sf.col("_metadata.file_path").alias("file"), row.alias("row"), line.alias("value"))
