"""Check the folders of a file for conflicts: outputs must not be read as input, mixed, or removed with the state."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from skyband.connectors.file_systems import is_store
from skyband.paths import absolute, has_scheme
from skyband.workload_file.report import Report
from skyband.workload_file.tree import Loc, spelled

__all__ = ["check_folders"]

_MAGIC = re.compile(r"[*?\[{]")
_FILES = ("parquet", "jsonl", "csv")  # of which a folder in an object store can have one only
_ENDINGS = {"parquet": ".parquet", "jsonl": ".jsonl", "csv": ".csv", "delta": ".parquet"}


class _Folder(NamedTuple):
    """A folder that files are written to."""

    loc: Loc
    path: str  # as written in the file
    real: str  # with symbolic links resolved
    ending: str  # suffix of the files
    name: str  # in messages


def check_folders(raw: dict[str, Any], file: Path, report: Report) -> None:
    """Report output folders that are shared, nested, inside the checkpoint, or read by a stream of the file.

    Symbolic links are resolved, as far as the folders exist.
    """
    streams = {name: one for name, one in _map(raw, "streams").items() if isinstance(one, dict)}
    read = {name: str(one["path"]) for name, one in streams.items() if isinstance(one.get("path"), str)}
    engine = _map(raw, "engine")
    state = engine.get("checkpoint") if isinstance(engine.get("checkpoint"), str) else None
    checkpoint = _real(state or f".skyband/{file.stem}", file.parent)
    before: list[_Folder] = []
    for folder in _written(raw, streams, file.parent):
        if not report.is_sound(*folder.loc[:2]):
            continue
        reader = next((name for name, path in read.items() if _reads(path, folder, streams, file.parent)), None)
        if reader is not None:
            report.add(
                folder.loc,
                f"{folder.path!r} is read by stream {reader!r} ({read[reader]!r}), so the output would become input. "
                "Use another folder.",
            )
        if checkpoint is not None and _is_in(folder.real, checkpoint):
            report.add(
                folder.loc,
                f"{folder.path!r} is inside the checkpoint folder ({checkpoint!r}), which --fresh removes with all "
                "files in it. Use another folder.",
            )
        for other in before:
            if (message := _clash(folder, other)) is not None:
                report.add(folder.loc, message)
                break
        before.append(folder)


def _clash(folder: _Folder, other: _Folder) -> str | None:
    both_dead = folder.loc[0] == other.loc[0] == "streams"  # their files contain the stream's name
    link = f" (both are {folder.real!r})" if os.path.basename(folder.path) != os.path.basename(other.path) else ""
    if folder.real == other.real:
        return None if both_dead else f"{folder.path!r} is already {other.name}{link}; their files would be mixed."
    if _is_in(folder.real, other.real):
        return f"{folder.path!r} is inside {other.name} ({other.path!r}); reading that folder would read both."
    if _is_in(other.real, folder.real):
        return f"{folder.path!r} contains {other.name} ({other.path!r}); reading the folder would read both."
    return None


def _written(raw: dict[str, Any], streams: dict[str, Any], base: Path) -> Iterator[_Folder]:
    for name, stream in streams.items():
        if isinstance(path := stream.get("dead_letters"), str) and (real := _real(path, base)) is not None:
            yield _Folder(("streams", name, "dead_letters"), path, real, "", f"the dead letters of stream {name!r}")
    sinks = raw.get("sinks")
    for number, sink in enumerate(sinks if isinstance(sinks, list) else ()):
        path = sink.get("path") if isinstance(sink, dict) else None
        if isinstance(path, str) and (real := _real(path, base) or _in_store(sink)) is not None:
            loc: Loc = ("sinks", number, "path")
            ending = _ENDINGS.get(str(sink.get("type")), "")
            yield _Folder(loc, path, real, ending, f"the folder of {spelled(loc[:2])}")


def _reads(path: str, folder: _Folder, streams: dict[str, Any], base: Path) -> bool:
    """Whether a source's path, folder or glob matches files that will be written to the folder."""
    local = _local(path, base)
    if local is None:
        return False
    parts = Path(local).parts
    fixed = next((place for place, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    rest = parts[fixed:]
    pattern = (*Path(os.path.realpath(Path(*parts[:fixed]))).parts, *rest)
    for stream in streams:
        there = (*Path(folder.real).parts, f"{stream}-00000000{folder.ending}")
        below = there[len(pattern) :]
        if (
            len(pattern) <= len(there)
            and all(_fits(name, part) for name, part in zip(there, pattern, strict=False))
            and not any(name.startswith((".", "_")) for name in below)  # Spark skips those
        ):
            return True
    return False


def _fits(name: str, pattern: str) -> bool:
    """Whether a Hadoop glob, which also supports {a,b}, matches a name."""
    braces = re.search(r"\{([^{}]*)\}", pattern)
    if braces is None:
        return fnmatchcase(name, pattern.replace("[^", "[!")) if _MAGIC.search(pattern) else name == pattern
    begin, end = pattern[: braces.start()], pattern[braces.end() :]
    return any(_fits(name, f"{begin}{one}{end}") for one in braces[1].split(","))


def _is_in(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith(outer.rstrip(os.sep) + os.sep)


def _real(path: str, base: Path) -> str | None:
    local = _local(path, base)
    return None if local is None else os.path.realpath(local)


def _in_store(sink: dict[str, Any]) -> str | None:
    """Address of a file sink in an object store; None for other sinks and addresses. s3 and s3a are the same store."""
    path = sink["path"]
    if sink.get("type") not in _FILES or not is_store(path) or "${" in path:
        return None
    scheme, _, rest = path.partition("://")
    return f"{'s3' if scheme == 's3a' else scheme}://{rest.strip('/')}"


def _local(path: str, base: Path) -> str | None:
    """Absolute local path; None for a remote path."""
    if path.startswith("file:"):
        path = re.sub(r"^file:(//)?", "", path)
    return None if has_scheme(path) or "${" in path else absolute(path, base)


def _map(raw: dict[str, Any], key: str) -> dict[str, Any]:
    found = raw.get(key)
    return found if isinstance(found, dict) else {}
