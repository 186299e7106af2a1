"""Results of figures as CSV files, so that the page can be written again without measuring again."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.figures.registry import Figure, Panel, Values

HEADS = ("stream", "measure", "varied", "axis", "place", "method", "value", "printed", "printed unit")
INDEX = "index.csv"
INDEX_HEADS = ("figure", "scale", "seconds", "machine", "notes")


class Run(NamedTuple):
    """A measured figure."""

    panels: list[Panel]
    scale: str
    seconds: float  # of CPU time
    machine: str
    notes: tuple[str, ...] = ()


def save(figure: Figure, run: Run, folder: Path) -> None:
    """Write the panels of a figure, and its line of the index."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        [p.stream, p.measure, p.varied, "log" if p.logarithmic else "linear", place, method, *_pair(p, method, i)]
        for p in run.panels
        for method in dict.fromkeys([*p.lines, *p.printed])
        for i, place in enumerate(p.places)
    ]
    _write(folder / f"{figure.slug}.csv", HEADS, rows)
    index = {row[0]: row for row in _read(folder / INDEX)} if (folder / INDEX).exists() else {}
    notes = "; ".join(dict.fromkeys(note for panel in run.panels for note in panel.notes))
    index[figure.slug] = [figure.slug, run.scale, f"{run.seconds:.1f}", run.machine, notes]
    _write(folder / INDEX, INDEX_HEADS, [index[name] for name in sorted(index)])


def load(figure: Figure, folder: Path) -> Run | None:
    """The stored panels of a figure, or None."""
    path = folder / f"{figure.slug}.csv"
    if not path.exists():
        return None
    panels: dict[tuple[str, ...], dict[str, dict[str, tuple[str, str]]]] = {}
    for *key, place, method, value, printed, unit in _read(path):
        panels.setdefault((*key, unit), {}).setdefault(method, {})[place] = value, printed
    found = []
    for (stream, measure, varied, axis, unit), lines in panels.items():
        places = tuple(dict.fromkeys(place for line in lines.values() for place in line))
        values, printed_values = (
            {
                method: tuple(_number(line[place][side]) if place in line else None for place in places)
                for method, line in lines.items()
            }
            for side in (0, 1)
        )
        found.append(
            Panel(
                stream, measure, varied, tuple(map(_place, places)), _some(values), _some(printed_values), unit,
                axis == "log",
            )
        )  # fmt: skip
    line = next(row for row in _read(folder / INDEX) if row[0] == figure.slug)
    return Run(found, line[1], float(line[2]), line[3], tuple(filter(None, line[4].split("; "))))


def _pair(panel: Panel, method: str, i: int) -> list[str]:
    values = [lines[method][i] if method in lines else None for lines in (panel.lines, panel.printed)]
    return [*("" if value is None else f"{value:.6g}" for value in values), panel.unit]


def _some(lines: dict[str, Values]) -> dict[str, Values]:
    return {method: line for method, line in lines.items() if any(value is not None for value in line)}


def _number(text: str) -> float | None:
    return float(text) if text else None


def _place(text: str) -> float | str:
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        return text


def _write(path: Path, heads: tuple[str, ...], rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([heads, *rows])


def _read(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]
