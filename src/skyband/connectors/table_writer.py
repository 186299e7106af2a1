"""The base of the writers of Delta and Iceberg tables: one commit for each micro-batch, which is written once.

A commit appends rows and stores the number of the micro-batch in the table, as one change. A micro-batch that is
repeated after a crash finds its number, and is not written again. Only answers of queries that were added or changed
between the two attempts are. If windows are emitted more than once, a commit replaces the earlier answers of its
windows. Removing all answers of a stream starts a new epoch: numbers of earlier ones are ignored.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skyband.connectors.delta_compaction import Compactor
from skyband.connectors.server import GivenUpError, Patience
from skyband.connectors.table_errors import cause_of
from skyband.connectors.table_files import read_parts, remove_parts, stored_types, write_part
from skyband.connectors.window_answers import Range, are_emitted_again, last_answers, range_of, unreplaced
from skyband.errors import InvalidInputError, PipelineError, SkybandError
from skyband.queries import Query
from skyband.sharding.delivery import TaskFile
from skyband.sharding.emission import marks_in

__all__ = ["Committed", "CommittedBatches", "TableWriter", "signature"]


class Committed(NamedTuple):
    """What a table stores about the answers of a stream."""

    epoch: int = 0  # how often all answers were removed
    batch: int = -1  # the last micro-batch of the epoch
    queries: frozenset[str] = frozenset()  # the queries whose answers are in that micro-batch, as `signature` returns


class CommittedBatches(ABC):
    """An output folder of `sharding.delivery` whose files are one name: that of the last committed micro-batch."""

    folder: Path
    _key: str
    _committed: Committed | None

    @abstractmethod
    def reach(self) -> None:
        """Read what is stored about the stream."""

    def holds_rows(self) -> bool:
        """Whether there are answers of this stream."""
        return bool(self.files())

    def files(self) -> list[Path]:
        """Return one name with the number of the last micro-batch, if there is one."""
        if self._committed is None:
            self.reach()
        batch = Committed().batch if self._committed is None else self._committed.batch
        return [self.folder / f"{self._key}-{batch:08}"] if batch >= 0 else []


class TableWriter(CommittedBatches):
    """Writes the answers of a stream to a table. It is both a server and an output folder of `sharding.delivery`.

    Parameters
    ----------
    where
        The table, for messages.
    key
        Identifies the stream and the sink in the table.
    queries
        The queries whose answers are written.
    retry
        How many seconds a commit is retried while the storage or catalog is unavailable.
    by_tasks
        Whether tasks write large answers to files of the table's folder, which a commit then adds.
    """

    holds = "answers"
    of_dead_letters = False
    first = 0
    compactor: Compactor | None = None  # merges small files beside the stream
    narrowest = 8  # the smallest width of integers in the table, in bits

    def __init__(self, where: str, key: str, queries: Sequence[Query], retry: float, *, by_tasks: bool = False) -> None:
        self.by_tasks = by_tasks
        self.folder = Path(where)
        self._where, self._key, self._patience = where, key, Patience(retry, where)
        self._committed: Committed | None = None
        self.ask(queries)

    def __str__(self) -> str:
        return self._where

    @abstractmethod
    def _open(self) -> bool:
        """Load the newest version of the table; return whether it exists."""

    @abstractmethod
    def _newest(self) -> Any:
        """Return the table as of the last commit."""

    @abstractmethod
    def _create(self, schema: pa.Schema) -> None:
        """Create an empty table."""

    @abstractmethod
    def _schema(self) -> pa.Schema:
        """Return the columns of the table."""

    @abstractmethod
    def _read_committed(self) -> Committed:
        """Return what the table stores about this stream."""

    @abstractmethod
    def _append(self, rows: pa.Table, committed: Committed) -> None:
        """Append rows, add their new columns and store `committed`, in one commit."""

    @abstractmethod
    def _read(self, wanted: Range) -> pa.Table:
        """Return the stored answers in a range."""

    @abstractmethod
    def _overwrite(self, replaced: Range, rows: pa.Table, committed: Committed) -> None:
        """Replace the answers in a range by `rows`, as `_append`, in one commit."""

    @abstractmethod
    def _add_files(self, files: Sequence[TaskFile], schema: pa.Schema, committed: Committed) -> None:
        """Add files of the table's folder, add their new columns and store `committed`; the rows in one commit."""

    @abstractmethod
    def _folder(self) -> str:
        """Return the folder for files that tasks write."""

    @abstractmethod
    def _remove(self, names: Sequence[str], committed: Committed) -> None:
        """Remove the rows of queries and store `committed`, in one commit."""

    @abstractmethod
    def _try_to_write(self) -> None:
        """Raise an error if there are no rights to commit to the table, or to create it. Nothing remains."""

    @abstractmethod
    def _transient(self, error: Exception) -> str | None:
        """Return why an error is likely to disappear by itself; None if it is not."""

    def reach(self) -> None:
        """Open the table, without retries: at startup, a failure is likely to be a wrong configuration."""
        self._committed = self._at_start(lambda: self._read_committed() if self._open() else Committed())

    def ask(self, queries: Sequence[Query]) -> None:
        """Set the queries whose answers follow."""
        self._queries = {query.name: signature(query) for query in queries}
        self._groups = {query.name: query.groups for query in queries}

    def check(self, rows: pa.Table) -> None:
        """Check that rows of this schema fit into the table if it exists, and that it can be written to."""

        def look() -> None:
            if self._open():
                self._refuse_other_types(self._stored(rows.slice(0, 0)).schema)
            self._try_to_write()

        self._at_start(look)

    def prepare(self, rows: pa.Table) -> None:
        """Create the table for rows of this schema, or check that they fit into the existing table."""

        def make() -> None:
            wanted = self._stored(rows.slice(0, 0)).schema
            if not self._open():
                self._create(wanted)
                self._open()
            self._refuse_other_types(wanted)
            self._committed = self._read_committed()

        self._at_start(make)

    def take(self, batch: int, rows: pa.Table) -> None:
        """Append the answers of a micro-batch, unless the table already has them; start a compaction if it is due."""
        if rows.num_rows:
            self._commit(lambda: self._take(batch, rows))
        self._compact_if_due()

    def task_writer(self) -> Callable[[pa.Table], TaskFile]:
        """Return the function with which tasks write answers to a file of the table's folder."""
        if not self._open():
            raise self._gone()
        return partial(write_part, folder=self._folder(), narrowest=self.narrowest)

    def take_files(self, batch: int, files: Sequence[TaskFile], rest: pa.Table | None) -> None:
        """Add the files of a micro-batch and the `rest` of its answers, unless the table already has them."""
        found = list(files)
        if rest is not None and rest.num_rows:
            found.append(self.task_writer()(rest))
        if found:
            self._commit(lambda: self._take_files(batch, found))
        self._compact_if_due()

    def _compact_if_due(self) -> None:
        if self.compactor is not None and (table := self._newest()) is not None:
            self.compactor.compact_if_due(table)

    def _commit(self, work: Callable[[], None]) -> None:
        try:
            self._patience.attempt(work, self._transient)
        except SkybandError:
            raise
        except GivenUpError as error:
            raise PipelineError(f"{self._where} is unavailable: {error}. {_STOPPED}") from None
        except Exception as error:
            raise InvalidInputError(f"{self._where} cannot be written to: {cause_of(error)}. {_STOPPED}") from error

    def clear(self) -> None:
        """Remove the answers of these queries, if this stream has written any."""

        def remove() -> None:
            if not self._open():
                return
            found = self._read_committed()
            if found.batch >= 0:
                self._remove(list(self._queries), Committed(found.epoch + 1))
            self._committed = self._read_committed() if self._open() else Committed()

        self._at_start(remove)

    def stop_waiting(self) -> None:
        """Stop retrying."""
        self._patience.end()

    def close(self) -> None:
        """Wait for a compaction that is running."""
        if self.compactor is not None:
            self.compactor.join()

    def _take_files(self, batch: int, files: Sequence[TaskFile]) -> None:
        found, done = self._before(batch)
        schema = pq.read_schema(files[0].path)
        # If the batch is repeated, the files also contain answers that the table has.
        if done or (marks_in(schema.names) and "change" not in schema.names):
            rows = read_parts(files)
            remove_parts(files)
            self._take(batch, rows)
            return
        self._refuse_other_types(schema)
        self._committed = Committed(found.epoch, batch, frozenset(self._queries.values()))
        self._add_files(files, schema, self._committed)

    def _take(self, batch: int, rows: pa.Table) -> None:
        found, done = self._before(batch)
        if done:
            kept = [name for name, sign in self._queries.items() if sign not in done]
            rows = rows.filter(pc.is_in(rows["query"], pa.array(kept, pa.string())))
        if rows.num_rows:
            rows = self._stored(rows)
            self._refuse_other_types(rows.schema)
            self._committed = Committed(found.epoch, batch, done | frozenset(self._queries.values()))
            if are_emitted_again(rows):
                self._replace(rows, self._committed)
            else:
                self._append(rows, self._committed)

    def _replace(self, rows: pa.Table, committed: Committed) -> None:
        """Write the last answer of each window in place of the one that the table has, in one commit."""
        rows = last_answers(rows, self._groups)
        replaced = range_of(rows)
        stored = self._read(replaced)
        kept = unreplaced(stored, rows, self._groups)
        if kept.num_rows == stored.num_rows:
            self._append(rows, committed)
            return
        kept = kept.cast(
            pa.schema(
                [
                    rows.schema.field(name) if name in rows.column_names else kept.schema.field(name)
                    for name in kept.column_names
                ]
            )
        )
        self._overwrite(replaced, pa.concat_tables([kept, rows], promote_options="default"), committed)

    def _before(self, batch: int) -> tuple[Committed, frozenset[str]]:
        """Return what the table stores, and the queries whose answers of this micro-batch it has."""
        if not self._open():
            raise self._gone()
        # Read from the table every time: an attempt that failed for this process may have been committed.
        found = self._read_committed()
        done = found.queries if found.batch == batch else frozenset[str]()
        if found.batch > batch:
            raise InvalidInputError(
                f"{self._where} contains micro-batch {found.batch} of this stream, but micro-batch {batch} is written "
                f"now, so another run writes to the table, or the state is an older copy. {_STOPPED}"
            )
        return found, done

    def _gone(self) -> InvalidInputError:
        return InvalidInputError(f"{self._where} does not exist any more. {_STOPPED}")

    def _stored(self, rows: pa.Table) -> pa.Table:
        return stored_types(rows, self.narrowest)

    def _refuse_other_types(self, wanted: pa.Schema) -> None:
        known = {field.name: field.type for field in self._schema()}
        for field in wanted:
            there = known.get(field.name, field.type)
            if not _alike(there, field.type):
                raise InvalidInputError(
                    f"{self._where}: column {field.name!r} has type {there}, but answers have {field.type}. Nothing "
                    "was written. Use another table, or change the column's type."
                )

    def _at_start(self, work: Any) -> Any:
        try:
            return work()
        except SkybandError:
            raise
        except Exception as error:
            raise InvalidInputError(f"{self._where} cannot be used: {cause_of(error)}. Nothing was written.") from error


_STOPPED = "The stream stopped; no answers are lost. Correct the problem and run it again."


def signature(query: Query) -> str:
    """Return a short text that is the same for equal queries.

    >>> import skyband as sb
    >>> big = sb.TopK(name="big", k=10, size="1 minute", by="price")
    >>> signature(big) == signature(sb.TopK(name="big", k=10, size="60 seconds", by="price"))
    True
    """
    text = json.dumps([query.name, query.to_dict()], sort_keys=True, default=str)
    return blake2b(text.encode(), digest_size=6).hexdigest()


def _alike(there: pa.DataType, here: pa.DataType) -> bool:
    """Whether values of one type are stored in a column of another; text is text in any layout."""
    texts = (pa.string(), pa.large_string(), pa.string_view())
    if there in texts:
        return here in texts
    if pa.types.is_timestamp(there) and pa.types.is_timestamp(here):
        return (there.tz is None) == (here.tz is None)
    return bool(there == here) or {there, here} <= {pa.binary(), pa.large_binary(), pa.binary_view()}
