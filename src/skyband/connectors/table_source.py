"""Tables of Spark's catalog as sources, by name. Runs without Spark look for them in pyiceberg's catalogs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from skyband.connectors.section import Wrong, nearest
from skyband.connectors.source import Reading, SourceModel
from skyband.connectors.values import Scalar, Text
from skyband.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["TableSource"]

_MOST = 12  # names that a message lists


class TableSource(SourceModel):
    """Reads a table of Spark's catalog: all of its rows in a bounded run, else what is added to it.

    >>> TableSource(table="prod.sales.trades", time="ts").described()
    'table prod.sales.trades'
    """

    missing: ClassVar[Mapping[str, str]] = {**SourceModel.missing, "table": "name the table to read"}
    is_bounded: ClassVar[bool] = True
    marks_malformed: ClassVar[bool] = True

    source: Literal["table"] = Field(default="table", description="a table of Spark's catalog")
    table: Text = Field(
        description="The name of the table, with its schema and its catalog.", examples=["prod.sales.trades"]
    )
    options: dict[str, Scalar] = Field(
        default={},
        repr=False,
        description="Options of Spark's reader, passed through unchanged.",
        examples=[{"maxFilesPerTrigger": 100}],
    )
    time: Text = Field(description="The column with the event time.", examples=["ts"])

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Check that the name has parts."""
        table = raw.get("table")
        if isinstance(table, str) and table.strip() and not all(part.strip() for part in table.split(".")):
            yield "table", f"{table!r} is not a table name; write catalog.schema.table, such as prod.sales.trades."
        yield from super().rules(raw)

    def read(self, how: Reading) -> DataFrame:
        """Return the rows of the table and the problem of each."""
        from pyspark.sql import functions as sf

        from skyband.connectors.file_rows import not_utf8
        from skyband.connectors.sources import WRONG

        _refuse_absent(how.spark, how.name, self.table)
        reader: Any = how.spark.readStream if how.streaming else how.spark.read
        rows: DataFrame = reader.options(**self.options).table(self.table)
        wrong = not_utf8(rows, how.query_text)
        return rows.withColumn(WRONG, sf.lit(None).cast("string") if wrong is None else wrong)

    def described(self) -> str:
        """Return the name of the table."""
        return f"table {self.table}"


def _refuse_absent(spark: SparkSession, name: str, table: str) -> None:
    """Reject a table that the catalog does not have, with a suggestion."""
    from pyspark.errors import PySparkException

    from skyband.spark.expressions import unlogged

    with unlogged(), suppress(PySparkException):  # of a catalog that does not exist
        if spark.catalog.tableExists(table):
            return
    *above, last = table.split(".")
    known = _names(spark, f"SHOW TABLES{_in(above)}", "tableName")
    if known:
        near = nearest(last, known)
        place = f"schema {'.'.join(above)!r}" if above else "the current schema"
        said = f"did you mean {'.'.join([*above, near])!r}?" if near else f"{place} has {', '.join(known[:_MOST])}."
    elif len(above) > 1 and above[0] not in (catalogs := _names(spark, "SHOW CATALOGS", "catalog")):
        near = nearest(above[0], catalogs)
        hint = f"did you mean {near!r}?" if near else f"the session has {', '.join(catalogs)}."
        said = f"catalog {above[0]!r} is unknown; {hint} Configure it with spark.sql.catalog.{above[0]} in settings:."
    else:
        schemas = _names(spark, f"SHOW SCHEMAS{_in(above[:-1])}", "namespace")
        wanted = above[-1] if above else ""
        near = nearest(wanted, schemas)
        said = (
            f"schema {wanted!r} has no tables."
            if wanted in schemas or not above
            else f"schema {wanted!r} does not exist; "
            + (f"did you mean {near!r}?" if near else f"schemas: {', '.join(schemas[:_MOST])}.")
        )
    raise InvalidInputError(
        f"stream {name!r}: table {table!r} does not exist in Spark's catalog: {said} The stream was not started."
    )


def _in(parts: list[str]) -> str:
    return " IN " + ".".join(f"`{part}`" for part in parts) if parts else ""


def _names(spark: SparkSession, command: str, column: str) -> list[str]:
    """Return the names that a command lists; [] if it fails, because a catalog or schema does not exist."""
    from pyspark.errors import PySparkException

    from skyband.spark.expressions import unlogged

    try:
        with unlogged():
            return sorted(str(row[column]) for row in spark.sql(command).collect())
    except PySparkException:
        return []
