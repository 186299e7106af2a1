"""Turn data frames of rows into a data frame of answers, for queries of any family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, overload

from pyspark.sql import DataFrame

from skyband.errors import InvalidInputError
from skyband.queries import Query
from skyband.queries.families import FAMILIES
from skyband.queries.workload import Workload
from skyband.sharding.emission import ONCE, Emission, Emit
from skyband.sharding.plan import Output
from skyband.spark.combiners import combiners_for
from skyband.spark.inputs import RowInput, inputs_of, open_inputs, with_scans
from skyband.spark.plan import Late, Request, frames_of, is_stream, parsed_delay, refuse_unsupported_request
from skyband.spark.sessions import require

if TYPE_CHECKING:
    from skyband.spark.topology import SparkPlan

__all__ = ["Frames", "answers", "check", "checked_output"]

Frames = DataFrame | RowInput | Mapping[Any, DataFrame | RowInput]


@overload
def answers(
    df: Frames,
    workload: Query | Iterable[Query] | Workload[Any],
    *,
    time: str,
    id: str | None = None,
    watermark: str | timedelta | None = None,
    algorithm: str = "auto",
    late: Literal["count", "refuse"] = "count",
    output: Literal["answers", "changes"] = "answers",
    shards: int | None = None,
    control: str | None = None,
    emit: Emit = "final",
    provisional_every: str | timedelta | None = None,
    allowed_lateness: str | timedelta | None = None,
) -> DataFrame: ...
@overload
def answers(
    df: Frames,
    workload: Query | Iterable[Query] | Workload[Any],
    *,
    time: str,
    id: str | None = None,
    watermark: str | timedelta | None = None,
    algorithm: str = "auto",
    late: Literal["return"],
    output: Literal["answers", "changes"] = "answers",
    shards: int | None = None,
    control: str | None = None,
    emit: Emit = "final",
    provisional_every: str | timedelta | None = None,
    allowed_lateness: str | timedelta | None = None,
) -> tuple[DataFrame, DataFrame]: ...
def answers(
    df: Frames,
    workload: Query | Iterable[Query] | Workload[Any],
    *,
    time: str,
    id: str | None = None,  # noqa: A002 - the usual name
    watermark: str | timedelta | None = None,
    algorithm: str = "auto",
    late: Late = "count",
    output: Literal["answers", "changes"] = "answers",
    shards: int | None = None,
    control: str | None = None,
    emit: Emit = "final",
    provisional_every: str | timedelta | None = None,
    allowed_lateness: str | timedelta | None = None,
) -> DataFrame | tuple[DataFrame, DataFrame]:
    """Answer a workload over a streaming or batch data frame, exactly, in one pass.

    The result is a plain data frame, so every Spark sink works. Its columns depend on the queries:

    - top-k: ``query``, the partition columns (null for queries without them), ``window_start``, ``window_end``,
      ``rank``, ``score``, then the row's other columns;
    - aggregates: ``query``, the partition columns, ``window_start``, ``window_end``, ``rank``, ``key``, ``score``,
      then the row's columns if a query has ``row=True``;
    - incomplete streams: ``query``, ``time``, ``rank``, ``object``, ``score``;
    - uncertain streams: ``query``, ``time``, ``rank``, ``id``, ``score``, ``probability``.

    A window is emitted once, when the watermark has reached its end, unless `emit` or `allowed_lateness` request more.
    A batch data frame is answered to its end. The trailing windows of a stream wait for the watermark; `start` with
    ``bounded=True`` also answers those.

    Parameters
    ----------
    df
        The rows, or files from `read_files`. `by`, `where`, `partition_by`, `key`, `object`, … of the queries are SQL
        expressions over its columns. For incomplete streams also a mapping with one data frame per stream:
        ``{"north": df1, "south": df2}``.
    workload
        One query, several, or a `Workload`; all of one family.
    time
        The column with the event time, a timestamp.
    id
        The column that breaks ties: at equal score and time, the row with the larger id ranks higher. None: a hash of
        the row's content breaks ties, so answers still do not depend on batches.
    watermark
        How far a row may be behind the newest row (``"10 seconds"``). Required for a stream unless `df` already has a
        watermark. Later rows are late: they are dropped and counted.
    algorithm
        ``"auto"``; or, for top-k queries, a name from `skyband.algorithms`; or, for uncertain queries, the name of a
        plan, see `skyband.uncertain.schedule`.
    late
        ``"count"``: late rows are counted (see `metrics`). ``"return"``: returns a pair of the answers and a data frame
        of the late rows, which runs as a separate Spark query. ``"refuse"``: a late row stops the stream. No late row
        can then come between two others, so tasks can drop more rows before the shuffle.
    output
        ``"answers"``: the whole answer of every window. ``"changes"``: only the differences from the
        previous window, for each query and group. The column ``change`` is ``entered``, ``left`` or ``moved``, ``rank``
        is the new rank (null for ``left``) and ``old_rank`` the previous one (null for ``entered``). For an empty
        window, all rows are reported as ``left`` when the watermark reaches its end.
    shards
        The number of partitions of the state. Default: the number of shuffle partitions, at most 32; one for each score
        if no query has groups.
    control
        The folder from which the running stream reads messages of `Control`.
    emit
        ``"final"``: no window is emitted before its end. ``"provisional"``: open windows are also emitted, from the
        rows that have arrived, whenever their answer has changed; the column ``final`` is false until the final answer.
        For each query and group, these are the windows up to the first end after the newest row.
    provisional_every
        How much event time is between two provisional answers, at least (``"10 seconds"``). Default: every micro-batch.
    allowed_lateness
        How far a row may be behind the watermark and still be used (``"5 minutes"``). If it changes the answer of a
        final window, the window is emitted again, with a higher number in the column ``revision``, which is 0 at first.
        Default: late rows are not used. Not for `UncertainTopK`, and not with ``late="return"`` or ``late="refuse"``.

    Examples
    --------
    >>> import skyband as sb
    >>> from skyband.spark import answers, session
    >>> spark = session()  # doctest: +SKIP
    >>> big = sb.TopK(name="big", k=10, size="10 minutes", slide="1 minute", by="price * size")
    >>> trades = spark.readStream.schema(schema).parquet("trades")  # doctest: +SKIP
    >>> out = answers(trades, big, time="ts", id="trade_id", watermark="10 seconds")  # doctest: +SKIP
    >>> out.writeStream.format("console").start()  # doctest: +SKIP
    """
    found = check(
        df,
        workload,
        time=time,
        id_=id,
        watermark=watermark,
        algorithm=algorithm,
        late=late,
        output=checked_output(output),
        shards=shards,
        emission=Emission.parsed(emit, provisional_every, allowed_lateness),
    ).assemble(control)
    return found.answers if found.late is None else (found.answers, found.late)


def check(
    df: Frames,
    workload: Query | Iterable[Query] | Workload[Any],
    *,
    time: str,
    id_: str | None,
    watermark: str | timedelta | None,
    algorithm: str,
    late: Late,
    output: Output,
    shards: int | None,
    sole_watermark: bool = False,
    final_at_end: bool = False,
    streaming: bool | None = None,
    checkpoint: str | None = None,
    emission: Emission = ONCE,
    old_scores: bool = False,
) -> SparkPlan:
    """Validate a request and return its plan. Runs and writes nothing.

    `streaming`: inputs are streams, whatever they are for `answers`. `checkpoint` is the folder of Spark's checkpoint.
    """
    queries: Workload[Any] = Workload(workload)
    inputs, df = inputs_of(df), open_inputs(df, time, queries, streaming=streaming)
    for frame in frames_of(df):
        require(frame.sparkSession, streaming=is_stream(frame))
    if late not in ("count", "return", "refuse"):
        raise InvalidInputError(f"late must be 'count', 'return' or 'refuse', got {late!r}.")  # words: allow
    if watermark is not None:
        parsed_delay(watermark)  # validated for batches too, which do not use it
    emission.refuse_other_late_rows(late)
    request = Request(
        df,
        queries,
        time,
        id_,
        watermark,
        algorithm,
        late,
        output,
        shards,
        sole_watermark,
        final_at_end,
        emission,
        old_scores,
    )
    refuse_unsupported_request(request)
    found: SparkPlan = FAMILIES[queries.family].part("spark").draft(request)
    found = replace(found, combiners=combiners_for(found.rows.sparkSession))
    return with_scans(found, inputs, df, checkpoint) if inputs else found


def checked_output(output: object) -> Output:
    """Return the output if it is valid for users."""
    if isinstance(output, str) and output in ("answers", "changes"):
        return "answers" if output == "answers" else "changes"
    raise InvalidInputError(
        f"output must be 'answers' (the whole answer of every window) or 'changes' (rows that entered, left or moved), "
        f"got {output!r}."
    )
