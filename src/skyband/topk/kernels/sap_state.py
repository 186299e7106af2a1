"""The state of the SAP engines: the window, its partitions, their candidates, and the S-AVLs of the front ones.

The paper's symbols: P_0 the front partition, P_m the open one, P^k the k best of a partition, C their union, o_k the
k-th of a partition, ``rho`` its group dominance number, M its meaningful objects, U a unit, ``tau`` the threshold of
the open unit, L the list of a unit, F_theta the k-th best key of the objects after a partition.
"""

from __future__ import annotations

from typing import NamedTuple

from skyband.kernels._jit import inner_kernel
from skyband.kernels.stream import Floats, Ints, KernelQuery
from skyband.topk.kernels.ring import Ring
from skyband.topk.kernels.savl import Savl

# Plan.mode: how partition ends are chosen
EQUAL = 0
DYNAMIC = 1
ENHANCED = 2

# Plan.forming: how the meaningful objects of a partition are found and kept
WITH_STACKS = 0  # when the partition is the next to expire, step by step, as an S-AVL
RESCANNED = 1  # when it begins to expire, by sorting it, as a sorted list
AT_ONCE = 2  # the same when the partition is closed

# Sap.registers
NEXT_END = 0  # the end of the oldest unanswered window; defined while any objects are held
SIDE = 1  # which half of the candidates is in use
CANDIDATES = 2  # number of candidates of closed partitions except the front one
FRONT = 3  # 1: part of the oldest partition has expired: it is the front partition; `front` has its k best
FRONT_SIZE = 4
FORMED = 5  # 1: the front partition has an M
FRONT_UNIT = 6  # the unit of the front partition that is expiring
OLDEST_PART = 7  # partitions are numbered, too
NEWEST_PART = 8  # one after the newest closed partition
OPEN_SIZE = 9  # number of the open partition's k best, without the open unit; 0: the open unit is the whole partition
OPEN_BEGIN = 10
OPEN_UNIT = 11  # its first unit
UNIT_SIZE = 12  # entries of the open unit's list
UNIT_ORDERED = 13  # how many of them are sorted
UNIT_BEGIN = 14
CLOSE_AT = 15  # the open unit ends at the first cell boundary at or after this position …
LEAST = 16  # … if it has at least this many objects
BARRED = 17  # 1: the open unit's list contains only objects at or above the bar
TAKEN_OVER = 18  # 1: the bar is inherited from an earlier unit (tau): the list may have fewer than k entries
FELL = 19  # 1: the inherited bar was too high for this unit
OLDEST_UNIT = 20
NEWEST_UNIT = 21
OLDEST_KEPT = 22  # entries of L are numbered, too
NEWEST_KEPT = 23
PLACE = 24  # place of the front partition's S-AVL, 0 or 1; the next partition's S-AVL is at the other
UNIT_PLACE = 25  # the same for units, at 2 and 3
NEXT_STATE = 26  # state of the M of the partition after the front
UNIT_STATE = 27  # the same for the unit after FRONT_UNIT
FORM_UNIT = 28  # the unit of that partition that is scanned next
EVENT = 29  # no work is due before the window's start reaches this number
# For each of the two S-AVLs under construction, the partition's and the unit's:
AT = 30  # objects before this number have not been scanned
PASSED = 32  # how many of the k best, which are not part of it, the scan has passed
RHO = 34  # number of later objects that beat every object in it
HAS_FLOOR = 36  # 1: F_theta exists
BEST_NUMBER = 38  # objects not worse than this one are not part of it
# Counts
PARTITIONS = 40
PARTITIONED = 41  # number of objects in them
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
CELL_SIZE = 53  # number of its objects when its bar was last set; 0: it has no bar
# The last answer
ANSWERED = 54  # number of its rows, or 0 if the next answer cannot be updated from it
ANSWER_OLDEST = 55  # lower bound of the numbers of its objects
ANSWER_UNIT = 56  # where the open unit began when the answer was computed …
ANSWER_SEEN = 57  # … and how many entries its list had
REGISTERS = 58

# Sap.reals
BAR = 0
FLOOR = 1  # F_theta for each of the two S-AVLs under construction
BEST_KEY = 3  # with BEST_NUMBER
CELL_BAR = 5  # an object below it has k better objects in the newest cell, and is not kept
REALS = 6

# NEXT_STATE, UNIT_STATE
UNDECIDED = 0
FORMING = 1
READY = 2
NEEDLESS = 3

# The S-AVLs under construction
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
    """Parameters derived from the query, in addition to `KernelQuery`."""

    mode: int
    units: int  # number of units per window; 0: m*
    counts: int  # 1: count windows, which contain `size` objects
    keep: int  # number of entries to which the open unit's list is cut: k, or zeta*
    limit: int  # number of entries at which it is cut
    plenty: float  # more entries than this indicate rising scores (zeta_max)
    long_cells: int  # 1: cells can contain many times k objects
    eta: float
    sample: int  # eta * k
    forming: int
    paired: float  # 0: the rank test; otherwise the quantile of the paired test
    most_ranks: Ints  # [a, b]: T_up, for a objects of the open partition and b of the interval before it


class SapCandidates(NamedTuple):
    """C without the front and the open partition, best first, stored in two halves of which one is in use."""

    keys: Floats
    numbers: Ints
    dominated: Ints  # number of better candidates that expire no earlier; a candidate is dropped when it reaches k


class Front(NamedTuple):
    """The front partition's remaining k best, best first, followed by the objects promoted from its M."""

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
    """The closed partitions in a ring whose capacity is a power of two."""

    begins: Ints  # numbers of objects
    ends: Ints
    best_keys: Floats  # o_k
    best_numbers: Ints
    beyond: Ints  # 1: it has more objects than its k best
    rho: Ints
    first_units: Ints
    last_units: Ints
    meaningful: Ints  # AT_ONCE: one more than the number of the best object of its M; 0: M is empty or in use


class Units(NamedTuple):
    """The units of closed partitions and of the open one, in a ring whose capacity is a power of two."""

    begins: Ints
    ends: Ints
    kinds: Ints
    fates: Ints  # what UBSA did with the unit
    tops: Floats  # the best key
    best_keys: Floats  # the k-th best object
    best_numbers: Ints
    floors: Floats  # all objects above this key are in its list
    complete: Ints  # 1: the list contains all objects of the unit
    lists: Ints  # where its list begins in `Kept`
    lengths: Ints


class SapScratch(NamedTuple):
    """Scratch space; not used between two steps."""

    keys: Floats  # as long as the candidates and a list together
    numbers: Ints
    dominated: Ints
    cells: Ints
    order: Ints
    merged: Ints
    waiting: Ints


class Sap(NamedTuple):
    """The complete state."""

    ring: Ring
    candidates: SapCandidates
    front: Front
    opened: Opened
    result: Result
    parts: Parts
    units: Units
    kept: Ints  # L: numbers of objects, ascending within a unit, in a ring whose capacity is a power of two
    savl: Savl
    work: SapScratch
    reals: Floats
    registers: Ints


@inner_kernel
def cell_of(query: KernelQuery, position: int) -> int:
    """Number of the cell that contains `position`: a range between two window starts; its objects expire together."""
    return (position - query.origin + query.size) // query.slide


@inner_kernel
def cell_begin(query: KernelQuery, position: int) -> int:
    """Where that cell begins."""
    return query.origin - query.size + cell_of(query, position) * query.slide


@inner_kernel
def cell_end(query: KernelQuery, position: int) -> int:
    """Where that cell ends."""
    return query.origin - query.size + (cell_of(query, position) + 1) * query.slide
