"""Check a workload file against its data, without Spark: paths must exist, and names must be columns.

The columns of a stream come from its schema, the headers of its files, or the keys of its rows.
"""

from __future__ import annotations

import csv
import glob
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

from skyband.connectors.envelope import added_columns
from skyband.connectors.record_format import ENCODED, record_format
from skyband.connectors.section import nearest
from skyband.errors import InvalidInputError, SkybandError
from skyband.paths import has_scheme
from skyband.sql.safety import columns_in
from skyband.workload_file.avro_files import avro_columns
from skyband.workload_file.build_queries import PlacedQuery
from skyband.workload_file.data_files import head_of, is_partition, table_of, visible_files
from skyband.workload_file.models import FilesSource, KafkaSource, Stream
from skyband.workload_file.report import Report
from skyband.workload_file.tree import Loc

__all__ = ["KnownColumns", "check_data", "columns_of", "local_files"]

_EXPRESSIONS = ("by", "where", "key", "value", "delete", "object", "stream", "probability", "rule")
_LISTED = 12  # columns named in a message
_LOOKED = 40  # files whose columns are read
_MOST = 10_000  # files of a folder that are listed
_BLOCK = 200_000  # bytes of each
# Options of Spark's reader that can change the columns of a file; files with them are not checked.
_OTHERWISE = {"encoding", "charset", "comment", "linesep", "basepath", "modifiedbefore", "modifiedafter", "mergeschema"}
_ALWAYS = ("_metadata", "_corrupt_record")  # Spark adds these


def check_data(streams: dict[str, Stream], queries: Sequence[PlacedQuery], report: Report) -> None:
    """Report paths without data, and names that are not columns, for streams with queries."""
    for name in dict.fromkeys(one.stream for one in queries):
        stream = streams[name]
        if not _has_input(name, stream, report):
            continue
        known = columns_of(stream)
        if known is None:
            continue
        checked = _Names(name, known, report)
        for column, text in stream.columns.items():
            checked.check(("streams", name, "columns", column), columns_in(text), text)
            checked.compute(column)
        for key in ("time", "id"):
            column_ = getattr(stream, key)
            if column_ is not None:
                checked.check(("streams", name, key), [column_], column_)
        for one in queries:
            if one.stream == name:
                for loc, text in _expressions(one, report):
                    checked.check(loc, columns_in(text), text)


class _Names:
    """Reports names that are not columns of a stream."""

    def __init__(self, stream: str, known: KnownColumns, report: Report) -> None:
        self._stream, self._known, self._report = stream, known, report
        self._computed: list[str] = []

    def compute(self, name: str) -> None:
        """Add a computed column."""
        self._computed.append(name)

    def check(self, loc: Loc, names: Iterable[str], text: str) -> None:
        """Report the first name that is not a column."""
        known = KnownColumns((*self._known.names, *self._computed))
        wrong = next((name for name in names if not known.has(name)), None)
        if wrong is None:
            return
        near = nearest(wrong, known.names)
        some = ", ".join(known.names[:_LISTED]) + (", …" if len(known.names) > _LISTED else "")
        inside = "" if text.strip("` ") == wrong else f" in {text!r}"
        if self._known.all:
            hint = f"did you mean {near!r}?" if near else f"its columns are {some}."
            self._report.add(loc, f"{wrong!r}{inside} is not a column of stream {self._stream!r}; {hint}")
        else:
            hint = f"did you mean {near!r}?" if near else f"their columns are {some}."
            self._report.warn(
                loc, f"{wrong!r}{inside} is not a column of the first rows of stream {self._stream!r}; {hint}"
            )


def _expressions(one: PlacedQuery, report: Report) -> Iterator[tuple[Loc, str]]:
    """Yield the SQL expressions of a query and their locations, and the column that names its rows."""
    if one.label is not None and one.query.whole_rows:
        yield _place(one, "label", report), f"`{one.label}`"
    for field in _EXPRESSIONS:
        text = getattr(one.query, field, None)
        key = "stream_by" if field == "stream" else field
        if isinstance(text, str):
            yield _place(one, key, report), text
    for field in ("partition_by", "key"):
        given = getattr(one.query, field, None) or ()
        for text in () if isinstance(given, str) else given:
            yield _place(one, field, report), text


def _place(one: PlacedQuery, key: str, report: Report) -> Loc:
    return next(loc for loc in ((*one.loc, key), (*one.loc, "sql"), one.loc) if report.has(loc))


def _has_input(name: str, stream: Stream, report: Report) -> bool:
    """Whether a stream's files and its schema file can be used; otherwise report it. Tables are left to the run."""
    if isinstance(stream, KafkaSource):
        return _has_schema(name, stream, report)
    return not isinstance(stream, FilesSource) or stream.of_table is not None or _has_data(name, stream, report)


def _has_data(name: str, stream: FilesSource, report: Report) -> bool:
    """Whether the stream's path has files; report it if it has none, as a warning if files can arrive later."""
    path, loc = stream.path, ("streams", name, "path")
    if has_scheme(path) or local_files(stream):
        return True
    is_glob = glob.has_magic(path)
    if not is_glob and not Path(path).exists():
        report.add(loc, f"{path!r} does not exist; {_nearby(Path(path))}")
    elif stream.schema is None:
        report.add(
            loc,
            f"{path!r} contains no files, so the columns are unknown. Add a file, correct the path, or list the "
            "columns under schema:.",
        )
    else:
        report.warn(loc, f"{path!r} contains no files yet; `run` waits for them, and `run --once` has no input.")
        return True  # the columns are those of the schema
    return False


def _nearby(path: Path) -> str:
    if not path.parent.is_dir():
        return f"the folder {str(path.parent)!r} does not exist either."
    near = nearest(path.name, [other.name for other in path.parent.iterdir()])
    return f"did you mean {near!r}?" if near else "correct the path, or create it."


@dataclass(frozen=True)
class KnownColumns:
    """Names of columns; if `all` is false, there can be more."""

    names: tuple[str, ...]
    all: bool = True

    def has(self, name: str) -> bool:
        """Whether Spark would find the column; case is ignored."""
        wanted = name.strip().lower()
        return wanted in _ALWAYS or any(wanted == known.strip().lower() for known in self.names)


def columns_of(stream: Stream) -> KnownColumns | None:
    """Columns of a stream's rows, without computed ones; None if only Spark can determine them."""
    if isinstance(stream, FilesSource) and stream.of_table is not None:
        return None  # the run reads the table's columns
    if not isinstance(stream, FilesSource):
        return _of_keys(stream)
    files = local_files(stream)
    folders = tuple(
        dict.fromkeys(name.partition("=")[0] for file in files for name in file.parts if is_partition(name))
    )
    if stream.schema is not None:
        return KnownColumns((*stream.schema, *added_columns({"envelope": stream.envelope}), *folders))
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


def _has_schema(name: str, stream: KafkaSource, report: Report) -> bool:
    """Whether a stream's schema file can be used, if it has one; otherwise report it."""
    if stream.format in ENCODED and stream.schema_file is not None:
        try:
            record_format(name, stream.model_copy(update={"registry": None}))  # without a request
        except InvalidInputError as error:
            report.add(("streams", name, "schema_file"), str(error).removeprefix(f"stream {name!r}: "))
            return False
    return True


def _of_keys(stream: Stream) -> KnownColumns | None:
    """Columns of a stream without files; None if a catalog or registry has them, or if a schema file has a problem."""
    keys = stream.model_dump(exclude_none=True)
    if isinstance(stream, KafkaSource) and stream.format in ENCODED and stream.schema is None:
        if stream.schema_file is None:
            return None
        try:
            form = record_format("", stream.model_copy(update={"registry": None}))  # without a request
        except SkybandError:
            return None  # a package is missing; the run reports it
        keys["schema"] = {column.name: "any" for column in form.columns}
    given = tuple(stream.given_columns(keys))
    return KnownColumns(given) if given else None


def local_files(stream: FilesSource) -> list[Path]:
    """Local files of a stream as Spark would list them; empty for a remote path."""
    if has_scheme(stream.path):
        return []
    found: list[Path] = []
    for name in sorted(glob.glob(stream.path)):
        path = Path(name)
        found += islice(visible_files(path), _MOST) if path.is_dir() else [path]
    pattern = next((str(value) for name, value in stream.options.items() if name.lower() == "pathglobfilter"), "*")
    return [file for file in found if "{" in pattern or fnmatchcase(file.name, pattern)]


def _in_file(stream: FilesSource, file: Path, options: Mapping[str, Any]) -> KnownColumns | None:
    """Columns of one file; None if they cannot be read."""
    try:
        if stream.format == "parquet":
            from pyarrow import parquet  # noqa: PLC0415 - loaded when data is read

            return KnownColumns(tuple(parquet.read_schema(file).names))
        if stream.format == "avro":
            return KnownColumns(tuple(avro_columns(file)))
        block, whole = head_of(file, _BLOCK)
        if stream.format == "csv":
            return _header(block.decode("utf-8-sig"), options)
        lines = "multiline" not in options or str(options["multiline"]).lower() != "true"
        table = table_of(file, "json", block, {} if lines else {"multiLine": "true"})
        return KnownColumns(tuple(table.column_names), whole or not lines)
    except (OSError, ValueError, KeyError):  # errors of Arrow and of UTF-8 decoding are ValueErrors
        return None


def _header(text: str, options: Mapping[str, Any]) -> KnownColumns | None:
    """Names in the first line; None if Spark would generate names."""
    separator, quote = str(options.get("sep", options.get("delimiter", ","))), str(options.get("quote", '"'))
    if str(options.get("header", True)).lower() != "true" or len(separator) != 1 or len(quote) != 1:
        return None
    names = next(_rows(text, separator, quote), [])
    lower = [name.strip().lower() for name in names]
    return KnownColumns(tuple(names)) if names and all(lower) and len(set(lower)) == len(lower) else None


def _rows(text: str, separator: str, quote: str) -> Iterator[list[str]]:
    return (row for row in csv.reader(io.StringIO(text), delimiter=separator, quotechar=quote) if row)
