"""Where the answers of a workload file go, a micro-batch at a time; a batch that is run again replaces itself."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from skyband.data.json_lines import flat, json_lines, without_formulas
from skyband.data.wide_timestamps import with_far_times_as_text
from skyband.errors import InvalidInputError
from skyband.queries.workload import Workload
from skyband.sharding.output import Output

__all__ = ["Board", "FileSink", "Folder", "Memory", "Outlet", "Wanted", "output_of", "parts_of", "write_to"]


class Outlet(Protocol):
    """Something that takes answers."""

    def take(self, batch: int, rows: pa.Table) -> None:
        """Take the answers of a micro-batch; the same number again means the same answers again."""


class Wanted(NamedTuple):
    """An outlet and what it is to be given."""

    outlet: Outlet
    output: Output
    queries: Sequence[str] | None = None  # all


@runtime_checkable
class Folder(Protocol):
    """A place whose files belong to one run, and are told apart by stream and micro-batch."""

    folder: Path
    holds: str

    def files(self) -> list[Path]:
        """What the stream has written there."""

    def clear(self) -> None:
        """Remove that."""


class FileSink:
    """A file for each micro-batch that has answers, in a folder: complete or not there, and never twice."""

    holds = "answers"

    def __init__(self, folder: str, stream: str, kind: str, *, quote_formulas: bool = False) -> None:
        self.folder = Path(folder)
        self._stream = stream
        self._kind = kind
        self._quotes = quote_formulas
        self._swept = False

    def take(self, batch: int, rows: pa.Table) -> None:
        """Write the file, or replace it."""
        path = self.folder / f"{self._stream}-{batch:08}.{self._kind}"
        # Beside the file and hidden: readers of the folder pass over it, and taking its place is one step.
        unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
        try:
            self._sweep()
            if not rows.num_rows:
                path.unlink(missing_ok=True)  # the workload was changed before the batch was run again
                return
            self.folder.mkdir(parents=True, exist_ok=True)
            _WRITERS[self._kind](without_formulas(rows) if self._quotes else rows, unfinished)
            os.replace(unfinished, path)
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink()
            raise InvalidInputError(
                f"answers cannot be written to {str(path)!r} ({error.strerror or error}); the stream stops, and "
                "nothing is lost: once the folder can be written, run it again."
            ) from error

    def files(self) -> list[Path]:
        """What this stream has written there."""
        return sorted(self.folder.glob(self._pattern()))

    def clear(self) -> None:
        """Remove what this stream has written there."""
        for path in self.files():
            path.unlink()

    def _pattern(self) -> str:
        return f"{_escaped(self._stream)}-{'[0-9]' * 8}.{self._kind}"

    def _sweep(self) -> None:
        """Remove what an earlier run was killed in the middle of."""
        if not self._swept:
            for left in self.folder.glob(f".{self._pattern()}.*"):
                left.unlink(missing_ok=True)
            self._swept = True


class Memory:
    """Keeps all answers, for the program that runs the file."""

    def __init__(self) -> None:
        self._batches: dict[int, pa.Table] = {}
        self._lock = threading.Lock()

    def take(self, batch: int, rows: pa.Table) -> None:
        """Keep them."""
        with self._lock:
            self._batches[batch] = rows

    def table(self) -> pa.Table | None:
        """All answers so far; None before the first batch."""
        with self._lock:
            tables = [self._batches[batch] for batch in sorted(self._batches)]
        return pa.concat_tables(tables) if tables else None


class Board:
    """Keeps the newest answer of every query, for who watches, and what it changed."""

    def __init__(self) -> None:
        self._newest: dict[str, pa.Table] = {}
        self._lock = threading.Lock()

    def take(self, batch: int, rows: pa.Table) -> None:
        """Keep the rows of each query's newest window; of several groups, of all that have that window."""
        rows = with_far_times_as_text(rows)
        moments = rows[_moment(rows)]
        for query in rows["query"].unique().to_pylist():
            mine = pc.equal(rows["query"], query)
            newest = rows.filter(pc.and_(mine, pc.equal(moments, pc.max(moments.filter(mine)))))
            with self._lock:
                self._newest[query] = newest

    def newest(self, query: str) -> pa.Table | None:
        """The rows of a query's newest window; None before the first."""
        with self._lock:
            return self._newest.get(query)


def output_of(wanted: Sequence[Wanted]) -> Output:
    """What the pipeline must give to serve all outlets."""
    found = {one.output for one in wanted}
    return "both" if len(found) > 1 else found.pop()


def write_to(wanted: Sequence[Wanted], workload: Workload[Any], output: Output) -> Callable[[DataFrame, int], None]:
    """What Spark is to call with each micro-batch of answers: they are brought here once, and handed to each outlet."""

    def take(frame: DataFrame, batch: int) -> None:
        for outlet, rows in parts_of(frame.toArrow(), wanted, workload, output):
            outlet.take(batch, rows)

    return take


def parts_of(
    rows: pa.Table, wanted: Sequence[Wanted], workload: Workload[Any], output: Output
) -> Iterator[tuple[Outlet, pa.Table]]:
    """What each outlet is given of the pipeline's rows."""
    places = {query.name: place for place, query in enumerate(workload)}
    groups = list(dict.fromkeys(name for query in workload for name in query.groups))
    rows = _whole(_in_order(rows, places), groups)
    for one in wanted:
        yield one.outlet, _part(rows, one, output)


def _part(rows: pa.Table, wanted: Wanted, output: Output) -> pa.Table:
    if wanted.queries is not None:
        rows = rows.filter(pc.is_in(rows["query"], pa.array(wanted.queries)))
    if output == "both" and wanted.output != "both":
        is_answer = pc.is_null(rows["change"])
        rows = rows.filter(is_answer if wanted.output == "answers" else pc.invert(is_answer))
        if wanted.output == "answers":
            rows = rows.drop_columns(["change", "old_rank"])
    return rows


def _whole(rows: pa.Table, groups: Sequence[str]) -> pa.Table:
    """Columns that groups are told by, with the row's own value where a query has no groups."""
    spelled = {name.lower(): name for name in rows.column_names}
    for group in groups:
        column, own = spelled.get(group.lower(), group), spelled.get(f"row_{group}".lower())
        if own is not None:
            place = rows.schema.get_field_index(column)
            rows = rows.set_column(place, column, pc.coalesce(rows[column], rows[own])).drop_columns([own])
    return rows


def _in_order(rows: pa.Table, places: dict[str, int]) -> pa.Table:
    """By when they were final, query in workload order, and as they came: a group's rows are together and ranked."""
    place = pc.index_in(rows["query"], pa.array(list(places)))
    order = pc.sort_indices(
        pa.table({"end": rows[_moment(rows)], "place": place, "row": pa.array(range(rows.num_rows))}),
        [("end", "ascending"), ("place", "ascending"), ("row", "ascending")],
    )
    return rows.take(order)


def _moment(rows: pa.Table) -> str:
    """The column that says when answers were final; where it is `time`, rows bring no columns of their own."""
    return "window_end" if "window_end" in rows.column_names else "time"


def _escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _write_parquet(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows, path)


def _write_csv(rows: pa.Table, path: Path) -> None:
    pcsv.write_csv(flat(rows), path)


def _write_lines(rows: pa.Table, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json_lines(rows))


_WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "jsonl": _write_lines,
}
