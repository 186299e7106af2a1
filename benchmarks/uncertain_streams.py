"""Streams of uncertain tuples, as in the paper on shared plans: generated, sightings of icebergs, tremors."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.workloads import DATA, SEED, missing

UNITS = 80  # of time that a stream lasts, once its window is full
WINDOW = 40  # units that a window spans where tuples are enough: the longest `every` of a query
# How sure a sighting is: the values of the literature, by the way it was made.
SURE = {"R/V": 0.8, "VIS": 0.7, "RAD": 0.6, "SAT-LOW": 0.5, "SAT-MED": 0.4, "SAT-HIGH": 0.3, "EST": 0.2}
PIECES = 3  # of a sensor's record, each of which stands for a sensor


class Uncertain(NamedTuple):
    """Tuples in arrival order, and the positions of windows."""

    scores: Any
    chances: Any
    rules: Any  # -1: none
    streams: Any | None  # which of several streams a tuple is of; None: all are of one
    window: int  # tuples
    step: int  # tuples a unit of time

    def at(self, time: int) -> slice:
        """The tuples of the window at a time."""
        return slice(time * self.step, time * self.step + self.window)


def paired(chances: Any, rng: np.random.Generator) -> Any:
    """Rules of two consecutive tuples, drawn among all pairs whose probabilities add up to at most 1."""
    rules = np.full(chances.size, -1)
    begins = np.arange(rng.integers(2), chances.size - 1, 2)
    begins = begins[(chances[begins] + chances[begins + 1] <= 1) & (rng.random(begins.size) < 0.5)]
    rules[begins] = rules[begins + 1] = np.arange(begins.size)
    return rules


@cache
def drawn(n: int) -> Uncertain:
    """Scores and probabilities drawn evenly."""
    rng = np.random.default_rng(SEED)
    step = max(1, n // WINDOW)
    rows = n + UNITS * step
    chances = 1 - rng.random(rows)
    return Uncertain(rng.random(rows), chances, paired(chances, rng), None, n, step)


@cache
def drawn_streams(streams: int, w: int) -> Uncertain:
    """Several streams that report in turn; scores and probabilities drawn evenly."""
    step = max(1, w // WINDOW)
    one = drawn(streams * (w + UNITS * step))
    rows = one.window
    names = np.arange(rows) % streams
    return Uncertain(one.scores[:rows], one.chances[:rows], one.rules[:rows], names, streams * w, streams * step)


def there_are_icebergs() -> bool:
    return not missing("icebergs_iip_2014")


@cache
def icebergs(n: int) -> Uncertain:
    """Sightings drawn from those of a season, ranked by the days since the berg was first seen.

    The days that a berg has drifted, which the paper ranks by, are not in this season's file.
    """
    rng = np.random.default_rng(SEED)
    table = pq.read_table(DATA / "icebergs_iip_2014.parquet", columns=["ts", "berg_number", "method"])
    times = table["ts"].cast(pa.int64()).to_numpy() / 86_400e6
    bergs = np.unique(table["berg_number"].to_numpy(), return_inverse=True)[1]
    first = np.full(bergs.max() + 1, np.inf)
    np.minimum.at(first, bergs, times)
    sure = np.array([SURE[method] for method in table["method"].to_pylist()])
    step = max(1, n // WINDOW)
    rows = rng.integers(0, times.size, n + UNITS * step)
    return Uncertain((times - first[bergs])[rows], sure[rows], paired(sure[rows], rng), None, n, step)


def there_are_tremors() -> bool:
    return not missing("seismic_bw_2010")


@cache
def tremors(streams: int, w: int) -> Uncertain:
    """How far the ground moves at several sensors; of a sensor's last w readings each is as likely to be the one.

    Four stations with six channels are not sixteen sensors: each channel is cut into pieces that stand for one.
    """
    step = max(1, w // WINDOW)
    rows = w + UNITS * step
    readings = _pieces()[:rows, :streams]
    names = np.tile(np.arange(streams), len(readings))
    chances = np.full(names.size, 1 / w)
    return Uncertain(readings.ravel(), chances, names, names, streams * w, streams * step)


@cache
def _pieces() -> Any:
    """A column for each piece of a channel, at fifty readings a second."""
    table = pq.read_table(DATA / "seismic_bw_2010.parquet", columns=["station", "channel", "counts"])
    stations, channels = (np.array(table[name].to_pylist()) for name in ("station", "channel"))
    names, counts = np.char.add(stations, channels), table["counts"].to_numpy()
    found = []
    for name in np.unique(names):
        mine = counts[names == name]
        mine = mine[:: 2 if mine.size > 20_000 else 1]  # one station has a hundred a second
        found += np.array_split(np.abs(mine - np.median(mine)), PIECES)
    length = min(piece.size for piece in found)
    return np.stack([piece[:length] for piece in found], axis=1)
