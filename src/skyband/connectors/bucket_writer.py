"""Writes answers to objects of an object store, named by stream and micro-batch as files in a folder are.

An object appears when it is complete, and replaces an earlier one of the same name. So a micro-batch that is
repeated after a crash replaces its output, and nothing is renamed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from skyband.connectors.file_systems import open_store
from skyband.connectors.folder_batches import WRITERS
from skyband.connectors.server import GivenUpError, Patience
from skyband.connectors.table_errors import cause_of, is_denied
from skyband.connectors.table_files import WRITE_CHECK
from skyband.errors import InvalidInputError, PipelineError, SkybandError
from skyband.queries import Query

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

__all__ = ["BucketWriter"]

T = TypeVar("T")
_STOPPED = "The stream stopped; no answers are lost. Correct the problem and run it again."


class BucketWriter:
    """Writes one object per micro-batch with answers.

    Parameters
    ----------
    address, stream, kind
        The address of the objects, the stream whose answers are written, and the extension of the format.
    options
        Arguments of Arrow's file system.
    retry
        How many seconds to retry while the store is unavailable.
    quote_formulas
        Whether text that a spreadsheet would run as a formula is quoted.
    """

    holds = "answers"
    of_dead_letters = False
    first = 0

    def __init__(
        self,
        address: str,
        stream: str,
        kind: str,
        *,
        options: Mapping[str, Any],
        retry: float = 60,
        quote_formulas: bool = False,
    ) -> None:
        self.folder = Path(address)  # for messages
        self._address, self._stream, self._kind = address.rstrip("/"), stream, kind
        self._options, self._quotes = dict(options), quote_formulas
        self._patience = Patience(retry, str(self))
        self._opened: tuple[FileSystem, str] | None = None

    def __str__(self) -> str:
        return f"bucket folder {self._address!r}"

    def take(self, batch: int, rows: pa.Table) -> None:
        """Write or replace the object of a micro-batch."""
        from skyband.data.json_lines import without_formulas

        name = f"{self._stream}-{batch:08}.{self._kind}"
        try:
            if not rows.num_rows:  # the workload changed before the batch was repeated
                self._patience.attempt(lambda: self._delete(name), _transient)
                return
            with TemporaryDirectory(prefix="skyband-") as folder:
                file = Path(folder) / name
                WRITERS[self._kind](without_formulas(rows) if self._quotes else rows, file)
                self._patience.attempt(lambda: self._put(name, file), _transient)
        except SkybandError:
            raise
        except GivenUpError as error:
            raise PipelineError(f"{self} is unavailable: {error}. {_STOPPED}") from None
        except Exception as error:
            raise InvalidInputError(f"{self} cannot be written to: {cause_of(error)}. {_STOPPED}") from error

    def reach(self) -> None:
        """List the objects, without retries: at startup, a failure is likely to be a wrong configuration."""
        self.files()

    def check(self, rows: pa.Table) -> None:
        """Check that objects can be written. `rows` can have any columns."""

        def write() -> None:
            files, path = self._store
            with files.open_output_stream(f"{path}/{WRITE_CHECK}") as out:
                out.write(b"skyband")
            with suppress(OSError):  # some have no right to delete; readers ignore names that begin with _
                files.delete_file(f"{path}/{WRITE_CHECK}")

        self._at_start(write)

    def prepare(self, rows: pa.Table) -> None:
        """Do nothing: objects of any columns can be written."""

    def ask(self, queries: Sequence[Query]) -> None:
        """Do nothing: objects contain the answers of all queries that the sink receives."""

    def holds_rows(self) -> bool:
        """Whether there are objects of this stream."""
        return bool(self.files())

    def files(self) -> list[Path]:
        """Return the names of the objects that this stream has written, one for each micro-batch."""
        return [self.folder / name for name in self._names()]

    def clear(self) -> None:
        """Remove the objects that this stream has written."""

        def remove() -> None:
            for name in self._names():
                self._delete(name)

        self._at_start(remove)

    def stop_waiting(self) -> None:
        """Stop retrying."""
        self._patience.end()

    def close(self) -> None:
        """Do nothing: no connection is open between two micro-batches."""

    @property
    def _store(self) -> tuple[FileSystem, str]:
        if self._opened is None:
            self._opened = open_store(self._address, self._options)
        return self._opened

    def _names(self) -> list[str]:
        from pyarrow.fs import FileSelector

        files, path = self._store
        pattern = re.compile(rf"{re.escape(self._stream)}-\d{{8,}}\.{self._kind}")
        found = self._at_start(lambda: files.get_file_info(FileSelector(path, allow_not_found=True)))
        return sorted(one.base_name for one in found if pattern.fullmatch(one.base_name))

    def _put(self, name: str, file: Path) -> None:
        files, path = self._store
        with file.open("rb") as content, files.open_output_stream(f"{path}/{name}") as out:
            shutil.copyfileobj(content, out)

    def _delete(self, name: str) -> None:
        from pyarrow.fs import FileType

        files, path = self._store
        if files.get_file_info(f"{path}/{name}").type != FileType.NotFound:
            files.delete_file(f"{path}/{name}")

    def _at_start(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except SkybandError:
            raise
        except Exception as error:
            raise InvalidInputError(f"{self} cannot be used: {cause_of(error)}. Nothing was written.") from error


def _transient(error: Exception) -> str | None:
    """Return why an error is likely to disappear by itself; None if it is not."""
    return cause_of(error) if isinstance(error, OSError) and not is_denied(error) else None
