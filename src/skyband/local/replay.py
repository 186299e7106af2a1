"""All answers over one data frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.answers import Answers
from skyband.data.arrow import one, plain_schema
from skyband.data.group_dictionary import ranks_of
from skyband.errors import InvalidInputError, brief
from skyband.kernels.stream import Ints
from skyband.local.arrow_source import ArrowSource
from skyband.local.frames import as_table, frames_by_name, is_frame
from skyband.local.parquet_file import ParquetFile, ParquetRows, is_path
from skyband.local.pipeline import Counts, LocalPlan, TableRows, plan_for, refuse_unsupported_frames
from skyband.queries.families import FAMILIES
from skyband.queries.workload import Workload
from skyband.sharding.projection import ProjectionRequest

__all__ = ["in_order", "replay_frame", "replayed"]

_MOST = 2**62
_LAST = 2**31  # beyond all ranks
_ROW = "__row"  # the order of rows, where a stream of count windows has no column with a time


def replayed(
    queries: Any, frame: Any, arrays: Mapping[str, Any], *, time: str | None, id_: str | None, algorithm: str = "auto"
) -> Answers | None:
    """Return the answers of queries over a data frame; None if `frame` is an array, and the arguments are for arrays.

    `arrays` are the other arguments of a call with arrays, of which a call with a data frame has none.
    """
    if not is_frame(frame) and not is_path(frame):
        for name, value in (("time", time), ("id", id_)):
            if value is not None:
                raise InvalidInputError(
                    f"{name}={value!r} names a column of a data frame, got {brief(frame)} instead of one. Pass a data "
                    "frame (Arrow, pandas, polars, DuckDB, a dict of columns), the path of a Parquet file, or arrays "
                    "without time= and id=."
                )
        return None
    for name, value in arrays.items():
        if value is not None:
            raise InvalidInputError(
                f"{name}= is for arrays; with a data frame, it is computed from the columns by the expressions of the "
                f"queries. Leave {name}= out."
            )
    return replay_frame(Workload(queries), frame, time=time, id_=id_, algorithm=algorithm)


def replay_frame(
    workload: Workload[Any], frame: Any, *, time: str | None, id_: str | None, algorithm: str = "auto"
) -> Answers:
    """Return the answers of a workload over all rows of a data frame, or of a Parquet file."""
    streams = frames_by_name(frame)
    refuse_unsupported_frames(workload, algorithm, by_name=streams is not None)
    if streams is not None:
        return _replay_streams(workload, streams, time, id_)
    if is_path(frame):
        with ParquetFile(frame) as file:
            return _replay_file(workload, file, time, id_, algorithm)
    return _replay_table(workload, as_table(frame), time, id_, algorithm)


def _replay_table(
    workload: Workload[Any], table: pa.Table, time: str | None, id_: str | None, algorithm: str
) -> Answers:
    if time is None:
        table, time = _numbered(workload, table)
    complete = getattr(FAMILIES[workload.family].part("projection"), "with_streams", None)
    if complete is not None:
        workload = complete(workload, lambda text: ArrowSource(table.schema, ()).expression(text).compute(table))
    plan = plan_for(plain_schema(table.schema), ProjectionRequest(workload, time, id_, algorithm), rows=table)
    if not plan.has_whole:
        return Answers(in_order(plan, list(plan.bounded([plan.project(table)], Counts()))))
    found = plan.whole(TableRows(plan, table))
    return Answers(found.drop_columns([_ROW]) if _ROW in plan.names else found)


def _replay_file(
    workload: Workload[Any], file: ParquetFile, time: str | None, id_: str | None, algorithm: str
) -> Answers:
    """Return the answers over a file, of which only the columns are read that the workload needs."""
    if time is None or hasattr(FAMILIES[workload.family].part("projection"), "with_streams"):
        return _replay_table(workload, file.read(), time, id_, algorithm)
    plan = plan_for(file.schema, ProjectionRequest(workload, time, id_, algorithm))
    if not plan.has_whole:
        return _replay_table(workload, file.read(plan.read, plan.texts), time, id_, algorithm)
    with ParquetRows(plan, file) as rows:
        return Answers(plan.whole(rows))


def _replay_streams(workload: Workload[Any], streams: Mapping[str, Any], time: str | None, id_: str | None) -> Answers:
    """Return the answers of a workload over streams with one data frame each."""
    if time is None:
        raise InvalidInputError(
            f"time= is missing: rows of {len(streams)} data frames are put in one order by their times. Name the "
            "column with the time of each row, for example time='ts'."
        )
    declared = FAMILIES[workload.family].part("projection").declared
    request = ProjectionRequest(Workload([declared(query, streams) for query in workload]), time, id_)
    projected, plan = [], None
    for name, frame in streams.items():
        table = as_table(frame)
        plan = plan_for(table.schema, request, stream=name)
        projected.append(plan.project(table))
        _refuse_other_types(name, projected[-1].schema, projected[0].schema)
    return Answers(in_order(plan, list(plan.bounded(projected, Counts()))))  # type: ignore[arg-type,union-attr]


def _refuse_other_types(stream: str, found: pa.Schema, first: pa.Schema) -> None:
    if found != first:
        kinds = sorted(
            {
                str(kind)
                for one, other in zip(found.types, first.types, strict=True)
                if one != other
                for kind in (one, other)
            }
        )
        raise InvalidInputError(
            f"the data frame of stream {stream!r} has other types of time, object or id than the first one "
            f"({', '.join(kinds)}), so objects could not be matched across streams. Cast them to one type."
        )


def _numbered(workload: Workload[Any], table: pa.Table) -> tuple[pa.Table, str]:
    """Return the table with a column for the order of its rows, which count windows follow."""
    if workload.axis == "time":
        raise InvalidInputError(
            f"time= is missing: query {workload.queries[0].name!r} has windows over event time. Name the column with "
            "the time of each row, for example time='ts'."
        )
    rows = pa.array(np.arange(table.num_rows)).cast(pa.timestamp("us"))
    return table.append_column(_ROW, rows), _ROW


def in_order(plan: LocalPlan, tables: list[pa.Table]) -> pa.Table:
    """Return answers in one table: by time, query in workload order, group and rank."""
    found = pa.concat_tables(tables) if tables else plan.empty()
    if _ROW in plan.names:
        found = found.drop_columns([_ROW])
    if len(plan.plan.queries) == 1 and not plan.group_names:
        return found
    places = pc.index_in(found["query"], pa.array([query.name for query in plan.plan.queries])).to_numpy()
    moments = one(found[plan.family.answers.moment]).cast(pa.int64()).to_numpy(zero_copy_only=False)
    groups = [np.where(mine[places], _ranks(one(found[name])), 0) for name, mine in _grouped(plan).items()]
    ranks = pc.fill_null(found["rank"].cast(pa.int64()), _LAST).to_numpy()  # a change feed has rows without a rank
    order = _order([moments, places, *groups, ranks])
    return found if order is None else found.take(pa.array(order))


def _grouped(plan: LocalPlan) -> dict[str, Any]:
    """Return for each group column which queries have it as a group; in others it is a column of the row."""
    found = {}
    for name, column in zip(plan.group_names, getattr(plan.plan, "group_columns", ()), strict=True):
        found[name] = np.zeros(len(plan.plan.queries), bool)
        for scan, groups in zip(plan.plan.scans, plan.plan.groups, strict=True):
            found[name][list(scan.places)] = column in groups
    return found


def _order(keys: list[Ints]) -> Ints | None:
    """Return the stable order of rows by several keys, the first one first; None if they are in order already."""
    together, range_ = np.zeros(keys[0].size, np.int64), 1
    for key in keys:
        if not key.size:
            return None
        low, high = int(key.min()), int(key.max())
        range_ *= high - low + 1
        if range_ > _MOST:  # too many values for one number
            order: Ints = np.lexsort(keys[::-1])
            return order
        together = together * (high - low + 1) + (key - low)
    return None if (together[1:] >= together[:-1]).all() else np.argsort(together, kind="stable")


def _ranks(values: pa.Array) -> Ints:
    """Return the place of each value when values are sorted, nulls last; equal values have one place."""
    encoded = values.dictionary_encode(null_encoding="encode")
    ranks: Ints = ranks_of(encoded.dictionary)[encoded.indices.to_numpy(zero_copy_only=False)]
    return ranks
