"""Which columns files have, and in which order; of CSV files, by the names in their headers.

Spark reads CSV files by position wherever it is given a schema, whatever their headers say. Here the header of one file
settles the order of the columns, and Spark compares the header of every other file with it before it reads a row.
"""

from __future__ import annotations

import bz2
import gzip
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import types as st

from skyband.connectors.files import FilesSource
from skyband.errors import InvalidInputError
from skyband.paths import local_files
from skyband.spark.expressions import quoted

__all__ = ["FileShape", "shape_of"]

_LONGEST = 1 << 16  # bytes of a first line that are compared
_BY_POSITION = "enforceschema"  # Spark's option: true ignores headers


class FileShape(NamedTuple):
    """The columns of files as Spark is to read them."""

    fields: list[st.StructField]  # in the order of the files
    names: dict[str, str]  # by the name in the files: the name in the stream; others are not part of it
    by_name: bool  # whether the header of every file is compared with this one


def shape_of(spark: SparkSession, name: str, stream: FilesSource, options: dict[str, Any]) -> FileShape:
    """The columns of a stream's files: those of its schema, or those that Spark finds in the files."""
    kind, path = str(stream.format), str(stream.path)
    given = {option.lower(): value for option, value in options.items()}
    by_name = kind == "csv" and _is_true(given.get("header")) and _BY_POSITION not in given
    file, header = _first_header(spark, path, options) if by_name else ("", None)
    if stream.schema is not None:
        ddl = ", ".join(f"{quoted(column)} {told}" for column, told in stream.schema.items())
        fields = list(spark.createDataFrame([], ddl).schema.fields)
    else:
        if header is not None:
            _refuse_another_header(spark, name, path, options, file, header)
        fields = list(spark.read.format(kind).options(**options).load(path).schema.fields)
    if header is None:  # where no file has come yet, the schema says what their headers must be
        return FileShape(fields, {field.name: field.name for field in fields}, by_name=by_name)
    if len({_key(cell) for cell in header}) < len(header):  # two columns of one name: only positions tell them apart
        return FileShape(fields, {field.name: field.name for field in fields}, by_name=False)
    return _as_spelled(header, fields) if stream.schema is None else _matched(name, file, header, fields)


def _first_header(spark: SparkSession, path: str, options: dict[str, Any]) -> tuple[str, list[str] | None]:
    """A file and the cells of its header; none if there is no file with a line in it."""
    there = _read_files(path, options)
    if there is None:
        return path, _header(spark, path, options)
    file = next((str(file) for file in there if file.stat().st_size), "")
    return file, _header(spark, _literal(file), options) if file else None


def _read_files(path: str, options: dict[str, Any]) -> list[Path] | None:
    """The files of a path that Spark reads: those whose names fit the filter, if the options have one."""
    found = local_files(path)
    only = next((str(value) for option, value in options.items() if option.lower() == "pathglobfilter"), None)
    if found is None or only is None:
        return found
    return [file for file in found if any(fnmatchcase(file.name, glob) for glob in _alternatives(only))]


def _alternatives(glob: str) -> list[str]:
    """A glob with alternatives as several without.

    >>> _alternatives("*.{csv,tsv}.gz")
    ['*.csv.gz', '*.tsv.gz']
    """
    braces = re.search(r"\{([^{}]*)\}", glob)
    if braces is None:
        return [glob]
    parts = (glob[: braces.start()] + part + glob[braces.end() :] for part in braces[1].split(","))
    return [one for part in parts for one in _alternatives(part)]


def _header(spark: SparkSession, path: str, options: dict[str, Any]) -> list[str] | None:
    """The cells of a file's first line, as Spark's parser sees them."""
    given = {option: value for option, value in options.items() if option.lower() not in ("header", "inferschema")}
    lines = spark.read.format("csv").options(**given, header=False, inferSchema=False).load(path)
    cells = [column for column in lines.columns if re.fullmatch(r"_c\d+", column)]  # folders may bring others
    first = lines.select(*cells).head() if cells else None
    return None if first is None else ["" if cell is None else str(cell) for cell in first]


def _refuse_another_header(
    spark: SparkSession, name: str, path: str, options: dict[str, Any], file: str, header: Sequence[str]
) -> None:
    """Files whose columns differ: Spark would take the names from one of them, and the other's header for a row."""
    seen = {_first_line(Path(file))}
    for other in _read_files(path, options) or ():
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
                f"stream {name!r}: the header of {str(other)!r} is not that of {file!r}: column {place} is {theirs!r} "
                f"there and {ours!r} here. Read by position, columns would be mixed up, so nothing was started. Write "
                "the file again with its columns in the same order."
            )


def _first_line(file: Path) -> bytes:
    """The first line of a file as it stands there; nothing where Python cannot tell."""
    packed: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
    try:
        with packed.get(file.suffix.lower(), open)(file, "rb") as lines:
            return bytes(lines.readline(_LONGEST)).rstrip()
    except (OSError, EOFError):
        return b""  # Spark will say what is wrong with it


def _literal(path: str) -> str:
    """A file's name, in which nothing stands for anything else."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def _matched(name: str, file: str, header: Sequence[str], fields: Sequence[st.StructField]) -> FileShape:
    """The columns of a schema, found by name in a header; capitals and spaces around a name do not count."""
    wanted = {_key(field.name): field for field in fields}
    found = {cell: wanted.pop(_key(cell)) for cell in header if _key(cell) in wanted}
    unnamed = [cell for cell in header if not _key(cell)]
    below = file.lower()
    beside = [field for key, field in wanted.items() if f"/{key}=" in below]  # told by folders such as day=2024-01-01
    missing = [field for field in wanted.values() if field not in beside]
    if len(missing) == 1 and unnamed:  # such as the index that pandas writes
        found[unnamed[0]] = missing.pop()
    if missing:
        raise InvalidInputError(
            f"stream {name!r}: column {missing[0].name!r} of schema: is not in the header of {file!r}, which has "
            f"{', '.join(map(repr, header))}. Name the columns as the header does; or write options: {{header: false}} "
            "if the files have none, or {enforceSchema: true} to read them by position."
        )
    read = [st.StructField(cell, found[cell].dataType if cell in found else st.StringType()) for cell in header]
    names = {cell: field.name for cell, field in found.items()} | {field.name: field.name for field in beside}
    ordered = sorted(names.items(), key=lambda pair: [field.name for field in fields].index(pair[1]))
    return FileShape([*read, *beside], dict(ordered), by_name=True)


def _as_spelled(header: Sequence[str], fields: Sequence[st.StructField]) -> FileShape:
    """The columns that Spark found, under the names that stand in the header: it makes up one where there is none."""
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
