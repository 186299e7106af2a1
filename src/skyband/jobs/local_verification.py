"""Compare the answers of a local job, or stored answers, with their definition, without Spark."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skyband.connectors.arrow.rows import LocalRows
from skyband.connectors.files import FilesSource
from skyband.connectors.memory import MemorySink
from skyband.connectors.row_identity import GROUP, groups_of, with_places
from skyband.data.arrow import one
from skyband.errors import InvalidInputError
from skyband.expressions import compile_expression
from skyband.expressions.types import spark_name
from skyband.jobs.engine_choice import refuse_unsupported_file
from skyband.jobs.local_job import run_local
from skyband.jobs.local_tables import with_local_tables
from skyband.jobs.verified import Verified, in_answers, returning, stored_files, written_to
from skyband.queries.answer_schema import moment_of
from skyband.queries.families import family_of
from skyband.queries.workload import Workload
from skyband.sharding.emission import FINAL, REVISION, marks_in
from skyband.topk.brute_force import compare_tables, rounded
from skyband.workload_file import WorkloadFile

__all__ = ["verify_local"]


def verify_local(
    file: WorkloadFile,
    stream: str,
    progress: Callable[[str], None] = lambda _: None,
    *,
    answers: Path | None = None,
    unfinished: bool = False,
    joined: bool = False,
) -> Verified:
    """Compare the answers of a stream with brute force over all of its rows, as `verify` does on Spark.

    Reading the files and evaluating expressions is shared with the local run; how answers are found is not.
    """
    file = with_local_tables(file)
    refuse_unsupported_file(file)
    source = file.streams[stream]
    assert isinstance(source, FilesSource)  # other sources are rejected
    workload, metrics, seconds = file.workloads[stream], None, None
    if answers is None:
        progress(f"{stream}: computing the answers in one pass…")
        began = monotonic()
        found, metrics = _answer(file, stream)
        seconds = monotonic() - began
    else:
        workload = written_to(file, stream, answers)
        found = _stored(stream, answers)
        found = None if found is None else _last_answers(found, workload)
    progress(f"{stream}: computing by brute force and comparing…")
    began = monotonic()
    rows, read, unreadable = _rows(stream, source)
    time, id_ = _spelled(rows, str(source.time)), source.id and _spelled(rows, source.id)
    definition = family_of(workload).part("brute_force")
    if hasattr(definition, "by_moments"):  # what is expected depends on the moments of the answers
        expected, found = _judged(definition, rows, workload, time, id_, found)
    else:
        expected = definition.by_definition(rows, workload, time=time, id_=id_)
    own = {"__time": in_answers(time, workload), **({"__id": in_answers(id_, workload)} if id_ else {})}
    found = expected.slice(0, 0) if found is None else _as_expected(found, expected, own, workload)
    if hasattr(definition, "within_bounds"):
        expected = definition.within_bounds(expected, found, workload)
    not_final = earlier = 0
    if unfinished:
        expected, not_final = _emitted(expected, found)
    if joined:
        expected, earlier = _since_first(expected, found)
    difference = compare_tables(expected, found)
    return Verified(
        read,
        None if metrics is None else metrics["windows"],
        0 if metrics is None else metrics["dropped_null"],
        not_final,
        difference,
        seconds,
        monotonic() - began,
        unreadable,
        earlier,
    )


def _judged(
    part: Any, rows: pa.Table, workload: Workload[Any], time: str, id_: str | None, found: pa.Table | None
) -> tuple[pa.Table, pa.Table]:
    """Return the answers that are expected beside those found, and these with the same columns."""
    _, kinds = part.by_moments(rows, workload, time=time, id_=id_, found=None)
    empty = kinds.empty_table()
    found = empty if found is None else _as_expected(found, empty, {}, workload)
    return part.by_moments(rows, workload, time=time, id_=id_, found=found)[0], found


def _answer(file: WorkloadFile, stream: str) -> tuple[pa.Table | None, dict[str, Any]]:
    """Run the file once for one stream, with its settings; return the answers and the metrics."""
    mine = replace(
        file,
        streams={stream: file.streams[stream].without_dead_letters()},
        workloads={stream: file.workloads[stream]},
        sinks=(MemorySink(),),
    )
    running = run_local(mine, "once")
    running.await_end()
    return running.memory(stream), running.metrics()[stream]


def _rows(name: str, stream: FilesSource) -> tuple[pa.Table, int, int]:
    """Return all well-formed rows of a stream, their number, and that of skipped files and row groups."""
    source, tables, read, unreadable = LocalRows(name, stream), [], 0, 0
    for batch in source.read():
        tables.append(batch.rows)
        read += batch.rows.num_rows
        unreadable += 0 if batch.unreadable is None else batch.unreadable.num_rows
    return pa.concat_tables([source.schema.empty_table(), *tables]), read, unreadable


def _stored(stream: str, folder: Path) -> pa.Table | None:
    """Return the answers that a sink has written; those of text formats are text."""
    found = stored_files(stream, folder)
    if found is None:
        return None
    kind, files = found
    if kind == "parquet":
        return pa.concat_tables([pq.read_table(file) for file in files], promote_options="default")
    rows: list[dict[str, Any]] = []
    for file in files:
        with file.open(encoding="utf-8", newline="") as lines:
            rows += csv.DictReader(lines) if kind == "csv" else map(json.loads, lines)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: pa.array([_text(row.get(name)) for row in rows], pa.string()) for name in names})


def _last_answers(found: pa.Table, workload: Workload[Any]) -> pa.Table:
    """Return the last final answer of each window, if provisional or corrected answers were stored, too."""
    marks = marks_in(found.column_names)
    if FINAL in marks:
        is_final = pc.equal(pc.utf8_lower(one(found[FINAL]).cast(pa.string())), "true")
        found = found.filter(pc.fill_null(is_final, True))  # null: written without the option
    if REVISION not in marks:
        return found
    revisions = pc.fill_null(one(found[REVISION]).cast(pa.int64()), 0).to_numpy()
    ends = one(found[moment_of(found.column_names)]).cast(pa.string())
    groups = one(with_places(found, groups_of(workload))[GROUP])
    windows = pc.binary_join_element_wise(one(found["query"]).cast(pa.string()), groups, ends, "\n")
    codes = windows.dictionary_encode().indices.to_numpy()
    newest = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    np.maximum.at(newest, codes, revisions)
    return found.filter(pa.array(revisions == newest[codes]))


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value or None  # an empty cell of a CSV file
    return json.dumps(value)


def _as_expected(found: pa.Table, expected: pa.Table, own: dict[str, str], workload: Workload[Any]) -> pa.Table:
    """Convert a sink's rows to the columns of brute force: types of the input, groups only for grouped queries."""
    columns = {}
    for field in expected.schema:
        there = _spelled(found, own.get(field.name, field.name))
        if there not in found.column_names:
            raise InvalidInputError(
                f"the answers have no column {there!r}, which the comparison needs. They were written with another "
                "workload file or by another program."
            )
        value = _cast(found, there, field.type)
        grouped = [query.name for query in workload if field.name in query.groups]
        asked = returning(workload) if field.name in own else grouped
        if field.name in own or grouped:
            is_mine = pc.is_in(one(found["query"]), pa.array(asked, pa.string()))
            value = pc.if_else(is_mine, value, pa.scalar(None, field.type))
        decayed = [query.name for query in workload if getattr(query, "half_life", None) is not None]
        if field.name == "score" and decayed:
            is_mine = pc.is_in(one(found["query"]), pa.array(decayed))
            value = pc.if_else(is_mine, pa.array(rounded(value.to_numpy(zero_copy_only=False))), value)
        columns[field.name] = value
    return pa.table(columns, schema=expected.schema)


def _cast(found: pa.Table, name: str, kind: pa.DataType) -> Any:
    """Return a column with another type; text that cannot be cast becomes null, which is a difference."""
    if found.schema.field(name).type == pa.string() != kind:
        quoted = "`" + name.replace("`", "``") + "`"
        wanted = compile_expression(f"try_cast({quoted} AS {spark_name(kind)})", found.schema)
        return wanted.evaluate(found).cast(kind)
    return one(found[name]).cast(kind)


def _emitted(expected: pa.Table, found: pa.Table) -> tuple[pa.Table, int]:
    """Return the expected answers up to each query's newest window in `found`, and the number of later rows."""
    return _within(expected, found, "max", pc.less_equal)


def _since_first(expected: pa.Table, found: pa.Table) -> tuple[pa.Table, int]:
    """Return the expected answers from each query's first window in `found` on, and the number of earlier rows."""
    return _within(expected, found, "min", pc.greater_equal)


def _within(expected: pa.Table, found: pa.Table, extreme: str, compares: Any) -> tuple[pa.Table, int]:
    moment = moment_of(found.column_names)
    extremes = found.group_by("query").aggregate([(moment, extreme)])
    place = pc.index_in(expected["query"], one(extremes["query"]))
    ends = extremes[f"{moment}_{extreme}"].combine_chunks().take(one(place))
    kept = expected.filter(pc.fill_null(compares(one(expected[moment]), ends), False))
    return kept, expected.num_rows - kept.num_rows


def _spelled(rows: pa.Table, name: str) -> str:
    return next((known for known in rows.column_names if known.lower() == name.lower()), name)
