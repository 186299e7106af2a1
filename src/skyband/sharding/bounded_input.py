"""Process a bounded input in stream order, so that only rows that overlap in time are in memory.

Envelopes are sorted by their oldest row, so no row older than the next envelope's oldest row can follow. Time advances
to that position after each step: windows that end before it are answered, and rows that no later window needs are
dropped. No row is late, whatever the order in which files were written and read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.kernels.stream import Ints
from skyband.sharding.envelope import Envelope, Note
from skyband.sharding.shard import Shard, Tally
from skyband.windows import NEVER

__all__ = ["complete_windows", "cut_by_time", "step_in_order"]

STEP_ROWS = 1 << 18  # a step ranks all stored rows, so it waits for at least this many new ones
SLICE_ROWS = 1 << 13  # rows per envelope; with fewer rows, less of a badly ordered input overlaps in time


def step_in_order(arrived: Iterable[tuple[pa.Table, Note]], shard: Shard) -> Iterator[tuple[list[pa.Table], Tally]]:
    """Step a shard through its envelopes, sorted by their oldest row, to the end of the stream."""
    tables: list[pa.Table] = []
    notes: list[Note] = []
    rows = held = 0
    for table, note in arrived:
        # Wait for as many new rows as are stored, so that each row is ranked only a few times however long the input
        # is.
        if rows >= max(STEP_ROWS, held) and note.oldest < NEVER:
            answers, tally = shard.step(tables, notes, None, next_watermark=note.oldest)
            yield answers, tally
            tables, notes, rows, held = [], [], 0, tally.candidates
        tables.append(table)
        notes.append(note)
        rows += table.num_rows
    yield shard.step(tables, notes, None, end=True)


def cut_by_time(envelope: Envelope, positions_of: Callable[[pa.Table], Ints]) -> Iterator[Envelope]:
    """Split a large envelope into several with shorter time ranges."""
    table = envelope.rows
    if table.num_rows <= SLICE_ROWS:
        yield envelope
        return
    positions = positions_of(table)
    order = np.argsort(positions, kind="stable")
    for low in range(0, order.size, SLICE_ROWS):
        part = table.take(pa.array(order[low : low + SLICE_ROWS]))
        if low == 0:
            yield envelope._replace(rows=part)
            continue
        note = type(envelope.note)(envelope.note.newest, int(positions[order[low]]))  # the first note has the rest
        yield Envelope(envelope.shard, part, note, 0, 0, 0)


def complete_windows(arrived: Iterable[tuple[int, pa.Table]], end: str) -> Iterator[pa.Table]:
    """Combine the answers of several shards into tables that contain complete windows.

    Tables arrive ordered by the end of their first window, so windows that end before the next table's first one are
    complete. `end` is the column with the window end.
    """
    waiting: list[pa.Table] = []
    rows = left = 0
    for first, table in arrived:
        if rows >= max(STEP_ROWS, left):
            together = pa.concat_tables(waiting, promote_options="default")
            ended = pc.less(together[end], first)
            if (complete := together.filter(ended)).num_rows:
                yield complete
            waiting = [together.filter(pc.invert(ended))]
            rows, left = 0, waiting[0].num_rows
        waiting.append(table)
        rows += table.num_rows
    if any(table.num_rows for table in waiting):
        yield pa.concat_tables(waiting, promote_options="default")
