"""How many tasks combine the envelopes of a micro-batch before its shards receive them."""

from __future__ import annotations

from math import isqrt

from pyspark.sql import SparkSession

from skyband.errors import InvalidInputError
from skyband.spark.sessions import cores_of

__all__ = ["COMBINERS", "FEWEST_TASKS", "combiners_for"]

COMBINERS = "spark.skyband.combiners"
MOST_COMBINERS = 1024
# An estimate: with k = 10, combiners save the shard of so many tasks about 30 ms, as much as a stage on Spark costs.
FEWEST_TASKS = 512


def combiners_for(spark: SparkSession) -> int:
    """Return the number of combiners that the session sets, or one that suits the cores of its cluster; 0 for none."""
    given = (spark.conf.get(COMBINERS, None) or "auto").strip()
    if given == "auto":
        return combiners_of(_cores(spark))
    if not given.isascii() or not given.isdigit() or int(given) > MOST_COMBINERS:
        raise InvalidInputError(
            f"{COMBINERS} must be 'auto' or an integer between 0 and {MOST_COMBINERS}, got {given!r}. No stream was "
            "started."
        )
    return int(given)


def combiners_of(tasks: int | None) -> int:
    """Return how many combiners suit so many tasks. Combiners and shards then receive about as many envelopes each.

    >>> combiners_of(2), combiners_of(None), combiners_of(10_000)
    (0, 0, 100)
    """
    return 0 if tasks is None or tasks < FEWEST_TASKS else isqrt(tasks)


def _cores(spark: SparkSession) -> int | None:
    """Return the number of cores that run tasks; None if it is unknown, as with Spark Connect."""
    if (here := cores_of(spark)) is not None:
        return here
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return None
    return int(spark.sparkContext.defaultParallelism)
