"""The columns of files and their order; for CSV files, by the names in their headers.

Given a schema, Spark reads CSV files by position and ignores headers. Here the header of one file determines the order
of the columns, and Spark compares the header of every other file with it before it reads a row.
"""

from __future__ import annotations

import bz2
import gzip
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import types as st

from skyband.connectors.arrow.unreadable import is_readable
from skyband.connectors.files import FilesSource
from skyband.errors import InvalidInputError
from skyband.paths import local_files
from skyband.spark.expressions import quoted

__all__ = ["FileShape", "shape_of"]

_LONGEST = 1 << 16  # bytes of a first line that are compared
_BY_POSITION = "enforceschema"  # Spark's option: true ignores headers


class FileShape(NamedTuple):
    """The columns with which Spark reads the files."""

    fields: list[st.StructField]  # in the order of the files
    names: dict[str, str]  # name in the files → name in the stream; other columns are dropped
    by_name: bool  # whether the header of every file is compared with this one


def shape_of(spark: SparkSession, name: str, stream: FilesSource, options: dict[str, Any]) -> FileShape:
    """Return the columns of a stream's files: from the schema, or inferred by Spark."""
    kind, path = str(stream.format), str(stream.path)
    given = {option.lower(): value for option, value in options.items()}
    by_name = kind == "csv" and _is_true(given.get("header")) and _BY_POSITION not in given
    there = _usable_files(stream, options) if by_name or stream.skips_unreadable else None
    file, header = _first_header(spark, path, options, there) if by_name else ("", None)
    if stream.schema is not None:
        ddl = ", ".join(f"{quoted(column)} {type_}" for column, type_ in stream.schema.items())
        fields = list(spark.createDataFrame([], ddl).schema.fields)
    else:
        if header is not None:
            _reject_different_header(spark, name, there or (), options, file, header)
        read: str | list[str] = [_literal(str(one)) for one in there] if there and stream.skips_unreadable else path
        fields = list(spark.read.format(kind).options(**options).load(read).schema.fields)
    if header is None:  # no file yet: the schema determines the expected header
        return FileShape(fields, {field.name: field.name for field in fields}, by_name=by_name)
    if len({_key(cell) for cell in header}) < len(header):  # duplicate column names: only positions distinguish them
        return FileShape(fields, {field.name: field.name for field in fields}, by_name=False)
    return _as_spelled(header, fields) if stream.schema is None else _matched(name, file, header, fields)


def _usable_files(stream: FilesSource, options: dict[str, Any]) -> list[Path] | None:
    """Return the local files that determine the columns: without those that cannot be read, if they are skipped."""
    kind, found = str(stream.format), _read_files(str(stream.path), options)
    if found is None or not stream.skips_unreadable:
        return found
    readable = (file for file in found if file.stat().st_size and is_readable(file, kind))
    if kind == "parquet" or stream.schema is not None:  # the first file determines the columns
        return list(islice(readable, 1))
    return list(readable)


def _first_header(
    spark: SparkSession, path: str, options: dict[str, Any], there: Sequence[Path] | None
) -> tuple[str, list[str] | None]:
    """Return a file and the cells of its header; None if all files are empty."""
    if there is None:
        return path, _header(spark, path, options)
    file = next((str(file) for file in there if file.stat().st_size), "")
    return file, _header(spark, _literal(file), options) if file else None


def _read_files(path: str, options: dict[str, Any]) -> list[Path] | None:
    """Return the local files that Spark reads: those that match pathGlobFilter, if it is set."""
    found = local_files(path)
    only = next((str(value) for option, value in options.items() if option.lower() == "pathglobfilter"), None)
    if found is None or only is None:
        return found
    return [file for file in found if any(fnmatchcase(file.name, glob) for glob in _alternatives(only))]


def _alternatives(glob: str) -> list[str]:
    """Expand the alternatives of a glob.

    >>> _alternatives("*.{csv,tsv}.gz")
    ['*.csv.gz', '*.tsv.gz']
    """
    braces = re.search(r"\{([^{}]*)\}", glob)
    if braces is None:
        return [glob]
    parts = (glob[: braces.start()] + part + glob[braces.end() :] for part in braces[1].split(","))
    return [one for part in parts for one in _alternatives(part)]


def _header(spark: SparkSession, path: str, options: dict[str, Any]) -> list[str] | None:
    """Return the cells of a file's first line, as Spark parses them."""
    given = {option: value for option, value in options.items() if option.lower() not in ("header", "inferschema")}
    lines = spark.read.format("csv").options(**given, header=False, inferSchema=False).load(path)
    cells = [column for column in lines.columns if re.fullmatch(r"_c\d+", column)]  # partition folders may add others
    first = lines.select(*cells).head() if cells else None
    return None if first is None else ["" if cell is None else str(cell) for cell in first]


def _reject_different_header(
    spark: SparkSession, name: str, files: Sequence[Path], options: dict[str, Any], file: str, header: Sequence[str]
) -> None:
    """Reject files with different headers: Spark would use one header for all, and read the other as a row."""
    seen = {_first_line(Path(file))}
    for other in files:
        line = _first_line(other)
        if not line or line in seen:
            continue
        seen.add(line)
        cells = _header(spark, _literal(str(other)), options) or header
        pairs = zip_longest(header, cells, fillvalue="")
        place, (ours, theirs) = next(
            (found for found in enumerate(pairs, 1) if _key(found[1][0]) != _key(found[1][1])), (0, ("", ""))
        )
        if place:
            raise InvalidInputError(
                f"stream {name!r}: the header of {str(other)!r} differs from the header of {file!r}: column {place} is "
                f"{theirs!r} instead of {ours!r}. Columns are read by position and would be mixed up, so the stream "
                "was not started. Rewrite the file with its columns in the same order."
            )


def _first_line(file: Path) -> bytes:
    """Return the raw first line of a file; empty if Python cannot read it."""
    packed: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
    try:
        with packed.get(file.suffix.lower(), open)(file, "rb") as lines:
            return bytes(lines.readline(_LONGEST)).rstrip()
    except (OSError, EOFError):
        return b""  # Spark reports the problem


def _literal(path: str) -> str:
    """Escape the glob characters of a path."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def _matched(name: str, file: str, header: Sequence[str], fields: Sequence[st.StructField]) -> FileShape:
    """Match the columns of a schema with a header by name, ignoring case and surrounding spaces."""
    wanted = {_key(field.name): field for field in fields}
    found = {cell: wanted.pop(_key(cell)) for cell in header if _key(cell) in wanted}
    unnamed = [cell for cell in header if not _key(cell)]
    below = file.lower()
    # Columns from partition folders such as day=2024-01-01.
    beside = [field for key, field in wanted.items() if f"/{key}=" in below]
    missing = [field for field in wanted.values() if field not in beside]
    if len(missing) == 1 and unnamed:  # such as the index that pandas writes
        found[unnamed[0]] = missing.pop()
    if missing:
        raise InvalidInputError(
            f"stream {name!r}: column {missing[0].name!r} of schema: is not in the header of {file!r}, which contains "
            f"{', '.join(map(repr, header))}. Use the names of the header; or set options: {{header: false}} if the "
            "files have no header, or {enforceSchema: true} to read columns by position."
        )
    read = [st.StructField(cell, found[cell].dataType if cell in found else st.StringType()) for cell in header]
    names = {cell: field.name for cell, field in found.items()} | {field.name: field.name for field in beside}
    ordered = sorted(names.items(), key=lambda pair: [field.name for field in fields].index(pair[1]))
    return FileShape([*read, *beside], dict(ordered), by_name=True)


def _as_spelled(header: Sequence[str], fields: Sequence[st.StructField]) -> FileShape:
    """Return the inferred columns with the names of the header: Spark generates a name for an empty cell."""
    names = {field.name: field.name for field in fields}
    read = list(fields)
    for place, cell in enumerate(header[: len(fields)]):
        if not cell and fields[place].name == f"_c{place}":
            read[place] = st.StructField("", fields[place].dataType)
            names = {("" if old == fields[place].name else old): new for old, new in names.items()}
    return FileShape(read, names, by_name=True)


def _key(name: str) -> str:
    return name.replace("\ufeff", "").strip().lower()


def _is_true(value: object) -> bool:
    return str(value).lower() == "true"
