"""A micro-batch tried and not kept: whether a stream can take its next step with other queries."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from skyband.spark.expressions import unlogged
from skyband.spark.spark_errors import is_gone
from skyband.spark.stream_handle import Handle, Write

__all__ = ["failure_of"]


class _NotKeptError(Exception):
    """Ends a trial, so that Spark does not note the micro-batch down."""


def failure_of(start: Callable[[Write], Handle], *, run: bool = True) -> BaseException | None:
    """Why a stream cannot be started, or its next micro-batch cannot be computed; None if it can.

    `start` starts the stream, given where its answers go. Here they go nowhere, and the micro-batch is ended before it
    is noted down: whoever starts the stream next runs it again, from the same state. Without `run` nothing is computed,
    and only what is found out before that is told.

    That a trial succeeded is told by what was called, not by what an error says: its text may come from a row.
    """
    reached = False

    def compute(frame: DataFrame, _: int) -> None:
        nonlocal reached
        with unlogged():
            frame.write.format("noop").mode("overwrite").save()
        reached = True
        raise _NotKeptError

    def write(out: DataFrame) -> DataStreamWriter:
        nonlocal reached
        if not run:
            reached = True
            raise _NotKeptError
        return out.writeStream.foreachBatch(compute).trigger(availableNow=True)  # it ends, whatever there is to read

    handle = None
    try:
        handle = start(write)
        handle.await_end(progress=False)
    except Exception as error:
        if reached:
            return None
        cause = error if handle is None or handle.failure is None else handle.failure
        if is_gone(cause):
            raise cause from None
        return cause
    return None
