"""Write the results of `make faults` or `make campaign` into their page: benchmarks.faults FOLDER [campaign]."""

from __future__ import annotations

import csv
import json
import shutil
import statistics
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

from benchmarks import report

PAGE = report.ROOT / "docs" / "explanation" / "faults.md"
IMAGE = report.ROOT / "docs" / "images" / "faults-soak.png"
CAMPAIGN_IMAGE = report.ROOT / "docs" / "images" / "faults-campaign.png"
PARTS = {"java": "Java", "driver": "driver (Python)", "workers": "workers (Python)"}


def run(folder: Path, *, campaign: bool = False) -> None:
    """Write the tally and the results of the long run into the page, or those of a campaign."""
    tally = json.loads((folder / "tally.json").read_text()) if (folder / "tally.json").exists() else None
    if campaign:
        _tell_of_campaign(folder, {} if tally is None else tally["windows"])
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


def _tell_of_campaign(folder: Path, windows: dict[str, int]) -> None:
    """Count the faults of a campaign by kind, with how long it took until all streams answered again."""
    with (folder / "campaign.csv").open(newline="") as file:
        samples = [Fault(float(at), int(burst), *rest) for at, burst, *rest in list(csv.reader(file))[1:]]
    about = json.loads((folder / "campaign.json").read_text())
    by_kind: dict[str, list[Fault]] = defaultdict(list)
    for one in samples:
        by_kind[one.kind].append(one)
    rows = [_of_kind(kind, found) for kind, found in sorted(by_kind.items())]
    heads = ["fault", "count", "median, s", "99% under, s", "longest, s"]
    report.show("faults-campaign", "A campaign", heads, rows, write=True, page=PAGE)
    report.show(
        "faults-campaign-recovery", "Recovery", ["bursts", *heads[1:]], _of_bursts(samples), write=True, page=PAGE
    )
    machine = report.machine().partition(" Load of")[0]  # that is of now
    told = (
        f"{machine} Spark {about['spark']} at the end. Seed {about['seed']}. Load when it began: {about['load']:.0f}."
    )
    report.into_page("faults-campaign-machine", told, page=PAGE)
    bursts = {one.burst: one for one in samples}
    ends = sum(int(one.ends) for one in bursts.values())
    told = (
        f"{len(samples):,} faults of {len(by_kind)} kinds in {len(bursts):,} bursts and {samples[-1].second / 60:.0f} "
        f"minutes; the run ended {ends:,} times and was started again."
    )
    if windows:
        told += f" {windows['checked']:,} windows were checked, those of each sink for itself: " + ", ".join(
            f"{windows[kind]:,} {kind}" for kind in ("lost", "doubled", "wrong")
        )
    report.into_page("faults-campaign-windows", told + ("." if windows else ""), page=PAGE)
    shutil.copyfile(folder / "campaign.csv", report.RESULTS / "faults-campaign-timeline.csv")
    _draw_campaign(samples)


class Fault(NamedTuple):
    """A line of the timeline."""

    second: float
    burst: int
    kind: str
    hit: str
    recovered: str  # seconds from the end of its burst until all streams had answered again
    ends: str  # of the run, in its burst


def _of_kind(kind: str, found: list[Fault]) -> list[str]:
    took = sorted(float(one.recovered) for one in found)
    late = took[min(len(took) - 1, round(0.99 * len(took)))]
    return [kind, f"{len(found):,}", f"{statistics.median(took):.1f}", f"{late:.1f}", f"{took[-1]:.1f}"]


def _of_bursts(samples: list[Fault]) -> list[list[str]]:
    """Recovery by burst: of one fault, of several, and by whether the run ended."""
    sizes = Counter(one.burst for one in samples)
    bursts = list({one.burst: one for one in samples}.values())
    parts = {
        "of one fault": [one for one in bursts if sizes[one.burst] == 1],
        "of several faults": [one for one in bursts if sizes[one.burst] > 1],
        "in which the run continued": [one for one in bursts if int(one.ends) == 0],
        "in which the run ended": [one for one in bursts if int(one.ends) > 0],
        "**all**": bursts,
    }
    return [_of_kind(name, found) for name, found in parts.items() if found]


def _draw_campaign(samples: list[Fault]) -> None:
    """Draw each fault at its time by kind, and below how long each burst took to recover from."""
    import matplotlib  # noqa: PLC0415 - loaded when the plot is drawn

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    kinds = sorted({one.kind for one in samples}, reverse=True)
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(9, 11), sharex=True, layout="constrained", height_ratios=[3, 1]
    )
    minutes = [one.second / 60 for one in samples]
    above.scatter(minutes, [kinds.index(one.kind) for one in samples], s=6, color="black")
    above.set_yticks(range(len(kinds)), kinds, fontsize=7)
    above.grid(alpha=0.3)
    last = {one.burst: one for one in samples}.values()
    for ended, colour, label in ((False, "tab:blue", "the run continued"), (True, "tab:red", "the run ended")):
        found = [one for one in last if (int(one.ends) > 0) == ended]
        below.scatter(
            [one.second / 60 for one in found], [float(one.recovered) for one in found], s=8, color=colour, label=label
        )
    below.set_ylabel("recovery, s")
    below.set_xlabel("minutes")
    below.set_ylim(bottom=0)
    below.grid(alpha=0.3)
    below.legend()
    figure.savefig(CAMPAIGN_IMAGE, dpi=100)
    plt.close(figure)


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
    run(Path(sys.argv[1]), campaign=sys.argv[2:] == ["campaign"])
