"""Answers on the terminal, as they come. `skyband run` shows them itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from skyband.connectors.sink import SinkModel

if TYPE_CHECKING:
    from skyband.spark.delivery import Opening

__all__ = ["TerminalSink"]


class TerminalSink(SinkModel):
    """Shows answers as they come. Only the process that has the terminal can."""

    type: Literal["terminal"] = Field(default="terminal", description="shown as they come")

    def open(self, opening: Opening) -> None:
        """Nothing: who has a terminal watches."""
