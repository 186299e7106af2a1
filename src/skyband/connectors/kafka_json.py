"""Read usual JSON objects in the values of Kafka records in tasks, and leave the others to Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st
from pyspark.sql.pandas.types import from_arrow_schema

from skyband.connectors.arrow.json_values import JsonReader
from skyband.connectors.kafka_records import DONE, READ

if TYPE_CHECKING:
    from skyband.connectors.kafka import KafkaSource

__all__ = ["read_usual", "reader_for"]

_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "timestamp_ltz": "timestamp",
}
_SETTINGS = {  # of Spark, which change the meaning of JSON
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
_OTHER_POLICIES = ("EXCEPTION",)  # the texts that are read here have one meaning in both


def reader_for(spark: SparkSession, stream: KafkaSource, largest: int) -> JsonReader | None:
    """Return the reader of a stream's values; None if only Spark knows their meaning."""
    options = [name for name in stream.options if not name.startswith("kafka.")]
    if stream.format != "json" or stream.envelope is not None or stream.tombstones == "delete" or options:
        return None
    for name, value in _SETTINGS.items():
        if (spark.conf.get(name, value) or value).upper() not in (value, *_OTHER_POLICIES):
            return None
    columns = {}
    for name, kind in (stream.schema or {}).items():
        plain = kind.strip().lower()
        columns[name] = _ALIASES.get(plain, plain)
    in_utc = spark.conf.get("spark.sql.session.timeZone", "") == "UTC"
    return JsonReader.of(columns, in_utc=in_utc, largest=largest)


def read_usual(taken: DataFrame, reader: JsonReader) -> DataFrame:
    """Return the columns of usual values, whether each value was read, the values that were not, and the others."""
    read = from_arrow_schema(reader.schema, prefer_timestamp_ntz=True)
    fields = [st.StructField(READ + field.name, field.dataType) for field in read.fields]
    shape = st.StructType([*fields, st.StructField(DONE, st.BooleanType()), *taken.schema.fields])
    return taken.mapInArrow(_task(reader), shape)


def _task(reader: JsonReader) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = batch.column(0)
            rows = reader.read(values)
            left = pc.if_else(rows.done, pa.scalar(None, values.type), values)
            names = [*(READ + name for name in reader.names), DONE, *batch.schema.names]
            yield pa.RecordBatch.from_arrays([*rows.columns, rows.done, left, *batch.columns[1:]], names=names)

    return task
