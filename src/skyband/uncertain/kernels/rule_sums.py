"""The probability sum of each rule in the newest window. Tuples that would make a sum exceed 1 are rejected.

Two tuples of a rule can be in the same window if their distance is less than the window size, independent of which
windows are answered. Probabilities are stored as integers in units of 2**-52, so additions and subtractions are exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Ints

UNITS = 2.0**52

# Ledger.registers
HEAD = 0  # index of the oldest valid entry
TAIL = 1  # index of the next entry


class RuleLedger(NamedTuple):
    """The tuples with a rule in the newest window, oldest first, and the sum and number of tuples per rule."""

    positions: Ints
    rules: Ints
    units: Ints
    sums: Ints  # per rule
    counts: Ints  # per rule
    registers: Ints


def empty_ledger(entries: int, rules: int) -> RuleLedger:
    """Return an empty ledger for `entries` tuples and `rules` rules."""
    return RuleLedger._make(np.zeros(room, np.int64) for room in (entries, entries, entries, rules, rules, 2))


@kernel
def withdraw(ledger: RuleLedger, first: int, begin: int) -> None:
    """Undo a call of `admit`; HEAD and TAIL were `first` and `begin` before."""
    head, tail = ledger.registers[HEAD], ledger.registers[TAIL]
    for entry in range(max(head, begin), tail):
        ledger.sums[ledger.rules[entry]] -= ledger.units[entry]
        ledger.counts[ledger.rules[entry]] -= 1
    for entry in range(first, min(head, begin)):
        ledger.sums[ledger.rules[entry]] += ledger.units[entry]
        ledger.counts[ledger.rules[entry]] += 1
    ledger.registers[HEAD], ledger.registers[TAIL] = first, begin


@kernel
def admit(ledger: RuleLedger, size: int, positions: Ints, rules: Ints, units: Ints, limit: int) -> int:
    """Add tuples sorted by position and return -1, or return the first row that makes a sum exceed `limit`.

    In the second case the ledger is unchanged. There must be space for all tuples.
    """
    first, begin = ledger.registers[HEAD], ledger.registers[TAIL]
    head, tail = first, begin
    wrong = -1
    for row in range(rules.size):
        while head < tail and ledger.positions[head] <= positions[row] - size:
            ledger.sums[ledger.rules[head]] -= ledger.units[head]
            ledger.counts[ledger.rules[head]] -= 1
            head += 1
        rule = rules[row]
        ledger.positions[tail], ledger.rules[tail], ledger.units[tail] = positions[row], rule, units[row]
        ledger.sums[rule] += units[row]
        ledger.counts[rule] += 1
        tail += 1
        if ledger.sums[rule] > limit:
            wrong = row
            break
    ledger.registers[HEAD], ledger.registers[TAIL] = head, tail
    if wrong >= 0:
        withdraw(ledger, first, begin)
    return wrong
