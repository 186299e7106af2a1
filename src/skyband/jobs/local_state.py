"""The checkpoint of a stream that follows a folder without Spark: one state file, segments, and the log of files.

A commit replaces the state file atomically. Segments are written under new names before the commit, and removed after a
later one, so a kill at any time leaves the state of a whole micro-batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

from skyband.errors import InvalidInputError, SnapshotError
from skyband.jobs.folder_log import FolderLog
from skyband.paths import has_scheme
from skyband.snapshot import StateFormat, resuming

__all__ = ["FolderSegments", "LocalCheckpoint", "has_local_state", "has_spark_state", "refuse_local_state"]

STATE = StateFormat("local stream", [])
_FOLDER = "local"  # below the checkpoint of a stream
_RESTORE = "Restore the checkpoint from a backup, or start over with --fresh."


def has_local_state(checkpoint: str) -> bool:
    """Return whether a run without Spark has stored state in the checkpoint of a stream."""
    return not has_scheme(checkpoint) and (Path(checkpoint) / _FOLDER / "state").exists()


def has_spark_state(checkpoint: str) -> bool:
    """Return whether a run on Spark has stored state in the checkpoint of a stream."""
    return any((Path(checkpoint) / part).exists() for part in ("metadata", "skyband/about"))


def refuse_local_state(checkpoint: str) -> None:
    """Reject a checkpoint of a run without Spark, which Spark cannot resume."""
    if has_local_state(checkpoint):
        raise SnapshotError(
            f"checkpoint {checkpoint!r} was written by a run without Spark, and Spark cannot resume it. Resume it with "
            "--local, use another checkpoint, or start over with --fresh, which removes the state and its answers."
        )


class FolderSegments:
    """Segments of a shard as files. `stored` maps their numbers to the names of files."""

    def __init__(self, folder: Path, stored: Mapping[int, str]) -> None:
        self._folder = folder
        self.stored = dict(stored)
        self.stale: list[str] = []  # files that the next commit makes obsolete

    def get(self, number: int) -> bytes:
        """Return a stored segment, if it is the one that was stored."""
        path = self._folder / self.stored[number]
        try:
            data = path.read_bytes()
        except OSError as error:
            raise SnapshotError(
                f"a part of the state, {str(path)!r}, cannot be read ({error.strerror or error}). {_RESTORE}"
            ) from error
        digest = path.name.partition(".")[2]  # segments of earlier versions have none in their names
        if digest and digest != _digest(data):
            raise SnapshotError(
                f"a part of the state, {str(path)!r}, is damaged (its checksum differs from that in its name); nothing "
                f"was resumed. {_RESTORE}"
            )
        return data

    def put(self, number: int, data: bytes) -> None:
        """Store a segment."""
        name = f"{number}-{uuid4().hex}.{_digest(data)}"  # no file of the last commit is replaced
        _write_durably(self._folder / name, data)
        if number in self.stored:
            self.remove(number)
        self.stored[number] = name

    def remove(self, number: int) -> None:
        """Remove a stored segment."""
        self.stale.append(self.stored.pop(number))


class LocalCheckpoint:
    """The folder with the state of a stream.

    `fresh`: the state of an earlier run is ignored, because it will be removed before the first batch.
    """

    def __init__(self, checkpoint: str, *, fresh: bool = False) -> None:
        self.checkpoint = checkpoint
        self._is_new = fresh
        self._folder = Path(checkpoint) / _FOLDER
        self._segments = self._folder / "segments"
        if not fresh and has_spark_state(checkpoint):
            raise SnapshotError(
                f"checkpoint {checkpoint!r} was written by a run on Spark, and --local cannot resume it. Run the file "
                "without --local, use another checkpoint, or start over with --fresh, which removes the state and its "
                "answers."
            )
        self.log = FolderLog(self._folder / "log", is_new=fresh)

    def read(self) -> dict[str, Any] | None:
        """Return the state of the last complete micro-batch; None if the checkpoint is new."""
        if self._is_new:
            return None
        try:
            blob = (self._folder / "state").read_bytes()
        except FileNotFoundError:
            if self.log.last is not None:
                raise SnapshotError(
                    f"checkpoint {self.checkpoint!r} has a log of files but no state. Restore it from a backup, or "
                    "start over with --fresh."
                ) from None
            return None
        except OSError as error:
            raise SnapshotError(
                f"the state {str(self._folder / 'state')!r} cannot be read ({error.strerror or error}). {_RESTORE}"
            ) from error
        try:
            with resuming():
                saved = STATE.decode(blob)
                distance = (-1 if self.log.last is None else self.log.last.number) - saved["batch"]
        except SnapshotError as error:
            raise SnapshotError(
                f"checkpoint {self.checkpoint!r} cannot be resumed from {str(self._folder / 'state')!r}: {error} "
                f"{_RESTORE}"
            ) from None
        if distance not in (0, 1):  # the batch after the state may be planned
            last = saved["batch"] + distance
            raise SnapshotError(
                f"checkpoint {self.checkpoint!r} is damaged: its state ends with batch {saved['batch']}, its log of "
                f"files with batch {last}. Restore both from one backup, or start over with --fresh."
            )
        return saved

    def segments(self, stored: Mapping[str, str] | None = None) -> FolderSegments:
        """Return the segments of a shard."""
        return FolderSegments(self._segments, {int(number): name for number, name in (stored or {}).items()})

    def open(self) -> None:
        """Create the folder and the log, so that the next commit makes both durable."""
        self._is_new = False
        try:
            self._segments.mkdir(parents=True, exist_ok=True)
            self.log.path.touch()
        except OSError as error:
            raise InvalidInputError(
                f"checkpoint {self.checkpoint!r} cannot be written ({error.strerror or error}), so the stream was not "
                "started. Use a folder that can be written to."
            ) from None

    def commit(self, values: Mapping[str, Any]) -> int:
        """Replace the stored state, and return its size in bytes."""
        blob = STATE.encode(values)
        _write_durably(self._folder / "state.new", blob)
        os.replace(self._folder / "state.new", self._folder / "state")
        _sync(self._folder)
        return len(blob)

    def remove_segments(self, names: Iterable[str]) -> None:
        """Remove segments that the stored state does not need."""
        for name in names:
            (self._segments / name).unlink(missing_ok=True)

    def sweep(self, needed: Iterable[str]) -> None:
        """Remove the segments of a killed run that were never committed."""
        kept = set(needed)
        self.remove_segments(path.name for path in list(self._segments.iterdir()) if path.name not in kept)


def _write_durably(path: Path, data: bytes) -> None:
    try:
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise InvalidInputError(
            f"the state cannot be written to {str(path)!r} ({error.strerror or error}). The stream stopped; no answers "
            "are lost. Make room or make the folder writable, and run it again."
        ) from error


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()


def _sync(folder: Path) -> None:
    """Make a rename durable, where the system can."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
