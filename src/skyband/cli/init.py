"""`skyband init`: write a first workload file for the user's data."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from skyband.connectors.file_formats import format_of
from skyband.errors import InvalidInputError
from skyband.jobs.engine_choice import why_no_spark
from skyband.workload_file import sample_of, starter
from skyband.workload_file.content_format import format_by_content
from skyband.workload_file.data_files import is_partition, is_visible, refuse_iceberg, visible_files
from skyband.workload_file.schema_files import is_schema_file, sample_of_schema

__all__ = ["init_file", "search_data"]
# Suffixes of data files that are not supported.
_UNREADABLE = (
    *("arrow", "avro", "bson", "duckdb", "feather", "h5", "hdf5", "ipc", "msgpack", "orc", "pb", "pbf", "protobuf"),
    *("sqlite", "sqlite3", "xls", "xlsx"),
)
_ARCHIVES = (".7z", ".rar", ".tar", ".xz", ".zip")
_NOT_DATA = ("env", "node_modules", "venv")
_MOST = 2000  # files of a subfolder that are checked
_OPENED = 20  # of these, files that are opened because their names do not have the extension of a format
_NUMBER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+")


def init_file(data: Path | None, file: Path, *, force: bool) -> str:
    """Write the file; return the message for the user."""
    if file.exists() and not force:
        raise InvalidInputError(
            f"{str(file)!r} exists already and was not changed. Choose another name with --file, or replace it with "
            "--force."
        )
    data = data or search_data(file.parent)
    is_topic = data is not None and is_schema_file(data)
    sample = None
    if data is not None:
        sample = sample_of_schema(data) if is_topic else sample_of(data, besides=[file])
    if sample is not None:
        sample = replace(sample, path=_seen_from(file.parent, Path(sample.path)))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(starter(sample), encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"{str(file)!r} cannot be written: {error.strerror or error}.") from error
    name = "" if file == Path("skyband.yaml") else f" {shlex.quote(str(file))}"
    about = f"a Kafka topic with the schema {data}" if is_topic else str(data)
    about = about if data is not None else "rows that Spark generates, because this folder contains no data"
    missing = why_no_spark()
    is_table = sample is not None and sample.source == "delta"
    local = " --local" if is_table or (missing is not None and data is not None and not is_topic) else ""
    commands = {
        f"explain{name}": "show the plan without running it",
        f"run{name}{local}": "follow the stream, live; Ctrl-C stops it",
    }
    if data is not None:
        commands |= {
            f"run{name} --once": "read the existing data, emit every window and exit",
            f"verify{name}": "compare all answers with brute force",
        }
    width = max(map(len, commands))
    lines = [f"wrote {file}: queries over {about}. Review it, then run:", ""]
    lines += [f"  skyband {command:{width}}   {what}" for command, what in commands.items()]
    if is_topic:
        lines += ["", "Set servers and topic first. Kafka needs Spark, and its connector: skyband jars"]
    elif missing is not None:
        lines += ["", _without_spark(missing, has_data=data is not None)]
    return "\n".join(lines)


def _without_spark(missing: str, *, has_data: bool) -> str:
    consequence = (
        "the commands run in this process, without Spark."
        if has_data
        else "these rows cannot be generated. Put a data file into this folder and repeat the command."
    )
    return f"{missing[:1].upper()}{missing[1:]}: {consequence}"


def _seen_from(folder: Path, data: Path) -> str:
    """The data's path relative to the folder of the workload file, unless it is absolute."""
    return str(data) if data.is_absolute() else os.path.relpath(data, folder)


def search_data(folder: Path) -> Path | None:
    """Find the data of a folder: its only data file, a glob for its numbered parts, or its only subfolder with data.

    Returns None if there is no data. Raises InvalidInputError if the choice is ambiguous or the format is unsupported.
    """
    if not folder.is_dir():
        return None
    names = sorted(path.name for path in folder.iterdir() if is_visible(path.name))
    if (folder / "_delta_log").is_dir():
        whole = folder.absolute()
        raise InvalidInputError(
            "this folder is a Delta table, and VACUUM removes files in it that are not part of the table. Use the "
            f"parent folder: cd {shlex.quote(str(whole.parent))} && skyband init {shlex.quote(whole.name)}"
        )
    refuse_iceberg(folder, [])
    files = [name for name in names if not (folder / name).is_dir()]
    found = [name for name in files if format_of(name)]
    found = found or [name for name in files if format_by_content(folder / name)]
    if len(found) == 1:
        return folder / found[0]
    if found:
        parts = _glob_for(found, files)
        if parts is None:
            raise _unclear("data files", found)
        return folder / parts
    below = [name for name in names if (folder / name).is_dir() and name not in _NOT_DATA and _has_data(folder / name)]
    if any(map(is_partition, below)):
        whole = folder.absolute()
        raise InvalidInputError(
            f"this folder contains partition folders ({_listed(below)}), so Spark would read a workload file in it as "
            f"data. Use the parent folder: cd {shlex.quote(str(whole.parent))} && skyband init "
            f"{shlex.quote(whole.name)}"
        )
    if len(below) > 1:
        raise _unclear("folders of data", below)
    if below:
        return folder / below[0]
    unreadable = [name for name in files if _is_unreadable(Path(name))] or [
        f"{name}/{file.name}"
        for name in names
        if (folder / name).is_dir() and name not in _NOT_DATA
        for file in islice(visible_files(folder / name), _MOST)
        if _is_unreadable(file)
    ]
    if unreadable:
        raise InvalidInputError(
            f"the format of the data in this folder ({_listed(unreadable)}) is not supported. Convert it to .csv, "
            ".tsv, .jsonl, .parquet or .avro. For generated rows, run skyband init in an empty folder. Nothing was "
            "written."
        )
    return None


def _is_unreadable(file: Path) -> bool:
    ending = file.suffix.lower()
    return ending.removeprefix(".") in _UNREADABLE or (ending in _ARCHIVES and format_of(file.stem) is not None)


def _has_data(folder: Path) -> bool:
    seen = list(islice(visible_files(folder), _MOST))
    return any(format_of(file.name) for file in seen) or any(map(format_by_content, seen[:_OPENED]))


def _glob_for(found: Sequence[str], files: Sequence[str]) -> str | None:
    """Return a glob that matches exactly `found`, if these files differ only in a number; else None.

    >>> _glob_for(["part-0000.csv", "part-0001.csv"], ["part-0000.csv", "part-0001.csv", "notes.txt"])
    'part-*.csv'
    """
    patterns = {_NUMBER.sub("*", name) for name in found}
    if len(patterns) > 1:
        return None
    pattern = re.sub(r"\*+", "*", patterns.pop())
    return pattern if [name for name in files if fnmatchcase(name, pattern)] == list(found) else None


def _unclear(what: str, names: Sequence[str]) -> InvalidInputError:
    return InvalidInputError(
        f"this folder contains {len(names)} {what} ({_listed(names)}). Name one of them: "
        f"skyband init {shlex.quote(names[0])}"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
