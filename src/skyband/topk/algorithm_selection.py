"""Which algorithm `auto` selects, and why."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import NamedTuple

from skyband.topk.query import TopK
from skyband.windows import SlidingWindow

__all__ = [
    "MOST_KEPT",
    "Choice",
    "Seen",
    "best_engine",
    "choose",
    "choose_on_spark",
    "depends_on_excess",
    "may_switch",
    "most_excess",
    "suits_long_pushes",
]

# The limits are measured (benchmarks/reports/auto.md). The work of panes per slide grows with the number of candidates,
# that of SAP does not. `excess` is the number of candidates beyond k.
SHORT_SLIDE = 50  # objects: SAP is faster if slides are at most this long
CANDIDATES = 200  # SAP is faster if the excess times this is at least the square of the slide;
FEWER_CANDIDATES = 60  # times this, if the panes of a long window have a bar, which is estimated from the pane before
HINTED = 3  # panes of at least this many times k objects have one
LONG_WINDOW = 50_000  # a window of more objects is long
UNEVEN_CANDIDATES = 600  # times this, if the slide is not a part of the window, because panes are then short and many,
UNEVEN_WINDOW = 100_000  # and the window has at most this many objects
PART = 20  # SAP needs slides of at most this part of the window. If k is at least this part of it, answers take most
MANY = 5  # of the time, and panes are as fast or faster, unless slides are short and the excess is this many times k
MOST_KEPT = 16_000_000  # objects: SAP keeps the window's scores, 8 to 24 bytes each
# While scores fall, the k first objects of each slide are candidates, and a new object enters the newest window only.
# MinTopk then rejects all other objects by one comparison, and does nothing per candidate.
FALLING = 0.9  # MinTopk is faster if the excess is at least this part of the largest possible one,
LONG_SLIDE = 8  # slides have at least this many times k objects (and are not short),
SLIDES = 50  # and a window has at least this many of them;
FEW_SLIDES = 1_000  # or slides have at least k objects, and a window has at most this many of them
# In one long push without a trend, MinTopk is faster than both: it processes new objects in batches.
STEADY = 0.5, 2.0  # The excess is between these parts of that in random order,
STEADY_SLIDE = 200  # and slides have at least k and at most this many objects,
UNHINTED_SLIDE = 500  # or at most this many, if panes have no bar
MOST_WINDOWS = 1 << 17  # open at once: MinTopk keeps 16 bytes for each
# The work of sap-shared per slide and window size grows with the number of objects that enter and leave a list of about
# k objects, that of panes with the candidates (benchmarks/reports/sap_shared.md).
SHARED_PART = 10  # sap-shared needs windows of at least this many times the longest slide times the largest k
RISING = 0.5  # panes is faster if the excess is less than this part of that in random order, because scores rise
MOST_LISTED = 1_000_000  # objects in all lists: sap-shared keeps about 45 bytes for each


class Choice(NamedTuple):
    """An algorithm and the reason for it."""

    algorithm: str
    why: str


class Seen(NamedTuple):
    """Number of objects per window and per slide: fixed for count windows, measured for time windows."""

    size: float
    slide: float


def choose_on_spark(queries: Sequence[TopK]) -> Choice:
    """Choose the algorithm of a shard. It starts again with every batch and group, and panes start fastest."""
    return Choice("panes", _why_panes(queries))


def choose(
    queries: Sequence[TopK], seen: Seen | None = None, excess: float | None = None, *, grouped: bool = False
) -> Choice:
    """Choose the algorithm for these queries; `grouped` if each group of the stream has its own windows.

    `excess` is the number of candidates beyond k. None: as many as in random order.
    """
    best = best_engine(queries, seen, excess, grouped=grouped)
    why, query = _why_panes(queries), queries[0]
    if not grouped and _could_be_shared(queries):
        return _choice_for_many(queries, best)
    if grouped or not _could_be_sap(queries):
        return Choice(best, why)
    if not isinstance(query.window, SlidingWindow):
        return Choice(best, f"{why}; sap requires windows with one size and one slide")
    seen = seen or _known(query)
    if seen is None:
        return Choice(best, f"{why}; {_SWITCH}; {_FALL}")
    found = random_excess(query, seen) if excess is None else excess
    if best == "mintopk":
        why = _why_mintopk(seen, query.k + found)
    elif best == "sap":
        why = _why_sap(queries, seen, query.k + found, expected=excess is None)
    elif seen.size > MOST_KEPT:
        why = f"{why}; a window of {seen.size:,.0f} rows is too large for sap, which keeps all of it"
    elif excess is None:
        why = "; ".join([why, *_switches(query, seen)])
    if best != "mintopk" and excess is None and suits_long_pushes(queries, seen):
        why = f"{why}; {_LONG}"
    return Choice(best, why)


def best_engine(
    queries: Sequence[TopK],
    seen: Seen | None = None,
    excess: float | None = None,
    *,
    grouped: bool = False,
    steady: bool = False,
) -> str:
    """Return the algorithm that `choose` returns, without the reason for it.

    `steady`: the next rows are one long push whose scores have no trend.
    """
    query = queries[0]
    if not grouped and _could_be_shared(queries):
        seen = seen or _known_together(queries)
        if seen is None or not _is_shared(queries, seen):
            return "panes"
        widest = max(queries, key=lambda query: query.k)
        rises = excess is not None and excess < RISING * random_excess(widest, seen)
        return "panes" if rises else "sap-shared"
    if grouped or not _could_be_sap(queries) or not isinstance(query.window, SlidingWindow):
        return "panes"
    seen = seen or _known(query)
    if seen is None:
        return "panes"
    found = random_excess(query, seen) if excess is None else excess
    if steady and suits_long_pushes(queries, seen) and is_as_in_random_order(query, seen, found):
        return "mintopk"
    return _best(query, seen, found)


def suits_long_pushes(queries: Sequence[TopK], seen: Seen) -> bool:
    """Whether MinTopk is expected to be the fastest in a long push whose scores have no trend."""
    query = queries[0]
    return (
        _could_be_sap(queries)
        and isinstance(query.window, SlidingWindow)
        and query.k <= seen.slide <= (STEADY_SLIDE if seen.slide >= HINTED * query.k else UNHINTED_SLIDE)
        and seen.size >= SLIDES * seen.slide
        and query.window.most_alive <= MOST_WINDOWS
    )


def is_as_in_random_order(query: TopK, seen: Seen, excess: float) -> bool:
    """Whether the number of candidates is about that of scores in random order."""
    expected = random_excess(query, seen)
    return STEADY[0] * expected <= excess <= STEADY[1] * expected


def depends_on_excess(queries: Sequence[TopK], seen: Seen) -> bool:
    """Whether the choice depends on the number of candidates."""
    query = queries[0]
    if _could_be_shared(queries):
        return _is_shared(queries, seen)
    return _could_be_sap(queries) and _best(query, seen, 0.0) != _best(query, seen, most_excess(query, seen))


def most_excess(query: TopK, seen: Seen) -> float:
    """Return the largest possible number of candidates beyond k: every slide keeps k of its objects at most."""
    return max(0.0, min(seen.size, query.k * seen.size / max(seen.slide, 1.0)) - query.k)


def random_excess(query: TopK, seen: Seen) -> float:
    """Return the expected number of candidates beyond k for scores in random order."""
    expected = query.k * log(max(1.0, seen.size / query.k))
    return min(expected, most_excess(query, seen))


def may_switch(queries: Sequence[TopK]) -> bool:
    """Whether `auto` starts with panes and may switch to an engine that keeps more when it has seen the stream."""
    query = queries[0]
    if _could_be_shared(queries):
        # How many rows a position has does not matter: the rule compares products of lengths.
        return queries[0].axis == "time" and _has_short_slides(queries, _longest(queries))
    if not _could_be_sap(queries) or not isinstance(query.window, SlidingWindow):
        return False
    seen = _known(query)
    if seen is None:
        return True
    most = most_excess(query, seen)
    return _is_sap(query, seen, most) and not _is_sap(query, seen, random_excess(query, seen))


def _best(query: TopK, seen: Seen, excess: float) -> str:
    """Return the engine that is expected to be the fastest."""
    if _is_mintopk(query, seen, excess):
        return "mintopk"
    return "sap" if _is_sap(query, seen, excess) else "panes"


def _is_mintopk(query: TopK, seen: Seen, excess: float) -> bool:
    """Whether MinTopk is expected to be faster than panes and SAP."""
    is_long = seen.slide > SHORT_SLIDE and seen.slide >= LONG_SLIDE * query.k
    return (
        (is_long or (seen.slide >= query.k and seen.size <= FEW_SLIDES * seen.slide))
        and seen.size >= SLIDES * seen.slide
        and query.window.most_alive <= MOST_WINDOWS
        and excess >= FALLING * most_excess(query, seen)
    )


def _is_sap(query: TopK, seen: Seen, excess: float) -> bool:
    """Whether SAP is expected to be faster than panes."""
    k = query.k
    if seen.size > MOST_KEPT or PART * seen.slide > seen.size:
        return False
    if PART * k >= seen.size:
        return seen.slide <= SHORT_SLIDE and excess >= MANY * k
    return seen.slide <= SHORT_SLIDE or _factor(query, seen) * excess >= seen.slide**2


def _factor(query: TopK, seen: Seen) -> int:
    """Return by how much the excess is multiplied before it is compared with the square of the slide."""
    if query.sliding.size % query.sliding.slide and seen.size <= UNEVEN_WINDOW:
        return UNEVEN_CANDIDATES
    if seen.slide >= HINTED * query.k and seen.size > LONG_WINDOW:
        return FEWER_CANDIDATES
    return CANDIDATES


def _is_shared(queries: Sequence[TopK], seen: Seen) -> bool:
    """Whether sap-shared is expected to be faster than panes; `seen` is the longest window and the longest slide."""
    return seen.size <= MOST_KEPT and _has_short_slides(queries, seen)


def _has_short_slides(queries: Sequence[TopK], seen: Seen) -> bool:
    """Whether few objects enter and leave a list per slide, and there are not too many lists."""
    k, lists = max(query.k for query in queries), len({query.window.longest for query in queries})
    return SHARED_PART * max(seen.slide, 1.0) * k <= seen.size and lists * k <= MOST_LISTED


def _choice_for_many(queries: Sequence[TopK], best: str) -> Choice:
    """Return the reason for the choice between panes and sap-shared."""
    if best == "sap-shared":
        return Choice(best, f"fastest for many queries if slides are short, unless scores rise; {_KEEPS_SHARED}")
    why = _why_panes(queries)
    return Choice(best, f"{why}; switches to sap-shared when a window has been seen" if may_switch(queries) else why)


def _longest(queries: Sequence[TopK]) -> Seen:
    """Return the longest window and the longest slide, as positions."""
    windows = [query.window for query in queries if isinstance(query.window, SlidingWindow)]
    return Seen(max(window.size for window in windows), max(window.slide for window in windows))


def _known_together(queries: Sequence[TopK]) -> Seen | None:
    """Return the longest window and the longest slide of count windows."""
    return _longest(queries) if queries[0].axis == "count" else None


def _could_be_shared(queries: Sequence[TopK]) -> bool:
    """Whether there are several queries, without ties, groups, listed windows and rules beyond one score."""
    return len(queries) > 1 and not any(
        query.ties == "rank"
        or query.partition_by
        or query.ranking_rule is not None
        or not isinstance(query.window, SlidingWindow)
        for query in queries
    )


def _known(query: TopK) -> Seen | None:
    """Return the sizes of a count window."""
    window = query.window
    return Seen(window.size, window.slide) if query.axis == "count" and isinstance(window, SlidingWindow) else None


def _could_be_sap(queries: Sequence[TopK]) -> bool:
    """Whether there is one query, without ties and groups, which ranks by the score alone.

    Other rules need the rows' columns. They are applied to stored rows, which panes rank again in every step.
    """
    return (
        len(queries) == 1
        and queries[0].ties != "rank"
        and not queries[0].partition_by
        and queries[0].ranking_rule is None
    )


_FALL = "switches to mintopk while scores fall"
_SWITCH = (
    "switches to sap if windows contain many rows and slides few; sap also keeps 8 to 24 bytes per row of the window"
)
_MORE = (
    "switches to sap if there are many more candidates than in random order, for example while scores fall; sap also "
    "keeps 8 to 24 bytes per row of the window"
)
_KEEPS_SHARED = "keeps the scores of the longest window, and the best rows of each window size"
_KEEPS = "keeps the scores of the whole window and scans parts of it only when necessary"


_LONG = "switches to mintopk in a long push without a trend"


def _switches(query: TopK, seen: Seen) -> list[str]:
    """Return when another engine than the one for random order is used."""
    most = most_excess(query, seen)
    more = [_MORE] if _is_sap(query, seen, most) and not _is_sap(query, seen, random_excess(query, seen)) else []
    return [*more, _FALL] if _is_mintopk(query, seen, most) else more


def _why_sap(queries: Sequence[TopK], seen: Seen, candidates: float, *, expected: bool) -> str:
    """Return the reason for SAP; `expected` if the number of candidates is that of random order."""
    if not depends_on_excess(queries, seen):
        return f"fastest if slides are short ({seen.slide:,.0f} of {seen.size:,.0f} rows); {_KEEPS}"
    switch = "; switches to panes if there are fewer candidates than in random order" if expected else ""
    return (
        f"fastest if there are many candidates (about {candidates:,.0f}) and slides are short ({seen.slide:,.0f} of "
        f"{seen.size:,.0f} rows); {_KEEPS}{switch}"
    )


def _why_mintopk(seen: Seen, candidates: float) -> str:
    return (
        f"fastest while scores fall: nearly as many candidates as possible (about {candidates:,.0f}), and slides with "
        f"many more rows than k ({seen.slide:,.0f} of {seen.size:,.0f} rows); keeps the minimal candidate set"
    )


def _why_panes(queries: Sequence[TopK]) -> str:
    if any(query.distinct is not None for query in queries):
        return "keeps the best rows of the k best entities of all windows; the published algorithms do not support them"
    if any(query.ties == "rank" for query in queries):
        return "keeps the minimal candidate set including ties, which the published algorithms do not support"
    if len(queries) == 1:
        return "keeps MinTopk's minimal candidate set, updated once per pane instead of once per row"
    return "keeps MTopList's minimal candidate set for all queries together, updated per block instead of per row"
