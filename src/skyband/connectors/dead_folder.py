"""Folders of dead letters: one folder per micro-batch with malformed records, as JSON lines."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from skyband.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["LetterFolder", "LocalDeadFolder"]


class LetterFolder:
    """A folder of dead letters. The part of a micro-batch appears atomically; a repeated batch replaces it."""

    holds = "dead letters"
    of_dead_letters = True

    def __init__(self, folder: str, stream: str, largest: int) -> None:
        self.folder = Path(folder)
        self.stream, self.largest = stream, largest  # values are cut after so many characters

    @contextmanager
    def replaced(self, batch: int) -> Iterator[Path]:
        """Yield a folder to write ``part-*`` files into; afterwards it replaces the micro-batch's folder."""
        path = self.folder / f"{self.stream}-{batch:08}"
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
        import json

        with self.replaced(batch) as unfinished:
            unfinished.mkdir()
            with (unfinished / "part-00000.json").open("w", encoding="utf-8") as out:
                for letter in letters.to_pylist():
                    value = letter["value"]
                    size = None if value is None else len(value.encode())
                    found = {"stream": self.stream, **letter, "size": size, "value": value and value[: self.largest]}
                    out.write(json.dumps({key: one for key, one in found.items() if one is not None}) + "\n")
