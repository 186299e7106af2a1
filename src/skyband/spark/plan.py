"""Requests to answer a workload on Spark, and the parts of plans that all query families share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql.types import StructField

from skyband.durations import parse_duration
from skyband.errors import InvalidInputError, UnsupportedError, type_name
from skyband.queries import Axis
from skyband.queries.families import Feature, family_of, refuse_unsupported
from skyband.queries.workload import Workload
from skyband.sharding.emission import ONCE, Emission
from skyband.sharding.plan import Output
from skyband.sharding.projection import ProjectionRequest
from skyband.spark.expressions import TIMES

__all__ = [
    "MOST_SHARDS",
    "Late",
    "Observed",
    "PackedAnswers",
    "Pipeline",
    "Request",
    "StreamInfo",
    "checked_delay",
    "checked_shards",
    "delay_of",
    "frames_of",
    "is_stream",
    "parsed_delay",
    "refuse_unsupported_request",
    "shards_for",
    "spelled",
    "watermark_delays",
]

Late = Literal["count", "return", "refuse"]
MOST_SHARDS = 32  # each costs about a millisecond per batch, even without work
_WATERMARK = "spark.watermarkDelayMs"  # Spark's metadata key of a column with a watermark


class Request(NamedTuple):
    """The arguments of `answers` or `start`, with the parsed workload."""

    df: Any  # a data frame, or a mapping with one per stream
    workload: Workload[Any]
    time: str
    id: str | None
    watermark: str | timedelta | None
    algorithm: str
    late: Late
    output: Output
    shards: int | None
    sole_watermark: bool  # whether the watermark depends only on the rows of this stream
    final_at_end: bool = False  # whether no window is final before the end of the stream
    emission: Emission = ONCE
    old_scores: bool = False  # whether changes have the score in the previous window

    def watermark_lag(self, delay: int | None) -> int | None:
        """Return how far the next watermark is behind the newest row, in microseconds; `delay` is in milliseconds.

        None if other watermarks can hold it back, because the data frame may combine several streams. Also None if the
        watermark makes no window final.
        """
        return 1000 * delay if self.sole_watermark and delay is not None and not self.final_at_end else None

    def projected(self, shards: int, delay: int | None = None) -> ProjectionRequest:
        """Return what concerns single rows; `delay` of the watermark is in milliseconds."""
        return ProjectionRequest(
            self.workload,
            self.time,
            self.id,
            algorithm=self.algorithm,
            output=self.output,
            shards=shards,
            refuse_late=self.late == "refuse",
            delay=1000 * (delay or 0),
            emission=self.emission,
            old_scores=self.old_scores,
        )


class StreamInfo(NamedTuple):
    """Information about a stream in progress reports, in addition to its counts."""

    algorithm: str
    axis: Axis
    bound: int | None  # upper bound of the candidates of one group; None: no bound
    filtered: bool  # whether rows that match no query are dropped before they are counted
    streams: tuple[str, ...] = ()  # the input streams, if the lag of each is measured
    reader: str | None = None  # what reads the rows of files, and why; None: a data frame


class PackedAnswers(NamedTuple):
    """The answers as shards send them, for a process that collects them. No task needs to unpack them there."""

    tables: DataFrame  # a table of answers in each row
    unpack: Callable[[pa.Table], pa.Table]  # from collected rows of `tables` to answers


class Pipeline(NamedTuple):
    """The answers and, on request, the late rows."""

    answers: DataFrame
    late: DataFrame | None
    packed: PackedAnswers | None = None  # None: answers of shards are merged, which a task does


class Observed(NamedTuple):
    """The observations of a bounded input. The counts of a stream are in its progress instead."""

    read: Observation
    shards: Observation
    answered: Observation

    @classmethod
    def new(cls) -> Observed:
        """Create new observations."""
        return cls(*(Observation(f"skyband_{name}") for name in ("in", "held", "out")))


def refuse_unsupported_request(request: Request) -> None:
    """Reject features that the family of the queries does not support, according to the registry of families."""
    family = family_of(request.workload)
    requested: list[tuple[bool, Feature, str]] = [
        (isinstance(request.df, Mapping), "frames by name", "df= with a data frame for each stream"),
        (request.late == "return", "late rows", f"late={request.late!r}"),
        (request.late == "refuse", "rejecting late rows", f"late={request.late!r}"),
        *request.emission.features,
        (request.algorithm != "auto", "algorithm", f"algorithm={request.algorithm!r}"),
    ]
    for is_requested, feature, given in requested:
        if is_requested:
            refuse_unsupported(family, feature, given)


def frames_of(df: Any) -> Iterator[DataFrame]:
    """Yield the data frames of a request; reject other objects."""
    for name, frame in df.items() if isinstance(df, Mapping) else [(None, df)]:
        if not isinstance(frame, DataFrame):
            what = "df" if name is None else f"df[{name!r}]"
            raise InvalidInputError(f"{what} must be a Spark DataFrame, got {type_name(frame)}.")
        yield frame


def is_stream(frame: DataFrame) -> bool:
    """Return whether a data frame is a stream. Spark analyzes it here for the first time, which flows do not allow."""
    try:
        return bool(frame.isStreaming)
    except PySparkException as error:
        if "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION" not in str(error):
            raise
        raise UnsupportedError(
            "answers must be called outside of the function of a pipeline's flow, because Spark analyzes no data frame "
            "in it. Call answers at the top level of the file, and return its result from the function."
        ) from None


def checked_delay(df: DataFrame, time: str, watermark: str | timedelta | None, there: int | None) -> int | None:
    """Return the delay of the watermark to set, in milliseconds; None if the stream already has a watermark."""
    field = _field(df, time)
    if field is None or not isinstance(field.dataType, TIMES):
        return None  # rejected when columns are validated
    if watermark is None:
        if there is not None:
            return None
        raise InvalidInputError(
            "a stream needs a watermark, got None: without it no window becomes final. Set how far a row may be behind "
            "the newest row: watermark='10 seconds' ('0 seconds' if rows arrive in time order)."
        )
    if there is not None:
        raise InvalidInputError(
            f"watermark={watermark!r} is not allowed, because {time!r} already has a watermark. Omit watermark=."
        )
    return parsed_delay(watermark)


def watermark_delays(df: DataFrame, request: Request) -> tuple[int | None, int | None]:
    """Return the delays of the existing watermark and of the watermark to set, in milliseconds."""
    there = delay_of(df, request.time)
    return there, checked_delay(df, request.time, request.watermark, there) if df.isStreaming else None


def parsed_delay(watermark: str | timedelta) -> int:
    """Return the delay of a watermark in milliseconds."""
    if not isinstance(watermark, str | timedelta):
        raise InvalidInputError(
            f"watermark must be interval text such as '10 seconds' or a timedelta, got {watermark!r} of type "
            f"{type(watermark).__name__}."
        )
    delay = parse_duration(watermark, field="watermark")
    if delay < 0:
        raise InvalidInputError(f"watermark must not be negative, got {watermark!r}.")
    return -(-delay // 1000)


def delay_of(df: DataFrame, time: str) -> int | None:
    """Return the delay of the data frame's existing watermark, in milliseconds; None if it has no watermark."""
    field = _field(df, time)
    return None if field is None else (field.metadata or {}).get(_WATERMARK)


def _field(df: DataFrame, time: str) -> StructField | None:
    if not isinstance(time, str):
        return None  # rejected when columns are validated
    name = spelled(df, time)
    return next((field for field in df.schema.fields if field.name == name), None)


def spelled(df: DataFrame, name: str) -> str:
    """Return a column's name as the data frame spells it."""
    return next((known for known in df.columns if known.lower() == str(name).lower()), name)


def checked_shards(shards: Any) -> int:
    """Return the number of shards if it is valid."""
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= 1024:
        raise InvalidInputError(f"shards must be an integer between 1 and 1024, got {shards!r}.")
    return shards


def shards_for(request: Request, df: DataFrame, most: int = MOST_SHARDS) -> int:
    """Return the requested number of shards; by default the number of shuffle partitions, at most `most`."""
    if request.shards is not None:
        return checked_shards(request.shards)
    partitions = int(df.sparkSession.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    return max(1, min(partitions, MOST_SHARDS, most))
