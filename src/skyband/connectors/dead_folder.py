"""Folders of dead letters: one folder per micro-batch with malformed records, as JSON lines."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING
from uuid import uuid4

from skyband.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["LARGEST_LETTER", "LetterFolder", "LocalDeadFolder", "StagedLetters", "TaskDeadFolder", "clear_staged"]

LARGEST_LETTER = 1_000_000  # characters of a value


class LetterFolder:
    """A folder of dead letters. The part of a micro-batch appears atomically; a repeated batch replaces it."""

    holds = "dead letters"
    of_dead_letters = True
    first = 0  # the number of the first micro-batch

    def __init__(self, folder: str, stream: str, largest: int) -> None:
        self.folder = Path(folder)
        self.stream, self.largest = stream, largest  # values are cut after so many characters

    @contextmanager
    def replaced(self, batch: int) -> Iterator[Path]:
        """Yield a folder to write ``part-*`` files into; afterwards it replaces the micro-batch's folder."""
        path = self.path_of(batch)
        unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            yield unfinished
            shutil.rmtree(path, ignore_errors=True)
            if any(part.stat().st_size for part in unfinished.glob("part-*")):
                os.replace(unfinished, path)
        except OSError as error:
            raise InvalidInputError(
                f"dead letters cannot be written to {str(path)!r} ({error.strerror or error}). The stream stopped; no "
                "data is lost. Make the folder writable and run it again."
            ) from error
        finally:
            with suppress(OSError):
                shutil.rmtree(unfinished, ignore_errors=True)

    def path_of(self, batch: int) -> Path:
        """Return the folder of a micro-batch."""
        return self.folder / f"{self.stream}-{batch:08}"

    def files(self) -> list[Path]:
        """Return the folders that this stream has written."""
        return sorted(path for path in self.folder.glob(f"{self.stream}-{'[0-9]' * 8}") if path.is_dir())

    def clear(self) -> None:
        """Remove the folders that this stream has written."""
        for path in self.files():
            shutil.rmtree(path)


class LocalDeadFolder(LetterFolder):
    """Writes the malformed rows of files without Spark, with the same keys."""

    def take(self, letters: pa.Table, batch: int) -> None:
        """Write or replace the dead letters of a micro-batch; `letters` has reason, file, row and value."""
        with self.replaced(batch) as unfinished:
            unfinished.mkdir()
            with (unfinished / "part-00000.json").open("w", encoding="utf-8") as out:
                out.writelines(_lines(letters, self.stream, self.largest))


class TaskDeadFolder(LetterFolder):
    """Publishes the dead letters that the tasks of a micro-batch have staged.

    Micro-batches are numbered from `first` on: lower numbers are of a separate query that wrote dead letters before.
    """

    of_dead_letters = False  # the query for answers plans its micro-batches

    def __init__(self, folder: str, stream: str, staged: Path, first: int = 0) -> None:
        super().__init__(folder, stream, LARGEST_LETTER)
        self._staged, self.first = staged, first

    def publish(self, batch: int) -> None:
        """Write or replace the dead letters of a micro-batch, after its tasks have ended and before it is committed."""
        parts, number = sorted(self._staged.glob("part-*")), self.first + batch
        if parts or self.path_of(number).exists():
            with self.replaced(number) as unfinished:
                unfinished.mkdir()
                for part in parts:
                    shutil.copy(part, unfinished / part.name)
            clear_staged(self._staged)


class StagedLetters:
    """The dead letters of one task. They appear when the task is done; a repeated task replaces them."""

    def __init__(self, folder: str, stream: str, parts: Sequence[object]) -> None:
        """Write nothing yet. `parts` identify the input of the task."""
        self._target = Path(folder) / f"part-{sha256(repr(list(parts)).encode()).hexdigest()[:32]}.json"
        self._unfinished = self._target.with_name(f".{self._target.name}.{uuid4().hex}")
        self._stream = stream
        self._out: IO[str] | None = None

    def add(self, letters: pa.Table) -> None:
        """Add dead letters."""
        if letters.num_rows:
            if self._out is None:
                self._target.parent.mkdir(parents=True, exist_ok=True)
                self._out = self._unfinished.open("w", encoding="utf-8")
            self._out.writelines(_lines(letters, self._stream, LARGEST_LETTER))

    def close(self) -> None:
        """Let the letters appear."""
        if self._out is not None:
            self._out.close()
            os.replace(self._unfinished, self._target)


def clear_staged(folder: Path) -> None:
    """Remove what tasks have staged, also in a micro-batch that failed. The folder stays."""
    for part in folder.glob("*part-*"):
        part.unlink(missing_ok=True)


def _lines(letters: pa.Table, stream: str, largest: int) -> Iterator[str]:
    for letter in letters.to_pylist():
        value = letter["value"]
        size = None if value is None else len(value.encode())
        found = {"stream": stream, **letter, "size": size, "value": value and value[:largest]}
        yield json.dumps({key: one for key, one in found.items() if one is not None}) + "\n"
