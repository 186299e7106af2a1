"""Hashing: whole numbers in, 64 bits out that look drawn by lot."""

from __future__ import annotations

import numpy as np

from skyband.kernels.stream import Ints


def mixed(codes: Ints) -> Ints:
    """The bits of each code, well mixed: the finisher of splitmix64.

    Plain NumPy: arrays of unsigned numbers wrap around silently, whether kernels are compiled or not.
    """
    x = codes.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))).view(np.int64)
