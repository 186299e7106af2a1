"""Decode the values of Kafka records that are Avro or Protobuf, in Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import types as st
from pyspark.sql.pandas.types import from_arrow_schema

from skyband.connectors.arrow.record_values import RecordFormat, decoder_for
from skyband.errors import InvalidInputError

__all__ = ["decoded_values", "refuse_taken"]


def decoded_values(records: DataFrame, value: Column, others: Sequence[Column], form: RecordFormat) -> DataFrame:
    """Return the columns of values, then `others`, of which the last is the problem of a record.

    A value that is null has null columns, and no problem.
    """
    taken = records.select(value.alias("value"), *others)
    own = from_arrow_schema(
        pa.schema([pa.field(column.name, column.kind) for column in form.columns]), prefer_timestamp_ntz=True
    )
    shape = st.StructType([*own.fields, *taken.schema.fields[1:]])
    return taken.mapInArrow(_decode(form), shape)


def refuse_taken(name: str, form: RecordFormat, added: Iterable[str]) -> None:
    """Reject fields with the name of a column that the stream adds."""
    taken = {one.lower() for one in added}
    for column in form.columns:
        if column.name.lower() in taken:
            raise InvalidInputError(
                f"stream {name!r}: the field {column.name!r} of the schema has the name of a column that the stream "
                "adds. Declare the other columns with schema:, so that this one is not read."
            )


def _decode(form: RecordFormat) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = decoder_for(form)
        names = [column.name for column in form.columns]
        for batch in batches:
            rows = decoder.decode(batch.column(0))
            others = batch.columns[1:]
            others[-1] = pc.coalesce(others[-1], rows.problems)
            yield pa.RecordBatch.from_arrays([*rows.columns, *others], names=[*names, *batch.schema.names[1:]])

    return task
