"""Load the compiled kernels on the executors of a cluster before the first micro-batch, so that none compiles in it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from skyband.spark.sessions import cores_of
from skyband.spark.spark_errors import first_line

__all__ = ["SETS", "warm_executors"]

_LOG = logging.getLogger("skyband.kernels")
_WARMED = "spark.skyband.warmed."  # settings of the session: families whose kernels are loaded
SETS = {"topk": "frames", "aggregate": "aggregates", "incomplete": "incomplete", "uncertain": "uncertain"}


def warm_executors(spark: SparkSession, family: str) -> None:
    """Run a task for each core of the cluster that loads or compiles the kernels of a family; once per session.

    Executors that join later load them in their first task. A local session shares the kernels with the driver.
    """
    context: Any = getattr(spark, "_sc", None)
    if context is None or cores_of(spark) is not None or spark.conf.get(_WARMED + family, None) is not None:
        return
    tasks = max(1, int(context.defaultParallelism))
    try:
        compiled = spark.range(0, tasks, 1, tasks).mapInArrow(_warm(SETS[family]), "compiled long").collect()
    except PySparkException as error:  # the stream would fail as well, and reports it
        _LOG.warning("the kernels could not be loaded before the first micro-batch: %s", first_line(error))
        return
    spark.conf.set(_WARMED + family, "true")
    _LOG.info("loaded the kernels in %s tasks; %s kernels were compiled", tasks, sum(row[0] for row in compiled))


def _warm(name: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from skyband.precompile import run_sets  # noqa: PLC0415 - only workers load compiled code

        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.array([run_sets([name])], pa.int64())], names=["compiled"])

    return task
