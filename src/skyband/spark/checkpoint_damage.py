"""Which file of a checkpoint is damaged, after Spark could not read it. Spark's errors often name none.

This runs only after a stream has failed. The error must look like one of reading, or a file must be unreadable: an
error in an expression does not make a checkpoint suspicious.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from skyband.errors import PipelineError, SkybandError, SnapshotError
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.spark_errors import is_gone, reason_of

__all__ = ["with_damaged_file"]

_READING = re.compile(
    r"MALFORMED_LOG_FILE|MISSING_METADATA_FILE|FAILED_TO_READ_OPERATOR_METADATA|CANNOT_LOAD_STATE_STORE"
    r"|Json(?:Parse|EOF|Mapping)Exception|Unexpected (?:end-of-input|character)|Illegal (?:unquoted )?character"
    r"|Unrecognized token|Malformed|[Cc]orrupt|EOFException|ChecksumException|Checksum error|MappingException"
    r"|FileNotFoundException|does not exist|Failed to read log file|NumberFormatException|MatchError"
    r"|No usable value for"
)
_STATE = re.compile(
    r"CANNOT_LOAD_STATE_STORE|RocksDB|changelog|StateStore|state store|[Oo]perator.metadata|OPERATOR_METADATA"
)
_OF_STATE = re.compile(r"the snapshot |the stored state of |bytes are not a Skyband snapshot")
_VERSION = re.compile(r"v\d+")
_NAMES_OF_FILES = ("path", "timestamp", "batchId")  # of each line of the log of a folder
_MISSING_NAME = re.compile(r"No usable value for (\w+)")
_LOGS = ("offsets", "commits", "sources/0", "sources/1", "sources/2", "sources/3")


def with_damaged_file(checkpoint: Checkpoint, error: BaseException, plain: BaseException) -> BaseException:
    """Return the error with the damaged file and a remedy, if a stream failed because of one; else `plain`."""
    if isinstance(plain, SnapshotError) and _OF_STATE.match(str(plain)):
        return _damaged(f"{checkpoint.folder}/state", str(plain))
    if not isinstance(plain, PipelineError) or is_gone(error):
        return plain
    text = f"{error}\n{getattr(error, '_stackTrace', '')}\n{getattr(error, 'java_exception', '')}"
    if _READING.search(text) is None:
        return plain
    try:
        found = _named(checkpoint.folder, text) or next(_unreadable(checkpoint), None)
        if found is None and (missing := _MISSING_NAME.search(text)) is not None:
            found = _without_name(checkpoint, missing[1])
    except Exception:  # the folder itself cannot be read; the first error says why
        return plain
    if found is None and _STATE.search(text):
        found = f"{checkpoint.folder}/state"
    return plain if found is None else _damaged(found, reason_of(error))


def _damaged(path: str, why: str) -> SnapshotError:
    return SnapshotError(
        f"the stream stopped: {path!r} of the checkpoint is damaged or missing ({why.rstrip('.')}). Nothing was "
        "answered from it. Restore the whole checkpoint from a backup, or start without state: with another folder, or "
        "with --fresh (fresh=True)."
    )


def _named(folder: str, text: str) -> str | None:
    """Return the file or folder below the checkpoint that an error names, the deepest one."""
    below = re.escape(folder) + r"/(?:offsets|commits|metadata|state|sources)[^\s,;:'\"\])}]*"
    paths = [found.rstrip(".") for found in re.findall(below, text)]
    return max(paths, key=lambda path: path.count("/"), default=None)


def _unreadable(checkpoint: Checkpoint) -> Iterator[str]:
    """Yield the files of Spark's logs that are not what Spark writes: a line with a version, then JSON."""
    yield from _not_json(checkpoint, f"{checkpoint.folder}/metadata", has_version=False)
    for log in _LOGS:
        for path in _logged(checkpoint, log):
            yield from _not_json(checkpoint, path, has_version=True)
    state = f"{checkpoint.folder}/state"
    for operator in checkpoint.files_in(state):
        for name in checkpoint.files_in(f"{state}/{operator}/_metadata"):
            for part in checkpoint.files_in(f"{state}/{operator}/_metadata/{name}") or [""]:
                path = f"{state}/{operator}/_metadata/{name}/{part}".rstrip("/")
                if not part.startswith("."):
                    yield from _not_json(checkpoint, path, has_version=True)


def _logged(checkpoint: Checkpoint, log: str) -> list[str]:
    """Return the files of a log, the newest first."""
    folder = f"{checkpoint.folder}/{log}"
    names = sorted((name for name in checkpoint.files_in(folder) if name.split(".")[0].isdecimal()), key=_number)
    return [f"{folder}/{name}" for name in reversed(names)]


def _without_name(checkpoint: Checkpoint, name: str) -> str | None:
    """Return the newest file of a log that lacks a name which other lines of the log, or Spark, give all its lines."""
    for log in _LOGS:
        lacking: list[str] = []
        having = log.startswith("sources/") and name in _NAMES_OF_FILES
        for path in _logged(checkpoint, log):
            entries = [json.loads(line) for line in (checkpoint.lines_of(path) or [])[1:] if line.startswith("{")]
            with_name = [isinstance(entry, dict) and name in entry for entry in entries]
            having = having or any(with_name)
            if entries and not (any(with_name) if log == "offsets" else all(with_name)):
                lacking.append(path)
        if having and lacking:
            return lacking[0]
    return None


def _not_json(checkpoint: Checkpoint, path: str, *, has_version: bool) -> Iterator[str]:
    try:
        lines = checkpoint.lines_of(path)
    except SkybandError:
        yield path
        return
    if lines is None:
        return
    # Spark's Kafka source writes a zero byte in front, for versions of Spark that expected a binary file.
    if has_version and (not lines or _VERSION.fullmatch(lines.pop(0).removeprefix("\0")) is None):
        yield path
        return
    try:
        for line in lines:
            if line != "-":  # a source without an offset
                json.loads(line)
    except ValueError:
        yield path


def _number(name: str) -> int:
    return int(name.partition(".")[0])
