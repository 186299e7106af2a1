"""The files that Spark reads at a local path, and the options of its readers that are supported here."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from skyband.connectors.file_formats import is_packed
from skyband.connectors.files import FilesSource
from skyband.errors import InvalidInputError, NeedsSparkError, SkybandError
from skyband.paths import has_scheme

__all__ = ["data_files", "is_document", "listed_files", "on_spark", "option", "refuse_options"]

_LISTING = {"pathglobfilter", "recursivefilelookup", "maxfilespertrigger", "maxbytespertrigger"}
_OPTIONS = {"csv": {"header", "sep", "delimiter"}, "json": {"multiline"}, "parquet": set[str](), "avro": set[str]()}
_PACKED = (".gz", ".bz2", ".zst")  # that Python and Spark decompress alike


def on_spark(name: str, what: str, stream: FilesSource | None = None) -> SkybandError:
    """Return the error for input that is not supported here; it names Spark, if Spark has a reader of the stream."""
    if stream is not None and stream.by_tasks_only is not None:
        kind, files = ("Avro files", "files") if stream.of_table is None else (f"{stream.of_table}s", "table")
        return InvalidInputError(
            f"stream {name!r}: {what} is not supported for {kind}, with or without Spark. Correct the stream in the "
            f"workload file, or the {files}."
        )
    return NeedsSparkError(f"stream {name!r}: {what} is not supported without Spark. Run the file without --local.")


def refuse_options(name: str, stream: FilesSource) -> None:
    """Reject options of Spark's reader that are not supported here."""
    for key, value in stream.options.items() if stream.of_table is None else ():
        if key.lower() not in _LISTING | _OPTIONS[str(stream.format)]:
            raise on_spark(name, f"options: {{{key}: {value}}}", stream)


def is_document(stream: FilesSource) -> bool:
    """Whether a file is one JSON document instead of lines."""
    return stream.format == "json" and option(stream, "multiline", "false") == "true"


def option(stream: FilesSource, name: str, default: str) -> str:
    """Return the value of an option, in lower case if it is a flag; names of options ignore case."""
    found = next((value for key, value in stream.options.items() if key.lower() == name), default)
    return str(found).lower() if isinstance(found, bool) or str(found).lower() in ("true", "false") else str(found)


def data_files(name: str, stream: FilesSource) -> list[Path]:
    """Return the files of a stream, sorted by path, as Spark lists them; reject a path without files."""
    kept, path = listed_files(name, stream), stream.path
    if stream.of_table is not None:
        return kept  # the table has the columns
    if not kept and stream.schema is None:
        raise InvalidInputError(
            f"stream {name!r}: no files found in {path!r}, so the columns cannot be inferred. Add a file, correct the "
            "path, or declare the columns with schema:."
        )
    if not kept and not glob.has_magic(path) and not Path(path).exists():
        raise InvalidInputError(f"stream {name!r} cannot be read: {path!r} does not exist.")
    return kept


def listed_files(name: str, stream: FilesSource) -> list[Path]:
    """Return the current files of a stream, sorted by path, as Spark lists them.

    A folder that disappears meanwhile is skipped.
    """
    if stream.of_table is not None:
        from skyband.connectors.arrow.tables import table_files

        return [Path(file.path) for file in table_files(name, stream)]
    path = stream.path
    if has_scheme(path):
        raise on_spark(name, f"path {path!r}, which has a scheme,", stream)
    if strange := re.search(r"[\[\]{}\\]", path):
        raise on_spark(name, f"the character {strange[0]!r} in path {path!r}", stream)
    found = [file for entry in glob.glob(path) for file in _below(name, stream, Path(entry))]
    pattern = option(stream, "pathglobfilter", "*")
    if strange := re.search(r"[\[\]{}\\]", pattern):
        raise on_spark(name, f"the character {strange[0]!r} in options: {{pathGlobFilter: {pattern}}}", stream)
    kept = sorted({file for file in found if fnmatchcase(file.name, pattern)}, key=str)
    for file in kept:
        if is_packed(file.name) and file.suffix.lower() not in _PACKED:
            raise on_spark(name, f"the compression of {str(file)!r}", stream)
    return kept


def _below(name: str, stream: FilesSource, entry: Path) -> Iterator[Path]:
    """Yield the files of a file or folder."""
    if _is_hidden(entry.name):
        raise on_spark(name, f"{str(entry)!r}, whose name begins with {entry.name[0]!r},", stream)
    if not entry.is_dir():
        yield entry
        return
    recursive = option(stream, "recursivefilelookup", "false") == "true"
    try:
        children = list(os.scandir(entry))
    except FileNotFoundError:
        return
    for child in children:
        if _is_hidden(child.name):
            continue
        if not child.is_dir():
            yield Path(child.path)
        elif recursive:
            yield from _below(name, stream, Path(child.path))
        else:
            raise on_spark(
                name, f"the folder {child.path!r} inside of a data folder (Spark may read partitions there)", stream
            )


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
