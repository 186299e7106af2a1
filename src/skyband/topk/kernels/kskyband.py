"""The k-skyband's kernel: candidates sorted best first, each with the number of better objects after it."""

from __future__ import annotations

from typing import NamedTuple

from skyband.kernels._jit import kernel
from skyband.kernels.order import beats
from skyband.kernels.stream import (
    ANSWERS_FULL,
    DONE,
    STATE_FULL,
    Answers,
    Floats,
    Ints,
    KernelQuery,
    Rows,
    close_window,
    end_after,
    has_room,
    id_at,
    is_reported,
    position_at,
    write_row,
)

# Band.registers
SIZE = 0  # candidates held
OLDEST = 1  # lower bound of the candidates' positions; defined while any are held
NEXT_END = 2  # the end of the oldest unanswered window; defined while any are held
REGISTERS = 3


class Band(NamedTuple):
    """The candidates from 0 to SIZE, best first."""

    keys: Floats
    positions: Ints
    ids: Ints
    dominated: Ints  # number of better objects that arrived later; a candidate is dropped when it reaches k
    registers: Ints


@kernel
def place_of(band: Band, key: float, position: int, id_: int) -> int:
    """Index at which to insert a new object: after the candidates that beat it, before one that is equal to it."""
    low, high = 0, band.registers[SIZE]
    while low < high:
        middle = (low + high) // 2
        if beats(band.keys[middle], band.positions[middle], band.ids[middle], key, position, id_):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def enter(band: Band, k: int, key: float, position: int, id_: int) -> None:
    """Insert the stream's newest object and increment the count of every candidate behind it. There must be room."""
    keys, positions, ids, dominated, r = band.keys, band.positions, band.ids, band.dominated, band.registers
    size = r[SIZE]
    if size == 0:
        r[OLDEST] = position
    at, count = place_of(band, key, position, id_), 0
    # Shift each candidate back by one, up to the first that is dropped; candidates behind that one need not move.
    while at < size and dominated[at] + 1 < k:
        next_key, next_position, next_id, next_count = keys[at], positions[at], ids[at], dominated[at] + 1
        keys[at], positions[at], ids[at], dominated[at] = key, position, id_, count
        key, position, id_, count = next_key, next_position, next_id, next_count
        at += 1
    keys[at], positions[at], ids[at], dominated[at] = key, position, id_, count
    kept = at + 1
    for i in range(kept, size):
        count = dominated[i] + 1
        if count < k:
            dominated[kept] = count
            if kept < i:
                keys[kept], positions[kept], ids[kept] = keys[i], positions[i], ids[i]
            kept += 1
    r[SIZE] = kept


@kernel
def purge(band: Band, live_from: int) -> None:
    """Drop the candidates with a position before `live_from`; costs nothing if there are none."""
    keys, positions, ids, dominated, r = band.keys, band.positions, band.ids, band.dominated, band.registers
    if r[SIZE] == 0 or r[OLDEST] >= live_from:
        return
    kept, oldest = 0, positions[0]
    for i in range(r[SIZE]):
        if positions[i] >= live_from:
            oldest = positions[i] if kept == 0 else min(oldest, positions[i])
            keys[kept], positions[kept], ids[kept], dominated[kept] = keys[i], positions[i], ids[i], dominated[i]
            kept += 1
    r[SIZE], r[OLDEST] = kept, oldest


@kernel
def write_answer(band: Band, k: int, end: int, answers: Answers) -> None:
    """Write the k best candidates, which all belong to the window that ends at `end`."""
    for i in range(min(k, band.registers[SIZE])):
        write_row(answers, band.keys[i], band.ids[i])
    close_window(answers, 0, end)


@kernel
def advance(
    band: Band, query: KernelQuery, rows: Rows, at: int, watermark: int, first: int, answers: Answers
) -> tuple[int, int]:
    """Process the rows from index `at` on and answer all windows that end at or before the watermark."""
    r, n, i = band.registers, rows.keys.size, at
    while True:
        due = position_at(rows, i) if i < n else watermark
        while r[SIZE] > 0 and r[NEXT_END] <= due:
            end = r[NEXT_END]
            if is_reported(query, end, first):
                if not has_room(answers, min(query.k, r[SIZE])):
                    return ANSWERS_FULL, i
                write_answer(band, query.k, end, answers)
            r[NEXT_END] = end + query.slide
            purge(band, end + query.slide - query.size)
        if i == n:
            return DONE, n
        if r[SIZE] == 0:
            r[NEXT_END] = end_after(query, due)
        while i < n:
            position = position_at(rows, i)
            if position >= r[NEXT_END]:
                break
            if r[SIZE] == band.keys.size:
                return STATE_FULL, i
            enter(band, query.k, rows.keys[i], position, id_at(rows, i))
            i += 1
