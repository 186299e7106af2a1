"""Limits of late rows: log a warning above a share of the rows, and stop the stream above another."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from skyband.errors import InvalidInputError, PipelineError

__all__ = ["LateLimits"]

WARN = 0.001  # share of all rows read
_LOG = logging.getLogger("skyband.late")


class LateLimits:
    """Checks the share of late rows among all rows that a run has read.

    Parameters
    ----------
    warn
        The share above which a warning is logged; repeated whenever the number of late rows has doubled.
    fail
        The share above which the stream stops; None: it never stops.

    Examples
    --------
    >>> limits = LateLimits(warn=0.001, fail=0.05)
    >>> limits.exceeded({"rows": 1000, "late": 1}), limits.exceeded({"rows": 1000, "late": 2})
    (False, True)
    """

    def __init__(self, warn: float = WARN, fail: float | None = None) -> None:
        for name, share in (("warn", warn), ("fail", fail)):
            if share is not None and not 0 <= share <= 1:
                raise InvalidInputError(
                    f"late.{name} must be a share of the rows between 0 and 1, such as 0.05, got {share!r}."
                )
        self.warn, self.fail = warn, fail
        self._reported = 0

    def exceeded(self, counts: Mapping[str, Any]) -> bool:
        """Whether the share of late rows is above `warn`."""
        return int(counts["late"]) > self.warn * int(counts["rows"])

    def watch(self, counts: Mapping[str, Any], stream: str | None) -> None:
        """Check the counts of a run; log a warning or raise PipelineError if too many rows are late."""
        late, rows = int(counts["late"]), int(counts["rows"])
        named = "the stream" if stream is None else f"stream {stream!r}"
        share = f"{late:,} of {rows:,} rows ({late / max(1, rows):.2%})"
        if self.fail is not None and late > self.fail * rows:
            raise PipelineError(
                f"{named} stopped: {share} were behind the watermark and dropped, more than late.fail={self.fail:.2%} "
                "allows. Use a longer watermark and start without state (--fresh), or increase late.fail."
            )
        if self.exceeded(counts) and late >= 2 * self._reported:
            self._reported = late
            _LOG.warning(
                "%s: %s were behind the watermark and dropped. A longer watermark drops fewer rows.",
                named,
                share,
            )
