"""Reads numbers of a fixed size, with the lowest byte first, as Avro and Protobuf store them."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.kernels._jit import inner_kernel

__all__ = ["read_little"]


@inner_kernel
def read_little(data: Any, at: int, size: int) -> Any:
    """Return the bytes at a position as a 64-bit word."""
    word = np.uint64(0)
    for place in range(size):
        word |= np.uint64(data[at + place]) << np.uint64(8 * place)
    return np.int64(word)
