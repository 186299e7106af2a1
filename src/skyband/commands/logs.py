"""What a run says about itself, for people or for machines: a line each, on standard error."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

__all__ = ["write_logs"]


class _Json(logging.Formatter):
    """A line of JSON: when, how grave, who says it, and what."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False)


def write_logs(*, as_json: bool) -> None:
    """Write what the library logs to standard error, from here on."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger("skyband")
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
