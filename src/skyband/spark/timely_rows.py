"""From which position on no row of a micro-batch is late, according to its checkpoint.

Shards drop a row if it is before the watermark with which the micro-batch began, or before a time that a control
message has set. Spark writes the watermark to the checkpoint before it plans the micro-batch, and a repeated one begins
with the same watermark. So a source can know it, and a task needs only the best rows of those that are not late.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from skyband.spark.control import CONTROL_FOLDER
from skyband.windows import ALWAYS, NEVER

__all__ = ["TimelyRows"]

_MILLISECOND = 1000
_VERSION = "v1"  # of Spark's log of offsets
_HEAD = 2  # lines before the offsets of the sources: version, and metadata of the micro-batch


class TimelyRows:
    """The rows that are not late, according to the checkpoint of which `log` is the folder of one source."""

    def __init__(self, log: Path) -> None:
        self._source, self._checkpoint = log.name, log.parent.parent
        self._messages: dict[str, int] = {}  # by file: the time it sets

    def position(self, end: dict[str, int]) -> int:
        """Return the position for the micro-batch that is being planned and reads up to the offset `end`.

        NEVER if it is unknown: then each row may be late.
        """
        watermark = self._watermark(end)
        if watermark is None:
            return NEVER
        return max(watermark * _MILLISECOND, self._set_by_messages())

    def _watermark(self, end: dict[str, int]) -> int | None:
        """Return the watermark of the newest micro-batch in milliseconds; None if it does not read up to `end`."""
        folder = self._checkpoint / "offsets"
        try:
            newest = max(int(file.name) for file in folder.iterdir() if file.name.isdecimal())
            version, *lines = (folder / str(newest)).read_text(encoding="utf-8").splitlines()
            planned = json.loads(lines[_HEAD - 1 + int(self._source)])
            watermark = int(json.loads(lines[0])["batchWatermarkMs"])
        except (OSError, ValueError, IndexError, KeyError, TypeError):
            return None
        return watermark if version == _VERSION and planned == end else None

    def _set_by_messages(self) -> int:
        """Return the latest time that a message has set; NEVER after the end of a stream, which depends on its rows."""
        folder = self._checkpoint / CONTROL_FOLDER
        names = {file.name for file in folder.iterdir()} if folder.is_dir() else set()
        for name in names - set(self._messages):
            if name.startswith(("_", ".")):
                continue
            self._messages[name] = max(map(_time_of, (folder / name).read_text("utf-8").splitlines()), default=ALWAYS)
        return max(self._messages.values(), default=ALWAYS)


def _time_of(line: str) -> int:
    message: dict[str, Any] = json.loads(json.loads(line)["message"])
    if message["kind"] == "open":
        return ALWAYS
    return int(message.get("at", NEVER))
