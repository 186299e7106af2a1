"""The data that a task sends to a shard: rows as Arrow bytes, and a note about the rows that the task dropped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from skyband.data.arrow import from_bytes
from skyband.errors import SnapshotError
from skyband.kernels.reduce import cells_of
from skyband.kernels.stream import Ints
from skyband.kernels.validation import first_backwards
from skyband.snapshot import decode, encode
from skyband.windows import ALWAYS

__all__ = [
    "Envelope",
    "Histogram",
    "Note",
    "expected_watermark",
    "gathered",
    "reading_envelope",
    "refuse_non_integers",
    "refuse_non_positions",
    "rows_of",
]

MILLISECOND = 1000  # watermarks are whole milliseconds
CHUNK_ROWS = 1 << 20
CHUNK_BYTES = 128 << 20
_KINDS = ("<u4", "<i8")
_MOST_COMPRESSED = 256  # bytes in one byte of LZ4, and at least one byte is there


class Histogram(NamedTuple):
    """Number of rows per millisecond, to count the rows behind any watermark."""

    begin: int  # the first millisecond with a row
    size: int  # number of milliseconds with rows
    kind: str  # type of the numbers in `steps`
    steps: bytes  # distances between milliseconds with rows, then the number of rows in each; compressed

    @classmethod
    def of(cls, positions: Ints) -> Histogram:
        """The histogram of rows at these positions."""
        ordered = positions if first_backwards(positions, ALWAYS) < 0 else np.sort(positions)
        steps = np.empty((2, ordered.size), np.int64)
        steps = steps[:, : cells_of(ordered, MILLISECOND, steps[0], steps[1])]
        begin = int(ordered[0] // MILLISECOND) if ordered.size else 0
        return cls._packed(begin, steps)

    @classmethod
    def joined(cls, histograms: Iterable[Histogram]) -> Histogram:
        """The histogram of the rows of several histograms.

        >>> both = Histogram.joined([Histogram.of(np.array([1000, 1500])), Histogram.of(np.array([500, 1999]))])
        >>> both.before(1000), both.before(2000)
        (1, 4)
        """
        found = [histogram._cells() for histogram in histograms if histogram.size]
        if not found:
            return cls.of(np.empty(0, np.int64))
        cells, places = np.unique(np.concatenate([cells for cells, _ in found]), return_inverse=True)
        steps = np.zeros((2, cells.size), np.int64)
        steps[0, 1:] = np.diff(cells)
        np.add.at(steps[1], places, np.concatenate([counts for _, counts in found]))
        return cls._packed(int(cells[0]), steps)

    def before(self, position: int) -> int:
        """Number of rows before `position`, which is a whole millisecond."""
        if not self.size or self.begin * MILLISECOND >= position:
            return 0
        cells, counts = self._cells()
        return int(counts[: np.searchsorted(cells * MILLISECOND, position)].sum())

    def refuse_other_types(self) -> None:
        """Raise TypeError or ValueError if a field cannot be one of a histogram."""
        refuse_non_integers([self.begin, self.size])
        if self.kind not in _KINDS or not isinstance(self.steps, bytes):
            raise TypeError(f"steps of a histogram are bytes of numbers {_KINDS}, got {self.kind!r}")
        if not 0 <= 2 * self.size * np.dtype(self.kind).itemsize <= _MOST_COMPRESSED * len(self.steps):
            raise ValueError(f"{len(self.steps)} bytes cannot contain a histogram of {self.size} milliseconds")

    @classmethod
    def _packed(cls, begin: int, steps: Ints) -> Histogram:
        kind = _KINDS[0] if steps.max(initial=0) < 2**32 else _KINDS[1]
        data = pa.compress(steps.astype(kind).tobytes(), codec="lz4", asbytes=True)
        return cls(begin, int(steps.shape[1]), kind, data)

    def _cells(self) -> tuple[Ints, Ints]:
        """The milliseconds with rows, and the number of rows in each."""
        with reading_envelope("histogram"):
            data = pa.decompress(self.steps, 2 * self.size * np.dtype(self.kind).itemsize, codec="lz4", asbytes=True)
        steps, counts = np.frombuffer(data, self.kind).astype(np.int64).reshape(2, -1)
        return self.begin + np.cumsum(steps), counts


@dataclass(frozen=True)
class Note:
    """Facts about all rows of a range of the input, including dropped ones. Families extend it.

    Notes are sent within a micro-batch and never stored, so they have no version.
    """

    newest: int
    oldest: int  # of the rows that some query ranks
    histogram: Histogram | None = None  # None: late rows are counted elsewhere, or there are none

    def to_bytes(self) -> bytes:
        """Serialize the note."""
        return encode({**vars(self), "histogram": self.histogram and self.histogram._asdict()})

    @classmethod
    def joined(cls, notes: Sequence[Self]) -> Self:
        """Return one note with the facts of several. Families that extend a note replace this."""
        return cls(**cls._shared(notes))

    @staticmethod
    def _shared(notes: Sequence[Note]) -> dict[str, Any]:
        """Return the joined fields that all notes have."""
        histograms = [note.histogram for note in notes if note.histogram is not None]
        return {
            "newest": max(note.newest for note in notes),
            "oldest": min(note.oldest for note in notes),
            "histogram": Histogram.joined(histograms) if histograms else None,
        }

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Deserialize a note of this type."""
        with reading_envelope("note"):
            saved = decode(data)
            note = cls(**{**saved, "histogram": saved["histogram"] and Histogram(**saved["histogram"])})
            note.refuse_other_types()
        return note

    def refuse_other_types(self) -> None:
        """Raise TypeError or ValueError if a field is not of its type. Families that extend a note extend this."""
        refuse_non_integers([self.newest, self.oldest])
        if self.histogram is not None:
            self.histogram.refuse_other_types()


def expected_watermark(notes: Iterable[Note], delay: int | None) -> int | None:
    """Return a lower bound of the watermark after a micro-batch with these notes; None if it is unknown.

    Windows that end by then can be answered now: all rows before the new watermark have arrived, and rows of the next
    micro-batch are late if they are before it. `delay` is the watermark's; None if it also depends on other streams.

    >>> note = Note(newest=5_000_700, oldest=0)
    >>> expected_watermark([note], delay=2_000_000)
    3000000
    >>> expected_watermark([note], None), expected_watermark([], 0)
    (None, None)
    """
    newest = max((note.newest for note in notes), default=ALWAYS)
    if delay is None or newest == ALWAYS:
        return None
    at = newest // MILLISECOND * MILLISECOND - delay
    return at if at > 0 else None  # Spark's watermark is never before 1970


@contextmanager
def reading_envelope(part: str) -> Iterator[None]:
    """Convert any error inside to a SnapshotError about a damaged part of an envelope."""
    try:
        yield
    except Exception as error:
        raise SnapshotError(
            f"the {part} of an envelope arrived damaged at a task ({type(error).__name__}: {error}). The micro-batch "
            "was not answered. Run it again: it is repeated from its files. If that recurs, check the memory and the "
            "network of the machines."
        ) from error


def rows_of(data: bytes | pa.Buffer) -> pa.Table:
    """Return the rows of an envelope from Arrow IPC bytes.

    >>> from skyband.data.arrow import to_bytes
    >>> rows_of(to_bytes(pa.table({"a": [1]}))).num_rows
    1
    """
    with reading_envelope("rows"):
        return from_bytes(data)


def refuse_non_integers(values: Iterable[Any]) -> None:
    """Raise TypeError if a value is not an integer."""
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"expected an integer, got {value!r}")


def refuse_non_positions(*arrays: Any) -> None:
    """Raise TypeError if a value is not an array of 64-bit integers with one dimension."""
    for array in arrays:
        if not isinstance(array, np.ndarray) or array.dtype != np.int64 or array.ndim != 1:
            raise TypeError(f"expected an array of positions, got {array!r}")


class Envelope(NamedTuple):
    """Rows for one shard."""

    shard: int
    rows: pa.Table
    note: Note
    taken: int
    dropped_null: int
    pruned: int


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Combine batches into larger tables: the longer the range, the larger the share of rows that can be dropped."""
    some: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        some.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield pa.Table.from_batches(some)
            some, rows, size = [], 0, 0
    if some:
        yield pa.Table.from_batches(some)
