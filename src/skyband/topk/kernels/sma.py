"""SMA's kernel: a small skyband that is refilled from an index over the whole window when it runs short.

The index is the paper's grid for a given score: cells by score, and in each cell a chain of its objects, oldest first.
Objects expire in order of arrival, so the next object to expire is always the first of its cell's chain.
"""

from __future__ import annotations

from typing import NamedTuple

from skyband.kernels._jit import kernel
from skyband.kernels.order import beats
from skyband.kernels.select import bring_best_forward, sort_best_first
from skyband.kernels.stream import (
    ANSWERS_FULL,
    DONE,
    STATE_FULL,
    Answers,
    Floats,
    Ints,
    KernelQuery,
    Rows,
    end_after,
    has_room,
    id_at,
    is_reported,
    position_at,
)
from skyband.topk.kernels import kskyband
from skyband.topk.kernels.dominance_counts import count_dominators
from skyband.topk.kernels.kskyband import Band, enter, write_answer

# Grid.registers
HEAD = 0  # the number of the oldest object in the window; objects are numbered in order of arrival
TAIL = 1  # one after the newest
CELLS = 2  # cells in use
BUILT = 3  # number of objects when the cells were last built
STRAYED = 4  # objects that refills have visited since then, beyond the cost of balanced cells
NEXT_END = 5  # the end of the oldest unanswered window; defined while any objects are held
COMPLETE = 6  # 1: the skyband is complete; 0: it contains only objects at or above the bar
BAR_POSITION = 7
BAR_ID = 8
REFILLS = 9
REFILL_VISITS = 10  # objects visited by refills
REDRAWS = 11  # how many times the cells were rebuilt
REGISTERS = 12

SHALLOWEST = 16  # minimum number of objects a cell is sized for
SAMPLED = 8  # sampled objects per cell


class Grid(NamedTuple):
    """All objects of the window: number o is stored at ``o % capacity``; the capacity is a power of two."""

    keys: Floats
    positions: Ints
    ids: Ints
    follower: Ints  # the number of the next object of the same cell; undefined for the cell's newest
    cell: Ints
    bounds: Floats  # per cell: the lowest key of the next better cell
    oldest: Ints  # per cell: the number of its oldest object; undefined if the cell is empty
    newest: Ints
    counts: Ints
    bar: Floats  # one number, with BAR_POSITION and BAR_ID: what a new object must beat unless COMPLETE
    registers: Ints


class SmaScratch(NamedTuple):
    """Scratch space for selection, as long as the grid; not used between two refills."""

    keys: Floats
    positions: Ints
    ids: Ints
    order: Ints
    merged: Ints
    waiting: Ints  # for sorting


@kernel
def cell_of(grid: Grid, key: float) -> int:
    """The cell of a key: a higher cell is better. Equal keys share a cell."""
    low, high = 0, grid.registers[CELLS] - 1
    while low < high:
        middle = (low + high) // 2
        if grid.bounds[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def link(grid: Grid, number: int) -> None:
    """Append an object, the newest one, to its cell."""
    at = number & (grid.keys.size - 1)
    cell = cell_of(grid, grid.keys[at])
    grid.cell[at] = cell
    if grid.counts[cell] == 0:
        grid.oldest[cell] = number
    else:
        grid.follower[grid.newest[cell] & (grid.keys.size - 1)] = number
    grid.newest[cell] = number
    grid.counts[cell] += 1


@kernel
def unlink_oldest(grid: Grid) -> None:
    """Remove the oldest object from its cell, where it is the first, and from the window."""
    at = grid.registers[HEAD] & (grid.keys.size - 1)
    cell = grid.cell[at]
    grid.oldest[cell] = grid.follower[at]
    grid.counts[cell] -= 1
    grid.registers[HEAD] += 1


@kernel
def draw_cells(grid: Grid, work: SmaScratch, k: int) -> None:
    """Choose cells of about equal size from a sample of the objects held, and assign all objects to them."""
    r = grid.registers
    head, held = r[HEAD], r[TAIL] - r[HEAD]
    cells = max(1, min(grid.counts.size, held // max(SHALLOWEST, k)))
    # Sample one object from each of equal ranges, at a pseudo-random offset, to avoid periods of the stream.
    sampled = min(held, SAMPLED * cells)
    random = r[TAIL] & 0x7FFFFFFF
    for i in range(sampled):
        low, high = held * i // sampled, held * (i + 1) // sampled
        random = (random * 1103515245 + 12345) & 0x7FFFFFFF
        at = (head + low + (random >> 8) % (high - low)) & (grid.keys.size - 1)
        work.keys[i], work.positions[i], work.ids[i] = grid.keys[at], grid.positions[at], grid.ids[at]
    sort_best_first(work.keys, work.positions, work.ids, 0, sampled, work.waiting)
    for cell in range(cells):
        grid.counts[cell] = 0
        if cell + 1 < cells:
            grid.bounds[cell] = work.keys[sampled - 1 - (cell + 1) * sampled // cells]
    r[CELLS], r[BUILT], r[STRAYED] = cells, held, 0
    r[REDRAWS] += 1
    for number in range(head, r[TAIL]):
        link(grid, number)


@kernel
def refill(grid: Grid, band: Band, work: SmaScratch, k: int) -> None:
    """Fill the skyband with the 2k best objects of the window, except those that k of them dominate."""
    r = grid.registers
    held, most = r[TAIL] - r[HEAD], 2 * k
    visited, cell = 0, r[CELLS]
    while cell > 0 and visited < most:
        cell -= 1
        number = grid.oldest[cell]
        for _ in range(grid.counts[cell]):
            at = number & (grid.keys.size - 1)
            work.keys[visited], work.positions[visited], work.ids[visited] = (
                grid.keys[at],
                grid.positions[at],
                grid.ids[at],
            )
            number = grid.follower[at]
            visited += 1
    best = min(most, visited)
    bring_best_forward(work.keys, work.positions, work.ids, visited, best)
    sort_best_first(work.keys, work.positions, work.ids, 0, best, work.waiting)
    oldest = work.positions[0]
    for i in range(best):
        band.keys[i], band.positions[i], band.ids[i] = work.keys[i], work.positions[i], work.ids[i]
        oldest = min(oldest, work.positions[i])
    grid.bar[0], r[BAR_POSITION], r[BAR_ID] = work.keys[best - 1], work.positions[best - 1], work.ids[best - 1]
    r[COMPLETE] = 1 if best == held else 0
    count_dominators(band.positions, best, work.order, work.merged, band.dominated)
    kept = 0
    for i in range(best):
        if band.dominated[i] < k:
            band.keys[kept], band.positions[kept], band.ids[kept] = band.keys[i], band.positions[i], band.ids[i]
            band.dominated[kept] = band.dominated[i]
            kept += 1
    band.registers[kskyband.SIZE], band.registers[kskyband.OLDEST] = kept, oldest
    r[REFILLS] += 1
    r[REFILL_VISITS] += visited
    # Visiting two extra cells is acceptable. Rebuilding the cells visits every object, so it waits until as many
    # objects have been visited without result.
    r[STRAYED] += max(0, visited - best - 2 * (r[BUILT] // r[CELLS] + 1))
    if r[STRAYED] > held:
        draw_cells(grid, work, k)


@kernel
def consider(grid: Grid, band: Band, k: int, key: float, position: int, id_: int) -> None:
    """Insert a new object into the skyband if it beats the bar; a skyband that exceeds its size raises the bar."""
    r = grid.registers
    if not r[COMPLETE] and not beats(key, position, id_, grid.bar[0], r[BAR_POSITION], r[BAR_ID]):
        return
    enter(band, k, key, position, id_)
    last = band.registers[kskyband.SIZE] - 1
    if last == 2 * k:
        band.registers[kskyband.SIZE] = last
        grid.bar[0], r[BAR_POSITION], r[BAR_ID] = band.keys[last - 1], band.positions[last - 1], band.ids[last - 1]
        r[COMPLETE] = 0


@kernel
def purge(grid: Grid, band: Band, live_from: int) -> None:
    """Drop all objects before position `live_from`."""
    r = grid.registers
    while r[TAIL] > r[HEAD] and grid.positions[r[HEAD] & (grid.keys.size - 1)] < live_from:
        unlink_oldest(grid)
    kskyband.purge(band, live_from)
    if r[TAIL] == r[HEAD]:
        r[COMPLETE] = 1


@kernel
def advance(
    grid: Grid,
    band: Band,
    work: SmaScratch,
    query: KernelQuery,
    rows: Rows,
    at: int,
    watermark: int,
    first: int,
    answers: Answers,
) -> tuple[int, int]:
    """Process the rows from index `at` on and answer all windows that end at or before the watermark."""
    r, n, k, i = grid.registers, rows.keys.size, query.k, at
    while True:
        due = position_at(rows, i) if i < n else watermark
        while r[TAIL] > r[HEAD] and r[NEXT_END] <= due:
            end = r[NEXT_END]
            if is_reported(query, end, first):
                answered = min(k, r[TAIL] - r[HEAD])
                if not has_room(answers, answered):
                    return ANSWERS_FULL, i
                if band.registers[kskyband.SIZE] < answered:
                    refill(grid, band, work, k)
                write_answer(band, k, end, answers)
            r[NEXT_END] = end + query.slide
            purge(grid, band, end + query.slide - query.size)
        if i == n:
            return DONE, n
        if r[TAIL] == r[HEAD]:
            r[NEXT_END] = end_after(query, due)
        while i < n:
            position = position_at(rows, i)
            if position >= r[NEXT_END]:
                break
            held = r[TAIL] - r[HEAD]
            if held == grid.keys.size:
                return STATE_FULL, i
            if held > 2 * (r[BUILT] + SHALLOWEST):
                draw_cells(grid, work, k)
            key, id_ = rows.keys[i], id_at(rows, i)
            slot = r[TAIL] & (grid.keys.size - 1)
            grid.keys[slot], grid.positions[slot], grid.ids[slot] = key, position, id_
            link(grid, r[TAIL])
            r[TAIL] += 1
            if r[COMPLETE] or key >= grid.bar[0]:
                consider(grid, band, k, key, position, id_)
            i += 1
