"""Files of micro-batches in a folder: each appears at once, also if it consists of several files in a folder.

Names that begin with a dot are hidden: no reader of folders opens them. Renaming makes a micro-batch visible.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from skyband.sharding.delivery import TaskFile

__all__ = ["WRITERS", "files_in", "move_together", "publish", "remove", "write_for_batch"]

_EXCHANGE, _HERE = 2, -100  # of renameat2(2): RENAME_EXCHANGE, AT_FDCWD


def write_for_batch(rows: pa.Table, folder: str, kind: str, quote_formulas: bool = False) -> TaskFile:
    """Write rows to a new file of a hidden folder; called by tasks."""
    from skyband.data.json_lines import without_formulas

    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"part-{uuid4().hex}.{kind}"
    WRITERS[kind](without_formulas(rows) if quote_formulas else rows, path)
    return TaskFile(str(path), rows.num_rows, path.stat().st_size)


def move_together(files: Sequence[TaskFile], folder: Path) -> None:
    """Move files into a new folder. Files of tasks that failed or were repeated are not among them, and stay."""
    folder.mkdir()
    for number, file in enumerate(files):
        os.rename(file.path, folder / f"part-{number:05}{Path(file.path).suffix}")


def publish(unfinished: Path, path: Path) -> None:
    """Let a file or folder appear under its name, in place of an earlier file or folder.

    Between files, and where the system can exchange two names, a reader sees the old or the new one at any time.
    Elsewhere, a folder that is replaced is absent for a moment.
    """
    if not os.path.lexists(path) or not (path.is_dir() or unfinished.is_dir()):
        os.replace(unfinished, path)
        return
    if not _exchanged(unfinished, path):
        old = path.with_name(f".{path.name}.{uuid4().hex}")
        os.rename(path, old)
        os.rename(unfinished, path)
        unfinished = old
    remove(unfinished)


def _exchanged(one: Path, other: Path) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    return bool(call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it exists. A folder disappears at once."""
    if path.is_dir() and not path.is_symlink():
        hidden = path if path.name.startswith(".") else path.with_name(f".{path.name}.{uuid4().hex}")
        if hidden != path:
            os.rename(path, hidden)
        shutil.rmtree(hidden)
    else:
        path.unlink(missing_ok=True)


def files_in(batches: Sequence[Path]) -> list[Path]:
    """Return the files of micro-batches: themselves, or those in their folders."""
    return [file for batch in batches for file in (sorted(batch.iterdir()) if batch.is_dir() else [batch])]


def _write_parquet(rows: pa.Table, path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(rows, path)


def _write_csv(rows: pa.Table, path: Path) -> None:
    import pyarrow.csv as pcsv

    from skyband.data.json_lines import flat

    pcsv.write_csv(flat(rows), path)


def _write_lines(rows: pa.Table, path: Path) -> None:
    from skyband.data.json_lines import json_lines

    with path.open("w", encoding="utf-8") as file:
        file.writelines(json_lines(rows))


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "jsonl": _write_lines,
}
