"""What a family of queries makes of a request: checked, settled, and ready to be put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from pyspark.sql import DataFrame, Observation
from pyspark.sql.types import StructField

from skyband.durations import parse_duration
from skyband.errors import InvalidInputError, type_name
from skyband.queries import Axis
from skyband.queries.families import Feature, family_of, refuse_unsupported
from skyband.queries.workload import Workload
from skyband.sharding.plan import Output
from skyband.spark.expressions import TIMES

__all__ = [
    "MOST_SHARDS",
    "Late",
    "Observed",
    "Pipeline",
    "Request",
    "StreamInfo",
    "checked_delay",
    "checked_shards",
    "delay_of",
    "frames_of",
    "parsed_delay",
    "refuse_unsupported_request",
    "shards_for",
    "spelled",
    "watermark_delays",
]

Late = Literal["count", "return", "refuse"]
MOST_SHARDS = 32  # each costs about a millisecond a batch, whether it has work or not
_WATERMARK = "spark.watermarkDelayMs"  # what Spark writes into the metadata of a column with a watermark


class Request(NamedTuple):
    """What `answers` and `start` were asked for, as it was given but for the workload."""

    df: Any  # a data frame, or one for each stream by name
    workload: Workload[Any]
    time: str
    id: str | None
    watermark: str | timedelta | None
    algorithm: str
    late: Late
    output: Output
    shards: int | None
    row_copies: bool  # whether answers bring back the row's own value of columns that groups are told by, too
    sole_watermark: bool  # whether the watermark follows the rows of this stream and nothing else
    final_at_end: bool = False  # whether nothing is final before the end of the stream, whatever the watermark

    def watermark_lag(self, delay: int | None) -> int | None:
        """How far the next watermark will stand behind the newest row, in microseconds; `delay` is in milliseconds.

        None where it may be held back by others: a data frame may be made of streams with watermarks of their own.
        And None where it makes nothing final.
        """
        return 1000 * delay if self.sole_watermark and delay is not None and not self.final_at_end else None


class StreamInfo(NamedTuple):
    """What progress reports say about a stream beside its counts."""

    algorithm: str
    axis: Axis
    bound: int | None  # what the candidates of one group can never exceed; None: there is no such number
    filtered: bool  # whether rows that no query wants are dropped before they are counted
    streams: tuple[str, ...] = ()  # that rows come from, where each is watched for how far it lags


class Pipeline(NamedTuple):
    """The answers and, on request, the late rows."""

    answers: DataFrame
    late: DataFrame | None


class Observed(NamedTuple):
    """What is counted while a bounded input is answered; a stream's counts are in its progress."""

    read: Observation
    shards: Observation
    answered: Observation

    @classmethod
    def new(cls) -> Observed:
        """Nothing counted yet."""
        return cls(*(Observation(f"skyband_{name}") for name in ("in", "held", "out")))


def refuse_unsupported_request(request: Request) -> None:
    """Refuse what the family of the queries does not support; the registry says what that is."""
    family, first = family_of(request.workload), request.workload.queries[0]
    requested: list[tuple[bool, Feature, str]] = [
        (isinstance(request.df, Mapping), "frames by name", "df= with a data frame for each stream"),
        (first.axis == "count", "count windows", f"query {first.name!r} with a window of {first.window.size} rows"),
        (request.output != "answers", "changes", f"output={request.output!r}"),
        (request.late == "return", "late rows", f"late={request.late!r}"),
        (request.late == "refuse", "refusing late rows", f"late={request.late!r}"),
        (request.algorithm != "auto", "algorithm", f"algorithm={request.algorithm!r}"),
        (request.shards not in (None, 1), "shards", f"shards={request.shards!r}"),
    ]
    for is_requested, feature, given in requested:
        if is_requested:
            refuse_unsupported(family, feature, given)


def frames_of(df: Any) -> Iterator[DataFrame]:
    """The data frames of a request; what is none is refused."""
    for name, frame in df.items() if isinstance(df, Mapping) else [(None, df)]:
        if not isinstance(frame, DataFrame):
            what = "df" if name is None else f"df[{name!r}]"
            raise InvalidInputError(f"{what} must be a Spark DataFrame, not {type_name(frame)}.")
        yield frame


def checked_delay(df: DataFrame, time: str, watermark: str | timedelta | None, there: int | None) -> int | None:
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
    return parsed_delay(watermark)


def watermark_delays(df: DataFrame, request: Request) -> tuple[int | None, int | None]:
    """The delay of the watermark that the data frame has already, and of the one that is to be set, in milliseconds."""
    there = delay_of(df, request.time)
    return there, checked_delay(df, request.time, request.watermark, there) if df.isStreaming else None


def parsed_delay(watermark: str | timedelta) -> int:
    """How far behind the newest a row may come, in milliseconds."""
    if not isinstance(watermark, str | timedelta):
        raise InvalidInputError(
            f"watermark={watermark!r} must be interval text such as '10 seconds' or a timedelta, not "
            f"{type(watermark).__name__}; it says how far behind the newest a row may come."
        )
    delay = parse_duration(watermark, field="watermark")
    if delay < 0:
        raise InvalidInputError(f"watermark={watermark!r} must not be negative; time does not wait for the future.")
    return -(-delay // 1000)


def delay_of(df: DataFrame, time: str) -> int | None:
    """The delay of the watermark that the data frame has already, in milliseconds; None where it has none."""
    field = _field(df, time)
    return None if field is None else (field.metadata or {}).get(_WATERMARK)


def _field(df: DataFrame, time: str) -> StructField | None:
    if not isinstance(time, str):
        return None  # refused where columns are checked
    name = spelled(df, time)
    return next((field for field in df.schema.fields if field.name == name), None)


def spelled(df: DataFrame, name: str) -> str:
    """A column's name as the data frame has it."""
    return next((known for known in df.columns if known.lower() == str(name).lower()), name)


def checked_shards(shards: Any) -> int:
    """The number of parts that the state is cut into."""
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= 1024:
        raise InvalidInputError(f"shards={shards!r} must be a whole number in 1..1024; the state is cut into so many.")
    return shards


def shards_for(request: Request, df: DataFrame, most: int = MOST_SHARDS) -> int:
    """As many shards as were asked for; otherwise as many as there are shuffle partitions, at most so many."""
    if request.shards is not None:
        return checked_shards(request.shards)
    partitions = int(df.sparkSession.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    return max(1, min(partitions, MOST_SHARDS, most))
