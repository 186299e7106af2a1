"""The columns of a stream, found without Spark: from its schema, the header of its files, or the keys of its rows."""

from __future__ import annotations

import csv
import glob
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

from skyband.paths import has_scheme
from skyband.workload_file.data_blocks import head_of, table_of
from skyband.workload_file.data_files import is_partition, visible_files
from skyband.workload_file.models import FilesSource, Stream

__all__ = ["KnownColumns", "columns_of", "local_files"]

_LOOKED = 40  # files whose columns are read
_MOST = 10_000  # files of a folder that are listed
_BLOCK = 200_000  # bytes of each
# Options of Spark's that change which names a file has, in ways that are not followed here.
_OTHERWISE = {"encoding", "charset", "comment", "linesep", "basepath", "modifiedbefore", "modifiedafter", "mergeschema"}
_ALWAYS = ("_metadata", "_corrupt_record")  # Spark has these beside those of the files


@dataclass(frozen=True)
class KnownColumns:
    """Names of columns; if they are not `all`, there may be more that were not seen."""

    names: tuple[str, ...]
    all: bool = True

    def has(self, name: str) -> bool:
        """Whether Spark would find the column; it sees no capitals."""
        wanted = name.strip().lower()
        return wanted in _ALWAYS or any(wanted == known.strip().lower() for known in self.names)


def columns_of(stream: Stream) -> KnownColumns | None:
    """The columns of a stream's rows before any are computed; None where that cannot be told without Spark."""
    if not isinstance(stream, FilesSource):
        return KnownColumns(tuple(stream.given_columns(stream.model_dump(exclude_none=True))))
    files = local_files(stream)
    folders = tuple(
        dict.fromkeys(name.partition("=")[0] for file in files for name in file.parts if is_partition(name))
    )
    if stream.schema is not None:
        return KnownColumns((*stream.schema, *folders))
    options = {name.lower(): value for name, value in stream.options.items()}
    if not files or not _OTHERWISE.isdisjoint(options):
        return None
    seen = [_in_file(stream, file, options) for file in files[:_LOOKED]]
    known = [names for names in seen if names is not None]
    if not known:
        return None
    names = dict.fromkeys(name for found in known for name in found.names)
    whole = len(files) <= _LOOKED and len(known) == len(seen) and all(found.all for found in known)
    return KnownColumns((*names, *folders), whole)


def local_files(stream: FilesSource) -> list[Path]:
    """The files of a stream as Spark would find them on this machine; none where it is not on this machine."""
    if has_scheme(stream.path):
        return []
    found: list[Path] = []
    for name in sorted(glob.glob(stream.path)):
        path = Path(name)
        found += islice(visible_files(path), _MOST) if path.is_dir() else [path]
    pattern = next((str(value) for name, value in stream.options.items() if name.lower() == "pathglobfilter"), "*")
    return [file for file in found if "{" in pattern or fnmatchcase(file.name, pattern)]


def _in_file(stream: FilesSource, file: Path, options: Mapping[str, Any]) -> KnownColumns | None:
    """The columns of one file; None where they cannot be read."""
    try:
        if stream.format == "parquet":
            from pyarrow import parquet  # noqa: PLC0415 - loaded when data is looked at

            return KnownColumns(tuple(parquet.read_schema(file).names))
        block, whole = head_of(file, _BLOCK)
        if stream.format == "csv":
            return _header(block.decode("utf-8-sig"), options)
        lines = "multiline" not in options or str(options["multiline"]).lower() != "true"
        table = table_of(file, "json", block, {} if lines else {"multiLine": "true"})
        return KnownColumns(tuple(table.column_names), whole or not lines)
    except (OSError, ValueError, KeyError):  # Arrow's errors, and text that is no UTF-8, are ValueErrors
        return None


def _header(text: str, options: Mapping[str, Any]) -> KnownColumns | None:
    """The names in the first line; None where Spark gives names of its own."""
    separator, quote = str(options.get("sep", options.get("delimiter", ","))), str(options.get("quote", '"'))
    if str(options.get("header", True)).lower() != "true" or len(separator) != 1 or len(quote) != 1:
        return None
    names = next(_rows(text, separator, quote), [])
    lower = [name.strip().lower() for name in names]
    return KnownColumns(tuple(names)) if names and all(lower) and len(set(lower)) == len(lower) else None


def _rows(text: str, separator: str, quote: str) -> Iterator[list[str]]:
    return (row for row in csv.reader(io.StringIO(text), delimiter=separator, quotechar=quote) if row)
