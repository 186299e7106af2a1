"""What the SAP engines hold: the window, its partitions, their candidates, and the S-AVLs of those in front.

Key to the paper's symbols: P_0 the front partition, P_m the open one, P^k the k best of a partition, C their union,
o_k the k-th of a partition, ``rho`` its group dominance number, M its meaningful objects, U a unit, ``tau`` the
threshold of the open unit, L what is kept of a unit, F_theta the k-th best key of what comes after a partition.
"""

from __future__ import annotations

from typing import NamedTuple

from skyband.kernels._jit import inner_kernel
from skyband.kernels.stream import Floats, Ints, KernelQuery
from skyband.topk.kernels.ring import Ring
from skyband.topk.kernels.savl import Savl

# Plan.mode: who decides where a partition ends
EQUAL = 0
DYNAMIC = 1
ENHANCED = 2

# Sap.registers
NEXT_END = 0  # the oldest unanswered window's end; meaningful while anything is held
SIDE = 1  # which half of the candidates is in use
CANDIDATES = 2  # their number: of closed partitions without the front one
FRONT = 3  # 1: part of the oldest partition has expired; it is the front partition, and its k best stand apart
FRONT_SIZE = 4
FORMED = 5  # 1: the front partition has an M
FRONT_UNIT = 6  # the unit of the front partition that is expiring
OLDEST_PART = 7  # partitions are numbered too
NEWEST_PART = 8  # one past the newest closed partition
OPEN_SIZE = 9  # the k best of the open partition, the open unit left out; 0: the open unit is all of it
OPEN_BEGIN = 10
OPEN_UNIT = 11  # its first unit
UNIT_SIZE = 12  # entries of the open unit's list
UNIT_ORDERED = 13  # so many of them are in order
UNIT_BEGIN = 14
CLOSE_AT = 15  # the open unit ends at the first cell boundary at or after this position …
LEAST = 16  # … where it has so many objects
BARRED = 17  # 1: the open unit's list lacks what lies below the bar
TAKEN_OVER = 18  # 1: the bar was taken over from an earlier unit (tau): the list may have fewer than k entries
FELL = 19  # 1: the bar that was taken over was too high for this unit
OLDEST_UNIT = 20
NEWEST_UNIT = 21
OLDEST_KEPT = 22  # entries of L are numbered as well
NEWEST_KEPT = 23
PLACE = 24  # the S-AVL of the front partition is at this place, that of the next at the other of 0 and 1
UNIT_PLACE = 25  # the same for units, at 2 and 3
NEXT_STATE = 26  # what becomes of the M of the partition after the front
UNIT_STATE = 27  # the same for the unit after FRONT_UNIT
FORM_UNIT = 28  # the unit of that partition that is scanned next
EVENT = 29  # until the window's start has come to this number, nothing has to be done but to move it
# Of each of the two S-AVLs in the making, the partition's and the unit's:
AT = 30  # all before this number is still to be scanned
PASSED = 32  # of the best ones, which are no part of it, so many have been passed
RHO = 34  # so many later objects beat whatever will be inside
HAS_FLOOR = 36  # 1: there is an F_theta
BEST_NUMBER = 38  # objects no worse than this one are no part of it
# Counts
PARTITIONS = 40
PARTITIONED = 41  # objects in them
LARGEST = 42
FORMATIONS = 43
SKIPPED = 44
UNITS = 45
UNITS_SCANNED = 46
UNITS_LISTED = 47
UNITS_SKIPPED = 48
INSERTIONS = 49
DELETIONS = 50
RELEARNED = 51
# The newest cell
CELL_BEGIN = 52  # the number of its first object
CELL_SIZE = 53  # objects kept of it when its bar was last learnt; 0: it has none
# The last answer
ANSWERED = 54  # its rows, or 0 if the next one cannot be made from it
ANSWER_OLDEST = 55  # no object in it has a lower number
ANSWER_UNIT = 56  # where the open unit began when it was made …
ANSWER_SEEN = 57  # … and how many entries its list had
REGISTERS = 58

# Sap.reals
BAR = 0
FLOOR = 1  # F_theta for each of the two S-AVLs in the making
BEST_KEY = 3  # with BEST_NUMBER
CELL_BAR = 5  # what is below it has k better objects in the newest cell, and is not kept
REALS = 6

# NEXT_STATE, UNIT_STATE
UNDECIDED = 0
FORMING = 1
READY = 2
NEEDLESS = 3

# The S-AVLs in the making
OF_PARTITION = 0
OF_UNIT = 1

# Units.kinds
NON_K_UNIT = 0
K_UNIT = 1
# Units.fates
UNSEEN = 0
SCANNED = 1
LISTED = 2
PASSED_OVER = 3


class SapPlan(NamedTuple):
    """What follows from the query, beside `KernelQuery`."""

    mode: int
    units: int  # that make a window; 0: m*
    counts: int  # 1: count windows, which have `size` objects
    keep: int  # entries that the open unit's list is cut back to: k, or zeta*
    limit: int  # when it has so many
    plenty: float  # more entries than this mean that scores rise (zeta_max)
    long_cells: int  # 1: cells can have many times k objects
    eta: float
    sample: int  # eta * k
    most_ranks: Ints  # [a, b]: T_up, for a of the open partition and b of the interval before it


class SapCandidates(NamedTuple):
    """C without the front and the open partition, best first, in one of two halves."""

    keys: Floats
    numbers: Ints
    dominated: Ints  # later or no earlier candidates that are better: below k, or it would be gone


class Front(NamedTuple):
    """What is left of the front partition's k best, best first, and behind them what was promoted from its M."""

    keys: Floats
    numbers: Ints
    dominated: Ints


class Opened(NamedTuple):
    """The k best of the open partition, best first, and the open unit's list."""

    keys: Floats
    numbers: Ints
    unit_keys: Floats
    unit_numbers: Ints


class Result(NamedTuple):
    """R: the last answer, best first."""

    keys: Floats
    numbers: Ints
    ids: Ints


class Parts(NamedTuple):
    """The closed partitions in a ring, a power of two."""

    begins: Ints  # numbers of objects
    ends: Ints
    best_keys: Floats  # o_k
    best_numbers: Ints
    beyond: Ints  # 1: it has objects beside its k best
    rho: Ints
    first_units: Ints
    last_units: Ints


class Units(NamedTuple):
    """The units of closed partitions and of the open one, in a ring, a power of two."""

    begins: Ints
    ends: Ints
    kinds: Ints
    fates: Ints  # what UBSA did with it
    tops: Floats  # the best key
    best_keys: Floats  # the k-th best object
    best_numbers: Ints
    floors: Floats  # no object above this key is missing from its list
    complete: Ints  # 1: all objects whatsoever are
    lists: Ints  # where its list begins in `Kept`
    lengths: Ints


class SapScratch(NamedTuple):
    """Room that holds nothing between two steps."""

    keys: Floats  # as much as the candidates and a list have
    numbers: Ints
    dominated: Ints
    cells: Ints
    order: Ints
    merged: Ints
    waiting: Ints


class Sap(NamedTuple):
    """All of it."""

    ring: Ring
    candidates: SapCandidates
    front: Front
    opened: Opened
    result: Result
    parts: Parts
    units: Units
    kept: Ints  # L: numbers of objects, ascending within a unit, in a ring, a power of two
    savl: Savl
    work: SapScratch
    reals: Floats
    registers: Ints


@inner_kernel
def cell_of(query: KernelQuery, position: int) -> int:
    """The stretch between two window starts that holds `position`: its objects expire together."""
    return (position - query.origin + query.size) // query.slide


@inner_kernel
def cell_begin(query: KernelQuery, position: int) -> int:
    """Where that stretch begins."""
    return query.origin - query.size + cell_of(query, position) * query.slide


@inner_kernel
def cell_end(query: KernelQuery, position: int) -> int:
    """Where that stretch ends."""
    return query.origin - query.size + (cell_of(query, position) + 1) * query.slide
