"""The differences between the supported versions of Spark. No other module asks for the version.

Spark 4.0 runs stateful processors only with pandas data frames, and not over Spark Connect; later versions pass rows.
The state is the same. Files are read in tasks since Spark 4.2; Spark's own reader gives the same answers.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, GroupedData, Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = [
    "arrow_schema",
    "checkpoint_manager",
    "has_limited_sources",
    "has_processors",
    "has_row_processors",
    "is_remote",
    "processed",
]

# Spark 4.0 and 4.1 always use UTC and have no argument for it.
_IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return a schema with Arrow's types. Timestamps with a time zone are in UTC."""
    return to_arrow_schema(schema, **_IN_UTC)


def has_processors(spark: SparkSession) -> bool:
    """Return whether a session can run stateful processors; over Spark Connect, since Spark 4.1."""
    return not is_remote(spark) or _version(spark) >= (4, 1)


def has_row_processors(spark: SparkSession) -> bool:
    """Return whether processors get rows. With Spark Connect, the server may be older than this process."""
    return hasattr(GroupedData, "transformWithState") and _version(spark) >= (4, 1)


def has_limited_sources() -> bool:
    """Return whether data sources in Python can limit how much a micro-batch reads, as since Spark 4.2."""
    return find_spec("pyspark.sql.streaming.datasource") is not None


def is_remote(spark: Any) -> bool:
    """Return whether a session is of Spark Connect, which has no access to Java."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def checkpoint_manager(spark: SparkSession) -> Any:
    """Return what changes the partitions of a stopped checkpoint, as since Spark 4.2; None without access to Java."""
    return None if is_remote(spark) else getattr(spark, "_streamingCheckpointManager", None)


def _version(spark: SparkSession) -> tuple[int, int]:
    major, minor = spark.version.split(".")[:2]
    return int(major), int(minor)


def processed(envelopes: DataFrame, processor: StatefulProcessor, output: str) -> DataFrame:
    """Return the output of a stateful processor that gets the envelopes of each shard. `output` are its columns."""
    grouped: Any = envelopes.groupBy("shard")
    found: DataFrame
    if has_row_processors(envelopes.sparkSession):
        found = grouped.transformWithState(processor, output, "Append", "EventTime")
    else:
        columns = tuple(part.split()[0] for part in output.split(", "))
        found = grouped.transformWithStateInPandas(PandasProcessor(processor, columns), output, "Append", "EventTime")
    return found


class PandasProcessor(StatefulProcessor):
    """Runs a processor of rows where Spark passes data frames of pandas, as Spark 4.0 does."""

    def __init__(self, processor: StatefulProcessor, columns: tuple[str, ...]) -> None:
        self._processor = processor
        self._columns = columns

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._processor.init(handle)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Handle the envelopes of a micro-batch."""
        found = (row for frame in rows for row in frame.itertuples(index=False))
        yield from self._frames(self._processor.handleInputRows(key, found, timerValues))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Handle an expired timer."""
        yield from self._frames(self._processor.handleExpiredTimer(key, timerValues, expiredTimerInfo))

    def close(self) -> None:
        """Release the resources of the processor."""
        self._processor.close()

    def _frames(self, rows: Iterable[Row]) -> Iterator[pd.DataFrame]:
        """Yield the output as one data frame. Values stay Python objects, so that integers with nulls stay exact."""
        import pandas as pd  # noqa: PLC0415 - only workers of Spark 4.0 use it

        found = list(rows)
        if found:
            yield pd.DataFrame(found, columns=list(self._columns), dtype=object)
