"""Rate source: rows that Spark generates at a fixed rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field

from skyband.connectors.source import Reading, SourceModel
from skyband.connectors.values import Count, Scalar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["RateSource"]


class RateSource(SourceModel):
    """Generates rows with the columns timestamp and value."""

    source: Literal["rate"] = Field(default="rate", description="rows that Spark generates")
    options: dict[str, Scalar] = Field(
        default={}, repr=False, description="Options of Spark's reader, passed through unchanged."
    )
    rows_per_second: Count | None = Field(
        default=None,
        description="The number of rows that Spark generates per second, with columns timestamp and value. Default: 1.",
        examples=[1000],
    )

    def read(self, how: Reading) -> DataFrame:
        """Return the generated rows."""
        options: dict[str, Any] = {**self.options, "rowsPerSecond": self.rows_per_second or 1}
        return how.spark.readStream.format("rate").options(**options).load()

    def settled(self, folder: Path) -> Self:
        """Return a copy with timestamp as the default time column."""
        return self.model_copy(update={"time": self.time or "timestamp"})

    def described(self) -> str:
        """Return the rate."""
        return f"{self.rows_per_second or 1} generated rows per second"

    @classmethod
    def given_columns(cls, raw: Mapping[str, Any]) -> Iterable[str]:
        """Return the columns that Spark generates."""
        return ("timestamp", "value")
