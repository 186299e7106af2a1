"""What a figure of a paper is: who measures it, which order the paper found, and which numbers it prints.

A figure has panels: one measure of several methods, over one varied parameter. The order of the methods in the paper is
recorded as pairs, with the reason to print where the measured order differs. Numbers of the paper's running text are
recorded as claims, in our own words, with a function that computes the same from the panels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeVar

T = TypeVar("T")
Grade = Literal["yes", "partly", "no"]  # whether what the paper has was found here, too
Finding = tuple[str, Grade] | None  # what was measured, if it was
Values = tuple[float | None, ...]
SAME = 1.05  # a method within this factor of another is neither better nor worse


class Scale(NamedTuple):
    """How large and how long the measurements are."""

    name: str
    cap: float  # seconds of CPU time for a cell, at most
    lengths: int  # the papers' windows, slides and k are divided by this where they are in thousands
    looks: int  # evaluations, or draws of queries, of a point
    few: bool = False  # two values of a varied parameter, instead of all

    def some(self, values: Sequence[T]) -> tuple[T, ...]:
        """The values of a varied parameter at this scale."""
        return (values[0], values[-1]) if self.few and len(values) > 2 else tuple(values)

    def less(self, value: int, least: int = 1) -> int:
        return max(least, value // self.lengths)


SCALES = {
    "tiny": Scale("tiny", cap=0.2, lengths=200, looks=2, few=True),
    "small": Scale("small", cap=2.0, lengths=10, looks=50),
    "full": Scale("full", cap=20.0, lengths=1, looks=50),
}


class Panel(NamedTuple):
    """One measure of several methods over one parameter; lower is better unless the measure is in `HIGHER`."""

    stream: str
    measure: str
    varied: str
    places: tuple[float | str, ...]
    lines: Mapping[str, Values]  # by method; None where there is no result
    printed: Mapping[str, Values] = MappingProxyType({})  # numbers of the paper at the same places, in its own unit
    unit: str = ""  # of the printed numbers
    logarithmic: bool = True
    notes: tuple[str, ...] = ()  # what was not measured, and why

    @property
    def title(self) -> str:
        return f"{self.stream}: {self.measure}" if self.stream else self.measure


HIGHER = ("precision", "queries per second")


class Order(NamedTuple):
    """A pair of methods, the better one in the paper first."""

    better: str
    worse: str
    measure: str  # the begin of a measure; empty: all
    why: str  # what to print if it is not so here


class Verdict(NamedTuple):
    """A claim or an order beside what was measured."""

    place: str
    text: str
    printed: str
    measured: str
    holds: Grade
    why: str


class Claim(NamedTuple):
    """A number or a statement of the paper's text."""

    place: str
    text: str
    printed: str
    check: Callable[[Sequence[Panel]], Finding]
    why: str = ""  # what to print if it does not hold here


class Figure(NamedTuple):
    """One figure or table of a paper, or several that show the same runs."""

    paper: str
    number: str
    title: str
    varies: str
    methods: tuple[str, ...]
    measure: Callable[[Scale], list[Panel]]
    orders: tuple[Order, ...] = ()
    claims: tuple[Claim, ...] = ()
    data: tuple[str, ...] = ()  # data sets that must exist
    setting: str = ""  # streams and parameters, and how they differ from the paper's
    scaled: Mapping[str, str] = MappingProxyType({})  # by scale: what is smaller than in the paper
    on_request: bool = False  # measured only if it is named, or at the smallest scale

    @property
    def slug(self) -> str:
        """Name of its files."""
        text = f"{self.paper} {self.number}".lower()
        return "-".join("".join(c if c.isalnum() else " " for c in text).split())


def ratio(panel: Panel, one: str, other: str, *, printed: bool = False) -> list[float]:
    """Values of one method against another, at the places where both have one."""
    lines = panel.printed if printed else panel.lines
    pairs = zip(lines.get(one, ()), lines.get(other, ()), strict=False)
    return [a / b for a, b in pairs if a is not None and b is not None and a > 0 and b > 0]


def ratios(panels: Sequence[Panel], one: str, other: str, measure: str = "", *, printed: bool = False) -> list[float]:
    """The same over all panels of a measure."""
    mine = (panel for panel in panels if panel.measure.startswith(measure))
    return [value for panel in mine for value in ratio(panel, one, other, printed=printed)]


def average(values: Sequence[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def graded(value: float, printed: float, least: float) -> Grade:
    """Whether a value reaches the paper's, or at least has its direction."""
    return "yes" if value >= printed else "partly" if value > least else "no"


def compare(order: Order, panels: Sequence[Panel]) -> Iterator[Verdict]:
    """One verdict for each measure: does the method that is better in the paper win here, too?"""
    measures = dict.fromkeys(panel.measure for panel in panels if panel.measure.startswith(order.measure))
    for measure in measures:
        turned = measure.startswith(HIGHER)
        first, second = (order.worse, order.better) if turned else (order.better, order.worse)
        found = ratios(panels, first, second, measure)
        if not found:
            continue
        over = [value for value in found if value > SAME]
        printed = ratios(panels, first, second, measure, printed=True)
        holds: Grade = "no" if average(found) > SAME or 2 * len(over) > len(found) else "partly" if over else "yes"
        yield Verdict(
            "",
            f"{measure}: {order.better} {'above' if turned else 'below'} {order.worse}",
            f"{_times(1 / average(printed)) if turned else _times(average(printed))}" if printed else "",
            f"{_times(1 / average(found)) if turned else _times(average(found))}"
            + (f"; the other way at {len(over)} of {len(found)} places" if over else ""),
            holds,
            "" if holds == "yes" else order.why,
        )


def verdicts(figure: Figure, panels: Sequence[Panel]) -> list[Verdict]:
    """All orders and claims of a figure beside the measurement."""
    found = [verdict for order in figure.orders for verdict in compare(order, panels)]
    for claim in figure.claims:
        checked = claim.check(panels)
        if checked is None:
            continue
        measured, holds = checked
        why = "" if holds == "yes" else claim.why
        found.append(Verdict(claim.place, claim.text, claim.printed, measured, holds, why))
    return found


def _times(value: float) -> str:
    return f"{value:.3g}×"
