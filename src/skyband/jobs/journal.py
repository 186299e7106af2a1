"""Journal of the changes of a running job: one line per change, applied again by the next run.

A new query is on trial (`try`) until a micro-batch with it is completed; then it is recorded as added (`add`). A second
file stores how many lines are confirmed, so that a journal that was removed, truncated or replaced by an older copy is
noticed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Literal

from skyband.errors import SkybandError, SnapshotError
from skyband.jobs.checked_lines import checked, checksum_of, sealed
from skyband.queries import Query
from skyband.queries.families import FAMILIES
from skyband.queries.workload import Workload
from skyband.snapshot import StateFormat, unchanged
from skyband.workload_file.reader import WorkloadFile

__all__ = ["Change", "Journal", "added_queries", "changed", "given_up", "names_of", "with_query", "without_query"]

MOST_TRIES = 6  # of a query before it is assumed to crash Java each time; fewer can have other causes
LINE = StateFormat("journal of changes", [unchanged, unchanged])  # lines before version 3 have no checksum
_UNCHECKED = 2  # the last version without checksums
_UNCHECKED_BEGINNINGS = (b'{"kind"', b'{"version": ')  # version 1 stored no version
_CHECKED = b'{"version":'  # without a space
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
        self.confirmed_path = folder / "changes.end"

    def append(self, change: Change) -> None:
        """Append a change durably. A line that an earlier crash cut off is replaced."""
        fields = {"type": change.query.family, **change.query.to_dict()}
        values = LINE.stamped({"kind": change.kind, "stream": change.stream, "query": fields})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines, size = self._lines()
        line = sealed(values, checksum_of(lines[-1]) if lines else "") + b"\n"
        with self.path.open("ab", buffering=0) as file:
            file.truncate(size)
            begin = b"" if not lines or size == sum(map(len, lines)) + len(lines) else b"\n"
            try:
                _write_all(file, begin + line)
                os.fsync(file.fileno())
                self._confirm(len(lines) + 1)
            except OSError:
                file.truncate(size)
                raise

    def read(self) -> list[Change]:
        """Return all changes, oldest first. A line that a crash cut off was never confirmed and is ignored."""
        lines, _ = self._lines()
        checks = [checksum_of(line) for line in lines]
        found = []
        for number, (line, before) in enumerate(zip(lines, ["", *checks], strict=False), 1):
            if line.strip():
                try:
                    found.append(_change(line, before))
                except (ValueError, KeyError, TypeError, RecursionError, SkybandError) as error:
                    if _is_cut_off(line, last=False):
                        continue  # of an earlier version, which wrote on after such a line
                    if isinstance(error, SnapshotError):
                        raise SnapshotError(f"{self.path}:{number} cannot be read: {error}") from error
                    raise SnapshotError(
                        f"{self.path}:{number} is not a valid change ({error}), so the changes of the earlier run are "
                        f"unknown. {self._remedy}"
                    ) from error
        confirmed = self._confirmed()
        if len(lines) < confirmed:
            raise SnapshotError(
                f"{self.path} has {len(lines)} lines, but {confirmed} changes were confirmed, so lines were removed, "
                f"or the file is an older copy. {self._remedy}"
            )
        return found

    def clear(self) -> None:
        """Remove all changes."""
        self.confirmed_path.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    @property
    def _remedy(self) -> str:
        return (
            f"Restore the checkpoint from a backup; or remove {self.path.name} and {self.confirmed_path.name} there, "
            "and run again with the queries of the file."
        )

    def _lines(self) -> tuple[list[bytes], int]:
        """Return the lines without a last one that a crash cut off, and their size in bytes."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return [], 0
        except OSError as error:
            raise SnapshotError(
                f"{self.path} cannot be read ({error.strerror or error}), so the changes of the earlier run are "
                f"unknown. {self._remedy}"
            ) from error
        *lines, last = content.split(b"\n")
        if last and not _is_cut_off(last, last=True):
            return [*lines, last], len(content)
        return lines, len(content) - len(last)

    def _confirmed(self) -> int:
        """Return the number of confirmed lines; 0 for a journal of an earlier version."""
        try:
            return int(checked(self.confirmed_path.read_bytes())["lines"])
        except FileNotFoundError:
            return 0
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise SnapshotError(
                f"{self.confirmed_path} is damaged ({error}), so it is unknown whether all changes of the earlier run "
                f"are in {self.path.name}. {self._remedy}"
            ) from error

    def _confirm(self, lines: int) -> None:
        unfinished = self.confirmed_path.with_suffix(".new")
        with unfinished.open("wb") as file:
            file.write(sealed({"lines": lines}))
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, self.confirmed_path)


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


def _change(text: bytes, before: str) -> Change:
    raw = checked(text, before)
    line = LINE.migrated(raw)
    if raw.get("version", 1) > _UNCHECKED and not checksum_of(text):
        raise ValueError("its checksum is missing")
    if line["kind"] not in ("try", "add", "drop"):
        raise ValueError(f"kind must be try, add or drop, got {line['kind']!r}")
    fields = dict(line["query"])
    return Change(line["kind"], str(line["stream"]), FAMILIES[fields.pop("type")].query_class(**fields))


def _is_cut_off(line: bytes, *, last: bool) -> bool:
    """Whether a crash can have cut the line off: it starts like a change, but has no end.

    Versions before 3 wrote the next line after it; since then only the last line can be cut off.
    """
    begins = (*_UNCHECKED_BEGINNINGS, *((_CHECKED,) if last else ()))
    has_end = bool(checksum_of(line)) if line.startswith(_CHECKED) else line.endswith(b"}}")
    return any(begin.startswith(line) for begin in begins) or (line.startswith(begins) and not has_end)
