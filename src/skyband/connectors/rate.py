"""Rows that Spark makes up, so many a second."""

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
    """Made-up rows; their columns are timestamp and value."""

    source: Literal["rate"] = Field(default="rate", description="rows that Spark makes up")
    options: dict[str, Scalar] = Field(
        default={}, repr=False, description="Options of Spark's reader, passed on as they are."
    )
    rows_per_second: Count | None = Field(
        default=None,
        description="How many rows Spark makes up each second; columns are timestamp and value. Default 1.",
        examples=[1000],
    )

    def read(self, how: Reading) -> DataFrame:
        """The rows as they are made."""
        options: dict[str, Any] = {**self.options, "rowsPerSecond": self.rows_per_second or 1}
        return how.spark.readStream.format("rate").options(**options).load()

    def settled(self, folder: Path) -> Self:
        """The time is that of the making."""
        return self.model_copy(update={"time": self.time or "timestamp"})

    def described(self) -> str:
        """How many rows."""
        return f"{self.rows_per_second or 1} made-up rows a second"

    @classmethod
    def given_columns(cls, raw: Mapping[str, Any]) -> Iterable[str]:
        """Those that Spark makes up."""
        return ("timestamp", "value")
