"""Standard output: answers as lines of CSV, for the next program of a pipe."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from skyband.connectors.sink import SinkModel
from skyband.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.spark.delivery import Opening

__all__ = ["StdoutSink", "StdoutWriter"]


class StdoutSink(SinkModel):
    """Writes answers to standard output. A micro-batch that is run again is written again.

    >>> StdoutSink(queries=["big"]).format
    'csv'
    """

    type: Literal["stdout"] = Field(default="stdout", description="lines on standard output")
    format: Literal["csv"] = Field(default="csv", description="How rows are written; before the first stand the names.")

    def open(self, opening: Opening) -> StdoutWriter:
        """A writer of lines."""
        return StdoutWriter()


class StdoutWriter:
    """Writes rows as lines of CSV."""

    def __init__(self) -> None:
        self._has_begun = False

    def take(self, batch: int, rows: pa.Table) -> None:
        """Write them, the names of the columns before the first."""
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
                "answers cannot be written to standard output, which nobody reads any more; the stream stops, and "
                "nothing is lost: run it again to go on."
            ) from None
        self._has_begun = True
