"""Files that are newer than the state they were written with: a copy of the state has been restored under them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from skyband.errors import SnapshotError
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.delivery import Folder

__all__ = ["refuse_newer_files"]

_NUMBER = re.compile(r"-(\d{8,})(?:\.\w+)?$")


def refuse_newer_files(kept: Checkpoint, folders: Sequence[Folder], stream: str) -> None:
    """Refuse to go on from a state that is older than the files in a folder.

    A micro-batch is planned in the checkpoint before its file is written, so in whatever moment a run is killed, no
    file has a larger number than the last plan. One that does was written after the state was copied: its windows
    would be answered again, in files of other numbers, and be there twice. The files are not removed here: the rows
    behind them may be gone, and with them the answers.
    """
    for folder in folders:
        newest = max((_number(path) for path in folder.files()), default=-1)
        if newest < 0:
            continue
        last = kept.last_batch(kept.dead if folder.of_dead_letters else kept.folder)
        if newest > last:
            ends = f"ends with batch {last}" if last >= 0 else "has no batch yet"
            raise SnapshotError(
                f"{str(folder.folder)!r} holds {folder.holds} of stream {stream!r} up to batch {newest}, but the "
                f"checkpoint {kept.folder!r} {ends}, so it is an older copy of the state. Going on would write "
                f"{folder.holds} of batches {last + 1} to {newest} a second time; nothing was started. Restore the "
                f"newer checkpoint; or remove the files of this stream with numbers above {last:08} (they are written "
                "again if their rows can still be read); or begin anew: with --fresh (fresh=True), or in "
                "other folders."
            )


def _number(path: Path) -> int:
    found = _NUMBER.search(path.name)
    return -1 if found is None else int(found[1])
