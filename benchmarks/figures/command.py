"""Measure figures of the papers, store the results and write the page.

python -m benchmarks figures [--scale tiny|small|full] [--only TEXT]
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report, workloads
from benchmarks.figures import gallery, incomplete, mintopk, mtops, results, sap, uncertain
from benchmarks.figures.registry import SCALES, Figure, verdicts

FIGURES: tuple[Figure, ...] = (
    *mintopk.FIGURES,
    *sap.FIGURES,
    *mtops.FIGURES,
    *incomplete.FIGURES,
    *uncertain.FIGURES,
)


def run(*, quick: bool = False, scale: str = "small", only: Sequence[str] = (), folder: Path | None = None) -> None:
    """Measure the figures whose name contains one of `only`, or all that are not measured on request only.

    Without a `folder`, results, plots and page replace those of the repository; at the scale `tiny` they go to
    `build/figures`.
    """
    size = SCALES["tiny" if quick else scale]
    home = folder or (report.ROOT / "build" / "figures" if size.name == "tiny" else report.ROOT)
    stored = home / "benchmarks" / "results" / "figures"
    images = home / "docs" / "images"
    measured = []
    for figure in FIGURES:
        if only and not any(text in figure.slug for text in only):
            continue
        if figure.on_request and not only and not size.few:
            print(f"{figure.slug}: its stored result is kept; to measure it: --only {figure.slug}")
            continue
        if lost := workloads.missing(*figure.data):
            print(f"{figure.slug}: skipped, no {', '.join(lost)} in {workloads.DATA}; set SKYBAND_TEST_DATA")
            continue
        began = time.process_time()
        panels = figure.measure(size)
        spent = time.process_time() - began
        results.save(figure, results.Run(panels, size.name, spent, machine()), stored)
        measured.append(figure)
        found = [verdict.holds for verdict in verdicts(figure, panels)]
        counts = ", ".join(f"{found.count(grade)} {grade}" for grade in ("yes", "partly", "no") if grade in found)
        print(f"{figure.slug}: {spent:.1f} s; {counts}", flush=True)
    write(stored, images, home / "docs" / "explanation" / "figures.md", measured)


def write(stored: Path, images: Path, page: Path, redrawn: Sequence[Figure] = FIGURES) -> None:
    """Draw the plots of some figures, and write the page, from stored results."""
    runs = {figure.slug: found for figure in FIGURES if (found := results.load(figure, stored))}
    for figure in redrawn:
        if figure.slug in runs:
            gallery.draw(figure, runs[figure.slug], images / gallery.image_name(figure))
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text(runs), encoding="utf-8")


def text(runs: dict[str, results.Run]) -> str:
    """The page for these results."""
    return gallery.page(FIGURES, runs, "../images")


def machine() -> str:
    """Cores and memory."""
    sentence = report.machine()
    return ", ".join(part for part in sentence.split(";")[0].split(", ") if part.endswith(("cores", "GB")))
