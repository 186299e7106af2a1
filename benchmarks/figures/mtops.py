"""Figures 8 to 15 of the MTopS paper: time and memory of 10, 100 and 1000 queries together, and of each alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from benchmarks.bench_shared import ALONE, COUNTS, GRID, Cell, Kind, measure
from benchmarks.figures.registry import Claim, Figure, Finding, Order, Panel, Scale, graded, ratio

PAPER = "MTopS"
TENTH = {"small": "At this scale, windows, slides and k are a tenth of the paper's."}
DATA = ("trades_us_equity_20131008_09",)
METHODS = ("mtoplist", "mtopband", ALONE)
OURS = ("panes",)
MEASURES: dict[str, Callable[[Cell], float]] = {
    "CPU time, ns per object": lambda cell: cell.ns(written=True),
    "state, bytes": lambda cell: cell.state,
}
TIME, BYTES = MEASURES

_LIST_BYTES = (
    "MTopList's list has links and two marks for each object, and room for a batch of new ones. MTopBand stores an "
    "object once, and a reference of 4 bytes for each view that predicts it: less while an object is in few views."
)
_BAND = (
    "With arbitrary windows, slides and k, nearly every query has separate views. With few queries MTopBand updates as "
    "many heaps as the separate runs do; with many, it merges each set with a batch of new objects."
)
_FEW = "With ten queries there is little to share: each has views that no other has, and all of them are in one list."
_APART = (
    "In the paper, a separate run of MinTopk takes 7 ms for an object; here it takes 4 to 17 ns, because most objects "
    "are rejected by one comparison. So there is less to share; and rows of answers, which are written here, cost all "
    "methods the same."
)
_MEMORY = (
    "A hundred bytes for each view do not shrink with sharing; a separate run holds at most k · (1 + ln c) objects."
)


def _panels(kind: Kind) -> Callable[[Scale], list[Panel]]:
    def run(scale: Scale) -> list[Panel]:
        ks = (scale.less(kind.ks[0]), scale.less(kind.ks[1]))
        smaller = kind.shorter(scale.lengths)._replace(ks=ks, stream="stock")
        counts = (3, 10) if scale.few else COUNTS
        lines = {
            method: [measure(smaller, method, count, scale.cap / 2, 1 if scale.few else 3) for count in counts]
            for method in (*METHODS, *OURS)
        }
        return [
            Panel("", name, "queries", counts, {m: tuple(map(of, cells)) for m, cells in lines.items()})
            for name, of in MEASURES.items()
        ]

    return run


def _growth(panels: Sequence[Panel], measure: str) -> dict[str, float]:
    """Value with the most queries against that with the fewest."""
    panel = next(panel for panel in panels if panel.measure == measure)
    return {m: (v[-1] or 0.0) / (v[0] or 1.0) for m, v in panel.lines.items()}


def _grows(measure: str, printed: str, place: str, what: str, why: str = "") -> Claim:
    def check(panels: Sequence[Panel]) -> Finding:
        grows = _growth(panels, measure)
        text = ", ".join(f"{method} {grows[method]:.3g}×" for method in METHODS)
        return text, graded(grows[ALONE] / grows["mtoplist"], 1.0, 1.0)

    return Claim(place, what, printed, check, why)


def _steps(panels: Sequence[Panel]) -> Finding:
    panel = next(panel for panel in panels if panel.measure == TIME)
    text = []
    for method in ("mtoplist", "mtopband"):
        values = [value or 0.0 for value in panel.lines[method]]
        text.append(f"{method} " + ", ".join(f"{b / a:.1f}×" for a, b in pairwise(values)))
    grows = _growth(panels, TIME)
    return "; ".join(text), graded(grows["mtopband"], grows["mtoplist"], grows["mtoplist"])


def _against(other: str, measure: str, at: int, printed: float) -> Callable[[Sequence[Panel]], Finding]:
    def check(panels: Sequence[Panel]) -> Finding:
        panel = next(panel for panel in panels if panel.measure == measure)
        found = ratio(panel, other, "mtoplist")
        return f"{found[at]:.3g}× less", graded(found[at], printed, 1.0)

    return check


def _never_worse(panels: Sequence[Panel]) -> Finding:
    panel = next(panel for panel in panels if panel.measure == TIME)
    found = ratio(panel, "mtoplist", "mtopband")
    return f"at most {max(found):.2f}× of MTopBand", graded(1 / max(found), 0.95, 0.95)


TIME_ORDERS = (
    Order("mtoplist", "mtopband", TIME, _FEW),
    Order("mtoplist", ALONE, TIME, _FEW),
    Order("mtopband", ALONE, TIME, _BAND),
)
BYTES_ORDERS = (Order("mtoplist", "mtopband", BYTES, _LIST_BYTES), Order("mtoplist", ALONE, BYTES, ""))
_ORDERS = (*TIME_ORDERS, *BYTES_ORDERS)
_SETTING = (
    "Here: US trades, and all answers are written. Of a thousand separate runs, fifty are timed and the rest estimated."
)

FIGURES = (
    Figure(
        PAPER, "figures 8 and 9", "arbitrary k", "queries", METHODS, _panels(GRID[0]), _ORDERS,
        (
            _grows(TIME, "MinTopk about 100×", "section 7, figure 8", "growth of CPU time from 10 to 1000 queries"),
            _grows(BYTES, "MTopList 2.5×, MTopBand 6×, MinTopk 99×", "section 7, figure 9",
                   "growth of memory from 10 to 1000 queries"),
        ),
        data=DATA,
        scaled=TENTH,
        setting=f"Paper: window 1M, slide 100K, k 10 to 1000. {_SETTING}",
    ),
    Figure(
        PAPER, "figures 10 and 11", "arbitrary slides", "queries", METHODS, _panels(GRID[1]), _ORDERS,
        (Claim("section 7", "100 queries: MTopList against MinTopk, CPU time", "0.0066 s and 0.712 s (108×)",
               _against(ALONE, TIME, 1, 108), _APART),),
        data=DATA,
        scaled=TENTH,
        setting=f"Paper: window 1M, slide 100K to 1M, k 1000. {_SETTING}",
    ),
    Figure(
        PAPER, "figures 12 and 13", "arbitrary windows and slides", "queries", METHODS, _panels(GRID[2]), _ORDERS,
        (
            Claim("section 7, figure 12", "growth of CPU time with each tenfold number of queries",
                  "MTopList 4.1× and 2.3×, MTopBand 7× and 4.5×", _steps,
                  "Answers are written here: their rows grow with the queries and cost both methods the same."),
            _grows(TIME, "MinTopk 99×", "section 7, figure 12", "growth of CPU time from 10 to 1000 queries"),
            _grows(BYTES, "MinTopk 91×", "section 7, figure 13", "growth of memory from 10 to 1000 queries"),
        ),
        data=DATA,
        scaled=TENTH,
        setting=f"Paper: window 100K to 1M, slide 10K to 100K, k 100. {_SETTING}",
    ),
    Figure(
        PAPER, "figures 14 and 15", "all parameters arbitrary", "queries", METHODS, _panels(GRID[3]), _ORDERS,
        (
            Claim("section 7, figure 14", "1000 queries: MTopList against MTopBand, CPU time", "30 to 40× less",
                  _against("mtopband", TIME, -1, 30), _APART),
            Claim("section 7, figure 14", "1000 queries: MTopList against separate MinTopk, CPU time", "330× less",
                  _against(ALONE, TIME, -1, 330), _APART),
            Claim("section 1", "1000 queries: memory against separate MinTopk", "175.4× less",
                  _against(ALONE, BYTES, -1, 175.4), _MEMORY),
            Claim("section 7", "MTopList is never slower than MTopBand", "never", _never_worse, _FEW),
        ),
        data=DATA,
        scaled=TENTH,
        setting=f"Paper: window 100K to 1M, slide 10K to 100K, k 10 to 1000. {_SETTING}",
    ),
)  # fmt: skip
