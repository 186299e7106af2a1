"""Journal of the changes of a running job: one line per change, applied again by the next run.

A new query is on trial (`try`) until a micro-batch with it is completed; then it is recorded as added (`add`).
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

from skyband.errors import SkybandError, SnapshotError
from skyband.queries import Query
from skyband.queries.families import FAMILIES
from skyband.queries.workload import Workload
from skyband.snapshot import StateFormat, unchanged
from skyband.workload_file.reader import WorkloadFile

__all__ = ["Change", "Journal", "added_queries", "changed", "given_up", "names_of", "with_query", "without_query"]

MOST_TRIES = 6  # of a query before it is assumed to crash Java each time; fewer can have other causes
LINE = StateFormat("journal of changes", [unchanged])
_JOINS = ("try", "add")
_LOG = logging.getLogger("skyband.control")


@dataclass(frozen=True)
class Change:
    """A query that is tried in a stream, was added to it, or was dropped from it."""

    kind: Literal["try", "add", "drop"]
    stream: str
    query: Query


class Journal:
    """The journal file, beside the state.

    >>> import skyband as sb
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     journal = Journal(Path(folder))
    ...     journal.append(Change("add", "trades", sb.TopK(name="few", k=3, size=500)))
    ...     journal.read()
    [Change(kind='add', stream='trades', query=TopK(name='few', k=3, size=500, slide=500))]
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "changes.jsonl"

    def append(self, change: Change) -> None:
        """Append a change durably."""
        fields = {"type": change.query.family, **change.query.to_dict()}
        values = LINE.stamped({"kind": change.kind, "stream": change.stream, "query": fields})
        line = json.dumps(values) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab", buffering=0) as file:
            size = file.tell()
            begin = b"\n" if size and not self._ends_with_newline() else b""  # after a line that a crash cut off
            try:
                _write_all(file, begin + line.encode())
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise

    def read(self) -> list[Change]:
        """Return all changes, oldest first. A line that a crash cut off was never confirmed and is ignored."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        found = []
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    found.append(_change(json.loads(line)))
                except (ValueError, KeyError, TypeError, SkybandError) as error:
                    if _is_cut_off(line):
                        continue
                    if isinstance(error, SnapshotError):
                        raise SnapshotError(f"{self.path}:{number} cannot be read: {error}") from error
                    raise SnapshotError(
                        f"{self.path}:{number} is not a valid change ({error}), so the changes of the earlier run are "
                        "unknown. Repair or remove the line, then run again."
                    ) from error
        return found

    def clear(self) -> None:
        """Remove all changes."""
        self.path.unlink(missing_ok=True)

    def _ends_with_newline(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


def _write_all(file: BinaryIO, content: bytes) -> None:
    while content:
        content = content[file.write(content) :]


def changed(file: WorkloadFile, changes: Iterable[Change]) -> WorkloadFile:
    """Return the file with the changes applied.

    On a conflict the file wins: it was edited since, or already has a query of that name.
    """
    for change in _lasting(changes):
        known = change.stream in file.workloads
        if change.kind in _JOINS and known and change.query.name not in names_of(file):
            try:
                file = with_query(file, change.stream, change.query)
            except SkybandError as error:  # the file was edited since, and its queries have another type
                _LOG.warning(
                    "ignored query %r, which was added to stream %r earlier: %s",
                    change.query.name,
                    change.stream,
                    error,
                )
        elif change.kind == "drop" and known and _has(file, change):
            file = without_query(file, change.stream, change.query.name)
    return file


def added_queries(file: WorkloadFile, changes: Iterable[Change], stream: str, own: Collection[str]) -> list[Query]:
    """Return the queries that were added to a stream while it ran and still run, newest first.

    `own` contains the names of the queries in the file.
    """
    running = {query.name: query for query in file.workloads[stream] if query.name not in own}
    added = dict.fromkeys(
        change.query.name for change in _lasting(changes) if change.kind in _JOINS and change.stream == stream
    )
    return [running[name] for name in reversed(added) if name in running]


def given_up(changes: Iterable[Change]) -> list[Change]:
    """Return drops of the queries whose trials have each ended with a crash of Java."""
    tries: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        mine = tries.setdefault((change.stream, change.query.name), [])
        if change.kind == "try":
            mine.append(change)
        else:
            mine.clear()
    return [Change("drop", mine[-1].stream, mine[-1].query) for mine in tries.values() if len(mine) >= MOST_TRIES]


def _lasting(changes: Iterable[Change]) -> list[Change]:
    """Remove queries that were added and later dropped from the changes."""
    kept: list[Change] = []
    for change in changes:
        mine = (change.stream, change.query.name)
        before = [one for one in kept if one.kind in _JOINS and (one.stream, one.query.name) == mine]
        if change.kind == "drop" and before:
            kept = [one for one in kept if one not in before]
        else:
            kept.append(change)
    return kept


def with_query(file: WorkloadFile, stream: str, query: Query) -> WorkloadFile:
    """The file with an additional query."""
    workload = Workload([*file.workloads[stream], query])
    return replace(file, workloads={**file.workloads, stream: workload})


def without_query(file: WorkloadFile, stream: str, name: str) -> WorkloadFile:
    """The file without a query."""
    workload = Workload([query for query in file.workloads[stream] if query.name != name])
    return replace(file, workloads={**file.workloads, stream: workload})


def names_of(file: WorkloadFile) -> list[str]:
    """Names of all queries; they are unique in a file."""
    return [query.name for workload in file.workloads.values() for query in workload]


def _has(file: WorkloadFile, change: Change) -> bool:
    queries = file.workloads[change.stream].queries
    return len(queries) > 1 and change.query in queries


def _change(saved: dict[str, Any]) -> Change:
    line = LINE.migrated(saved)
    if line["kind"] not in ("try", "add", "drop"):
        raise ValueError(f"kind must be try, add or drop, got {line['kind']!r}")
    fields = dict(line["query"])
    return Change(line["kind"], str(line["stream"]), FAMILIES[fields.pop("type")].query_class(**fields))


def _is_cut_off(line: bytes) -> bool:
    """Whether a crash can have cut the line off: it starts like a change, but has no end."""
    begins = (b'{"version"', b'{"kind"')  # lines of version 1 have no version
    return any(begin.startswith(line) for begin in begins) or (line.startswith(begins) and not line.endswith(b"}}"))
