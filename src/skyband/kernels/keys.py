"""Keys of any type as flat arrays, for kernels that compare them."""

from __future__ import annotations

from typing import Any, NamedTuple

from skyband.kernels.stream import Ints

__all__ = ["Keys"]


class Keys(NamedTuple):
    """What the order of keys follows from, per slot."""

    prefix: Ints  # the number itself, or the first eight letters of a text as one
    begins: Ints  # where its letters begin
    lengths: Ints  # how many they are; 0 where the prefix says everything
    letters: Any  # uint8: of all keys
    groups: Ints  # the group it is of
