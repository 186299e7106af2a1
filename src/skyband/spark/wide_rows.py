"""Rows with much text: their batches are limited by bytes, which costs time for each row.

Spark passes rows to Python in batches of so many rows, by default without a limit of bytes (`sessions.RECOMMENDED`).
Rows with megabytes of text would overflow such a batch, or end the JVM, whose memory the batch takes. So the first rows
with more than a few kilobytes stop a stream, before they are in a batch, and it starts again with a limit.
"""

from __future__ import annotations

from functools import reduce
from operator import add

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

__all__ = ["BATCH_BYTES", "cut_settings", "has_wide_type", "is_unlimited", "is_wide", "only_narrow"]

BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_UNLIMITED = 2**31 - 1
_CUT = 64 << 20  # bytes of a batch of wide rows
_NARROW = 4096  # bytes of text in a row: a batch of the session's 131,072 rows has half a gigabyte at most
_MESSAGE = f"a row has more than {_NARROW} bytes of text; batches are limited by bytes from here on"


def is_unlimited(spark: SparkSession) -> bool:
    """Whether the session's batches have no limit of bytes."""
    text = (spark.conf.get(BATCH_BYTES, "") or "").lower().removesuffix("b")
    return not text.isdecimal() or int(text) in (0, _UNLIMITED)


def cut_settings() -> dict[str, str]:
    """Return the settings of a query whose batches are limited by bytes."""
    return {BATCH_BYTES: str(_CUT)}


def has_wide_type(rows: DataFrame) -> bool:
    """Whether rows have columns that can be wide and whose bytes cannot be computed cheaply, such as lists."""
    return any(isinstance(field.dataType, st.ArrayType | st.MapType | st.StructType) for field in rows.schema.fields)


def only_narrow(rows: DataFrame) -> DataFrame:
    """Return the rows, with an error in place of the first wide one. Columns of lists and structs are not measured."""
    lengths: list[Column] = [
        sf.coalesce(sf.octet_length(f"`{field.name.replace('`', '``')}`"), sf.lit(0))
        for field in rows.schema.fields
        if isinstance(field.dataType, st.StringType | st.BinaryType)
    ]
    if not lengths:
        return rows
    error = sf.raise_error(sf.lit(_MESSAGE)).cast("boolean")
    return rows.where(sf.when(reduce(add, lengths) > _NARROW, error).otherwise(sf.lit(True)))


def is_wide(error: BaseException) -> bool:
    """Whether `only_narrow` stopped a stream. The plan, which every error of a stream shows, has the message, too.

    >>> is_wide(ValueError(f"[USER_RAISED_EXCEPTION] {_MESSAGE} SQLSTATE: P0001")), is_wide(ValueError(_MESSAGE))
    (True, False)
    """
    return f"[USER_RAISED_EXCEPTION] {_MESSAGE}" in str(error)
