"""Files and row groups that cannot be read: they stop the stream, or become dead letters, as the stream's keys say.

Only damage becomes a dead letter: content that is not of the format, and files without permission. Any other problem,
such as too many open files, may disappear by itself, so it stops the stream.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from skyband.connectors.arrow.batches import FileRows, letters, opened
from skyband.connectors.arrow.splits import Split
from skyband.connectors.file_formats import is_packed
from skyband.connectors.files import FilesSource
from skyband.errors import InvalidInputError

__all__ = ["UnreadableError", "UnreadableFiles", "is_readable", "reading"]

_NO_PERMISSION = (errno.EACCES, errno.EPERM)
_CHUNK = 1 << 20  # bytes that are decompressed at a time


class UnreadableError(Exception):
    """A file, or a part of it, cannot be read. The message is the reason."""

    def __init__(self, why: str, *, is_damage: bool = True) -> None:
        super().__init__(why)
        self.is_damage = is_damage


@contextmanager
def reading() -> Iterator[None]:
    """Convert errors of Arrow and of the operating system.

    >>> with reading():
    ...     raise OSError("Truncated compressed stream.")
    Traceback (most recent call last):
    skyband.connectors.arrow.unreadable.UnreadableError: Truncated compressed stream
    """
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        # Arrow raises OSError without a number for damaged content.
        of_content = isinstance(error, pa.ArrowInvalid) or (isinstance(error, OSError) and error.errno is None)
        is_damage = of_content or getattr(error, "errno", None) in _NO_PERMISSION
        raise UnreadableError(str(error).partition("\n")[0].rstrip(". "), is_damage=is_damage) from None


def _check_lines(file: Path) -> None:
    """Raise UnreadableError for a file of lines that cannot be opened, or not be decompressed to its end.

    The checksum of a compressed file is at its end. Lines before it may already be wrong.
    """
    with reading(), opened(file) as stream:
        while stream.read(_CHUNK) and is_packed(file.name):
            pass


def is_readable(file: Path, kind: str) -> bool:
    """Return whether the columns of a file can be determined: from its footer, or from its lines."""
    import pyarrow.parquet as pq

    try:
        if kind != "parquet":
            _check_lines(file)
        else:
            with reading(), pq.ParquetFile(file):
                pass
    except UnreadableError as error:
        return not error.is_damage
    return True


class UnreadableFiles:
    """What happens to the files of a stream that cannot be read."""

    def __init__(self, name: str, stream: FilesSource) -> None:
        self._name = name
        self._noun = {"parquet": " as Parquet", "avro": " as Avro"}.get(str(stream.format), "")
        self.are_skipped = stream.skips_unreadable

    def skipped(self, schema: pa.Schema, file: Path, error: UnreadableError, what: str, row: int = -1) -> FileRows:
        """Return the dead letter for a part of a file; raise InvalidInputError if the stream stops at it.

        `row` is the first row of the part, if it is known.
        """
        if not self.are_skipped or not error.is_damage:
            raise self.stopped(file, error)
        reason = f"{what} cannot be read{self._noun}: {error}"
        found = letters([reason], file, rows=[] if row < 0 else [row])
        return FileRows(schema.empty_table(), 0, letters(), found)

    def stopped(self, file: Path, error: UnreadableError) -> InvalidInputError:
        """Return the error with which a stream stops at a file."""
        return InvalidInputError(
            f"stream {self._name!r}: {str(file)!r} cannot be read{self._noun}: {error}. The run stopped before it used "
            "any row of the file."
        )

    @contextmanager
    def stopping(self, file: Path) -> Iterator[None]:
        """Convert errors in the block to the error with which the stream stops."""
        try:
            with reading():
                yield
        except UnreadableError as error:
            raise self.stopped(file, error) from None

    def skipped_lines(self, schema: pa.Schema, split: Split) -> FileRows | None:
        """Return the dead letter for a split of a file of lines; None if its lines can be used.

        A compressed file is read to its end before its first line is used, so it is used completely or not at all.
        """
        if not self.are_skipped:
            return None
        try:
            _check_lines(split.file)
        except UnreadableError as error:
            is_whole = not split.begin and split.end in (None, split.limit)
            return self.skipped(
                schema, split.file, error, "the file" if is_whole else f"bytes {split.begin} to {split.end}"
            )
        return None

    def are_readable(self, file: Path) -> bool:
        """Return whether the lines of a file can be used; False only if unreadable files are skipped."""
        return not self.are_skipped or is_readable(file, "lines")
