"""Inputs that tasks can read by themselves: rows are read and reduced in one place, and Spark sees envelopes only.

An input goes into `answers` and `start` in place of a data frame. Spark reads its rows if something is requested that
tasks cannot do; the answers are the same.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from skyband.errors import SkybandError, UnsupportedError
from skyband.queries.workload import Workload

if TYPE_CHECKING:
    from skyband.spark.topology import SparkPlan

__all__ = [
    "BY_SPARK",
    "BY_TASKS",
    "RowInput",
    "Scan",
    "inputs_of",
    "open_inputs",
    "read_by_spark",
    "with_scans",
]

BY_TASKS = "arrow"  # values of the metric `reader`
BY_SPARK = "spark"
_LOG = logging.getLogger("skyband.sources")
_COMMAND = " Run the file without --local."

Scan = Callable[[Mapping[int, int]], DataFrame]  # from the keys of shards to envelopes and counts (SCANNED)


class RowInput(ABC):
    """Rows that Spark or tasks can read."""

    streaming: bool  # whether `answers` reads them as a stream; `start` always does
    by_spark: bool  # whether the user wants Spark to read them
    tasks_only: str | None = None  # why Spark must not read them, if so

    @property
    @abstractmethod
    def session(self) -> SparkSession:
        """The session in which the rows are read."""

    @abstractmethod
    def open(self, time: str, workload: Workload[Any], *, streaming: bool, number: int = 0) -> DataFrame:
        """Return the rows as a data frame that Spark reads; `number` is the input's place among several."""

    @abstractmethod
    def scan(self, plan: SparkPlan, frame: DataFrame, label: Any, folder: str | None) -> Scan:
        """Return what reads and reduces the rows in tasks; raise SkybandError if tasks cannot do that.

        `frame` is the data frame that `open` returned. `label` names the stream if there are several. `folder` is where
        Spark keeps the offsets of this source, if the input is a stream.
        """


def inputs_of(df: Any) -> dict[Any, RowInput]:
    """Return the inputs of a request by stream, or one under None; empty if some stream is a data frame."""
    frames = dict(df) if isinstance(df, Mapping) else {None: df}
    return frames if all(isinstance(frame, RowInput) for frame in frames.values()) else {}


def open_inputs(df: Any, time: str, workload: Workload[Any], *, streaming: bool | None = None) -> Any:
    """Return the same request with data frames that Spark reads in place of inputs."""

    def opened(one: Any, number: int = 0) -> Any:
        if not isinstance(one, RowInput):
            return one
        return one.open(time, workload, streaming=one.streaming if streaming is None else streaming, number=number)

    if not isinstance(df, Mapping):
        return opened(df)
    return {name: opened(one, number) for number, (name, one) in enumerate(df.items())}


def with_scans(plan: SparkPlan, inputs: Mapping[Any, RowInput], frames: Any, checkpoint: str | None) -> SparkPlan:
    """Let tasks read the inputs of a plan, or report why Spark reads them."""
    plan = replace(plan, tasks_only=next((one.tasks_only for one in inputs.values() if one.tasks_only), None))
    if any(one.by_spark for one in inputs.values()):
        if plan.tasks_only is not None:
            raise UnsupportedError(f"reader: spark is not supported here. {plan.tasks_only}")
        return replace(plan, reader=f"{BY_SPARK}: requested")
    try:
        scans = tuple(_scans(plan, inputs, frames, checkpoint))
    except SkybandError as error:
        return read_by_spark(plan, error)
    return replace(plan, scans=scans, reader=BY_TASKS)


def read_by_spark(plan: SparkPlan, error: SkybandError) -> SparkPlan:
    """Let Spark read the rows of a plan, and report why."""
    why = str(error).removesuffix(_COMMAND).partition("\n")[0]
    why = why.replace("not supported without Spark", "only supported by Spark's reader")
    if plan.tasks_only is not None:
        raise UnsupportedError(f"{why} {plan.tasks_only}") from error
    _LOG.warning("Spark reads the files, which is slower: %s", why)
    return replace(plan, scans=(), reader=f"{BY_SPARK}: {why}")


def _scans(plan: SparkPlan, inputs: Mapping[Any, RowInput], frames: Any, checkpoint: str | None) -> Iterator[Scan]:
    streaming = plan.rows.isStreaming
    if streaming and checkpoint is None:
        raise UnsupportedError(
            "a stream of answers() has no known checkpoint, in which the list of read files is stored. Use start()."
        )
    if plan.returns_late:
        raise UnsupportedError("late rows are returned, which are rows of Spark.")
    for number, (label, one) in enumerate(inputs.items()):
        frame = frames if label is None else frames[label]
        # Spark numbers the sources of a query from the left; control messages come after the inputs.
        folder = f"{checkpoint}/sources/{number}" if streaming else None
        yield one.scan(plan, frame, label, folder)
