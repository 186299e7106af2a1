"""Partials as Spark makes them: of every key and pane the number, the exact sum and the extremes of its values.

A sum must not depend on the order in which tasks and batches add it up, so that no double is ever added to another. A
value is cut into whole numbers of 32 bits, which `sum` adds exactly:

```text
limb i  =  round(v / 2**(32 i))  -  2**32 * round(v / 2**(32 (i + 1)))
```

Both terms are exact, and so is their difference: either the second is 0, or the two are so close that no bit is lost.
All limbs together telescope to v. A value that has a bit outside the limbs there are, or is infinite, is a *stray*: it
becomes a grouping column, so that equal ones are counted, and Python takes it from there.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skyband.kernels.limbs import BITS, ONES
from skyband.sharding.totals import FIRST_COLUMN, LIMB_COLUMNS, Plan

__all__ = ["FEED", "TIME", "VALUE", "partials"]

TIME = "__skyband_time"
FEED = "__skyband_feed"
VALUE = "__skyband_value"
_STRAY = "__skyband_stray"
_PANE = "__skyband_pane"


def partials(rows: DataFrame, plan: Plan) -> DataFrame:
    """One row for each key and pane (and stray value): the shard it goes to, its groups and key, and what adds up."""
    sums = any(plan.shape(feed).sums for feed in range(len(plan.feeds)))
    extremes = [name for name in ("max", "min") if any(query.aggregate == name for query in plan.queries)]
    length, offset = plan.pane
    pane = sf.window(TIME, f"{length} microseconds", f"{length} microseconds", f"{offset} microseconds")
    names = [*plan.group_columns, *dict.fromkeys(plan.keys)]
    found = [sf.count(sf.lit(1)).alias("count"), sf.max(TIME).alias("last")]
    if plan.full_only:
        found.append(sf.min(TIME).alias("first"))
    found += [getattr(sf, name)(VALUE).alias(name) for name in extremes]
    by: list[Column] = [sf.col(FEED), *map(sf.col, names), pane.alias(_PANE)]
    if sums:
        inside = _is_inside(sf.col(VALUE))
        rows = rows.withColumn(_STRAY, sf.when(~inside, sf.col(VALUE)))
        rows = rows.withColumns(_limbs(sf.when(inside, sf.col(VALUE)).otherwise(0.0)))
        found += [sf.sum(f"limb_{place}").alias(f"limb_{place}") for place in range(LIMB_COLUMNS)]
        by.append(sf.col(_STRAY))
    out = [_unit(plan).alias("shard"), *map(sf.col, names), _micros(sf.col(_PANE)["start"]).alias("pane")]
    out += [_micros(sf.col(name)).alias(name) for name in ("last", "first") if name == "last" or plan.full_only]
    out += [sf.col("count"), *map(sf.col, extremes)]
    out += [sf.col(f"limb_{place}") for place in range(LIMB_COLUMNS)] if sums else []
    out += [sf.col(_STRAY).alias("stray")] if sums else []
    return rows.groupBy(*by).agg(*found).select(*out)


def _unit(plan: Plan) -> Column:
    """The shard that a key goes to, the same in every task and every run."""
    found: Column | None = None
    for number, (groups, key) in enumerate(zip(plan.groups, plan.keys, strict=True)):
        shard = sf.pmod(sf.xxhash64(*map(sf.col, (*groups, key))), sf.lit(plan.shards)) + number * plan.shards
        mine = sf.col(FEED) == number
        found = sf.when(mine, shard) if found is None else found.when(mine, shard)
    assert found is not None
    return found.cast("long")


def _micros(time: Column) -> Column:
    return sf.unix_micros(time.cast("timestamp"))


def _unit_of(place: int) -> float:
    """What the limb in a column counts in."""
    return 2.0 ** (BITS * (FIRST_COLUMN + place - ONES))


def _whole(value: Column, place: int) -> Column:
    """The value in units of a limb, rounded to a whole number; dividing by a power of two is exact."""
    return sf.rint(value * sf.lit(1.0 / _unit_of(place)))


def _is_inside(value: Column) -> Column:
    """Whether the limbs there are hold the value to its last bit."""
    highest = _unit_of(LIMB_COLUMNS) / 2
    return (sf.abs(value) < highest) & (_whole(value, 0) * sf.lit(_unit_of(0)) == value)


def _limbs(value: Column) -> dict[str, Column]:
    found = {}
    for place in range(LIMB_COLUMNS):
        limb = _whole(value, place)
        if place + 1 < LIMB_COLUMNS:
            limb = limb - _whole(value, place + 1) * sf.lit(2.0**BITS)
        found[f"limb_{place}"] = limb.cast("long")
    return found
