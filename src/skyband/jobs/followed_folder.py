"""The new files of a followed folder, in the order of their times. Files that are still written are left for later."""

from __future__ import annotations

import time
from pathlib import Path

from skyband.connectors.arrow.avro_container import is_complete
from skyband.connectors.arrow.paths import listed_files
from skyband.connectors.files import FilesSource
from skyband.jobs.folder_log import FolderLog, LoggedFile
from skyband.jobs.recent_files import state_of

__all__ = ["SETTLED", "FollowedFolder"]

SETTLED = 0.5  # seconds without a change after which a file counts as complete
CUT_OFF = 10.0  # the same for a Parquet or Avro file without its last bytes, which are written at the end
_PARQUET_END = (b"PAR1", b"PARE")


class FollowedFolder:
    """Finds the files of a stream that the log does not contain yet."""

    def __init__(self, name: str, stream: FilesSource, log: FolderLog) -> None:
        self._name, self._stream, self._log = name, stream, log
        self._unsettled: dict[Path, tuple[tuple[int, int], float]] = {}  # by file: its state, and since when

    @property
    def has_unsettled(self) -> bool:
        """Whether the last look found files that are still written."""
        return bool(self._unsettled)

    def look(self) -> list[LoggedFile]:
        """Return the new files that are complete: by the time of their last change, then by path."""
        now, unsettled, found = time.monotonic(), {}, []
        for file in listed_files(self._name, self._stream):
            if str(file) in self._log:
                continue
            state = state_of(file)
            if state is None:
                continue  # it has disappeared
            before = self._unsettled.get(file)
            since = before[1] if before is not None and before[0] == state else now
            if self._is_settled(file, state, now - since):
                found.append(LoggedFile(str(file), *state))
            else:
                unsettled[file] = state, since
        self._unsettled = unsettled
        return sorted(found, key=lambda file: (file.changed, file.path))

    def _is_settled(self, file: Path, state: tuple[int, int], unchanged: float) -> bool:
        # A clock that is wrong can only delay a file: then the looks decide.
        quiet = max(unchanged, time.time() - state[0] / 1e9)
        return quiet >= CUT_OFF or (quiet >= SETTLED and not self._is_cut_off(file))

    def _is_cut_off(self, file: Path) -> bool:
        if self._stream.format == "avro":
            return not is_complete(file)
        if self._stream.format != "parquet":
            return False
        try:
            with file.open("rb") as opened:
                opened.seek(-4, 2)
                return opened.read(4) not in _PARQUET_END
        except OSError:
            return True
