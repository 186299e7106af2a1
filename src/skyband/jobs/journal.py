"""What was changed about a workload while it ran: a line for each change, so that the next run goes on with it.

A query that joins is on trial (`try`) until a micro-batch with it is done; then it has joined (`add`).
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

__all__ = ["Change", "Journal", "changed", "given_up", "guests", "names_of", "with_query", "without_query"]

MOST_TRIES = 6  # of a query before it is taken to end Java each time; anybody may have killed Java a few times
LINE = StateFormat("journal of changes", [unchanged])
_JOINS = ("try", "add")
_LOG = logging.getLogger("skyband.control")


@dataclass(frozen=True)
class Change:
    """A query that is tried in a stream, has joined it, or was dropped from it."""

    kind: Literal["try", "add", "drop"]
    stream: str
    query: Query


class Journal:
    """The file of changes, beside the state it belongs to.

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
        """Write a change down; once this returns, it survives."""
        fields = {"type": change.query.family, **change.query.to_dict()}
        values = LINE.stamped({"kind": change.kind, "stream": change.stream, "query": fields})
        line = json.dumps(values) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab", buffering=0) as file:
            size = file.tell()
            begin = b"\n" if size and not self._ends_whole() else b""  # behind what a crash cut off
            try:
                _write_all(file, begin + line.encode())
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise

    def read(self) -> list[Change]:
        """All changes, oldest first; a last line that a crash cut off was never confirmed, and does not count."""
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
                        f"{self.path}:{number} is no change of a workload ({error}); what was changed while the file "
                        "ran cannot be told. Mend the line or remove it, then run again."
                    ) from error
        return found

    def clear(self) -> None:
        """Forget all changes."""
        self.path.unlink(missing_ok=True)

    def _ends_whole(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


def _write_all(file: BinaryIO, content: bytes) -> None:
    while content:
        content = content[file.write(content) :]


def changed(file: WorkloadFile, changes: Iterable[Change]) -> WorkloadFile:
    """The file with what was changed while it ran.

    Where the two disagree, the file is right: it was edited since, or it has the query under that name already.
    """
    for change in _lasting(changes):
        known = change.stream in file.workloads
        if change.kind in _JOINS and known and change.query.name not in names_of(file):
            try:
                file = with_query(file, change.stream, change.query)
            except SkybandError as error:  # the file was edited since, and its queries are of another kind
                _LOG.warning("left out %r, which was added to stream %r: %s", change.query.name, change.stream, error)
        elif change.kind == "drop" and known and _has(file, change):
            file = without_query(file, change.stream, change.query.name)
    return file


def guests(file: WorkloadFile, changes: Iterable[Change], stream: str, own: Collection[str]) -> list[Query]:
    """The queries of a stream that were added while it ran and are still asked, the newest first.

    `own` are the names of those that the file itself has.
    """
    asked = {query.name: query for query in file.workloads[stream] if query.name not in own}
    joined = dict.fromkeys(
        change.query.name for change in _lasting(changes) if change.kind in _JOINS and change.stream == stream
    )
    return [asked[name] for name in reversed(joined) if name in asked]


def given_up(changes: Iterable[Change]) -> list[Change]:
    """What is to be dropped because Java ended each time that it was tried."""
    tries: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        mine = tries.setdefault((change.stream, change.query.name), [])
        if change.kind == "try":
            mine.append(change)
        else:
            mine.clear()
    return [Change("drop", mine[-1].stream, mine[-1].query) for mine in tries.values() if len(mine) >= MOST_TRIES]


def _lasting(changes: Iterable[Change]) -> list[Change]:
    """The changes without queries that joined and were dropped later: these leave no trace."""
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
    """The file with one query more."""
    workload = Workload([*file.workloads[stream], query])
    return replace(file, workloads={**file.workloads, stream: workload})


def without_query(file: WorkloadFile, stream: str, name: str) -> WorkloadFile:
    """The file without a query."""
    workload = Workload([query for query in file.workloads[stream] if query.name != name])
    return replace(file, workloads={**file.workloads, stream: workload})


def names_of(file: WorkloadFile) -> list[str]:
    """The names of all queries, which are unique in a file."""
    return [query.name for workload in file.workloads.values() for query in workload]


def _has(file: WorkloadFile, change: Change) -> bool:
    queries = file.workloads[change.stream].queries
    return len(queries) > 1 and change.query in queries


def _change(saved: dict[str, Any]) -> Change:
    line = LINE.migrated(saved)
    if line["kind"] not in ("try", "add", "drop"):
        raise ValueError(f"kind {line['kind']!r} is none of try, add, drop")
    fields = dict(line["query"])
    return Change(line["kind"], str(line["stream"]), FAMILIES[fields.pop("type")].query_class(**fields))


def _is_cut_off(line: bytes) -> bool:
    """Whether a crash may have left this: it begins like a change, and does not end."""
    begins = (b'{"version"', b'{"kind"')  # lines of version 1 say no version
    return any(begin.startswith(line) for begin in begins) or (line.startswith(begins) and not line.endswith(b"}}"))
