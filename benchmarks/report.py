"""Tables for the terminal, CSV files in results/, and the report in reports/ that shows them."""

from __future__ import annotations

import csv
import os
import platform
import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
REPORTS = ROOT / "benchmarks" / "reports"
IMAGES = REPORTS / "images"
PAGE = REPORTS / "single.md"


class Ratio(NamedTuple):
    """A target and the measured value."""

    what: str
    target: str
    measured: str
    met: bool | None  # None: no target

    def row(self) -> list[str]:
        return [self.what, self.target, self.measured, "" if self.met is None else "yes" if self.met else "no"]


def show(
    name: str, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, write: bool, page: Path = PAGE
) -> None:
    """Print a table; with `write`, store it as `results/<name>.csv` and put it into its report."""
    table = Table(title=title, title_justify="left")
    for i, head in enumerate(heads):
        table.add_column(head, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=int(os.environ.get("COLUMNS", "150"))).print(table)
    if not write:
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([heads, *rows])
    marks = ["---", *["---:"] * (len(heads) - 1)]
    lines = [f"| {' | '.join(row)} |" for row in (heads, marks, *rows)]
    into_page(name, "\n".join(lines), page=page)


def into_page(name: str, text: str, *, page: Path = PAGE) -> None:
    """Replace the text between two marks in a report. Raise LookupError if the report does not have them."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    new, count = re.subn(f"{begin}.*?{end}", lambda _: f"{begin}\n{text}\n{end}", old, flags=re.DOTALL)
    if count != 1:
        what = f"has {count} pairs of the lines" if page.exists() else "does not exist. It must have the lines"
        raise LookupError(f"{page} {what} {begin!r} and {end!r}, so the results were not written into it.")
    page.write_text(new, encoding="utf-8")


def machine() -> str:
    """Sentence that describes the machine of the measurement."""
    cpu = Path("/proc/cpuinfo")
    models = re.findall(r"model name\s*: (.*)", cpu.read_text()) if cpu.exists() else []
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{models[0] if models else platform.processor()}, {os.cpu_count()} cores, {memory:.0f} GB, "
        f"{platform.system()}; Python {platform.python_version()}, NumPy {version('numpy')}, numba {version('numba')}, "
        f"pyarrow {version('pyarrow')}. Load of the machine when the run began: {os.getloadavg()[0]:.1f}."
    )


def amount(value: float) -> str:
    """Format a number with three significant digits."""
    if value >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def short(value: int) -> str:
    """Format 1000 as 1K and 1000000 as 1M."""
    for unit, letter in ((1_000_000, "M"), (1_000, "K")):
        if value >= unit and value % unit == 0:
            return f"{value // unit}{letter}"
    return str(value)


def bytes_text(value: int) -> str:
    """Format bytes with a suitable unit."""
    return f"{value / 2**20:,.1f} MB" if value >= 2**20 else f"{value / 2**10:,.0f} KB"
