"""One query on count windows: cells of several engines as panels. Used for the MinTopk and the SAP paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from benchmarks.figures.registry import Panel, Values
from benchmarks.measure import Cell, measure_periods

MEASURES: dict[str, Callable[[Cell], float]] = {
    "CPU time, ns per object": lambda cell: cell.ns,
    "candidates, mean": lambda cell: cell.candidates_mean,
    "state, bytes": lambda cell: cell.state_bytes,
}
TIME, CANDIDATES, BYTES = MEASURES


class Point(NamedTuple):
    """A query, and the name of its place on the axis."""

    place: float | str
    size: int
    slide: int
    k: int


def panels_of(
    stream: str,
    label: str,
    varied: str,
    points: Sequence[Point],
    methods: Iterable[str],
    cap: float,
    *,
    measures: Sequence[str] = (TIME,),
    objects: int | None = None,
    printed: dict[str, Values] | None = None,
    unit: str = "",
    measure: Callable[[str, str, Point, float, int | None], Cell] | None = None,
) -> list[Panel]:
    """Measure every method at every point, over the same objects of the stream."""
    run = measure or plain
    cells: dict[str, list[Cell]] = {method: [] for method in methods}
    notes = []
    for point in points:
        for method, mine in cells.items():
            cell = run(method, stream, point, cap, objects)
            if cell.skipped:
                notes.append(f"{method} at {varied} {point.place}: {cell.skipped}")
            mine.append(cell)
    return [
        Panel(
            label,
            name,
            varied,
            tuple(point.place for point in points),
            {
                method: tuple(None if cell.skipped else MEASURES[name](cell) for cell in mine)
                for method, mine in cells.items()
            },
            printed or {},
            unit,
            notes=tuple(notes),
        )
        for name in measures
    ]


def plain(method: str, stream: str, point: Point, cap: float, objects: int | None) -> Cell:
    """The engine as it is."""
    return measure_periods(method, stream, point.size, point.slide, point.k, cap, objects)
