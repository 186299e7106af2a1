"""Socket source: each line of a TCP connection is a row."""

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
    """Reads CSV or JSON lines from a host and port."""

    missing: ClassVar[Mapping[str, str]] = {
        **ParsedSource.missing,
        "host": "set the host to connect to",
        "port": "set the port to connect to",
        "format": "write csv or json; each line is a row",
    }
    conditions: ClassVar[tuple[Schema, ...]] = (
        given("schema"),
        {"properties": {"format": {"not": {"enum": ["parquet", "avro", "protobuf", "text"]}}}},
    )

    source: Literal["socket"] = Field(default="socket", description="lines of a TCP connection")
    host: Text = Field(description="The host to connect to.", examples=["127.0.0.1", "localhost"])
    port: Count = Field(le=65535, description="The port to connect to.", examples=[9999])
    format: Format = Field(description="The format of the rows: csv or json, one line per row.")
    time: Text = Field(description="The column with the event time.", examples=["ts"])

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Check that there is a schema and that the format is line-based."""
        if "schema" not in raw:
            yield (
                "schema",
                "is missing; it is required because lines have no types. Write 'column: type' for each column.",
            )
        if raw.get("format") in ("parquet", "avro", "protobuf", "text"):
            yield "format", f"{raw['format']!r} is not supported for sockets; write csv or json."
        yield from super().rules(raw)

    def read(self, how: Reading) -> DataFrame:
        """Return the rows parsed from the lines."""
        from pyspark.sql import functions as sf

        from skyband.spark.expressions import quoted

        lines = how.spark.readStream.format("socket").option("host", self.host).option("port", self.port)
        shape = ", ".join(f"{quoted(column)} {kind}" for column, kind in (self.schema or {}).items())
        options = {key: str(value) for key, value in self.options.items() if key != "header"}
        parse = sf.from_csv if self.format == "csv" else sf.from_json
        return lines.load().select(parse(sf.col("value"), shape, options).alias("row")).select("row.*")

    def described(self) -> str:
        """Return the format and the address."""
        return f"{self.format} lines from {self.host}:{self.port}"
