"""What the tuples of each rule come to in the newest window: more than 1 is refused before it is taken in.

Any tuple may meet any other of its rule in some window if less than the window's size lies between them, whichever
windows are run. Probabilities are counted in whole units of 2**-52, so that what was added can be taken away again
without a trace.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Ints

UNITS = 2.0**52

# Ledger.registers
HEAD = 0  # the oldest entry that counts
TAIL = 1  # where the next one is written


class RuleLedger(NamedTuple):
    """The tuples of the newest window that have a rule, oldest first, and the sum and number of each rule's."""

    positions: Ints
    rules: Ints
    units: Ints
    sums: Ints  # per rule
    counts: Ints  # per rule
    registers: Ints


def empty_ledger(entries: int, rules: int) -> RuleLedger:
    """Room for so many tuples and rules."""
    return RuleLedger._make(np.zeros(room, np.int64) for room in (entries, entries, entries, rules, rules, 2))


@kernel
def admit(ledger: RuleLedger, size: int, positions: Ints, rules: Ints, units: Ints, limit: int) -> int:
    """Enter tuples in the order of their positions, there is room for them; or return the first that is too much.

    Then nothing is entered, and everything is as it was.
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
    if wrong >= 0:
        for entry in range(max(head, begin), tail):
            ledger.sums[ledger.rules[entry]] -= ledger.units[entry]
            ledger.counts[ledger.rules[entry]] -= 1
        for entry in range(first, min(head, begin)):
            ledger.sums[ledger.rules[entry]] += ledger.units[entry]
            ledger.counts[ledger.rules[entry]] += 1
        return wrong
    ledger.registers[HEAD], ledger.registers[TAIL] = head, tail
    return -1
