"""A data frame of rows in, a data frame of answers out: reducer, shards and extractor put together."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal, NamedTuple, overload

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField

from skyband.duration import parse_duration
from skyband.errors import InvalidInputError
from skyband.queries import TopK
from skyband.sharding.feeds import feeds_of
from skyband.sharding.plan import Output
from skyband.spark import tasks
from skyband.spark.control import control_envelopes
from skyband.spark.late import late_rows
from skyband.spark.processor import OUTPUT, ShardProcessor
from skyband.spark.scoring import TIMES, Prepared, prepare
from skyband.spark.sessions import require
from skyband.spark.spreading import spread
from skyband.workload import Workload

__all__ = ["Draft", "Late", "Pipeline", "answers", "assemble", "check", "checked_output"]

Late = Literal["count", "return", "refuse"]
MOST_SHARDS = 32  # each costs about a millisecond a batch, whether it has work or not
_WATERMARK = "spark.watermarkDelayMs"  # what Spark writes into the metadata of a column with a watermark


class Draft(NamedTuple):
    """A workload that has been found to fit a data frame."""

    source: DataFrame  # with its watermark, where it stands at the source
    time: str
    prepared: Prepared
    delay: int | None  # of the watermark that is to stand after the reducer, in milliseconds
    late: Late


class Pipeline(NamedTuple):
    """The answers and, on request, the late rows."""

    answers: DataFrame
    late: DataFrame | None


@overload
def answers(
    df: DataFrame,
    workload: TopK | Iterable[TopK] | Workload,
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
    df: DataFrame,
    workload: TopK | Iterable[TopK] | Workload,
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
    df: DataFrame,
    workload: TopK | Iterable[TopK] | Workload,
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

    The result is a plain data frame, so that every sink works: ``query``, the partition columns (null where a query has
    none), ``window_start``, ``window_end``, ``rank``, ``score``, then the row's other columns. A window leaves once,
    when the watermark has reached its end. A batch data frame is answered to its end; a stream's trailing windows
    wait for the watermark (`start` with ``bounded=True`` ends a stream).

    Parameters
    ----------
    df
        The rows. `by`, `where` and `partition_by` of the queries are SQL expressions over its columns.
    workload
        One query, several, or a `Workload`.
    time
        The column with the event time, a timestamp.
    id
        The column that breaks ties: of equal score and time, the larger id is the better row. None: ties are broken
        by a hash of the row's content, so that answers do not depend on batches either.
    watermark
        How far behind the newest row a row may come (``"10 seconds"``). Needed for a stream unless `df` has a
        watermark already. What comes later is late: it is left out, and counted.
    algorithm
        ``"auto"`` or a name from `skyband.algorithms`.
    late
        ``"count"``: late rows are counted (see `metrics`). ``"return"``: a second data frame with the late rows comes
        with the answers, as a pair; it is a query of its own. ``"refuse"``: a late row stops the stream; since none can
        then come between two others, tasks can drop more of their rows before anything is shuffled.
    output
        ``"answers"``: every window's whole answer. ``"changes"``: only what differs from the window before, of each
        query and group: a column ``change`` says ``entered``, ``left`` or ``moved``, ``rank`` is the new rank (null for
        who left) and ``old_rank`` the one before (null for who entered). A window without objects is told as all
        leaving, when the watermark reaches its end.
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
    draft = check(
        df,
        workload,
        time=time,
        id_=id,
        watermark=watermark,
        algorithm=algorithm,
        late=late,
        output=checked_output(output),
        shards=shards,
    )
    found = assemble(draft, control)
    return found.answers if found.late is None else (found.answers, found.late)


def check(
    df: DataFrame,
    workload: TopK | Iterable[TopK] | Workload,
    *,
    time: str,
    id_: str | None,
    watermark: str | timedelta | None,
    algorithm: str,
    late: Late,
    output: Output,
    shards: int | None,
    whole: bool = False,
) -> Draft:
    """Refuse what cannot be answered, and settle how the rest will be. Nothing runs, nothing is written.

    With `whole` the answers bring back the row's own value of columns that groups are told by, too.
    """
    if not isinstance(df, DataFrame):
        raise InvalidInputError(f"df={df!r} must be a Spark DataFrame, not {type(df).__name__}.")
    if late not in ("count", "return", "refuse"):
        raise InvalidInputError(f"late={late!r} must be 'count', 'return' or 'refuse'.")
    spark = df.sparkSession
    require(spark, streaming=df.isStreaming)
    asked = Workload(workload)
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    count = _most_useful(asked, partitions) if shards is None else _checked_shards(shards)
    there = _delay_of(df, time)
    delay = _checked_delay(df, time, watermark, there) if df.isStreaming else None
    # Rows that every filter removes move time too. They are seen by a watermark at the source; where all rows reach the
    # tasks it is cheaper to look at the newest of each batch only.
    if delay is not None and (late == "return" or all(query.where for query in asked)):
        df, there, delay = df.withWatermark(_spelled(df, time), f"{delay} milliseconds"), delay, None
    prepared = prepare(
        df,
        asked,
        time=time,
        id_=id_,
        algorithm=algorithm,
        shards=count,
        may_be_late=df.isStreaming and late != "refuse",
        delay=1000 * ((there if delay is None else delay) or 0),
        output=output,
        whole=whole,
    )
    return Draft(df, _spelled(df, time), prepared, delay, late)


def assemble(draft: Draft, control: str | None) -> Pipeline:
    """The data frames of a draft; a stream's also read the control messages in the folder `control`."""
    df, late = draft.source, draft.late == "return"
    if not df.isStreaming:
        return Pipeline(_from_batch(draft.prepared), df.limit(0) if late else None)
    keys = spread(draft.prepared.plan.shards)
    answered = _from_stream(draft.prepared, keys, control, draft.delay)
    return Pipeline(answered, late_rows(df, draft.time, keys, control) if late else None)


def _from_stream(prepared: Prepared, keys: dict[int, int], control: str | None, delay: int | None) -> DataFrame:
    plan = prepared.plan
    envelopes = prepared.rows.mapInArrow(tasks.reduce(plan, keys), tasks.ENVELOPES).observe(
        "skyband_in", *(sf.sum(name).alias(name) for name in ("taken", "left_out", "reduced"))
    )
    if delay is not None:
        envelopes = envelopes.withWatermark("newest", f"{delay} milliseconds")
    # Spark would drop an envelope that is behind the watermark: what is late is settled row by row, in the shard.
    envelopes = envelopes.withColumn("newest", sf.lit(None).cast("timestamp"))
    if control is not None:
        envelopes = envelopes.union(control_envelopes(envelopes.sparkSession, control, keys.values()))
    packed = envelopes.groupBy("shard").transformWithState(ShardProcessor(plan, keys), OUTPUT, "Append", "EventTime")
    held = [
        sf.max(sf.when(sf.col("shard") == number, sf.col(name))).alias(f"{name}_{number}")
        for number in range(plan.shards)
        for name in ("candidates", "bytes")
    ]
    counted = [sf.sum(name).alias(name) for name in ("late", "windows", "answered")]
    newest = [sf.max(name).alias(name) for name in ("newest", "last_end")]
    return (
        packed.observe("skyband_out", *counted, *newest, *held)
        .select("answers")
        .mapInArrow(tasks.unpack, prepared.answers)
        .toDF(*prepared.names)
    )


def _from_batch(prepared: Prepared) -> DataFrame:
    """No watermark, no state: all rows that can matter meet in their shards, and every window is answered."""
    plan = prepared.plan
    keys = spread(plan.shards)
    envelopes = prepared.rows.mapInArrow(tasks.reduce(plan, keys), tasks.ENVELOPES)
    together = envelopes.repartition(plan.shards, "shard")
    return together.mapInArrow(tasks.answer_all(plan, keys), prepared.answers).toDF(*prepared.names)


def checked_output(output: object) -> Output:
    """What users may ask for."""
    if isinstance(output, str) and output in ("answers", "changes"):
        return "answers" if output == "answers" else "changes"
    raise InvalidInputError(
        f"output={output!r} must be 'answers' (every window's whole answer) or 'changes' (who entered, left or moved)."
    )


def _checked_delay(df: DataFrame, time: str, watermark: str | timedelta | None, there: int | None) -> int | None:
    """The delay of the watermark that is to be set, in milliseconds; None where the stream has one already."""
    field = _field(df, time)
    if field is None or not isinstance(field.dataType, TIMES):
        return None  # refused where columns are checked
    if watermark is None:
        if there is not None:
            return None
        raise InvalidInputError(
            "watermark=None, but rows of a stream come in any order, and without a watermark no window ever becomes "
            "final. Say how far behind the newest a row may come: watermark='10 seconds' "
            "('0 seconds' if times never go backwards)."
        )
    if there is not None:
        raise InvalidInputError(
            f"watermark={watermark!r}, but {time!r} has a watermark already; a stream has one. Leave watermark= out."
        )
    delay = parse_duration(watermark, field="watermark")
    if delay < 0:
        raise InvalidInputError(f"watermark={watermark!r} must not be negative; time does not wait for the future.")
    return -(-delay // 1000)


def _delay_of(df: DataFrame, time: str) -> int | None:
    """The delay of the watermark that the data frame has already, in milliseconds; None where it has none."""
    field = _field(df, time)
    return None if field is None else (field.metadata or {}).get(_WATERMARK)


def _field(df: DataFrame, time: str) -> StructField | None:
    name = _spelled(df, time)
    return next((field for field in df.schema.fields if field.name == name), None)


def _spelled(df: DataFrame, name: str) -> str:
    """A column's name as the data frame has it."""
    return next((known for known in df.columns if known.lower() == str(name).lower()), name)


def _most_useful(workload: Workload, partitions: int) -> int:
    """Groups can be spread over all partitions; a feed without groups lives in one shard."""
    feeds = feeds_of(workload)
    most = MOST_SHARDS if any(feed.partition_by for feed in feeds) else len(feeds)
    return max(1, min(partitions, MOST_SHARDS, most))


def _checked_shards(shards: Any) -> int:
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= 1024:
        raise InvalidInputError(f"shards={shards!r} must be a whole number in 1..1024; the state is cut into so many.")
    return shards
