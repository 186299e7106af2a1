"""Early aggregation: object instances with score intervals, kept while fewer than k other objects dominate them.

An instance of an object is a suffix of its tuples: a tuple and all later ones, valid until the oldest of them expires.
So its score can only rise during its lifetime, from `current` (nothing more arrives) to `best` (the highest value
arrives in every stream that may still report the object). An instance dominates another one if it lives at least as
long and its `current` exceeds the other's `best`. Dominance is permanent. An instance that k objects dominate is never
in an answer and is removed.

Instances are kept in three orders: by time (they expire from one end), by `current` and by `best`. When a `current`
rises, the dominator counts of all instances whose `best` it passes are incremented. When a `best` falls, the instances
whose `current` now exceeds it are counted. Of the instances of one object, only one may count as a dominator of another
instance: the oldest one that lives at least as long. Its score is the highest of them, so it is the first to dominate.
Its neighbours in the list of the object's instances determine whether it is the one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.incomplete.kernels import ladder as rungs
from skyband.incomplete.kernels.attributes import AVG, Scoring, score_of
from skyband.incomplete.kernels.ladder import Ladder, empty_ladder
from skyband.incomplete.kernels.losses import Losses, empty_losses, lost_until, note_lost
from skyband.incomplete.kernels.prospects import LEVELS, LIVES, Prospects
from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.lookup import EMPTY, Lookup, drop, empty_lookup, place_of, put
from skyband.kernels.stream import DONE, Bools, Floats, Ints

NONE = -1
NEVER = -(2**63) + 1
UNCOUNTED = -1  # as the number of dominators, see `_needs_no_counts`
FEW = 1024  # objects of an answer up to which they are sorted by insertion
_ULP = 2.0**-52

# Instances.registers
FREE = 0  # head of the list of free instances, linked by `after`
FREE_OBJECT = 1  # head of the list of free objects, linked by `newest`
FIRST = 2  # oldest instance
LAST = 3  # newest instance
HELD = 4
OBJECTS = 5
NEXT = 6  # the number of the next window: it ends at origin + NEXT * every
CREATED = 7
PRUNED = 8
EXPIRED = 9
TOUCHED = 10  # instances visited to count dominators
SEEN = 11  # tuples processed
REPEATED = 12  # dropped tuples of objects that their stream has reported, if it is declared to report them once
REGISTERS = 13

# Return codes of `advance`, besides DONE.
ANSWERS_FULL = 1
ROOM_NEEDED = 2  # no space for one more instance, or the ladders must be rebuilt


# Columns of Terms.asks
ASK_K = 0
ASK_STEP = 1  # the query answers every so many windows
ASK_OFFSET = 2  # the number of a window that it answers
ASK_SHIFT = 3  # how many windows later than `size` its own, shorter windows begin
ASK_TIES = 4  # 1: also all objects with the score of the k-th; the same for all queries that share instances


class Terms(NamedTuple):
    """The queries: windows ``[end - size, end)`` at ``end = origin + i * every``, and the bounds of a score."""

    k: int
    size: int
    every: int
    origin: int
    scoring: Scoring
    lows: Floats  # per stream
    highs: Floats
    occurrences: int
    masks: Ints  # ascending bit masks of streams with known `chances`; empty: use the best possible scores
    chances: Floats  # (ages, masks, streams): probability that the stream still reports an object seen in the mask
    ages: Ints  # ascending upper bounds of the time since an object was last seen; the last age is unbounded
    repeats: Floats  # per stream: expected number of tuples of an object that it reports
    # (streams, steps + 1): the value that a share of 0, 1/steps, …, 1 of its values exceeds; (streams, 0): use the
    # expected best scores, which need only `chances` and `repeats`
    tails: Floats
    risk: float  # scores with a smaller probability are ignored
    hurdle: float  # instances with a lower likely score get no upper bound above their current score
    prospects: Prospects
    asks: Ints  # (queries, 5): the queries that share the instances; k and size are the largest, every the smallest


class Instances(NamedTuple):
    """All instances held, in slots, and their objects."""

    owners: Ints  # per instance: slot of its object
    epochs: Ints  # number of the last window that contains it
    values: Floats  # (instances, streams): sum of its tuples in a stream
    counts: Ints  # (instances, streams): number of its tuples in a stream
    dominators: Ints
    older: Ints  # previous instance of the same object
    newer: Ints
    after: Ints  # next instance by time
    before: Ints
    current: Ladder
    best: Ladder
    objects: Ints  # per object slot: its key
    touches: Ints  # number of its newest tuple, which breaks ties
    lasts: Ints  # position of its newest tuple
    oldest: Ints
    newest: Ints
    reported: Bools  # (objects, streams): the streams that have reported it, ever; (objects, 0) unless reported once
    # Approximate methods only, otherwise empty: the last window that lacks a tuple because an instance was dropped,
    lacks: Ints  # per instance: one that was older than it, and newer than the previous instance of its object
    lost: Ints  # per object: one that was newer than all its instances
    hashes: Ints  # per object: hash of its content
    losses: Losses  # objects without instances
    lookup: Lookup
    registers: Ints


class TupleBatch(NamedTuple):
    """Tuples in stream order."""

    positions: Ints
    objects: Ints
    streams: Ints
    values: Floats
    hashes: Ints  # of the objects; empty for exact methods


class InstanceAnswers(NamedTuple):
    """Output buffers: windows, and their rows, best first."""

    asks: Ints  # the query of each window
    ends: Ints
    counts: Ints
    objects: Ints
    scores: Floats
    lasts: Ints
    best: Floats
    sure: Ints
    exact: Ints  # whether the score lacks no tuple; empty for exact methods
    cursor: Ints  # windows and rows written


class Scratch(NamedTuple):
    """Scratch arrays."""

    slots: Ints  # at least as many as an answer has rows
    nows: Floats  # one per stream
    tops: Floats


def empty_instances(room: int, streams: int, once: bool, lossy: bool) -> Instances:
    """Return empty arrays for `room` instances."""
    some = [np.full(room, NONE, np.int64) for _ in range(11)]
    owners, epochs, dominators, older, newer, after, before, objects, touches, lasts, oldest = some
    newest = np.arange(1, room + 1)
    after[:] = np.arange(1, room + 1)
    after[-1] = newest[-1] = NONE
    registers = np.zeros(REGISTERS, np.int64)
    registers[FIRST] = registers[LAST] = NONE
    registers[NEXT] = NEVER
    return Instances(
        owners,
        epochs,
        np.zeros((room, streams)),
        np.zeros((room, streams), np.int64),
        dominators,
        older,
        newer,
        after,
        before,
        empty_ladder(room),
        empty_ladder(room),
        objects,
        touches,
        lasts,
        oldest,
        newest,
        np.zeros((room, streams if once else 0), np.bool_),
        np.full(room if lossy else 0, NEVER, np.int64),
        np.full(room if lossy else 0, NEVER, np.int64),
        np.zeros(room if lossy else 0, np.int64),
        empty_losses(lossy),
        empty_lookup(room),
        registers,
    )


@inner_kernel
def _row_of(terms: Terms, mask: int) -> int:
    """Return the row of `chances` for an object seen in this set of streams, NONE if there is none."""
    low = 0
    high = terms.masks.size
    while low < high:
        middle = (low + high) >> 1
        if terms.masks[middle] < mask:
            low = middle + 1
        else:
            high = middle
    return low if low < terms.masks.size and terms.masks[low] == mask else NONE


@inner_kernel
def _interval(
    all_: Instances, terms: Terms, one: int, known: Ints, since: int, left: int, covered: int, scratch: Scratch
) -> tuple[float, float]:
    """Return the current score of an instance and its upper bound.

    `known` are the counts of its object, including older instances. `since` is the time since the object was last seen,
    `left` the remaining lifetime of the instance, `covered` that of the previous instance of its object.
    """
    sums = all_.values[one]
    counts = all_.counts[one]
    reported = all_.reported[all_.owners[one]]
    mask = 0
    for stream in range(counts.size):
        scratch.nows[stream] = terms.lows[stream] if counts[stream] == 0 else sums[stream]
        if known[stream] > 0 or (reported.size and reported[stream]):
            mask |= 1 << (stream & 63)
    current = score_of(scratch.nows, terms.scoring, False)
    row = _row_of(terms, mask) if terms.masks.size else NONE
    if row == NONE:
        return current, _best_possible(terms, counts, reported, current, scratch)
    if terms.prospects.gains.size:
        return current, _best_prospect(terms, current, mask, counts.size, since, left, covered)
    if terms.tails.shape[1] == 0:
        best = _best_expected(terms, counts, since, mask, row, scratch)
    else:
        best = _best_likely(terms, counts, since, left, mask, row, scratch)
    return current, best if best >= terms.hurdle and best > current else current


@inner_kernel
def _best_prospect(terms: Terms, current: float, mask: int, streams: int, since: int, left: int, covered: int) -> float:
    """Return the highest score that is worth waiting for."""
    number = 0
    for stream in range(streams):
        number += mask >> stream & 1
    level = 0
    while level < LEVELS - 1 and covered > left - (left >> (level + 1)):
        level += 1
    life = min((since + left) * LIVES // terms.size, LIVES - 1)
    best = current + terms.prospects.gains[level, number, life, _age(terms, since)]
    return best if best >= terms.hurdle else current


@inner_kernel
def _best_possible(terms: Terms, counts: Ints, reported: Bools, current: float, scratch: Scratch) -> float:
    """Return the score if every stream reports the highest value as often as allowed.

    A stream that reports an object once, and did so before the instance begins, will not report it again.
    If `occurrences` exceeds 1, values are not negative, so further tuples never lower a score.
    """
    complete = True
    for stream in range(counts.size):
        missing = terms.occurrences - max(counts[stream], 1)
        top = terms.highs[stream] if counts[stream] == 0 else scratch.nows[stream]
        if counts[stream] == 0 and reported.size and reported[stream]:
            top = terms.lows[stream]
        if missing > 0:  # adding tuples one by one rounds more often, so add a margin
            top += missing * terms.highs[stream]
            top += (terms.occurrences + 1) * _ULP * top
        complete = complete and top == scratch.nows[stream]
        scratch.tops[stream] = top
    return current if complete else score_of(scratch.tops, terms.scoring, True)


@inner_kernel
def _best_expected(terms: Terms, counts: Ints, since: int, mask: int, row: int, scratch: Scratch) -> float:
    """Return the score if every stream that has not reported the object brings its highest value times its probability.

    A stream that reported the object before the instance begins will not report it again. Where a stream may report an
    object several times, the expected number of times takes the place of the largest one.
    """
    age = _age(terms, since)
    for stream in range(counts.size):
        low = terms.lows[stream]
        more = min(
            max(terms.repeats[stream] - max(counts[stream], 1), 0.0), terms.occurrences - max(counts[stream], 1.0)
        )
        if counts[stream] > 0:
            scratch.tops[stream] = scratch.nows[stream] + more * terms.highs[stream]
        elif mask >> stream & 1:
            scratch.tops[stream] = low
        else:
            chance = terms.chances[age, row, stream]
            scratch.tops[stream] = low + chance * ((1.0 + more) * terms.highs[stream] - low)
    return score_of(scratch.tops, terms.scoring, True)


@inner_kernel
def _value_at(terms: Terms, stream: int, tail: float) -> float:
    """Return the value that a share `tail` of the stream's values exceeds."""
    steps = terms.tails.shape[1] - 1
    return terms.tails[stream, min(steps, int(tail * steps))]


@inner_kernel
def _age(terms: Terms, since: int) -> int:
    """Return the index in `chances` for the time since an object was last seen."""
    age = 0
    while age < terms.ages.size and terms.ages[age] <= since:
        age += 1
    return age


@inner_kernel
def _left(terms: Terms, epoch: int, now: int) -> int:
    """Return the remaining lifetime of an instance."""
    return terms.origin + epoch * terms.every - now


@inner_kernel
def _best_likely(terms: Terms, counts: Ints, since: int, left: int, mask: int, row: int, scratch: Scratch) -> float:
    """Return the highest score that the instance reaches with a probability of at least `risk`.

    The loop assumes that one, two, … further streams report the object. In each step it can be any stream that has not;
    the most likely one represents them. If n streams report with probability p, then all of them report values that a
    share t of their values exceeds with probability ``p * t**n``. Reports after the instance expires do not count. So
    the probability that a stream does not report in time is the probability of no report at the current age divided by
    that at the age at expiry.
    """
    age = _age(terms, since)
    then = _age(terms, since + left)
    for stream in range(counts.size):
        more = min(max(terms.repeats[stream] - counts[stream], 0.0), float(terms.occurrences - counts[stream]))
        scratch.tops[stream] = scratch.nows[stream]
        if counts[stream] > 0 and more > 0.0:
            scratch.tops[stream] += more * _value_at(terms, stream, 0.5)
    best = score_of(scratch.tops, terms.scoring, True)
    together = 1.0
    number = 0
    share = 1.0  # ratio of all ways to reach a sum to those in which each value contributes equally
    while row != NONE:
        following = NONE
        none = 1.0
        for stream in range(counts.size):
            if mask >> stream & 1:
                continue
            none *= min(
                1.0, (1.0 - terms.chances[age, row, stream]) / max(1.0 - terms.chances[then, row, stream], 1e-9)
            )
            if following == NONE or terms.chances[age, row, stream] > terms.chances[age, row, following]:
                following = stream
        if following == NONE:
            break
        together *= 1.0 - none
        if together < terms.risk:
            break
        mask |= 1 << following
        number += 1
        share *= number ** (number - 1.0) / max(number - 1.0, 1.0) ** (number - 1.0)
        tail = (terms.risk / together / (share if terms.scoring.aggregate <= AVG else 1.0)) ** (1.0 / number)
        for stream in range(counts.size):
            if counts[stream] == 0 and mask >> stream & 1:
                more = min(max(terms.repeats[stream] - 1, 0.0), float(terms.occurrences - 1))
                scratch.tops[stream] = _value_at(terms, stream, tail) * (1.0 + more)
        best = max(best, score_of(scratch.tops, terms.scoring, True))
        row = _row_of(terms, mask)
    return best


@inner_kernel
def _remove(all_: Instances, one: int) -> None:
    """Remove an instance, and its object if it was the last instance."""
    registers = all_.registers
    rungs.take(all_.current, one)
    rungs.take(all_.best, one)
    before = all_.before[one]
    after = all_.after[one]
    if before == NONE:
        registers[FIRST] = after
    else:
        all_.after[before] = after
    if after == NONE:
        registers[LAST] = before
    else:
        all_.before[after] = before
    owner = all_.owners[one]
    older = all_.older[one]
    newer = all_.newer[one]
    if older == NONE:
        all_.oldest[owner] = newer
    else:
        all_.newer[older] = newer
    if newer == NONE:
        all_.newest[owner] = older
    else:
        all_.older[newer] = older
    if all_.oldest[owner] == NONE:
        if all_.lost.size and all_.lost[owner] >= registers[NEXT]:
            note_lost(all_.losses, all_.hashes[owner], all_.lost[owner])
        drop(all_.lookup, place_of(all_.lookup, all_.objects[owner], 0))
        all_.newest[owner] = registers[FREE_OBJECT]
        registers[FREE_OBJECT] = owner
        registers[OBJECTS] -= 1
    all_.after[one] = registers[FREE]
    registers[FREE] = one
    registers[HELD] -= 1


@inner_kernel
def _prune(all_: Instances, one: int) -> None:
    """Remove an instance that is not expected to be in an answer."""
    if all_.lost.size:
        newer = all_.newer[one]
        if newer == NONE:
            owner = all_.owners[one]
            all_.lost[owner] = max(all_.lost[owner], all_.epochs[one])
        else:
            all_.lacks[newer] = max(all_.lacks[newer], all_.epochs[one])
    _remove(all_, one)
    all_.registers[PRUNED] += 1


@inner_kernel
def _needs_no_counts(all_: Instances, k: int) -> bool:
    """Return whether no instance can have k dominators, because there are not more objects than that.

    Approximate methods then skip the counts, which would take quadratic time. `reconsider` counts dominators when there
    are more objects.
    """
    return all_.lost.size > 0 and all_.registers[OBJECTS] <= k


@inner_kernel
def _count_up(all_: Instances, terms: Terms, owner: int, since: int, until: int, floor: float, current: float) -> None:
    """Increment the dominator counts after an instance's score rose from `floor` to `current`.

    This affects instances with `best` in between. The instance represents its object for instances whose last window is
    in ``(since, until]``.
    """
    if _needs_no_counts(all_, terms.k):
        return
    best = all_.best
    low = rungs.rung_of(best, floor)
    high = rungs.rung_of(best, current)
    for rung in range(low, high + 1):
        if (
            best.most[rung] < floor
            or best.least[rung] >= current
            or best.soonest[rung] > until
            or best.latest[rung] <= since
        ):
            continue
        other = best.heads[rung]
        rungs.loosen(best, rung)
        while other != NONE:
            node = best.nodes[other]
            following = node[rungs.AFTER]
            all_.registers[TOUCHED] += 1
            passed = (
                since < node[rungs.UNTIL] <= until
                and floor <= best.values[other] < current
                and all_.owners[other] != owner
                and all_.dominators[other] != UNCOUNTED
            )
            if passed:
                all_.dominators[other] += 1
            if passed and all_.dominators[other] >= terms.k:
                _prune(all_, other)
            else:
                rungs.tighten(best, rung, other)
            other = following


@inner_kernel
def _dominators(all_: Instances, k: int, owner: int, epoch: int, best: float, ceiling: float) -> int:
    """Return the number of objects, at most k, with a current score in ``(best, ceiling]`` that live until `epoch`."""
    current = all_.current
    found = 0
    rung = rungs.rung_of(current, ceiling)
    while rung >= 0 and found < k:
        if current.most[rung] > best and current.least[rung] <= ceiling and current.latest[rung] >= epoch:
            other = current.heads[rung]
            while other != NONE and found < k:
                node = current.nodes[other]
                all_.registers[TOUCHED] += 1
                if (
                    node[rungs.UNTIL] >= epoch
                    and best < current.values[other] <= ceiling
                    and all_.owners[other] != owner
                    and (all_.older[other] == NONE or all_.epochs[all_.older[other]] < epoch)
                ):
                    found += 1
                other = node[rungs.AFTER]
        if current.steps[rung] <= best:
            break
        rung -= 1
    return found


@inner_kernel
def _judge(all_: Instances, k: int, one: int, best: float) -> None:
    """Update the best score of an instance, and count its dominators."""
    old = all_.best.values[one]
    if best == old:
        return
    owner = all_.owners[one]
    epoch = all_.epochs[one]
    rungs.take(all_.best, one)
    rungs.put(all_.best, one, best, epoch)
    if _needs_no_counts(all_, k):
        all_.dominators[one] = UNCOUNTED
    elif all_.dominators[one] == UNCOUNTED:
        return
    elif best < old:
        all_.dominators[one] += _dominators(all_, k, owner, epoch, best, old)
    else:  # likely scores can rise, best possible scores cannot
        all_.dominators[one] = _dominators(all_, k, owner, epoch, best, np.inf)


@inner_kernel
def _update(all_: Instances, terms: Terms, scratch: Scratch, owner: int, stream: int, value: float) -> int:
    """Add a tuple to all instances of an object. Return the last window of its newest remaining instance, or NEVER."""
    since = NEVER
    one = all_.oldest[owner]
    while one != NONE:
        following = all_.newer[one]
        if all_.counts[one, stream] == 0:
            all_.values[one, stream] = value
        else:
            all_.values[one, stream] += value
        all_.counts[one, stream] += 1
        old_current = all_.current.values[one]
        epoch = all_.epochs[one]
        known, left = all_.counts[all_.oldest[owner]], _left(terms, epoch, all_.lasts[owner])
        covered = 0 if since == NEVER else _left(terms, since, all_.lasts[owner])
        current, best = _interval(all_, terms, one, known, 0, left, covered, scratch)
        if current != old_current:
            rungs.take(all_.current, one)
            rungs.put(all_.current, one, current, epoch)
            _count_up(all_, terms, owner, since, epoch, old_current, current)
        _judge(all_, terms.k, one, best)
        if all_.dominators[one] >= terms.k:
            # Keep the object: the tuple may start another instance.
            if all_.oldest[owner] == one and following == NONE:
                return NEVER
            _prune(all_, one)
        else:
            since = epoch
        one = following
    return since


@inner_kernel
def _create(
    all_: Instances, terms: Terms, scratch: Scratch, owner: int, epoch: int, since: int, stream: int, value: float
) -> None:
    """Create an instance from a tuple. Remove it immediately if k objects dominate it."""
    registers = all_.registers
    one = registers[FREE]
    all_.values[one, :] = 0.0
    all_.counts[one, :] = 0
    all_.values[one, stream] = value
    all_.counts[one, stream] = 1
    all_.owners[one] = owner
    first = all_.oldest[owner]
    known = all_.counts[one if first == NONE else first]
    left = _left(terms, epoch, all_.lasts[owner])
    covered = 0 if since == NEVER else _left(terms, since, all_.lasts[owner])
    current, best = _interval(all_, terms, one, known, 0, left, covered, scratch)
    newest = registers[LAST]
    registers[FREE] = all_.after[one]
    registers[HELD] += 1
    registers[CREATED] += 1
    all_.epochs[one] = epoch
    all_.after[one] = NONE
    all_.before[one] = newest
    if newest == NONE:
        registers[FIRST] = one
    else:
        all_.after[newest] = one
    registers[LAST] = one
    all_.newer[one] = NONE
    all_.older[one] = all_.newest[owner]
    if all_.lost.size:
        all_.lacks[one] = all_.lost[owner]
        all_.lost[owner] = NEVER
    if all_.newest[owner] == NONE:
        all_.oldest[owner] = one
    else:
        all_.newer[all_.newest[owner]] = one
    all_.newest[owner] = one
    rungs.put(all_.current, one, current, epoch)
    rungs.put(all_.best, one, best, epoch)
    # No instance lives longer; only those created since the previous window live as long.
    as_long = newest != NONE and all_.epochs[newest] >= epoch
    if _needs_no_counts(all_, terms.k):
        all_.dominators[one] = UNCOUNTED
    else:
        all_.dominators[one] = _dominators(all_, terms.k, owner, epoch, best, np.inf) if as_long else 0
    _count_up(all_, terms, owner, since, epoch, -np.inf, current)
    if all_.dominators[one] >= terms.k:
        _prune(all_, one)


@inner_kernel
def _note_waiting(known: Ints, terms: Terms, since: int, elapsed: int) -> int:
    """Count the last part of the time that an object has waited, once for each stream that may report it.

    `since` is the time since its last report, `elapsed` the part that was not counted. Return the number of streams
    that have reported it.
    """
    number = 0
    for stream in range(known.size):
        number += known[stream] > 0
    begin = since - min(since, elapsed)
    age = _age(terms, begin)
    while begin < since:
        end = min(since, terms.ages[age]) if age < terms.ages.size else since
        terms.prospects.follows[1, number, age] += float(end - begin) * (known.size - number)
        begin = end
        age += 1
    return number


@inner_kernel
def _note_follower(known: Ints, terms: Terms, stream: int, last: int, now: int) -> None:
    """Count a report by a stream that has not reported the object, and the time that the object has waited."""
    number = _note_waiting(known, terms, now - last, max(now - terms.prospects.then, 0))
    if known[stream] == 0:
        terms.prospects.follows[0, number, _age(terms, now - last)] += 1.0


@inner_kernel
def _take_in(all_: Instances, terms: Terms, scratch: Scratch, rows: TupleBatch, row: int) -> None:
    """Process one tuple."""
    position, object_, stream, value = rows.positions[row], rows.objects[row], rows.streams[row], rows.values[row]
    registers = all_.registers
    at = place_of(all_.lookup, object_, 0)
    owner = all_.lookup.found[at]
    if owner == EMPTY:
        owner = registers[FREE_OBJECT]
        registers[FREE_OBJECT] = all_.newest[owner]
        registers[OBJECTS] += 1
        put(all_.lookup, at, object_, 0, owner)
        all_.objects[owner] = object_
        all_.oldest[owner] = NONE
        all_.newest[owner] = NONE
        all_.reported[owner] = False
        if all_.lost.size:
            all_.lost[owner] = lost_until(all_.losses, rows.hashes[row], registers[NEXT])
    if all_.reported.shape[1]:
        if all_.reported[owner, stream]:
            registers[REPEATED] += 1
            return
        all_.reported[owner, stream] = True
    if terms.prospects.follows.size and all_.oldest[owner] != NONE:
        _note_follower(all_.counts[all_.oldest[owner]], terms, stream, all_.lasts[owner], position)
    if all_.lost.size:
        all_.hashes[owner] = rows.hashes[row]
    all_.touches[owner] = registers[SEEN]
    all_.lasts[owner] = position
    registers[SEEN] += 1
    epoch = (position + terms.size - terms.origin) // terms.every
    since = _update(all_, terms, scratch, owner, stream, value)
    spent = all_.oldest[owner] if since == NEVER else NONE
    newest = since if spent == NONE else all_.epochs[spent]
    if newest < epoch:
        _create(all_, terms, scratch, owner, epoch, since, stream, value)
    if spent != NONE:
        _prune(all_, spent)


@inner_kernel
def _expire(all_: Instances, until: int) -> None:
    """Remove the instances whose last window is `until` or earlier."""
    one = all_.registers[FIRST]
    while one != NONE and all_.epochs[one] <= until:
        following = all_.after[one]
        _remove(all_, one)
        all_.registers[EXPIRED] += 1
        one = following


@inner_kernel
def _ranks_before(all_: Instances, one: int, other: int) -> bool:
    """Return whether the first of two instances of different objects ranks before the second."""
    mine, its = all_.current.values[one], all_.current.values[other]
    return mine > its or (mine == its and all_.touches[all_.owners[one]] > all_.touches[all_.owners[other]])


@inner_kernel
def _sink(all_: Instances, slots: Ints, at: int, count: int, one: int) -> None:
    """Put an instance into the heap of the first `count` slots, at `at` or below it. The worst is on top."""
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and _ranks_before(all_, slots[child], slots[child + 1]):
            child += 1
        if not _ranks_before(all_, one, slots[child]):
            break
        slots[at] = slots[child]
        at = child
    slots[at] = one


@inner_kernel
def _offer(all_: Instances, slots: Ints, count: int, most: int, one: int) -> int:
    """Add an instance to the best so far if it qualifies. Return their number.

    A few are kept sorted: instances come almost in order, so that takes the least time. More become a heap when there
    are as many as possible.
    """
    if most <= FEW:
        if count == most and not _ranks_before(all_, one, slots[count - 1]):
            return count
        at = min(count, most - 1)
        while at > 0 and _ranks_before(all_, one, slots[at - 1]):
            slots[at] = slots[at - 1]
            at -= 1
        slots[at] = one
        return min(count + 1, most)
    if count == most:
        if _ranks_before(all_, one, slots[0]):
            _sink(all_, slots, 0, count, one)
        return count
    slots[count] = one
    count += 1
    if count == most:
        for at in range(count // 2 - 1, -1, -1):
            _sink(all_, slots, at, count, slots[at])
    return count


@inner_kernel
def _sort_heap(all_: Instances, slots: Ints, count: int) -> None:
    """Sort a heap, best first."""
    for last in range(count - 1, 0, -1):
        worst = slots[0]
        _sink(all_, slots, 0, last, slots[last])
        slots[last] = worst


@inner_kernel
def _pick(all_: Instances, k: int, first: int, slots: Ints) -> int:
    """Write the best objects to `slots`, best first, and return their number.

    Each is represented by its oldest instance with an epoch from `first` on. An instance that was removed would not be
    among them: those that dominate it are in every window with it.
    """
    current = all_.current
    count = 0
    most = min(k, all_.registers[OBJECTS])
    rung = current.registers[rungs.RUNGS] - 1
    while rung >= 0:
        one = current.heads[rung]
        while one != NONE:
            if all_.epochs[one] >= first and (all_.older[one] == NONE or all_.epochs[all_.older[one]] < first):
                count = _offer(all_, slots, count, most, one)
            one = current.nodes[one, rungs.AFTER]
        if count == most and current.values[slots[count - 1 if most <= FEW else 0]] >= current.steps[rung]:
            break
        rung -= 1
    if most > FEW:
        if count < most:
            for at in range(count // 2 - 1, -1, -1):
                _sink(all_, slots, at, count, slots[at])
        _sort_heap(all_, slots, count)
    return count


@inner_kernel
def _tied(all_: Instances, k: int, first: int, slots: Ints) -> int:
    """Return the number of objects with at least the score of the k-th. Fewer than k objects are better than any."""
    current = all_.current
    count = _pick(all_, k, first, slots)
    if count < k:
        return count
    least = current.values[slots[count - 1]]
    found = 0
    rung = current.registers[rungs.RUNGS] - 1
    while rung >= 0:
        one = current.heads[rung]
        while one != NONE:
            if (
                current.values[one] >= least
                and all_.epochs[one] >= first
                and (all_.older[one] == NONE or all_.epochs[all_.older[one]] < first)
            ):
                found += 1
            one = current.nodes[one, rungs.AFTER]
        if current.steps[rung] <= least:
            break
        rung -= 1
    return found


@inner_kernel
def _contenders(all_: Instances, terms: Terms, one: int) -> int:
    """Return the number of other objects, at most k, that may still rank before this one.

    If equal scores share a rank, an object ranks before another only with a higher score.
    """
    best, ties = all_.best, terms.asks[0, ASK_TIES]
    sure = all_.current.values[one]
    found = 0
    rung = best.registers[rungs.RUNGS] - 1
    while rung >= 0 and found < terms.k:
        other = best.heads[rung] if best.most[rung] >= sure else NONE
        while other != NONE and found < terms.k:
            above = best.values[other] > sure or (ties == 0 and best.values[other] == sure)
            if above and other != one and all_.older[other] == NONE:
                found += 1
            other = best.nodes[other, rungs.AFTER]
        if best.steps[rung] < sure:
            break
        rung -= 1
    return found


@inner_kernel
def _answer(all_: Instances, terms: Terms, scratch: Scratch, found: InstanceAnswers, ask: int, end: int) -> None:
    """Write the answer of a query for the window that ends at `end`, unless it is empty."""
    k, first = terms.asks[ask, ASK_K], all_.registers[NEXT] + terms.asks[ask, ASK_SHIFT]
    if terms.asks[ask, ASK_TIES]:
        k = _tied(all_, k, first, scratch.slots)
    count = _pick(all_, k, first, scratch.slots) if k else 0
    if count == 0:
        return
    at = found.cursor[1]
    found.asks[found.cursor[0]] = ask
    found.ends[found.cursor[0]] = end
    found.counts[found.cursor[0]] = count
    for place in range(count):
        one = scratch.slots[place]
        owner = all_.owners[one]
        found.objects[at + place] = all_.objects[owner]
        found.scores[at + place] = all_.current.values[one] + 0.0
        found.lasts[at + place] = all_.lasts[owner]
        if found.exact.size:
            found.exact[at + place] = 1 if all_.lacks[one] < all_.registers[NEXT] else 0
        if found.sure.size:
            found.best[at + place] = all_.best.values[one]
            found.sure[at + place] = 1 if _contenders(all_, terms, one) < terms.k else 0
    found.cursor[0] += 1
    found.cursor[1] += count


@inner_kernel
def _answer_until(all_: Instances, terms: Terms, scratch: Scratch, found: InstanceAnswers, position: int) -> bool:
    """Answer every non-empty window that ends at or before `position`. Return whether there was space for all."""
    registers = all_.registers
    upcoming = (position - terms.origin) // terms.every + 1  # the oldest window that ends after it
    while registers[HELD] and registers[NEXT] < upcoming:
        most = registers[OBJECTS]
        if terms.asks[0, ASK_TIES] == 0:
            most = min(terms.k, most)
        rows = most * terms.asks.shape[0]
        windows = found.cursor[0] + terms.asks.shape[0]
        if windows > found.ends.size or found.cursor[1] + rows > found.objects.size or most > scratch.slots.size:
            return False
        for ask in range(terms.asks.shape[0]):
            if (registers[NEXT] - terms.asks[ask, ASK_OFFSET]) % terms.asks[ask, ASK_STEP] == 0:
                _answer(all_, terms, scratch, found, ask, terms.origin + registers[NEXT] * terms.every)
        _expire(all_, registers[NEXT])
        registers[NEXT] += 1
    registers[NEXT] = max(registers[NEXT], upcoming)
    return True


@kernel
def advance(
    all_: Instances, terms: Terms, scratch: Scratch, rows: TupleBatch, begin: int, clock: int, found: InstanceAnswers
) -> tuple[int, int]:
    """Process tuples from `begin` on, answer windows as they end, then those that end at or before `clock`.

    Returns the index of the first unprocessed tuple, and a return code.
    """
    for row in range(begin, rows.objects.size):
        if not _answer_until(all_, terms, scratch, found, rows.positions[row]):
            return row, ANSWERS_FULL
        worn = 256 + 4 * all_.registers[HELD]
        if (
            all_.registers[FREE] == NONE
            or all_.registers[FREE_OBJECT] == NONE
            or all_.current.registers[rungs.PUT] > worn
            or all_.best.registers[rungs.PUT] > worn
        ):
            return row, ROOM_NEEDED
        _take_in(all_, terms, scratch, rows, row)
    if clock != NEVER and not _answer_until(all_, terms, scratch, found, clock):
        return rows.objects.size, ANSWERS_FULL
    return rows.objects.size, DONE


@kernel
def reconsider(all_: Instances, terms: Terms, scratch: Scratch, now: int, elapsed: int) -> None:
    """Recompute the likely best scores of all instances, after some time elapsed or the estimates changed."""
    one = all_.registers[FIRST]
    while one != NONE:
        following = all_.after[one]
        owner = all_.owners[one]
        known = all_.counts[all_.oldest[owner]]
        since, left = now - all_.lasts[owner], _left(terms, all_.epochs[one], now)
        if terms.prospects.follows.size and all_.older[one] == NONE:
            _note_waiting(known, terms, since, elapsed)
        older = all_.older[one]
        covered = 0 if older == NONE else _left(terms, all_.epochs[older], now)
        _, best = _interval(all_, terms, one, known, since, left, covered, scratch)
        _judge(all_, terms.k, one, best)
        if _needs_no_counts(all_, terms.k):
            all_.dominators[one] = UNCOUNTED
        elif all_.dominators[one] == UNCOUNTED:
            all_.dominators[one] = _dominators(all_, terms.k, owner, all_.epochs[one], best, np.inf)
        if all_.dominators[one] >= terms.k:
            _prune(all_, one)
        one = following


@kernel
def kth_score(all_: Instances, terms: Terms, scratch: Scratch) -> float:
    """Return the k-th best score at this time, minus infinity if there are fewer than k objects."""
    if all_.registers[OBJECTS] < terms.k:
        return -np.inf
    count = _pick(all_, terms.k, NEVER, scratch.slots)
    return all_.current.values[scratch.slots[count - 1]] if count == terms.k else -np.inf


@kernel
def held_slots(all_: Instances, slots: Ints) -> None:
    """Write the slots of all instances to `slots`, oldest first."""
    at = 0
    one = all_.registers[FIRST]
    while one != NONE:
        slots[at] = one
        at += 1
        one = all_.after[one]


@kernel
def enter_objects(all_: Instances, count: int) -> None:
    """Enter the objects in the first `count` slots into the lookup table."""
    for slot in range(count):
        put(all_.lookup, place_of(all_.lookup, all_.objects[slot], 0), all_.objects[slot], 0, slot)
