"""What a run says about itself, for people or for machines: a line each, on standard error."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime

__all__ = ["write_logs"]

Hide = Callable[[str], str]


class _Text(logging.Formatter):
    """A line for people; what goes on over several lines is indented, so that nobody else's text begins one."""

    def __init__(self, hide: Hide) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        return self._hide(super().format(record)).replace("\n", "\n    ")


class _Json(logging.Formatter):
    """A line of JSON: when, how grave, who says it, and what."""

    def __init__(self, hide: Hide) -> None:
        super().__init__()
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._hide(record.getMessage()),
        }
        if record.exc_info:
            told["error"] = self._hide(self.formatException(record.exc_info))
        return json.dumps(told, ensure_ascii=False)


def write_logs(*, as_json: bool, hide: Hide = str) -> None:
    """Write what the library logs to standard error, from here on; `hide` takes secrets out of a text."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Json(hide) if as_json else _Text(hide))
    log = logging.getLogger("skyband")
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
