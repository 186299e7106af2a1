"""Standard output sink: answers as CSV lines, for the next program in a pipe."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from skyband.connectors.sink import SinkModel
from skyband.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.sharding.delivery import Opening

__all__ = ["StdoutSink", "StdoutWriter"]


class StdoutSink(SinkModel):
    """Writes answers to standard output. A repeated micro-batch is written again.

    >>> StdoutSink(queries=["big"]).format
    'csv'
    """

    type: Literal["stdout"] = Field(default="stdout", description="lines on standard output")
    format: Literal["csv"] = Field(
        default="csv", description="The format of the rows; column names are in the first line."
    )

    def open(self, opening: Opening) -> StdoutWriter:
        """Return a writer of CSV lines."""
        return StdoutWriter()


class StdoutWriter:
    """Writes rows as CSV lines."""

    def __init__(self) -> None:
        self._has_begun = False

    def take(self, batch: int, rows: pa.Table) -> None:
        """Write the rows, with a header line before the first row."""
        import pyarrow.csv as pcsv

        from skyband.data.json_lines import flat

        if not rows.num_rows:
            return
        lines = io.BytesIO()
        pcsv.write_csv(flat(rows), lines, pcsv.WriteOptions(include_header=not self._has_begun))
        try:
            sys.stdout.write(lines.getvalue().decode())
            sys.stdout.flush()
        except BrokenPipeError:
            raise PipelineError(
                "answers cannot be written to standard output: the reader closed the pipe. The stream stopped; no "
                "answers are lost. Run it again to resume."
            ) from None
        self._has_begun = True
