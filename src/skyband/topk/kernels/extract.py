"""The result extractor: reads each query's answer from the candidates that all queries share."""

from __future__ import annotations

from skyband.kernels._jit import kernel
from skyband.kernels.order import beats
from skyband.kernels.stream import ROWS, Answers, Queries, close_window, has_room
from skyband.topk.kernels.candidates import (
    ANSWERED,
    BLOCK,
    BLOCK_SIDE,
    NEWEST,
    SIDE,
    STANDING,
    Held,
    PanesPlan,
    PanesScratch,
)
from skyband.topk.kernels.listed import start_for
from skyband.topk.kernels.moments import Moments


@kernel
def write_answer(held: Held, work: PanesScratch, k: int, start: int, answers: Answers) -> None:
    """Write the k best objects at or after `start`."""
    r = held.registers
    side, block, in_block = r[SIDE], r[BLOCK_SIDE], r[BLOCK]
    keys, positions, ids = held.keys[side], held.positions[side], held.ids[side]
    block_keys, block_positions, block_ids = held.block_keys[block], held.block_positions[block], held.block_ids[block]
    picked, to_keys, to_ids = work.picked, answers.keys, answers.ids
    found, i = 0, 0
    while i < r[STANDING] and found < k:
        picked[found] = i
        found += positions[i] >= start
        i += 1
    at = answers.cursor[ROWS]
    stop = at + k
    mine, j = 0, 0
    while at < stop:
        while j < in_block and block_positions[j] < start:
            j += 1
        if j == in_block:
            break
        # The block's best that is left goes in after all standing ones that beat it.
        key, position, id_ = block_keys[j], block_positions[j], block_ids[j]
        while at < stop and mine < found:
            i = picked[mine]
            if not beats(keys[i], positions[i], ids[i], key, position, id_):
                break
            to_keys[at], to_ids[at] = keys[i], ids[i]
            at += 1
            mine += 1
        if at < stop:
            to_keys[at], to_ids[at] = key, id_
            at += 1
            j += 1
    for rest in range(mine, min(found, mine + stop - at)):
        to_keys[at], to_ids[at] = keys[picked[rest]], ids[picked[rest]]
        at += 1
    answers.cursor[ROWS] = at


@kernel
def write_tied_answer(held: Held, k: int, start: int, answers: Answers) -> bool:
    """Write the k best objects at or after `start` and all that equal the k-th; False, and nothing, without room."""
    r = held.registers
    side, block, standing, in_block = r[SIDE], r[BLOCK_SIDE], r[STANDING], r[BLOCK]
    keys, positions, ids = held.keys[side], held.positions[side], held.ids[side]
    block_keys, block_positions, block_ids = held.block_keys[block], held.block_positions[block], held.block_ids[block]
    to_keys, to_ids = answers.keys, answers.ids
    at = answers.cursor[ROWS]
    stop = at + k
    i, j = 0, 0
    while True:
        while i < standing and positions[i] < start:
            i += 1
        while j < in_block and block_positions[j] < start:
            j += 1
        if i == standing and j == in_block:
            break
        older = j == in_block or (
            i < standing and beats(keys[i], positions[i], ids[i], block_keys[j], block_positions[j], block_ids[j])
        )
        key = keys[i] if older else block_keys[j]
        if at >= stop and key < to_keys[stop - 1]:
            break
        # How many will tie nobody knows before, and all that is held would be too much to ask for.
        if at == to_keys.size:
            return False
        to_keys[at] = key
        to_ids[at] = ids[i] if older else block_ids[j]
        at += 1
        i += older
        j += not older
    answers.cursor[ROWS] = at
    return True


@kernel
def write_window(held: Held, plan: PanesPlan, work: PanesScratch, k: int, start: int, answers: Answers) -> bool:
    """Write the rows of the window that begins at `start`; False where there is no room."""
    if plan.ties is not None:
        return has_room(answers, 0) and write_tied_answer(held, k, start, answers)
    if not has_room(answers, min(k, held.registers[STANDING] + held.registers[BLOCK])):
        return False
    write_answer(held, work, k, start, answers)
    return True


@kernel
def answer_moment(
    held: Held, queries: Queries, moments: Moments, plan: PanesPlan, work: PanesScratch, first: int, answers: Answers
) -> bool:
    """Answer the queries that are due first; False where there is no room for more rows, to go on from there later."""
    r, lattice = held.registers, moments.heap[0]
    end = moments.due[lattice]
    while moments.begins[lattice] + r[ANSWERED] < moments.begins[lattice + 1]:
        query = moments.members[moments.begins[lattice] + r[ANSWERED]]
        start = start_for(queries, plan.listed, query, end)
        reported = not queries.full_only[query] or start >= first
        if reported and queries.since[query] <= start <= r[NEWEST]:
            if not write_window(held, plan, work, queries.ks[query], start, answers):
                return False
            close_window(answers, query, end)
        r[ANSWERED] += 1
    r[ANSWERED] = 0
    return True
