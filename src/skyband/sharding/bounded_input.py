"""A bounded input through a shard in stream order: only what overlaps in time is in memory at once.

Envelopes come sorted by their oldest row, so nothing older than the next envelope's oldest row can follow. Time moves
there after each step: windows that end before it are answered, and rows that no later window needs are released. No row
is late, whatever the order in which files were written and read.
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

STEP_ROWS = 1 << 18  # a step ranks all rows held, so fewer new ones are not worth one
SLICE_ROWS = 1 << 13  # rows of an envelope; the fewer, the less of a badly ordered input overlaps in time


def step_in_order(arrived: Iterable[tuple[pa.Table, Note]], shard: Shard) -> Iterator[tuple[list[pa.Table], Tally]]:
    """Step a shard through all of its envelopes, which come by their oldest row, and to the end of the stream."""
    tables: list[pa.Table] = []
    notes: list[Note] = []
    rows = held = 0
    for table, note in arrived:
        # As many new rows as are held: however long the input, all steps together rank each row a few times.
        if rows >= max(STEP_ROWS, held) and note.oldest < NEVER:
            answers, tally = shard.step(tables, notes, None, next_watermark=note.oldest)
            yield answers, tally
            tables, notes, rows, held = [], [], 0, tally.candidates
        tables.append(table)
        notes.append(note)
        rows += table.num_rows
    yield shard.step(tables, notes, None, end=True)


def cut_by_time(envelope: Envelope, positions_of: Callable[[pa.Table], Ints]) -> Iterator[Envelope]:
    """A large envelope as several, each with the rows of a shorter stretch of time."""
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
    """The answers of several shards, in tables that each hold all there is about their windows.

    Tables come by the end of their first window, so that windows which end before the next table's first are complete.
    `end` is the column that says when a window ends.
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
