"""HyperLogLog: estimates of the number of distinct values from the leading zeros of their hashes.

The first `PRECISION` bits of a hash choose a register, and a register holds the largest *rank*, one more than the
number of zeros before the first one in the remaining bits. A register and a rank together are one integer, a *code*.
The estimate is that of Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017), which needs
neither tables nor a correction for few values. Its standard error is about 1.04 / sqrt(registers).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Ints

PRECISION = 10
REGISTERS = 1 << PRECISION
RANKS = 64 - PRECISION + 1  # the highest rank: no bit of the rest is set
SCRATCH = REGISTERS + RANKS + 1  # the registers, and how many of them have each rank
_SHIFT = 6  # bits of a code for the rank
_CHOICE = np.uint64(64 - PRECISION)
_ONE, _TOP = np.uint64(1), np.uint64(1 << (63 - PRECISION))


@kernel
def write_codes(hashes: Any, codes: Ints) -> None:
    """Write the register and the rank of each unsigned hash as one integer."""
    for i in range(hashes.size):
        rank, bit = 1, _TOP
        while bit and not hashes[i] & bit:
            rank += 1
            bit >>= _ONE
        codes[i] = (np.int64(hashes[i] >> _CHOICE) << _SHIFT) | rank


@kernel
def estimate(codes: Ints, size: int, registers: Ints) -> float:
    """Return the estimate, rounded, from the codes of a key's values. `registers` is scratch, of size `SCRATCH`."""
    registers[:] = 0
    for i in range(size):
        register = codes[i] >> _SHIFT
        registers[register] = max(registers[register], codes[i] & ((1 << _SHIFT) - 1))
    # The estimate depends only on how many registers have each rank.
    for register in range(REGISTERS):
        registers[REGISTERS + registers[register]] += 1
    if registers[REGISTERS] == REGISTERS:
        return 0.0
    total = REGISTERS * _beyond(1.0 - registers[REGISTERS + RANKS] / REGISTERS)
    for rank in range(RANKS - 1, 0, -1):
        total = 0.5 * (total + registers[REGISTERS + rank])
    total += REGISTERS * _below(registers[REGISTERS] / REGISTERS)
    return math.floor(REGISTERS * REGISTERS / (2.0 * math.log(2.0) * total) + 0.5)


@kernel
def _below(share: float) -> float:
    """Ertl's sigma: what registers that are still empty add, for this share of them."""
    if share == 1.0:
        return np.inf
    factor, found = 1.0, share
    while True:
        share *= share
        before = found
        found += share * factor
        factor += factor
        if found == before:
            return found


@kernel
def _beyond(share: float) -> float:
    """Ertl's tau: what registers with the highest rank add, for the share of the others."""
    if share in (0.0, 1.0):
        return 0.0
    factor, found = 1.0, 1.0 - share
    while True:
        share = math.sqrt(share)
        before = found
        factor *= 0.5
        found -= (1.0 - share) ** 2 * factor
        if found == before:
            return found / 3.0
