"""The columns of files that only tasks read: Spark plans with them, and never reads a row."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.pandas.types import from_arrow_schema

from skyband.connectors.arrow.paths import data_files
from skyband.connectors.arrow.rows import open_files
from skyband.connectors.csv_headers import FileShape
from skyband.connectors.files import FilesSource
from skyband.connectors.sources import WRONG, reported_as_stream, valid_rows
from skyband.spark.expressions import quoted

__all__ = ["columns_of_tasks", "shape_of_tasks"]


def shape_of_tasks(spark: SparkSession, name: str, stream: FilesSource) -> FileShape:
    """Return the columns of a stream's files: from the schema, or from the files."""
    if stream.schema is not None:
        ddl = ", ".join(f"{quoted(column)} {kind}" for column, kind in stream.schema.items())
        with reported_as_stream(name):
            fields = list(spark.createDataFrame([], ddl).schema.fields)
    else:
        found = open_files(name, stream, data_files(name, stream)).schema
        fields = list(from_arrow_schema(found, prefer_timestamp_ntz=True).fields)
    return FileShape(fields, {field.name: field.name for field in fields}, by_name=False)


def columns_of_tasks(
    spark: SparkSession, name: str, stream: FilesSource, shape: FileShape, *, streaming: bool
) -> DataFrame:
    """Return a data frame with the columns of a stream, computed ones too, and without rows."""
    if not streaming:
        rows = spark.createDataFrame([], st.StructType(shape.fields))
    else:
        # Any source will do: the plan over tasks replaces it.
        empty = (sf.lit(None).cast(field.dataType).alias(field.name) for field in shape.fields)
        rows = spark.readStream.format("rate").load().where("false").select(*empty)
    return valid_rows(name, stream, rows.withColumn(WRONG, sf.lit(None).cast("string")))
