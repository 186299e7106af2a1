"""How many late rows a stream may have: more than a small share is reported while it runs, and more can stop it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from skyband.errors import InvalidInputError, PipelineError

__all__ = ["LateLimits"]

WARN = 0.001  # of all rows read
_LOG = logging.getLogger("skyband.late")


class LateLimits:
    """Watches the share of late rows among all rows that a run has read.

    Parameters
    ----------
    warn
        The share above which late rows are reported in the log; again whenever their number has doubled.
    fail
        The share above which the stream stops; None: it goes on, whatever is late.

    Examples
    --------
    >>> limits = LateLimits(warn=0.001, fail=0.05)
    >>> limits.exceeded({"rows": 1000, "late": 1}), limits.exceeded({"rows": 1000, "late": 2})
    (False, True)
    """

    def __init__(self, warn: float = WARN, fail: float | None = None) -> None:
        for name, share in (("warn", warn), ("fail", fail)):
            if share is not None and not 0 <= share <= 1:
                raise InvalidInputError(f"late: {name}={share!r} must be a share of the rows in 0..1, such as 0.05.")
        self.warn, self.fail = warn, fail
        self._reported = 0

    def exceeded(self, counts: Mapping[str, Any]) -> bool:
        """Whether more rows are late than go without saying."""
        return int(counts["late"]) > self.warn * int(counts["rows"])

    def watch(self, counts: Mapping[str, Any], stream: str | None) -> None:
        """Look at the counts of a run: log a warning, or raise PipelineError, if too many rows are late."""
        late, rows = int(counts["late"]), int(counts["rows"])
        named = "the stream" if stream is None else f"stream {stream!r}"
        share = f"{late:,} of {rows:,} rows ({late / max(1, rows):.2%})"
        if self.fail is not None and late > self.fail * rows:
            raise PipelineError(
                f"{named} stopped: {share} came behind the watermark, more than late.fail={self.fail:.2%} allows; they "
                "are in no answer. Use a longer watermark and run from a new state (--fresh), or raise late.fail."
            )
        if self.exceeded(counts) and late >= 2 * self._reported:
            self._reported = late
            _LOG.warning(
                "%s: %s came behind the watermark and are in no answer. A longer watermark lets more of them in.",
                named,
                share,
            )
