"""Answers that tasks write to files. One commit in the driver process makes the files of a micro-batch visible.

A task with few answers returns them instead, so a small micro-batch is still one file, written by the driver process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from skyband.data.arrow import from_bytes, to_bytes
from skyband.queries.answer_schema import moment_of
from skyband.queries.workload import Workload
from skyband.sharding.delivery import TaskFile, Wanted, WrittenByTasks, parts_of
from skyband.sharding.plan import Output
from skyband.spark.versions import is_remote

__all__ = ["are_written_by_tasks", "commit", "rows_of_whole_answers", "staged"]

_LOG = logging.getLogger(__name__)
_FEW = 1 << 20  # bytes of answers in Arrow that a task returns
_FILE = 1 << 27  # bytes of answers in Arrow of a file
_STAGED = "outlet int, file string, rows long, bytes long, answers binary"
_SCHEMA = pa.schema(
    [
        ("outlet", pa.int32()),
        ("file", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("answers", pa.binary()),
    ]
)


def are_written_by_tasks(wanted: Sequence[Wanted], spark: SparkSession) -> bool:
    """Return whether tasks write the answers: if all outlets request it."""
    asked = [one.outlet for one in wanted if isinstance(one.outlet, WrittenByTasks) and one.outlet.by_tasks]
    if not asked:
        return False
    if len(asked) == len(wanted) and not is_remote(spark):
        return True
    why = "over Spark Connect" if len(asked) == len(wanted) else "because other outputs need all answers"
    _LOG.warning("%s: the driver process writes the answers, %s", asked[0], why)
    return False


def staged(frame: DataFrame, wanted: Sequence[Wanted], workload: Workload[Any], output: Output) -> pa.Table:
    """Let tasks write the answers of a micro-batch; return what they wrote, and the answers that they did not write."""
    writers = [one.outlet.task_writer() for one in wanted if isinstance(one.outlet, WrittenByTasks)]
    parts = [Wanted(_Nothing(), one.output, one.queries) for one in wanted]
    return frame.mapInArrow(_writer(writers, parts, workload, output), _STAGED).toArrow()


def commit(found: pa.Table, batch: int, wanted: Sequence[Wanted], workload: Workload[Any], output: Output) -> None:
    """Commit the files of a micro-batch, and the answers that no task has written."""
    rows = found.to_pylist()
    tables = [from_bytes(row["answers"]) for row in rows if row["answers"] is not None]
    left = pa.concat_tables(tables) if tables else None
    rest = {} if left is None else {at: part for at, (_, part) in enumerate(parts_of(left, wanted, workload, output))}
    for number, one in enumerate(wanted):
        files = [TaskFile(row["file"], row["rows"], row["bytes"]) for row in rows if row["outlet"] == number]
        outlet = one.outlet
        assert isinstance(outlet, WrittenByTasks)
        if files:
            outlet.take_files(batch, files, rest.get(number))
        elif number in rest:
            outlet.take(batch, rest[number])
        else:
            outlet.take_files(batch, [], None)


class _Nothing:
    """Takes the place of an outlet in a task."""

    def take(self, batch: int, rows: pa.Table) -> None:
        raise NotImplementedError


def _writer(
    writers: Sequence[Callable[[pa.Table], TaskFile]],
    parts: Sequence[Wanted],
    workload: Workload[Any],
    output: Output,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the task that writes answers."""

    def write(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(held)
        for number, (_, part) in enumerate(parts_of(table, parts, workload, output)):
            if part.num_rows:
                file = writers[number](part)
                yield _row(outlet=number, file=file.path, rows=file.rows, bytes=file.bytes)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held, size, has_written = list[pa.RecordBatch](), 0, False
        for batch in batches:
            if batch.num_rows:
                held.append(batch)
                size += batch.nbytes
            if size >= _FILE and (whole := rows_of_whole_answers(table := pa.Table.from_batches(held), workload)):
                yield from write(table.slice(0, whole).to_batches())
                held, has_written = table.slice(whole).to_batches(), True
                size = sum(one.nbytes for one in held)
        if held and (has_written or size > _FEW):
            yield from write(held)
        elif held:
            yield _row(answers=to_bytes(pa.Table.from_batches(held)))

    return task


def rows_of_whole_answers(rows: pa.Table, workload: Workload[Any]) -> int:
    """Return the number of rows before the last answer, which may continue. Rows of an answer are adjacent.

    >>> import skyband as sb
    >>> each = Workload(sb.TopK(name="each", k=2, size=10, partition_by="g"))
    >>> rows = pa.table({"query": ["each"] * 4, "g": ["a", "a", None, None], "window_end": [10] * 4})
    >>> rows_of_whole_answers(rows, each)
    2
    """
    spelled = {name.lower(): name for name in rows.column_names}
    query = next(query for query in workload if query.name == rows["query"][-1].as_py())
    names = ["query", moment_of(rows.column_names), *(spelled.get(group.lower(), group) for group in query.groups)]
    codes = [rows[name].combine_chunks().dictionary_encode(null_encoding="encode").indices for name in names]
    before = np.flatnonzero(np.any([code.to_numpy() != code[-1].as_py() for code in codes], axis=0))
    return int(before[-1]) + 1 if len(before) else 0


def _row(**values: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"outlet": -1, **values}], schema=_SCHEMA)
