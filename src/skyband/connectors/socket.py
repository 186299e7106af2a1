"""Lines of a TCP connection, each a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from skyband.connectors.file_formats import Format
from skyband.connectors.kinds import Schema, given
from skyband.connectors.section import Wrong
from skyband.connectors.source import ParsedSource, Reading
from skyband.connectors.values import Count, Text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SocketSource"]


class SocketSource(ParsedSource):
    """Lines of CSV or JSON from a machine and port."""

    missing: ClassVar[Mapping[str, str]] = {
        **ParsedSource.missing,
        "host": "say where to connect to",
        "port": "say where to connect to",
        "format": "write csv or json; each line is a row",
    }
    conditions: ClassVar[tuple[Schema, ...]] = (
        given("schema"),
        {"properties": {"format": {"not": {"enum": ["parquet", "text"]}}}},
    )

    source: Literal["socket"] = Field(default="socket", description="lines of a TCP connection")
    host: Text = Field(description="The machine to connect to.", examples=["127.0.0.1", "localhost"])
    port: Count = Field(le=65535, description="The port to connect to.", examples=[9999])
    format: Format = Field(description="How rows are written: csv or json, a line a row.")
    time: Text = Field(description="The column with the event time.", examples=["ts"])

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Lines have columns, and nothing but a schema says which."""
        if "schema" not in raw:
            yield "schema", "is missing; lines have no types of their own; write 'column: type' for each."
        if raw.get("format") in ("parquet", "text"):
            why = "has no lines of columns, so it cannot come over a socket; write csv or json."
            yield "format", f"{raw['format']!r} {why}"
        yield from super().rules(raw)

    def read(self, how: Reading) -> DataFrame:
        """The rows in the lines as they come."""
        from pyspark.sql import functions as sf

        from skyband.spark.expressions import quoted

        lines = how.spark.readStream.format("socket").option("host", self.host).option("port", self.port)
        shape = ", ".join(f"{quoted(column)} {kind}" for column, kind in (self.schema or {}).items())
        options = {key: str(value) for key, value in self.options.items() if key != "header"}
        parse = sf.from_csv if self.format == "csv" else sf.from_json
        return lines.load().select(parse(sf.col("value"), shape, options).alias("row")).select("row.*")

    def described(self) -> str:
        """What is read from where."""
        return f"lines of {self.format} from {self.host}:{self.port}"
