"""What the micro-batches of a stream on Spark have read: the offsets that Spark has planned, and the control messages.

Spark keeps the offsets of its last hundred micro-batches. The lists of read files are complete, so the batches of files
before are known from these: each list was read by one batch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from skyband.errors import SnapshotError, UnsupportedError
from skyband.spark.file_log import FileLog

__all__ = ["OffsetLog", "PlannedOffsets", "control_messages", "planned_offsets", "read_lists"]

_VERSION = "v1"
_OFFSET = "logOffset"
_MOVING = ("end", "advance")  # messages that move time
_ATTEMPTS = 5  # to read lists that the stream is replacing
_PAUSE = 0.2  # seconds
KEEP_EVERY = 20  # micro-batches: fewer than Spark keeps
MOST_BYTES = 64 << 20  # of the file with more offsets


class PlannedOffsets(NamedTuple):
    """The input of a micro-batch: offsets up to which it reads its source and the control messages."""

    number: int
    watermark: int  # at its begin, in milliseconds; 0: none
    source: dict[str, Any] | None  # None: nothing has been read yet
    control: int


def planned_offsets(checkpoint: Path, after: int = -1) -> list[PlannedOffsets]:
    """Return the offsets of the micro-batches after a number, as far as Spark has kept them; the last may be running.

    The stream must have one source. With `after`, the batches are contiguous.
    """
    folder = checkpoint / "offsets"
    numbers = sorted(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdecimal())
    found: list[PlannedOffsets] = []
    for number in numbers:
        if number <= after:
            continue
        try:
            text = (folder / str(number)).read_text()
        except FileNotFoundError:  # removed since it was listed
            found.clear()
            continue
        except OSError as error:
            raise _unreadable(folder / str(number), error) from None
        if (offsets := _parsed(folder / str(number), text)) is not None:
            found.append(offsets)
    return found


def _parsed(path: Path, text: str) -> PlannedOffsets | None:
    """Return the offsets in a file; None if Spark has not finished writing it."""
    version, _, rest = text.partition("\n")
    lines = rest.split("\n")
    if version != _VERSION:
        raise UnsupportedError(f"{str(path)!r} has version {version!r}, and only {_VERSION!r} is supported.")
    if len(lines) < 3:
        return None
    try:
        metadata, source, control = (None if line.strip() == "-" else json.loads(line) for line in lines[:3])
        last = -1 if control is None else int(control[_OFFSET])
        return PlannedOffsets(int(path.name), int((metadata or {}).get("batchWatermarkMs", 0)), source, last)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> SnapshotError:
    return SnapshotError(
        f"the offsets {str(path)!r} cannot be read ({error}), so it is unknown what the stream has read. Add the query "
        "without since."
    )


def read_lists(folder: Path) -> FileLog:
    """Return the lists of a source. The stream may replace lists while they are read, so a failure is repeated."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return FileLog(folder)
        except SnapshotError:
            time.sleep(_PAUSE)
    return FileLog(folder)


def control_messages(lists: FileLog, start: int, end: int) -> list[Mapping[str, Any]]:
    """Return the messages that moved time, of the lists after `start`, up to `end`."""
    found: list[Mapping[str, Any]] = []
    for entry in lists.between(start, end):
        try:
            lines: Sequence[str] = Path(entry.path).read_text(encoding="utf-8").splitlines()
            messages = [json.loads(json.loads(line)["message"]) for line in lines if line.strip()]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _unreadable(Path(entry.path), error) from None
        found += [one for one in messages if one.get("kind") in _MOVING]
    return found


class OffsetLog:
    """The offsets of more micro-batches than Spark keeps: a file with one line for each, beside Spark's.

    It is written while the stream runs. A line that a crash has cut off is still in Spark's own folder.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint, self._path = checkpoint, checkpoint / "skyband" / "offsets.jsonl"
        self._last: int | None = None  # the last number in the file; None: not read yet

    def keep(self, batch: int) -> None:
        """Add the offsets of the micro-batches up to `batch` before Spark removes them."""
        if self._last is None:
            self._shorten()
            self._last = max((one.number for one in self._lines()), default=-1)
        if batch < self._last + KEEP_EVERY:
            return
        found = [one for one in planned_offsets(self._checkpoint, self._last) if one.number <= batch]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write("\n" + "".join(json.dumps(one._asdict()) + "\n" for one in found))
        self._last = batch

    def planned(self, after: int = -1) -> list[PlannedOffsets]:
        """Return the offsets of the micro-batches after a number: the longest contiguous part up to the last one."""
        known = {one.number: one for one in (*self._lines(), *planned_offsets(self._checkpoint, after))}
        number = max(known, default=-1)
        found: list[PlannedOffsets] = []
        while number > after and number in known:
            found.append(known[number])
            number -= 1
        return found[::-1]

    def _lines(self) -> list[PlannedOffsets]:
        if not self._path.exists():
            return []
        found = []
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(PlannedOffsets(**json.loads(line)))
            except (ValueError, TypeError):  # an empty line, or one that was cut off
                continue
        return found

    def _shorten(self) -> None:
        """Remove the older half of a large file."""
        if self._path.exists() and self._path.stat().st_size > MOST_BYTES:
            lines = self._path.read_text(encoding="utf-8").splitlines()
            unfinished = self._path.with_suffix(".new")
            unfinished.write_text("\n".join(lines[len(lines) // 2 :]) + "\n", encoding="utf-8")
            unfinished.replace(self._path)
