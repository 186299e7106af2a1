"""Numbers that the papers print in tables, from the CSV files in `printed/`."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from benchmarks.figures.registry import Values

FOLDER = Path(__file__).parent / "printed"


@cache
def table(name: str) -> dict[tuple[str, str], dict[str, float]]:
    """A table by data set and method; its columns are named by parameter and value."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8") as file:
        heads, *rows = csv.reader(file)
    return {(row[0], row[1]): dict(zip(heads[2:], map(float, row[2:]), strict=True)) for row in rows}


def lines(name: str, stream: str, columns: tuple[str, ...]) -> dict[str, Values]:
    """The numbers of a data set by method, at these columns."""
    return {
        method: tuple(row.get(column) for column in columns)
        for (data_set, method), row in table(name).items()
        if data_set == stream
    }
