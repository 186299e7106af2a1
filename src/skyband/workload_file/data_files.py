"""Data files at a path: in Spark's reading order, with the options of Spark's reader, and as Arrow tables.

Files are read in blocks, so inspecting a large file takes no longer than a small one.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from skyband.connectors.delta_source import DeltaSource
from skyband.connectors.file_formats import ENDING, Format, format_of, is_packed, is_tabs
from skyband.errors import InvalidInputError
from skyband.workload_file.avro_files import avro_head
from skyband.workload_file.content_format import format_by_content, format_of_file

__all__ = [
    "BLOCK",
    "PIECE",
    "DataFiles",
    "find_files",
    "head_of",
    "is_partition",
    "is_visible",
    "options_for",
    "pieces_of",
    "refuse_iceberg",
    "table_of",
    "visible_files",
    "with_partition",
]

_MOST = 100_000  # entries of folders that are listed
_PARTITION = re.compile(r"([^=/]+)=([^/]*)")
BLOCK = 1_000_000  # bytes of the first file that are read for its columns
PIECE = 65_536  # bytes of each further block
_ROWS = 20_000
_LARGEST = 64_000_000  # bytes of a JSON document that is not in lines, which cannot be read in blocks


@dataclass(frozen=True)
class DataFiles:
    """Data files at a path; `path` and `options` make Spark's reader read exactly these."""

    path: str
    files: list[Path]  # in the order of a stream: by modification time, then by path
    format: Format
    options: dict[str, str] = field(default_factory=dict)
    root: Path | None = None  # the folder that contains partition folders such as date=2024-01-01
    source: str = "files"  # of the stream

    def partition_of(self, file: Path) -> dict[str, str]:
        """Partition columns of a file, from the names of its folders."""
        above = file.relative_to(self.root).parts[:-1] if self.root is not None else ()
        return dict(part.split("=", 1) for part in above)


def find_files(path: str | os.PathLike[str], besides: Sequence[Path] = ()) -> DataFiles:
    """Find the data files at a path: a file, a folder or a glob.

    `besides` lists other files that will be in the folder. Raises InvalidInputError if there are no data files, or
    files of several formats.
    """
    text, place = os.fspath(path), Path(path)
    if place.is_dir():
        return _in_folder(place, besides)
    found = [place] if place.is_file() else [Path(name) for name in sorted(glob.glob(text)) if Path(name).is_file()]
    if not found:
        raise InvalidInputError(f"{text} does not exist. Name a data file or a folder of data files.")
    return DataFiles(text, _in_order(found), _only_format(text, found))


def is_partition(name: str) -> bool:
    """Whether a folder has the name of a Spark partition.

    >>> is_partition("date=2024-01-01"), is_partition("2024")
    (True, False)
    """
    return _PARTITION.fullmatch(name) is not None


def _in_folder(folder: Path, besides: Sequence[Path]) -> DataFiles:
    if (folder / "_delta_log").is_dir():
        return _in_table(folder)
    seen = list(visible_files(folder))
    refuse_iceberg(folder, seen)
    found = [file for file in seen if format_of(file.name)] or [file for file in seen if format_by_content(file)]
    if not found:
        others = f", only {_listed(file.name for file in seen)}" if seen else ""
        raise InvalidInputError(f"{folder} contains no csv, json, jsonl, parquet or avro files{others}.")
    kind = _only_format(str(folder), found)
    above = [file.relative_to(folder).parts[:-1] for file in found]
    path, options, root = str(folder), dict[str, str](), None
    names = {tuple(part.partition("=")[0] for part in parts) for parts in above}
    if any(above):
        if len(names) == 1 and all(is_partition(part) for parts in above for part in parts):
            root = folder
        else:
            options["recursiveFileLookup"] = "true"
    foreign = sorted({*seen} - {*found})
    foreign += [file for file in besides if file.absolute().is_relative_to(folder.absolute())]
    if foreign:  # Spark reads all files of a folder
        pattern = _pattern(found)
        if any(fnmatchcase(file.name, pattern) for file in foreign):
            raise InvalidInputError(
                f"{folder} contains other files ({_listed(file.name for file in foreign)}), and Spark would read them "
                f"as {kind}. Move the data to a separate folder."
            )
        if any(above):
            options["pathGlobFilter"] = pattern
        else:
            path = str(folder / pattern)
    return DataFiles(path, _in_order(found), kind, options, root)


def refuse_iceberg(folder: Path, files: Sequence[Path]) -> None:
    """Reject folders of Iceberg tables: they also have files that are not part of the table."""
    for place in dict.fromkeys([folder, *(above for file in files for above in file.relative_to(folder).parents)]):
        table = folder / place
        if any((table / "metadata").glob("*.metadata.json")):
            raise InvalidInputError(
                f"{table} is an Iceberg table: only its catalog knows which of its files are valid, so they cannot be "
                "read as a folder. Write a workload file whose stream names the catalog: {source: iceberg, table: "
                "NAMESPACE.NAME, catalog: ADDRESS, time: COLUMN}. Nothing was written."
            )


def _in_table(folder: Path) -> DataFiles:
    """Return the files of the newest version of a Delta table. Its folder also has files that are not part of it."""
    from skyband.connectors.arrow.delta_log import delta_files  # noqa: PLC0415 - needs deltalake

    found = [
        Path(one.path) for one in delta_files(folder.name, DeltaSource(path=str(folder), time="time", schema=None))
    ]
    if not found:
        raise InvalidInputError(f"{folder} is a Delta table without rows, so its times are unknown. Append rows first.")
    is_partitioned = any(file.parent != folder for file in found)
    return DataFiles(str(folder), _in_order(found), "parquet", root=folder if is_partitioned else None, source="delta")


def visible_files(folder: Path) -> Iterator[Path]:
    """Yield the files that Spark would read; names that start with a dot or an underscore are skipped."""
    left = _MOST
    for above, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if is_visible(name))
        for name in sorted(filter(is_visible, files)):
            yield Path(above, name)
        left -= len(files) + len(folders)
        if left < 0:
            raise InvalidInputError(f"{folder} contains more than {_MOST:,} files and folders. Name a part of it.")


def is_visible(name: str) -> bool:
    """Whether Spark reads a file or folder of this name.

    >>> is_visible("part-0.csv"), is_visible("_SUCCESS"), is_visible("_day=1")
    (True, False, True)
    """
    return not name.startswith(".") and (not name.startswith("_") or is_partition(name))


def _only_format(path: str, found: Sequence[Path]) -> Format:
    kinds = {(format_of_file(file), is_tabs(file.name)): file for file in found}
    if len(kinds) > 1:
        raise InvalidInputError(
            f"{path} contains files of several formats ({_listed(file.name for file in kinds.values())}), and a stream "
            f"has one format. Select one: skyband init '{found[0].parent}/*{_ending(found[0])}'"
        )
    ((kind, _),) = kinds
    if kind is None:
        raise InvalidInputError(
            f"{path} has no known file extension, and its first lines are neither JSON nor CSV with a time. Supported "
            "are .csv, .tsv, .json, .jsonl, .parquet and .avro; those of text also followed by .gz, .bz2 or .zst."
        )
    return kind


def _in_order(found: Iterable[Path]) -> list[Path]:
    """Sort files in the reading order of a stream."""
    return sorted(found, key=lambda file: (file.stat().st_mtime_ns // 1_000_000, str(file)))


def _pattern(found: Sequence[Path]) -> str:
    endings = {_ending(file) for file in found}
    if len(endings) == 1:
        return f"*{endings.pop()}"
    plain = {ending.removesuffix(Path(ending).suffix) if is_packed(ending) else ending for ending in endings}
    return f"*{plain.pop()}*" if len(plain) == 1 else "*.*"


def _ending(file: Path) -> str:
    ending = re.search(ENDING, file.name)
    return ending[0] if ending else file.suffix


def _listed(names: Iterable[str]) -> str:
    every = sorted(set(names))
    return ", ".join(every[:5]) + (", …" if len(every) > 5 else "")


def head_of(file: Path, size: int = BLOCK) -> tuple[bytes, bool]:
    """Return the first bytes of a file, decompressed, up to the end of a line, and whether they are the whole file."""
    import pyarrow as pa  # noqa: PLC0415 - loaded when data is read

    with pa.input_stream(str(file), compression="detect") as stream:
        block: bytes = stream.read(size)
        whole = len(block) < size or not stream.read(1)
    return (block if whole or b"\n" not in block else block[: block.rindex(b"\n") + 1]), whole


def pieces_of(file: Path, budget: int) -> tuple[list[bytes], bool]:
    """Return blocks of whole lines, spread over the file, about `budget` bytes, and whether they are the whole file.

    The first block is the start of the file. Of a compressed file, only the start is read.
    """
    size = file.stat().st_size
    if is_packed(file.name) or size <= budget:
        block, whole = head_of(file, budget)
        return [block], whole
    count = max(2, budget // PIECE)
    blocks = []
    with file.open("rb") as stream:
        for number in range(count):
            start = (size - PIECE) * number // (count - 1)
            stream.seek(start)
            block = stream.read(PIECE)
            if number:
                block = block.partition(b"\n")[2]
            blocks.append(block if number == count - 1 else block[: block.rfind(b"\n") + 1])
    return blocks, False


def options_for(file: Path, kind: Format, head: bytes) -> dict[str, str]:
    """Options that Spark's reader needs for a file: a separator, or multiLine."""
    if kind == "csv":
        header = head.split(b"\n", 1)[0].decode("utf-8", "replace")
        best = max(",;\t|", key=header.count)
        if is_tabs(file.name) or (best != "," and header.count(best) > header.count(",")):
            return {"sep": "\t" if is_tabs(file.name) else best}
    if kind == "json" and head.strip() and not _is_row(head.strip().split(b"\n", 1)[0]) and _document(file):
        return {"multiLine": "true"}
    return {}


def table_of(
    file: Path,
    kind: Format,
    block: bytes,
    options: Mapping[str, str],
    names: Sequence[str] | None = None,
) -> Any:
    """Parse a block as an Arrow table. Times in text stay text, so that their format can be detected."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv, parquet  # noqa: PLC0415

    from skyband.connectors.arrow.batches import parsed_csv  # noqa: PLC0415

    if kind == "parquet":
        with parquet.ParquetFile(file) as opened:
            first = next(opened.iter_batches(batch_size=_ROWS), None)
            return pa.Table.from_batches([] if first is None else [first], schema=opened.schema_arrow)
    if kind == "avro":
        return avro_head(file, _ROWS)
    if kind == "json":
        whole = _document(file) if "multiLine" in options else None
        rows = whole if whole is not None else [json.loads(line) for line in block.splitlines() if line.strip()]
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError(
                "a line is not a JSON object; Spark reads one object per line, or a file with a list of objects"
            )
        names_ = dict.fromkeys(name for row in rows for name in row)  # keys can differ between rows
        return pa.table({name: _column([row.get(name) for row in rows]) for name in names_})
    return parsed_csv(
        block,
        csv.ReadOptions(block_size=2 * max(BLOCK, len(block)), column_names=names, use_threads=False),
        csv.ConvertOptions(timestamp_parsers=["never"]),
        lambda row: "skip",
        delimiter=options.get("sep", ","),
        newlines_in_values=True,
    )


def with_partition(table: Any, partition: Mapping[str, str]) -> Any:
    """Add the partition columns of a file to its table, with Spark's types: integers, dates or text.

    A partition column replaces a column of the same name, as in Spark.
    """
    import pyarrow as pa  # noqa: PLC0415

    for name, text in partition.items():
        if name in table.column_names:
            table = table.drop_columns([name])
        table = table.append_column(name, pa.array([_typed(text)] * table.num_rows))
    return table


def _column(values: list[Any]) -> Any:
    """Convert values to an Arrow array; mixed types become text, as in Spark."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        return pa.array(values)
    except (ValueError, TypeError):
        return pa.array([None if value is None else str(value) for value in values])


def _typed(text: str) -> int | date | str:
    for kind in (int, date.fromisoformat):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _is_row(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _document(file: Path) -> list[Any] | None:
    """Rows of a file that is one JSON document: a list of objects, or one object over several lines; else None."""
    block, whole = head_of(file, _LARGEST)
    if not whole:
        raise ValueError(
            f"it is one JSON document of more than {_LARGEST:,} bytes, which cannot be read in parts; write one object "
            "per line"
        )
    try:
        found = json.loads(block)
    except ValueError:
        return None
    rows = found if isinstance(found, list) else [found]
    return rows if rows and all(isinstance(row, dict) for row in rows) else None
