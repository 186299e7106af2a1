"""Estimate from a sample of scores how many candidates a window has beyond k."""

from __future__ import annotations

from math import log

import numpy as np

from skyband.kernels.stream import Floats
from skyband.topk.kernels.excess import skyband_size

__all__ = ["SAMPLE", "estimated_excess", "has_no_trend", "sampled_excess"]

SAMPLE = 4096  # scores per window, at most
LEAST_SAMPLE, PART = 1024, 512  # of a short push, fewer: one of this many scores, so that sampling takes little time
WINDOWS = 4  # sampled per push
PARTS, PAIRS = 64, 16  # of a long push, and pairs of scores that are compared in each part
LEAST_K = 4  # of a sample: with a smaller k, the number of candidates varies much between samples


def estimated_excess(scores: Floats, size: int, k: int, most: float, *, ascending: bool = False) -> float:
    """Return the mean number of candidates beyond k of windows with `size` objects, at most `most` for each.

    `scores` contains at least one window. Up to four windows are sampled, from the first to the last one.
    """
    windows = min(WINDOWS, scores.size // size)
    count = min(size, SAMPLE, max(LEAST_SAMPLE, scores.size // PART))
    places = np.arange(count) * size // count
    found = 0.0
    for begin in np.linspace(0, scores.size - size, windows).astype(np.int64):
        sample = scores[begin + places]
        found += min(most, sampled_excess(-sample if ascending else sample, size, k))
    return found / windows


def has_no_trend(scores: Floats) -> bool:
    """Whether scores neither rise nor fall in any part of a push, by pairs of scores that are half a part apart.

    Of scores in random order, one push in thirty is taken for one with a trend.

    >>> import numpy as np
    >>> rows = np.random.default_rng(1).random(100_000)
    >>> has_no_trend(rows), has_no_trend(np.sort(rows)), has_no_trend(np.r_[rows, np.sort(rows)[-9_000:]])
    (True, False, False)
    """
    length = scores.size // PARTS
    step = length // (2 * PAIRS)
    if not step:
        return False
    sample = scores[: PARTS * length].reshape(PARTS, length)[:, : 2 * PAIRS * step : step]
    rises = (sample[:, PAIRS:] > sample[:, :PAIRS]).sum(axis=1)
    falls = (sample[:, PAIRS:] < sample[:, :PAIRS]).sum(axis=1)
    return bool(rises.max() < PAIRS - 1 and falls.max() < PAIRS - 1)


def sampled_excess(keys: Floats, size: int, k: int) -> float:
    """Return the size of the k-skyband of `size` objects minus k, from evenly spaced `keys` of them, highest best."""
    few = min(k, max(LEAST_K, round(k * keys.size / max(size, 1))))
    if few >= keys.size:
        return 0.0
    kept = skyband_size(keys, few, np.zeros(few), np.zeros(few, np.int64))
    if kept == keys.size:
        return float(size - k)  # scores fall all the time: no object of the window is beaten k times
    # In random order, the k-skyband of n objects contains about k (1 + ln(n / k)) of them. The logarithms differ if the
    # k of the sample was rounded up.
    return (kept - few) * k / few * log(size / k) / log(keys.size / few)
