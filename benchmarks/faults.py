"""Write the results of `make faults` or `make campaign` into their page: python -m benchmarks.faults FOLDER."""

from __future__ import annotations

import csv
import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from benchmarks import report

PAGE = report.ROOT / "docs" / "explanation" / "faults.md"
IMAGE = report.ROOT / "docs" / "images" / "faults-soak.png"
PARTS = {"java": "Java", "driver": "driver (Python)", "workers": "workers (Python)"}


def run(folder: Path) -> None:
    """Write the tally and the results of the long run into the page."""
    tally = json.loads((folder / "tally.json").read_text()) if (folder / "tally.json").exists() else None
    if (folder / "campaign.csv").exists():
        _tell_of_campaign(folder / "campaign.csv", {} if tally is None else tally["windows"])
        return
    report.into_page("faults-machine", report.machine(), page=PAGE)
    if tally is not None:
        _tell_of_faults(tally)
    if (folder / "soak.csv").exists():
        _tell_of_memory(folder / "soak.csv")


def _tell_of_faults(tally: dict[str, dict[str, int]]) -> None:
    rows = [[kind, f"{count:,}"] for kind, count in sorted(tally["faults"].items())]
    rows.append(["**faults injected**", f"**{sum(tally['faults'].values()):,}**"])
    rows += [[f"windows {kind}", f"{tally['windows'][kind]:,}"] for kind in ("checked", "lost", "doubled", "wrong")]
    report.show("faults-tally", "Faults and windows", ["", "count"], rows, write=True, page=PAGE)


def _tell_of_campaign(path: Path, windows: dict[str, int]) -> None:
    """Count the faults of a campaign by kind, with how long it took until answers came again."""
    with path.open(newline="") as file:
        samples = [Fault(float(second), *rest) for second, *rest in list(csv.reader(file))[1:]]
    by_kind: dict[str, list[Fault]] = defaultdict(list)
    for one in samples:
        by_kind[one.kind].append(one)
    rows = [_of_kind(kind, found) for kind, found in sorted(by_kind.items())]
    rows.append([f"**{cell}**" if cell else "" for cell in _of_kind("all", samples)])
    heads = ["fault", "count", "median, s", "99% under, s", "longest, s"]
    report.show("faults-campaign", "A campaign", heads, rows, write=True, page=PAGE)
    report.into_page("faults-campaign-machine", report.machine(), page=PAGE)
    told = f"{len(samples):,} faults in {samples[-1].second / 60:.0f} minutes."
    if windows:
        told += f" {windows['checked']:,} windows were checked, those of each sink for itself: " + ", ".join(
            f"{windows[kind]:,} {kind}" for kind in ("lost", "doubled", "wrong")
        )
    report.into_page("faults-campaign-windows", told + ("." if windows else ""), page=PAGE)


class Fault(NamedTuple):
    """A line of the timeline."""

    second: float
    kind: str
    hit: str
    recovered: str  # seconds until answers came; empty if another fault came first


def _of_kind(kind: str, found: list[Fault]) -> list[str]:
    took = sorted(float(one.recovered) for one in found if one.recovered)
    if not took:
        return [kind, f"{len(found):,}", "", "", ""]
    late = took[min(len(took) - 1, round(0.99 * len(took)))]
    return [kind, f"{len(found):,}", f"{statistics.median(took):.1f}", f"{late:.1f}", f"{took[-1]:.1f}"]


def _tell_of_memory(path: Path) -> None:
    with path.open(newline="") as file:
        samples = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    third = len(samples) // 3
    rows = []
    for name, spoken in {**PARTS, "state": "state"}.items():
        before, after = (
            sum(sample[name] for sample in part) / len(part) / 1e6
            for part in (samples[third : 2 * third], samples[2 * third :])
        )
        rows.append([spoken, f"{before:,.2f}", f"{after:,.2f}", f"{after / before:.2f}"])
    heads = ["MB, mean", "second third", "last third", "last / second"]
    report.show("faults-soak", "Memory of a long run", heads, rows, write=True, page=PAGE)
    minutes, read = samples[-1]["seconds"] / 60, samples[-1]["rows"]
    told = f"{minutes:.0f} minutes, {read / 1e6:.1f} million rows read by four streams."
    report.into_page("faults-length", told, page=PAGE)
    _draw(samples)


def _draw(samples: list[dict[str, float]]) -> None:
    import matplotlib  # noqa: PLC0415 - loaded when the plot is drawn

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, (above, below) = plt.subplots(2, 1, figsize=(8, 6), sharex=True, layout="constrained")
    minutes = [sample["seconds"] / 60 for sample in samples]
    for name, spoken in PARTS.items():
        above.plot(minutes, [sample[name] / 1e6 for sample in samples], label=spoken)
    above.set_ylabel("resident memory, MB")
    above.legend()
    below.plot(minutes, [sample["state"] / 1e3 for sample in samples], color="black")
    below.set_ylabel("state, kB")
    below.set_xlabel("minutes")
    for axes in (above, below):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGE, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
