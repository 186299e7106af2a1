"""Writes answers to files in a folder, named by stream and micro-batch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from skyband.connectors.answer_sums import AnswerSums
from skyband.connectors.folder_batches import WRITERS, files_in, move_together, publish, remove, write_for_batch
from skyband.errors import InvalidInputError
from skyband.sharding.delivery import TaskFile

__all__ = ["FolderWriter"]


class FolderWriter:
    """Writes one file per micro-batch with answers, or a folder with the files of its tasks if they write.

    Files and folders appear atomically; a repeated batch replaces its file or folder.

    Parameters
    ----------
    folder, stream, kind
        The folder, the stream whose answers are written, and the extension of the format.
    quote_formulas
        Whether text that a spreadsheet would run as a formula is quoted.
    by_tasks
        Whether tasks write large answers.
    sums
        Where the checksums of the files are stored; None: nowhere.
    """

    holds = "answers"
    of_dead_letters = False
    first = 0

    def __init__(
        self,
        folder: str,
        stream: str,
        kind: str,
        *,
        quote_formulas: bool = False,
        by_tasks: bool = False,
        sums: AnswerSums | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.by_tasks = by_tasks
        self._stream = stream
        self._kind = kind
        self._quotes = quote_formulas
        self._sums = sums
        self._staged: Path | None = None  # where tasks write the current micro-batch
        self._swept = False

    def __str__(self) -> str:
        return f"folder {str(self.folder)!r}"

    def take(self, batch: int, rows: pa.Table) -> None:
        """Write or replace the file of a micro-batch."""
        with self._written(batch) as (path, unfinished):
            if not rows.num_rows:
                self._remove(path)  # the workload changed before the batch was repeated
                return
            self.folder.mkdir(parents=True, exist_ok=True)
            WRITERS[self._kind](self._safe(rows), unfinished)
            self._publish(unfinished, path)

    def task_writer(self) -> Callable[[pa.Table], TaskFile]:
        """Return the function with which tasks write the answers of a micro-batch to a hidden folder."""
        self._sweep()
        self._discard_staged()  # of an attempt that failed
        self._staged = self.folder.absolute() / f".{self._stream}-tasks.{uuid4().hex}"
        return partial(write_for_batch, folder=str(self._staged), kind=self._kind, quote_formulas=self._quotes)

    def take_files(self, batch: int, files: Sequence[TaskFile], rest: pa.Table | None) -> None:
        """Publish the files of a micro-batch and the `rest` of its answers as one folder; replace an earlier one."""
        found, staged = list(files), self._staged
        with self._written(batch) as (path, unfinished):
            if rest is not None and rest.num_rows:
                found.append((self.task_writer() if staged is None else self._writer(staged))(rest))
            if found:
                move_together(found, unfinished)
                self._publish(unfinished, path)
            else:
                self._remove(path)
        self._discard_staged()

    def files(self) -> list[Path]:
        """Return the files and folders that this stream has written, one for each micro-batch."""
        return sorted(self.folder.glob(self._pattern()))

    def parts(self) -> list[Path]:
        """Return the files that this stream has written, also those in folders."""
        return files_in(self.files())

    def clear(self) -> None:
        """Remove the files that this stream has written."""
        for path in self.files():
            remove(path)

    def _publish(self, unfinished: Path, path: Path) -> None:
        """Let the answers of a micro-batch appear, and store the checksums of their files."""
        if self._sums is None:
            publish(unfinished, path)
            return
        if os.path.lexists(path):
            self._sums.drop(path)
        publish(unfinished, path)
        self._sums.put(files_in([path]))

    def _remove(self, path: Path) -> None:
        if self._sums is not None and os.path.lexists(path):
            self._sums.drop(path)
        remove(path)

    @contextmanager
    def _written(self, batch: int) -> Iterator[tuple[Path, Path]]:
        """Yield the path of a micro-batch, and a hidden path in the same folder: readers ignore it."""
        path = self.folder / f"{self._stream}-{batch:08}.{self._kind}"
        unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
        try:
            self._sweep()
            yield path, unfinished
        except OSError as error:
            with suppress(OSError):
                remove(unfinished)
            raise InvalidInputError(
                f"answers cannot be written to {str(path)!r} ({error.strerror or error}). The stream stopped; no "
                "answers are lost. Make the folder writable and run it again."
            ) from error

    def _discard_staged(self) -> None:
        """Remove what tasks have written and no micro-batch contains. A task that still runs may write again."""
        if self._staged is not None:
            shutil.rmtree(self._staged, ignore_errors=True)

    def _writer(self, staged: Path) -> Callable[[pa.Table], TaskFile]:
        return partial(write_for_batch, folder=str(staged), kind=self._kind, quote_formulas=self._quotes)

    def _safe(self, rows: pa.Table) -> pa.Table:
        from skyband.data.json_lines import without_formulas

        return without_formulas(rows) if self._quotes else rows

    def _pattern(self) -> str:
        return f"{_escaped(self._stream)}-{'[0-9]' * 8}.{self._kind}"

    def _sweep(self) -> None:
        """Remove unfinished files of a killed run."""
        if not self._swept:
            for pattern in (f".{self._pattern()}.*", f".{_escaped(self._stream)}-tasks.*"):
                for left in self.folder.glob(pattern):
                    remove(left)
            self._swept = True


def _escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
