"""Terminal sink: `skyband run` displays answers as they arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from skyband.connectors.sink import SinkModel

if TYPE_CHECKING:
    from skyband.sharding.delivery import Opening

__all__ = ["TerminalSink"]


class TerminalSink(SinkModel):
    """Displays answers as they arrive. Only `skyband run` supports it."""

    type: Literal["terminal"] = Field(default="terminal", description="displayed as they arrive")

    def open(self, opening: Opening) -> None:
        """Return None: the running program displays answers itself."""
