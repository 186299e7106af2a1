"""The definitions, restated in the plainest Python there is. Shares no code with the library.

A stream is a list of objects ``(position, score, id)``; everything is recomputed from the whole of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Asked:
    """A query in plain numbers: windows [origin + i*slide - size, origin + i*slide), or those that are listed."""

    k: int
    size: int
    slide: int
    origin: int = 0
    full_only: bool = False
    ascending: bool = False
    tied: bool = False  # all objects with fewer than k strictly better ones are in
    listed: tuple[tuple[int, int], ...] = ()  # (start, end) of every window; `size` is then the longest one's


def ranked(objects, ascending=False):
    """Higher score first (or lower), then the later position, then the larger id."""
    sign = 1 if ascending else -1
    by_id = sorted(objects, key=lambda o: o[2], reverse=True)
    by_position = sorted(by_id, key=lambda o: o[0], reverse=True)
    return sorted(by_position, key=lambda o: sign * o[1])


def best(objects, k, ascending=False, tied=False):
    """[(rank, object), ...]: the k best, numbered; or all that fewer than k are strictly better than, by how many."""
    in_order = ranked(objects, ascending)
    if not tied:
        return list(enumerate(in_order[:k], 1))
    found = []
    for candidate in in_order:
        if ascending:
            better = [o for o in objects if o[1] < candidate[1]]
        else:
            better = [o for o in objects if o[1] > candidate[1]]
        if len(better) < k:
            found.append((len(better) + 1, candidate))
    return found


def is_object(row):
    """A row without a position or without a score cannot be ranked: it is no object."""
    position, score, _ = row
    return position is not None and score is not None and not math.isnan(score)


def ends_between(asked, low, high):
    """All window ends e with low < e <= high."""
    i = math.floor((low - asked.origin) / asked.slide) - 2
    while asked.origin + i * asked.slide <= low:
        i += 1
    ends = []
    while asked.origin + i * asked.slide <= high:
        ends.append(asked.origin + i * asked.slide)
        i += 1
    return ends


def windows_between(asked, low, high):
    """[(start, end), ...] of all windows that end at e with low < e <= high."""
    if asked.listed:
        return [(start, end) for start, end in asked.listed if low < end <= high]
    return [(end - asked.size, end) for end in ends_between(asked, low, high)]


def answers(asked, rows, *, watermark=None, first=None):
    """[(window_start, window_end, rank, id, score), ...] of a time-window stream.

    Up to the watermark, or of the whole bounded stream. `first` is the first object's position where the rows are only
    one group of the stream.
    """
    objects = [row for row in rows if is_object(row)]
    if not objects:
        return []
    oldest = min(p for p, _, _ in objects)
    newest = max(p for p, _, _ in objects)
    first = oldest if first is None else first
    found = []
    for start, end in windows_between(asked, oldest, newest + asked.size):
        if watermark is not None and end > watermark:
            break
        if asked.full_only and start < first:
            continue
        inside = [o for o in objects if start <= o[0] < end]
        for rank, (_, score, id_) in best(inside, asked.k, asked.ascending, asked.tied):
            found.append((start, end, rank, id_, score))
    return found


def count_answers(asked, rows):
    """The same for count windows over ``(score, id)`` rows: positions are numbers, and an end must be reached."""
    kept = [(score, id_) for score, id_ in rows if score is not None and not math.isnan(score)]
    objects = [(number, score, id_) for number, (score, id_) in enumerate(kept)]
    return answers(asked, objects, watermark=len(objects), first=0)


def minimal_candidates(asked, rows, watermark):
    """The ids of the minimal candidate set: the union, over views with an open window, of the view's top k so far.

    A view is known by its start; it ranks all objects at or after it. It is live if it has begun to hold objects and
    its window ends beyond the watermark.
    """
    objects = [row for row in rows if is_object(row)]
    if not objects:
        return set()
    newest = max(p for p, _, _ in objects)
    needed = set()
    for start, _ in windows_between(asked, watermark, newest + asked.size):
        view = [o for o in objects if o[0] >= start]
        needed |= {id_ for _, (_, _, id_) in best(view, asked.k, asked.ascending, asked.tied)}
    return needed


def minimal_candidates_together(queries, rows, watermark):
    """The ids of the minimal candidate set of several queries of one direction and one policy for ties.

    A view is known by its start and needs as many objects as the largest k among the queries that have a window with
    this start and an end beyond the watermark.
    """
    objects = [row for row in rows if is_object(row)]
    if not objects:
        return set()
    newest = max(p for p, _, _ in objects)
    ks = {}
    for asked in queries:
        for start, _ in windows_between(asked, watermark, newest + asked.size):
            ks[start] = max(asked.k, ks.get(start, 0))
    needed = set()
    for start, k in ks.items():
        view = [o for o in objects if o[0] >= start]
        needed |= {id_ for _, (_, _, id_) in best(view, k, queries[0].ascending, queries[0].tied)}
    return needed


def sessions(rows, gap, max_length=None):
    """[(start, end, objects), ...]: the sessions of one group's objects, oldest first.

    A session begins with an object. An object belongs to it if it comes less than `gap` after the one before it, and
    less than `max_length` after the first; the next object begins the next session.
    """
    found = []
    for one in sorted((row for row in rows if is_object(row)), key=lambda row: row[0]):
        inside = found[-1] if found else None
        fits = inside and one[0] - inside[-1][0] < gap and (max_length is None or one[0] - inside[0][0] < max_length)
        if fits:
            inside.append(one)
        else:
            found.append([one])
    ended = []
    for inside in found:
        start, end = inside[0][0], inside[-1][0] + gap
        ended.append((start, end if max_length is None else min(end, start + max_length), inside))
    return ended


def session_answers(rows, k, gap, max_length=None, *, ascending=False, tied=False, watermark=None):
    """[(window_start, window_end, rank, id, score), ...] of one group's sessions that end up to the watermark."""
    return [
        (start, end, rank, id_, score)
        for start, end, inside in sessions(rows, gap, max_length)
        if watermark is None or end <= watermark
        for rank, (_, score, id_) in best(inside, k, ascending, tied)
    ]
