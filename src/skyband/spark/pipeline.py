"""Data frames of rows in, a data frame of answers out, whatever family the queries are of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, overload

from pyspark.sql import DataFrame

from skyband.errors import InvalidInputError
from skyband.queries import Query
from skyband.queries.families import FAMILIES
from skyband.queries.workload import Workload
from skyband.sharding.plan import Output
from skyband.spark.plan import Late, Request, frames_of, parsed_delay, refuse_unsupported_request
from skyband.spark.sessions import require

if TYPE_CHECKING:
    from skyband.spark.topology import SparkPlan

__all__ = ["Frames", "answers", "check", "checked_output"]

Frames = DataFrame | Mapping[Any, DataFrame]


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
) -> tuple[DataFrame, DataFrame]: ...
def answers(
    df: Frames,
    workload: Query | Iterable[Query] | Workload[Any],
    *,
    time: str,
    id: str | None = None,  # noqa: A002 - the word users have for it
    watermark: str | timedelta | None = None,
    algorithm: str = "auto",
    late: Late = "count",
    output: Literal["answers", "changes"] = "answers",
    shards: int | None = None,
    control: str | None = None,
) -> DataFrame | tuple[DataFrame, DataFrame]:
    """Answer a workload over a streaming or batch data frame, exactly, in one pass.

    The result is a plain data frame, so that every sink works. Of top-k queries it has ``query``, the partition columns
    (null where a query has none), ``window_start``, ``window_end``, ``rank``, ``score``, then the row's other columns;
    of aggregate queries ``key`` and ``score`` after the rank; of queries over incomplete streams ``query``, ``time``,
    ``rank``, ``object``, ``score``; of uncertain streams ``query``, ``time``, ``rank``, ``id``, ``score``,
    ``probability``. A window leaves once, when the watermark has reached its end. A batch data frame is
    answered to its end; a stream's trailing windows wait for the watermark (`start` with ``bounded=True`` ends a
    stream).

    Parameters
    ----------
    df
        The rows. `by`, `where`, `partition_by`, `key`, `object`, … of the queries are SQL expressions over its columns.
        For incomplete streams also one data frame for each stream, by name: ``{"north": df1, "south": df2}``.
    workload
        One query, several, or a `Workload`; all of one family.
    time
        The column with the event time, a timestamp.
    id
        The column that breaks ties: of equal score and time, the larger id is the better row. None: ties are broken
        by a hash of the row's content, so that answers do not depend on batches either.
    watermark
        How far behind the newest row a row may come (``"10 seconds"``). Needed for a stream unless `df` has a
        watermark already. What comes later is late: it is left out, and counted.
    algorithm
        ``"auto"`` or, for top-k queries, a name from `skyband.algorithms`; for uncertain ones the name of a plan, see
        `skyband.uncertain.schedule`.
    late
        ``"count"``: late rows are counted (see `metrics`). ``"return"``: a second data frame with the late rows comes
        with the answers, as a pair; it is a query of its own. ``"refuse"``: a late row stops the stream; since none can
        then come between two others, tasks can drop more of their rows before anything is shuffled.
    output
        For top-k queries. ``"answers"``: every window's whole answer. ``"changes"``: only what differs from the window
        before, of each query and group: a column ``change`` says ``entered``, ``left`` or ``moved``, ``rank`` is the
        new rank (null for who left) and ``old_rank`` the one before (null for who entered). A window without objects is
        told as all leaving, when the watermark reaches its end.
    shards
        How many parts the state is cut into. By default as many as there are shuffle partitions, at most 32; one for
        each score where no query has groups.
    control
        A folder that `Control` writes to: messages to a running stream.

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
    row_copies: bool = False,
    sole_watermark: bool = False,
    final_at_end: bool = False,
) -> SparkPlan:
    """Refuse what cannot be answered, and settle how the rest will be. Nothing runs, nothing is written."""
    for frame in frames_of(df):
        require(frame.sparkSession, streaming=frame.isStreaming)
    if late not in ("count", "return", "refuse"):
        raise InvalidInputError(f"late={late!r} must be 'count', 'return' or 'refuse'.")
    if watermark is not None:
        parsed_delay(watermark)  # a batch needs none, but a wrong one is wrong there as well
    asked: Workload[Any] = Workload(workload)
    request = Request(
        df, asked, time, id_, watermark, algorithm, late, output, shards, row_copies, sole_watermark, final_at_end
    )
    refuse_unsupported_request(request)
    found: SparkPlan = FAMILIES[asked.family].part("spark").draft(request)
    return found


def checked_output(output: object) -> Output:
    """What users may ask for."""
    if isinstance(output, str) and output in ("answers", "changes"):
        return "answers" if output == "answers" else "changes"
    raise InvalidInputError(
        f"output={output!r} must be 'answers' (every window's whole answer) or 'changes' (who entered, left or moved)."
    )
