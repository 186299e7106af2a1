"""The page with all figures: plots, the papers' numbers beside ours, and sentences where the order differs."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from PIL import Image

from benchmarks.figures.registry import Figure, Panel, Verdict, average, ratios, verdicts
from benchmarks.figures.results import Run

matplotlib.use("Agg")
from matplotlib import pyplot, ticker
from matplotlib.lines import Line2D

DASHED = ("panes",)  # engines of this library that the papers do not have
COLUMNS = 3
COLORS = 32  # of an image
SOURCES = {
    "MinTopk": "D. Yang et al.: *An Optimal Strategy for Monitoring Top-k Queries in Streaming Windows*, EDBT 2011",
    "MTopS": "A. Shastri et al.: *MTopS: Scalable Processing of Continuous Top-k Multi-Query Workloads*, CIKM 2011",
    "SAP": "R. Zhu et al.: *SAP: Improving Continuous Top-K Queries over Streaming Data*, TKDE 2017",
    "Incomplete streams": "P. Haghani et al.: *Evaluating Top-k Queries over Incomplete Data Streams*, CIKM 2009",
    "Uncertain streams": "T. Chen et al.: *Optimizing Multi-Top-k Queries over Uncertain Data Streams*, TKDE 2013",
}
INTRO = """# Figures of the papers

The experiments of the five papers that Skyband implements, repeated with its engines. `make figures` measures all of
them again and writes this page, its plots and the numbers (`benchmarks/results/figures/`). `make figures SCALE=full`
uses the papers' sizes where the default uses shorter windows.

Each section has the plot, the paper's statements beside the measurement, and a sentence where the order of the methods
is another one. Numbers of the papers are from their tables and their text; most of their plots have none. In plots,
dotted lines are the paper's printed numbers, scaled to the mean of ours, because machines and units differ; the dashed
line is `panes`, the engine that Skyband uses by default, which is not in the papers. Times are CPU times of one thread.

The column *found* is *yes* if the paper's number or order was found, *partly* if only its direction was or the order
holds at most of the places but not at all, and *no* otherwise. [Errors in the papers](paper_errors.md) lists what is
wrong in them. The reasons are our reading of the code and its counters; they have not been tested one by one.
"""


def draw(figure: Figure, run: Run, path: Path) -> None:
    """One image with all panels of a figure."""
    panels = run.panels
    columns = min(len(panels), _columns(panels))
    rows = -(-len(panels) // columns)
    canvas, axes = pyplot.subplots(rows, columns, figsize=(3.1 * columns, 2.15 * rows + 0.35), squeeze=False)
    methods = list(dict.fromkeys(method for panel in panels for method in panel.lines))
    for axis, panel in zip(axes.flat, panels, strict=False):
        _one(axis, panel, methods)
    for axis in list(axes.flat)[len(panels) :]:
        axis.axis("off")
    handles = [
        Line2D([], [], color=f"C{i}", marker=".", linestyle="--" if method in DASHED else "-", label=method)
        for i, method in enumerate(methods)
    ]
    canvas.legend(handles=handles, loc="lower center", ncols=min(6, len(handles)), fontsize=7, frameon=False)
    canvas.tight_layout(rect=(0, 0.25 / (2.15 * rows + 0.35), 1, 1))
    raw = io.BytesIO()
    canvas.savefig(raw, dpi=75, metadata={"Software": None})
    pyplot.close(canvas)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(raw).convert("RGB").quantize(COLORS).save(path, optimize=True)


def _columns(panels: Sequence[Panel]) -> int:
    """Panels of a row: those of one stream, if there are several streams."""
    per_stream = len([panel for panel in panels if panel.stream == panels[0].stream])
    return per_stream if 1 < per_stream <= COLUMNS + 1 else min(COLUMNS, len(panels))


def _one(axis: Any, panel: Panel, methods: Sequence[str]) -> None:
    places = range(len(panel.places))
    scaled = _factor(panel)
    for method, line in panel.lines.items():
        color = f"C{methods.index(method)}"
        axis.plot(
            places,
            [v if v is not None else float("nan") for v in line],
            marker=".",
            color=color,
            linewidth=1.2,
            linestyle="--" if method in DASHED else "-",
        )
        if method in panel.printed and scaled:
            old = [v * scaled if v is not None else float("nan") for v in panel.printed[method]]
            axis.plot(places, old, ":", color=color, linewidth=1.0)
    if panel.logarithmic:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0), numticks=6))
        axis.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _short(value)))
        axis.yaxis.set_minor_locator(ticker.NullLocator())
    else:
        axis.set_ylim(bottom=0)
    axis.set_xticks(places, [_short(place) for place in panel.places])
    axis.set_title(panel.title, fontsize=7)
    axis.set_xlabel(panel.varied, fontsize=7, labelpad=1)
    axis.tick_params(labelsize=6)
    axis.grid(alpha=0.3)


def _factor(panel: Panel) -> float | None:
    """By what the printed numbers are multiplied, so that both have the same mean."""
    both = [method for method in panel.lines if method in panel.printed]
    ours = [v for method in both for v in panel.lines[method] if v]
    old = [v for method in both for v in panel.printed[method] if v]
    return average(ours) / average(old) if ours and old else None


def _short(place: float | str) -> str:
    if isinstance(place, str):
        return place.split(" (")[0]
    for unit, letter in ((1_000_000, "M"), (1_000, "K")):
        if place >= unit and place % (unit / 10) == 0:
            return f"{place / unit:g}{letter}"
    return f"{place:.4g}"


def page(figures: Sequence[Figure], runs: dict[str, Run], images: str) -> str:
    """The whole page as Markdown."""
    text = [INTRO, *_summary(figures, runs)]
    for paper in dict.fromkeys(figure.paper for figure in figures):
        text += [f"## {paper}", "", f"{SOURCES[paper]}.", ""]
        for figure in figures:
            if figure.paper == paper:
                text += _section(figure, runs.get(figure.slug), images)
    return "\n".join(text).rstrip() + "\n"


def _summary(figures: Sequence[Figure], runs: dict[str, Run]) -> list[str]:
    rows = []
    for paper in dict.fromkeys(figure.paper for figure in figures):
        mine = [figure for figure in figures if figure.paper == paper and figure.slug in runs]
        found = [verdict for figure in mine for verdict in verdicts(figure, runs[figure.slug].panels)]
        counts = [sum(verdict.holds == grade for verdict in found) for grade in ("yes", "partly", "no")]
        rows.append([paper, str(len(mine)), *map(str, counts)])
    machines = dict.fromkeys(f"{runs[f.slug].machine}, scale {runs[f.slug].scale}" for f in figures if f.slug in runs)
    seconds = sum(run.seconds for run in runs.values())
    measured = (
        f"Measured on {'; '.join(machines)}: {seconds / 60:.0f} minutes of CPU time in all. Figures were measured in "
        "several runs, beside other work on the machine: compare methods of a figure, not figures."
    )
    return [
        measured,
        "",
        *_table(("paper", "figures and tables", "found: yes", "partly", "no"), rows),
        "",
    ]


def _section(figure: Figure, run: Run | None, images: str) -> list[str]:
    smaller = figure.scaled.get(run.scale, "") if run else ""
    setting = f"{figure.setting} {smaller}".strip()
    text = [f"### {figure.paper}, {figure.number}: {figure.title}", "", setting, ""]
    if run is None:
        return [*text, f"Not measured: needs {', '.join(figure.data)}.", ""]
    found = verdicts(figure, run.panels)
    text += [f"![{figure.paper}, {figure.number}]({images}/{image_name(figure)})", ""]
    rows = [[_what(v), v.printed, v.measured, v.holds] for v in found]
    if rows:
        text += [*_table(("the paper", "printed", "measured", "found"), rows), ""]
    text += _by_stream(figure, run.panels)
    text += _differences(found)
    if run.notes:
        text += [f"Without a result: {'; '.join(run.notes)}.", ""]
    return text


def _what(verdict: Verdict) -> str:
    return f"{verdict.text} ({verdict.place})" if verdict.place else verdict.text


def _differences(found: Iterable[Verdict]) -> list[str]:
    """A sentence for each reason, with the orders and claims that it explains."""
    reasons: dict[str, list[str]] = {}
    for verdict in found:
        if verdict.holds != "yes":
            reasons.setdefault(verdict.why or "No explanation was found.", []).append(verdict.text)
    text: list[str] = []
    for why, what in reasons.items():
        text += [f"*Differs: {'; '.join(what)}.* {why}", ""]
    return text


def _by_stream(figure: Figure, panels: Sequence[Panel]) -> list[str]:
    """Ratios of pairs of methods by data set, printed and measured."""
    rows = []
    streams = list(dict.fromkeys(panel.stream for panel in panels if panel.printed))
    for order in figure.orders:
        for stream in streams:
            mine = [panel for panel in panels if panel.stream == stream]
            old = ratios(mine, order.better, order.worse, order.measure, printed=True)
            new = ratios(mine, order.better, order.worse, order.measure)
            if old and new:
                rows.append([f"{order.better} / {order.worse}", stream, f"{average(old):.2f}", f"{average(new):.2f}"])
    return [*_table(("ratio, geometric mean", "data set", "printed", "measured"), rows), ""] if len(rows) > 1 else []


def image_name(figure: Figure) -> str:
    return f"figures-{figure.slug}.png"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    marks = ["---"] * len(heads)
    return [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in (heads, marks, *rows)]
